package org.bifrost.veneer;

/** The session has ended, or was not opened: all its stubs say so. */
public final class ClosedException extends BifrostException {
  private static final long serialVersionUID = 1L;

  private final transient Failure.Ending ending;

  ClosedException(Failure failure) {
    super(failure);
    ending = ((Failure.Ended) failure.root()).why();
    if (ending instanceof Failure.ByConnection connection) {
      initCause(connection.error());
    }
  }

  /** Returns the reason of the end. */
  public Failure.Ending ending() {
    return ending;
  }
}
