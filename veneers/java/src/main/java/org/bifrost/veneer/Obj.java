package org.bifrost.veneer;

import java.util.concurrent.CompletableFuture;

/** The stub of an object. Calls on it are recorded at once. */
public abstract class Obj extends Stub {
  /** Makes a stub that has no result yet; for generated code. */
  protected Obj(Session session) {
    super(session);
  }

  /** Begins a call of a method with so many arguments; for generated code. */
  protected final Call call(int method, int arguments) {
    return begin(Tables.OP_CALL, method, arguments);
  }

  /** Begins a message to an actor, which nobody awaits; for generated code. */
  protected final Call send(int method, int arguments) {
    return begin(Tables.OP_SEND, method, arguments);
  }

  /** Returns a call of an iterator; the arguments are stubs and {@link Value}s. */
  protected final <A extends Stub> Iter<A> iter(int method, Type<A> type, Object... arguments) {
    return new Iter<>(Iteration.of(this, method, arguments), type);
  }

  /** Returns a call of an iterator that yields two values. */
  protected final <A extends Stub, B extends Stub> Iter.Two<A, B> iter(
      int method, Type<A> first, Type<B> second, Object... arguments) {
    return new Iter.Two<>(Iteration.of(this, method, arguments), first, second);
  }

  /** Returns a call of an iterator that yields three values. */
  protected final <A extends Stub, B extends Stub, C extends Stub> Iter.Three<A, B, C> iter(
      int method, Type<A> first, Type<B> second, Type<C> third, Object... arguments) {
    return new Iter.Three<>(Iteration.of(this, method, arguments), first, second, third);
  }

  /**
   * Returns the same object as one of another type. The server signals {@code wrong_type} if it has
   * not that type.
   */
  public final <S extends Stub> S as(Type<S> type) {
    session.enter();
    try {
      Object place = session.place();
      int number = type.numbersIn(session.stubs())[0];
      Failure refused = core.calls.cast(session.admit(), this, number, type.theta(), place);
      return core.result(type.make(session), refused, place);
    } finally {
      session.exit();
    }
  }

  /** Returns the test if the object has a type. */
  public final Bool is(Type<?> type) {
    session.enter();
    try {
      Object place = session.place();
      int number = type.numbersIn(session.stubs())[0];
      Failure refused = core.calls.testType(session.admit(), this, number, type.theta(), place);
      return core.result(new Bool(session), refused, place);
    } finally {
      session.exit();
    }
  }

  /**
   * Waits until the object is there, and sends the batch if it is not sent.
   *
   * @throws BifrostException if the call that makes it has failed
   */
  public final void await() {
    session.claim(this);
  }

  /**
   * As {@link #await()}; throws the exception of a type as itself if the call that makes the object
   * signalled it, also if its class is checked.
   *
   * @param <A> the class of the first exception
   * @throws BifrostException if there is another failure
   */
  public final <A extends Exception> void await(SignalType<A> first) throws A {
    session.claim(this, first, first, first);
  }

  /**
   * As {@link #await(SignalType)}, for one of two exceptions.
   *
   * @param <A> the class of the first exception
   * @param <B> the class of the second exception
   * @throws BifrostException if there is another failure
   */
  public final <A extends Exception, B extends Exception> void await(
      SignalType<A> first, SignalType<B> second) throws A, B {
    session.claim(this, first, second, second);
  }

  /**
   * As {@link #await(SignalType)}, for one of three exceptions.
   *
   * @param <A> the class of the first exception
   * @param <B> the class of the second exception
   * @param <C> the class of the third exception
   * @throws BifrostException if there is another failure
   */
  public final <A extends Exception, B extends Exception, C extends Exception> void await(
      SignalType<A> first, SignalType<B> second, SignalType<C> third) throws A, B, C {
    session.claim(this, first, second, third);
  }

  /** As {@link #await()}, without waiting: the future is done when the object is there. */
  @SuppressWarnings("unchecked")
  public final CompletableFuture<Void> toFuture() {
    return (CompletableFuture<Void>) session.future(this);
  }

  /** Returns true if both stubs are known to be the same object. */
  public final boolean isSame(Obj other) {
    return hasSameResult(other);
  }
}
