package org.bifrost.veneer;

/** The server refused a call, the structure around it, or the rest of the batch. */
public final class RefusedException extends BifrostException {
  private static final long serialVersionUID = 1L;

  private final int number;

  RefusedException(Failure failure, Failure.Refused refused) {
    super(failure);
    number = refused.number();
  }

  /** Returns the number of the server's error. */
  public int number() {
    return number;
  }

  /** Returns the name of the server's error: {@code Conflict}. */
  public String error() {
    return Failure.errorName(number);
  }

  /** Returns true if other transactions have conflicted with this one: it can be tried again. */
  public boolean isConflict() {
    return number == Tables.ERROR_CONFLICT;
  }
}
