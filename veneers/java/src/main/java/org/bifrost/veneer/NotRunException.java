package org.bifrost.veneer;

/** A call was not run, and the server did not say why. */
public final class NotRunException extends BifrostException {
  private static final long serialVersionUID = 1L;

  NotRunException(Failure failure) {
    super(failure);
  }
}
