package org.bifrost.veneer;

import java.util.List;
import java.util.function.BiFunction;

/**
 * The type of an exception of the program; generated code has a constant of each.
 *
 * @param <E> the class of the exception
 */
public abstract sealed class SignalType<E extends Exception> {
  private final String signal;
  private final List<Type<?>> types;
  private final BiFunction<Failure, List<?>, E> make;

  private SignalType(String signal, List<Type<?>> types, BiFunction<Failure, List<?>, E> make) {
    this.signal = signal;
    this.types = types;
    this.make = make;
  }

  /** Returns the name of the exception in Theta. */
  public final String signal() {
    return signal;
  }

  final List<Type<?>> types() {
    return types;
  }

  final E make(Failure failure, List<?> values) {
    return make.apply(failure, values);
  }

  /**
   * The type of an exception without values.
   *
   * @param <E> the class of the exception
   */
  public static final class None<E extends Exception> extends SignalType<E> {
    private None(String signal, BiFunction<Failure, List<?>, E> make) {
      super(signal, List.of(), make);
    }
  }

  /**
   * The type of an exception with a value.
   *
   * @param <E> the class of the exception
   * @param <A> the stub of the value
   */
  public static final class One<E extends Exception, A extends Stub> extends SignalType<E> {
    final Type<A> first;

    private One(String signal, Type<A> first, BiFunction<Failure, List<?>, E> make) {
      super(signal, List.of(first), make);
      this.first = first;
    }
  }

  /**
   * The type of an exception with two values.
   *
   * @param <E> the class of the exception
   * @param <A> the stub of the first value
   * @param <B> the stub of the second value
   */
  public static final class Two<E extends Exception, A extends Stub, B extends Stub>
      extends SignalType<E> {
    final Type<A> first;
    final Type<B> second;

    private Two(
        String signal, Type<A> first, Type<B> second, BiFunction<Failure, List<?>, E> make) {
      super(signal, List.of(first, second), make);
      this.first = first;
      this.second = second;
    }
  }

  /**
   * The type of an exception with more values, or with different ones in several headings.
   *
   * @param <E> the class of the exception
   */
  public static final class Many<E extends Exception> extends SignalType<E> {
    private Many(String signal, List<Type<?>> types, BiFunction<Failure, List<?>, E> make) {
      super(signal, types, make);
    }
  }

  /** Returns the type of an exception without values. */
  public static <E extends Exception> None<E> none(
      String signal, BiFunction<Failure, List<?>, E> make) {
    return new None<>(signal, make);
  }

  /** Returns the type of an exception with a value. */
  public static <E extends Exception, A extends Stub> One<E, A> one(
      String signal, Type<A> first, BiFunction<Failure, List<?>, E> make) {
    return new One<>(signal, first, make);
  }

  /** Returns the type of an exception with two values. */
  public static <E extends Exception, A extends Stub, B extends Stub> Two<E, A, B> two(
      String signal, Type<A> first, Type<B> second, BiFunction<Failure, List<?>, E> make) {
    return new Two<>(signal, first, second, make);
  }

  /** Returns the type of an exception with any number of values. */
  public static <E extends Exception> Many<E> many(
      String signal, List<Type<?>> types, BiFunction<Failure, List<?>, E> make) {
    return new Many<>(signal, List.copyOf(types), make);
  }
}
