package org.bifrost.veneer;

/**
 * A stub: the result of a recorded call, which may not be known yet. It is an argument and a
 * receiver of further calls at once.
 */
public abstract class Stub extends Slot {
  final Session session;

  Stub(Session session) {
    super(session.core);
    this.session = session;
    session.note(this);
  }

  /**
   * Gives the stub up: its result is not wanted any more, and its object goes back to the server
   * with the next batch. A stub that was released is no operand. Stubs that the program has no
   * reference to are given up by themselves, some time after.
   */
  public final void release() {
    session.enter();
    try {
      drop();
    } finally {
      session.exit();
    }
  }

  /** Returns the session of the stub. */
  public final Session session() {
    return session;
  }

  /** Begins a call of a method; for generated code. */
  final Call begin(int code, int method, int count) {
    return session.call.begin(code, this, method, count);
  }

  /** Returns the state of the stub, for a debugger. Nothing is claimed. */
  @Override
  public String toString() {
    String known =
        switch (state) {
          case FUTURE -> "recorded";
          case UNDER_WAY -> "under way";
          case OBJECT -> "an object";
          case VALUE -> value().toString();
          case FAILED -> "failed: " + failure();
        };
    return getClass().getSimpleName() + " [" + (holders == 0 ? "released" : known) + "]";
  }
}
