package org.bifrost.veneer;

/** A choice that was recorded, which may go on with its second block. */
public final class If {
  private final Session session;
  private final Structures.Ended ended;

  If(Session session, Structures.Ended ended) {
    this.session = session;
    this.ended = ended;
  }

  /** Runs a body at the server if the condition does not hold. It follows the first directly. */
  public void else_(Runnable body) {
    session.reopen(ended, new Structures.Else(), body);
  }
}
