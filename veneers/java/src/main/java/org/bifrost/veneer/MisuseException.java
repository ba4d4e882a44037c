package org.bifrost.veneer;

/** The client refused a call, or the structure around it: nothing of it was sent. */
public final class MisuseException extends BifrostException {
  private static final long serialVersionUID = 1L;

  private final Misuse misuse;

  MisuseException(Failure failure, Failure.Misused misused) {
    super(failure);
    misuse = misused.misuse();
  }

  /** Returns the misuse. */
  public Misuse misuse() {
    return misuse;
  }
}
