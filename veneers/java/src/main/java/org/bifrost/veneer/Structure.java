package org.bifrost.veneer;

/** A kind of structures: its name, which is that of its begin marker, and its markers. */
enum Structure {
  WHILE("while", Tables.OP_WHILE, Tables.OP_END_WHILE),
  IF("if", Tables.OP_IF, Tables.OP_END_IF),
  FOREACH("foreach", Tables.OP_FOREACH, Tables.OP_END_FOREACH),
  EXCEPT("except", Tables.OP_EXCEPT, Tables.OP_END_EXCEPT),
  PROCEDURE("procedure", Tables.OP_PROCEDURE, Tables.OP_END_PROCEDURE);

  final String wireName;
  final int begin;
  final int end;

  Structure(String wireName, int begin, int end) {
    this.wireName = wireName;
    this.begin = begin;
    this.end = end;
  }
}
