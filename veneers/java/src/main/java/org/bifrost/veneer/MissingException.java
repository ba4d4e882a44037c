package org.bifrost.veneer;

/** The server does not have the method, routine or type, or has it with another heading. */
public final class MissingException extends BifrostException {
  private static final long serialVersionUID = 1L;

  MissingException(Failure failure) {
    super(failure);
  }
}
