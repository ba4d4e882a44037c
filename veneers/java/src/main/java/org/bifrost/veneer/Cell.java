package org.bifrost.veneer;

import org.jspecify.annotations.Nullable;

/**
 * A cell: an object that stores one value, a variable of loops at the server.
 *
 * @param <S> the stubs of its values
 */
public sealed class Cell<S extends Stub> extends Obj {
  private final Type<S> of;

  Cell(Session session, Type<S> of) {
    super(session);
    this.of = of;
  }

  /** Returns the type of cells of a type. */
  public static <S extends Stub> Type<Cell<S>> type(Type<S> of) {
    return new Type.OfObject<>("cell[" + of.theta() + "]", session -> new Cell<>(session, of)) {
      @Override
      int[] numbersIn(Stubs stubs) {
        int none = Tables.NO_NUMBER;
        return new int[] {of.numbersIn(stubs)[1], none, none, none, none};
      }

      @Override
      @Nullable Stubs module() {
        return of.module();
      }
    };
  }

  private int number(int place) {
    return of.numbersIn(session.stubs())[place];
  }

  final Done store(@Nullable Object value) {
    return call(number(2), 1).add(of, value).done();
  }

  /** Stores a value. */
  public final Done put(S value) {
    return store(value);
  }

  /** Returns the value; the server signals {@code not_possible} if there is none. */
  public final S get() {
    return call(number(4), 0).to(of);
  }

  /** Returns true if there is a value. */
  public final Bool full() {
    return call(number(3), 0).to(Bool.TYPE);
  }

  /** A cell of ints. */
  public static final class OfInt extends Cell<Int> {
    OfInt(Session session) {
      super(session, Int.TYPE);
    }

    /** Stores a value. */
    public Done put(long value) {
      return store(value);
    }
  }

  /** A cell of reals. */
  public static final class OfReal extends Cell<Real> {
    OfReal(Session session) {
      super(session, Real.TYPE);
    }

    /** Stores a value. */
    public Done put(double value) {
      return store(value);
    }
  }

  /** A cell of bools. */
  public static final class OfBool extends Cell<Bool> {
    OfBool(Session session) {
      super(session, Bool.TYPE);
    }

    /** Stores a value. */
    public Done put(boolean value) {
      return store(value);
    }
  }

  /** A cell of strings. */
  public static final class OfStr extends Cell<Str> {
    OfStr(Session session) {
      super(session, Str.TYPE);
    }

    /** Stores a value. */
    public Done put(String value) {
      return store(value);
    }
  }
}
