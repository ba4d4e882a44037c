package org.bifrost.veneer;

/** The makers of futures, for messages: a method is its number, the others have a kind above it. */
final class Maker {
  static final long ROUTINE = 1L << 32;
  static final long PROCEDURE = 2L << 32;
  static final long COMMIT = 3L << 32;
  static final long ABORT = 4L << 32;
  static final long LOOKUP = 5L << 32;
  static final long CONSTANT = 6L << 32;
  static final long CELL = 7L << 32;
  static final long ROWS = 8L << 32;
  static final long EMIT = 9L << 32;
  static final long AS = 10L << 32;
  static final long IS = 11L << 32;
  static final long GET = 12L << 32;
  static final long VARIABLE = 13L << 32;
  static final long TRANSACTION = 14L << 32;
  static final long WAIT = 15L << 32;
  static final long REFUSED = 16L << 32;

  private static final String[] NAMES = {
    "",
    "",
    "",
    "commit",
    "abort",
    "lookup",
    "constant",
    "cell",
    "rows",
    "emit",
    "as",
    "is",
    "get",
    "variable",
    "transaction",
    "wait",
    "refused",
  };

  private Maker() {}

  /** Returns a maker of a kind with a number. */
  static long of(long kind, int number) {
    return kind | (number & 0xffffffffL);
  }

  static boolean isOf(long maker, long kind) {
    return maker >>> 32 << 32 == kind;
  }

  /** Returns the name of a maker that is neither a method nor a routine nor a procedure. */
  static String name(long maker) {
    return NAMES[(int) (maker >>> 32)];
  }
}
