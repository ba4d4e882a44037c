package org.bifrost.veneer;

/**
 * A call of an iterator that yields a value. {@link Session#foreach} records it, once for each
 * loop.
 *
 * @param <A> the stub of the value
 */
public final class Iter<A extends Stub> {
  final Iteration iteration;
  final Type<A> type;

  Iter(Iteration iteration, Type<A> type) {
    this.iteration = iteration;
    this.type = type;
  }

  /**
   * A call of an iterator that yields two values.
   *
   * @param <A> the stub of the first value
   * @param <B> the stub of the second value
   */
  public static final class Two<A extends Stub, B extends Stub> {
    final Iteration iteration;
    final Type<A> first;
    final Type<B> second;

    Two(Iteration iteration, Type<A> first, Type<B> second) {
      this.iteration = iteration;
      this.first = first;
      this.second = second;
    }
  }

  /**
   * A call of an iterator that yields three values.
   *
   * @param <A> the stub of the first value
   * @param <B> the stub of the second value
   * @param <C> the stub of the third value
   */
  public static final class Three<A extends Stub, B extends Stub, C extends Stub> {
    final Iteration iteration;
    final Type<A> first;
    final Type<B> second;
    final Type<C> third;

    Three(Iteration iteration, Type<A> first, Type<B> second, Type<C> third) {
      this.iteration = iteration;
      this.first = first;
      this.second = second;
      this.third = third;
    }
  }
}
