package org.bifrost.veneer;

import java.util.concurrent.CompletableFuture;
import org.jspecify.annotations.Nullable;

/**
 * A promise: a stub of a value, which the program claims when it needs it. It has no methods of the
 * value: {@code equals} compares stubs, and {@code eq} records a comparison at the server.
 *
 * @param <V> the value as a claim gives it
 */
public abstract class Promise<V extends @Nullable Object> extends Stub {
  Promise(Session session) {
    super(session);
  }

  /** Returns the value; {@link Type#MISMATCH} if a result is of another type than its heading. */
  abstract @Nullable Object read(Value value);

  /**
   * Returns the value; waits for it, and sends the batch if it is not sent.
   *
   * @throws BifrostException if the call has failed, or if there are failures that no stub is left
   *     to tell
   */
  @SuppressWarnings({"unchecked", "NullAway"})
  public final V claim() {
    return (V) session.claim(this);
  }

  /**
   * Returns the value, as {@link #claim()}; throws the exception of a type as itself if the call
   * signalled it, also if its class is checked.
   *
   * @param <A> the class of the first exception
   * @throws BifrostException if there is another failure
   */
  @SuppressWarnings({"unchecked", "NullAway"})
  public final <A extends Exception> V claim(SignalType<A> first) throws A {
    return (V) session.claim(this, first, first, first);
  }

  /**
   * As {@link #claim(SignalType)}, for one of two exceptions.
   *
   * @param <A> the class of the first exception
   * @param <B> the class of the second exception
   * @throws BifrostException if there is another failure
   */
  @SuppressWarnings({"unchecked", "NullAway"})
  public final <A extends Exception, B extends Exception> V claim(
      SignalType<A> first, SignalType<B> second) throws A, B {
    return (V) session.claim(this, first, second, second);
  }

  /**
   * As {@link #claim(SignalType)}, for one of three exceptions.
   *
   * @param <A> the class of the first exception
   * @param <B> the class of the second exception
   * @param <C> the class of the third exception
   * @throws BifrostException if there is another failure
   */
  @SuppressWarnings({"unchecked", "NullAway"})
  public final <A extends Exception, B extends Exception, C extends Exception> V claim(
      SignalType<A> first, SignalType<B> second, SignalType<C> third) throws A, B, C {
    return (V) session.claim(this, first, second, third);
  }

  /**
   * Returns a future of Java for the value. The batch ends here; a thread of the session sends it
   * and awaits the answer. Later calls may use this stub at once.
   */
  @SuppressWarnings("unchecked")
  public final CompletableFuture<V> toFuture() {
    return (CompletableFuture<V>) session.future(this);
  }
}
