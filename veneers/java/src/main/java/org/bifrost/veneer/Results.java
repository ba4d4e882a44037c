package org.bifrost.veneer;

/** The stubs of a call with several results. */
public final class Results {
  private Results() {}

  /**
   * Two results.
   *
   * @param <A> the type of the first
   * @param <B> the type of the second
   * @param first the first
   * @param second the second
   */
  public record Two<A extends Stub, B extends Stub>(A first, B second) {}

  /**
   * Three results.
   *
   * @param <A> the type of the first
   * @param <B> the type of the second
   * @param <C> the type of the third
   * @param first the first
   * @param second the second
   * @param third the third
   */
  public record Three<A extends Stub, B extends Stub, C extends Stub>(A first, B second, C third) {}
}
