package org.bifrost.veneer;

/**
 * The stub of an object whose contents cross by value; for generated code.
 *
 * @param <C> the contents
 */
public abstract class Contents<C> extends Obj {
  private final ContentsType<?, C> type;

  /**
   * Makes a stub that has no result yet.
   *
   * @param session the session
   * @param type the type of the class
   */
  protected Contents(Session session, ContentsType<?, C> type) {
    super(session);
    this.type = type;
  }

  /** Takes the contents, when the batch is run. Not inside a structure. */
  public final Got<C> get() {
    session.enter();
    try {
      Object place = session.place();
      Failure refused = core.calls.get(session.admit(), this, place);
      return core.result(new Got<>(session, type), refused, place);
    } finally {
      session.exit();
    }
  }
}
