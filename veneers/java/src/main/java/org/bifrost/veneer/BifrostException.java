package org.bifrost.veneer;

import java.util.List;

/**
 * A failure of a session or of a call. Each is made for its claim, so its stack is that of the
 * claim; its class is that of the failure that came first.
 */
public abstract class BifrostException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  private final transient Failure failure;

  BifrostException(Failure failure) {
    super(failure.toString());
    this.failure = failure;
  }

  /** Makes the exception of a failure. */
  static BifrostException of(Session session, Failure failure) {
    if (failure instanceof Failure.Unseen unseen) {
      UnseenException made = new UnseenException(unseen);
      unseen.failures().forEach(one -> made.addSuppressed(of(session, one)));
      return made;
    }
    Failure root = failure.root();
    if (root instanceof Failure.Signal signal) {
      return session.signalException(failure, signal);
    } else if (root instanceof Failure.Refused refused) {
      return new RefusedException(failure, refused);
    } else if (root instanceof Failure.Misused misused) {
      return new MisuseException(failure, misused);
    } else if (root instanceof Failure.Missing) {
      return new MissingException(failure);
    } else if (root instanceof Failure.Ended) {
      return new ClosedException(failure);
    }
    return new NotRunException(failure);
  }

  /** Returns the failure: that of the claimed call, which follows from others. */
  public Failure failure() {
    return failure;
  }

  /** Returns the calls between the one that was claimed and the one that failed, nearest first. */
  public List<Failure.CallName> via() {
    return failure.via();
  }
}
