package org.bifrost.veneer;

import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/**
 * A type of Theta as a value. Each class of stubs has a constant {@code TYPE} of it.
 *
 * @param <S> the class of the stubs
 */
public abstract class Type<S extends Stub> {
  /** Says that a value has another type than its heading says. */
  static final Object MISMATCH = new Object();

  private final String theta;

  Type(String theta) {
    this.theta = theta;
  }

  /** Returns the name of the type in Theta. */
  public final String theta() {
    return theta;
  }

  /** Returns the type in Theta. */
  @Override
  public final String toString() {
    return theta;
  }

  /** Makes a stub that has no result yet. */
  abstract S make(Session session);

  /** Returns the numbers in an interface: the type, its cell, and put, full, get of that. */
  abstract int[] numbersIn(Stubs stubs);

  /** Returns the stubs that the type belongs to; null for a type of all interfaces. */
  @Nullable Stubs module() {
    return null;
  }

  /**
   * Appends an argument: a stub, or a value as a claim gives it.
   *
   * @throws ClassCastException if it is neither
   */
  abstract void put(Calls calls, @Nullable Object value);

  /** Returns a value that came as a part of a result; {@link #MISMATCH} for another type. */
  abstract @Nullable Object take(Session session, Value value);

  final ClassCastException wrong(@Nullable Object value) {
    String found = value == null ? "null" : value.getClass().getSimpleName();
    return new ClassCastException("a value for `" + theta + "` was expected, not " + found);
  }

  /**
   * Returns the type of objects of a class; for generated code. A number is -1 for a cell that the
   * interface lacks.
   *
   * @param theta the name in Theta
   * @param stubs the stubs that it belongs to
   * @param make the constructor
   * @param type the number of the type
   * @param cell the number of its cell
   * @param put the number of the cell's method
   * @param full the number of the cell's method
   * @param get the number of the cell's method
   */
  public static <S extends Obj> Type<S> object(
      String theta,
      Stubs stubs,
      Function<Session, S> make,
      int type,
      int cell,
      int put,
      int full,
      int get) {
    int[] numbers = {type, cell, put, full, get};
    return new OfObject<>(theta, make) {
      @Override
      int[] numbersIn(Stubs other) {
        return numbers;
      }

      @Override
      Stubs module() {
        return stubs;
      }
    };
  }

  /** A type of objects. */
  abstract static class OfObject<S extends Obj> extends Type<S> {
    private final Function<Session, S> make;

    OfObject(String theta, Function<Session, S> make) {
      super(theta);
      this.make = make;
    }

    @Override
    final S make(Session session) {
      return make.apply(session);
    }

    @Override
    void put(Calls calls, @Nullable Object value) {
      if (!(value instanceof Stub stub)) {
        throw wrong(value);
      }
      calls.slot(stub);
    }

    @Override
    @Nullable Object take(Session session, Value value) {
      return value.isObject() ? session.core.object(make(session), value.word) : MISMATCH;
    }
  }

  /** A type of values that are claimed. */
  abstract static class OfValue<S extends Promise<?>> extends Type<S> {
    private final Function<Session, S> make;
    private final int place;

    /**
     * Makes one.
     *
     * @param place the place among the basic types, or -1
     */
    OfValue(String theta, int place, Function<Session, S> make) {
      super(theta);
      this.make = make;
      this.place = place;
    }

    @Override
    final S make(Session session) {
      return make.apply(session);
    }

    @Override
    int[] numbersIn(Stubs stubs) {
      return stubs.basic(place);
    }

    @Override
    final void put(Calls calls, @Nullable Object value) {
      if (value instanceof Stub stub) {
        calls.slot(stub);
      } else {
        putValue(calls, value);
      }
    }

    abstract void putValue(Calls calls, @Nullable Object value);
  }
}
