package org.bifrost.veneer;

/** A message is not whole: more bytes are needed. It has no stack, because it is no failure. */
final class IncompleteException extends Exception {
  private static final long serialVersionUID = 1L;

  /** The number of bytes that the message has at least. */
  final int length;

  IncompleteException(int length) {
    super("at least " + length + " bytes are needed", null, false, false);
    this.length = length;
  }
}
