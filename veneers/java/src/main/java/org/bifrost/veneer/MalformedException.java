package org.bifrost.veneer;

/** Bytes have another form than the wire form: the stream cannot be read any further. */
final class MalformedException extends Exception {
  private static final long serialVersionUID = 1L;

  /** The number of the error. */
  final int number;

  /** The place of the word in the message, in bytes. */
  final int offset;

  MalformedException(int number, int offset, String expected) {
    super(Failure.errorName(number) + ": " + expected + " was expected at byte " + offset);
    this.number = number;
    this.offset = offset;
  }
}
