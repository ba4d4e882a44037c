package org.bifrost.veneer;

import java.util.List;

/**
 * Failures that the program was not told of before. {@link #getSuppressed} has the exception of
 * each, oldest first.
 */
public final class UnseenException extends BifrostException {
  private static final long serialVersionUID = 1L;

  private final transient Failure.Unseen unseen;

  UnseenException(Failure.Unseen unseen) {
    super(unseen);
    this.unseen = unseen;
  }

  /** Returns the failures, oldest first. */
  public List<Failure> failures() {
    return unseen.failures();
  }

  /** Returns the number of failures that are not listed. */
  public long omitted() {
    return unseen.omitted();
  }
}
