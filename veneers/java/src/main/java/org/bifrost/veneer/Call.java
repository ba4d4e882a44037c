package org.bifrost.veneer;

import org.jspecify.annotations.Nullable;

/**
 * A call that is being recorded; for generated code. A session has one, which gets its arguments
 * one by one and ends with the stubs of its results: {@code call(133, 1).add(name).to(TYPE)}.
 */
public final class Call {
  private final Session session;
  private final Calls calls;
  private @Nullable Object place;
  private @Nullable RuntimeException wrong;
  private boolean isOpen;

  Call(Session session) {
    this.session = session;
    calls = session.core.calls;
  }

  private void open() {
    if (isOpen) {
      throw new IllegalStateException("a call is being recorded");
    }
    session.enter();
    place = session.place();
    wrong = null;
  }

  Call begin(int code, Slot receiver, int method, int count) {
    open();
    calls.begin(code, session.admit(), receiver, method, count, place);
    isOpen = true;
    return this;
  }

  Call beginRoutine(Stubs stubs, int routine, int count) {
    open();
    calls.beginRoutine(session.admit(), stubs, routine, count, place);
    isOpen = true;
    return this;
  }

  Call beginProcedure(int number, @Nullable Failure refused, int count) {
    open();
    calls.beginProcedure(session.admit(), number, refused, count, place);
    isOpen = true;
    return this;
  }

  Call beginEmit(Slot rows, int count) {
    open();
    calls.beginEmit(session.admit(), rows, count, place);
    isOpen = true;
    return this;
  }

  /** Adds an int. */
  public Call add(long value) {
    calls.word(Tables.TAG_INT, value);
    return this;
  }

  /** Adds a real. */
  public Call add(double value) {
    calls.word(Tables.TAG_REAL, Double.doubleToRawLongBits(value));
    return this;
  }

  /** Adds a bool. */
  public Call add(boolean value) {
    calls.word(Tables.TAG_BOOL, value ? 1 : 0);
    return this;
  }

  /** Adds a char. */
  public Call addChar(int codePoint) {
    calls.character(codePoint);
    return this;
  }

  /** Adds nil. */
  public Call addNil() {
    calls.word(Tables.TAG_NIL, 0);
    return this;
  }

  /** Adds a string. */
  public Call add(String text) {
    if (isThere(text)) {
      calls.text(text);
    }
    return this;
  }

  /** Adds a byte string. */
  public Call add(byte[] bytes) {
    if (isThere(bytes)) {
      calls.bytes(bytes);
    }
    return this;
  }

  /** Adds a stub. */
  public Call add(Stub stub) {
    if (isThere(stub)) {
      calls.slot(stub);
    }
    return this;
  }

  /** Adds a stub, or a value as a claim gives it. */
  public Call add(Type<?> type, @Nullable Object value) {
    if (wrong == null) {
      try {
        type.put(calls, value);
      } catch (RuntimeException bad) {
        wrong = bad;
      }
    }
    return this;
  }

  /** Adds a value. */
  Call addOperand(@Nullable Object operand) {
    if (wrong == null) {
      try {
        calls.operand(operandOf(operand));
      } catch (RuntimeException bad) {
        wrong = bad;
      }
    }
    return this;
  }

  /** Returns the operand that an object stands for: a stub, or a value of Java. */
  static Object operandOf(@Nullable Object value) {
    if (value == null) {
      return Value.nil();
    } else if (value instanceof Slot || value instanceof Value || value instanceof Calls.Items) {
      return value;
    } else if (value instanceof Long || value instanceof Integer) {
      return Value.of(((Number) value).longValue());
    } else if (value instanceof Double number) {
      return Value.of((double) number);
    } else if (value instanceof Boolean bool) {
      return Value.of((boolean) bool);
    } else if (value instanceof String text) {
      return Value.of(text);
    } else if (value instanceof byte[] bytes) {
      return Value.of(bytes);
    } else if (value instanceof Iterable<?> items) {
      java.util.List<Object> parts = new java.util.ArrayList<>();
      items.forEach(item -> parts.add(operandOf(item)));
      return new Calls.Items(parts);
    }
    throw new ClassCastException(
        "a value or a stub was expected, not " + value.getClass().getSimpleName());
  }

  private boolean isThere(@Nullable Object argument) {
    if (argument == null && wrong == null) {
      wrong = new NullPointerException("an argument is null");
    }
    return wrong == null;
  }

  /** Ends the call. Returns the failure of its results; the caller leaves the session. */
  private @Nullable Failure end() {
    isOpen = false;
    if (wrong != null) {
      RuntimeException bad = wrong;
      calls.cancel();
      session.exit();
      throw bad;
    }
    return calls.end();
  }

  /** Records the call, and returns the stub of its result. */
  public <S extends Stub> S to(Type<S> type) {
    Failure refused = end();
    S stub = session.core.result(type.make(session), refused, place);
    session.exit();
    return stub;
  }

  /** Records the call, and returns the stubs of its two results. */
  public <A extends Stub, B extends Stub> Results.Two<A, B> to(Type<A> first, Type<B> second) {
    Failure refused = end();
    long maker = calls.maker;
    A one = session.core.result(first.make(session), refused, maker, place);
    B other = session.core.result(second.make(session), refused, maker, place);
    session.exit();
    return new Results.Two<>(one, other);
  }

  /** Records the call, and returns the stubs of its three results. */
  public <A extends Stub, B extends Stub, C extends Stub> Results.Three<A, B, C> to(
      Type<A> first, Type<B> second, Type<C> third) {
    Failure refused = end();
    long maker = calls.maker;
    A one = session.core.result(first.make(session), refused, maker, place);
    B other = session.core.result(second.make(session), refused, maker, place);
    C last = session.core.result(third.make(session), refused, maker, place);
    session.exit();
    return new Results.Three<>(one, other, last);
  }

  /** Records the call, and returns the stubs of its results, of which there are any number. */
  public java.util.List<Stub> toAll(java.util.List<Type<?>> types) {
    Failure refused = end();
    long maker = calls.maker;
    java.util.List<Stub> stubs = new java.util.ArrayList<>();
    types.forEach(
        type -> stubs.add(session.core.result(type.make(session), refused, maker, place)));
    session.exit();
    return stubs;
  }

  /** Records the call, which has no result. */
  public Done done() {
    return to(Done.TYPE);
  }

  /** Records a message, whose outcome nobody awaits. */
  public void post() {
    Failure refused = end();
    session.core.result(new Slot(session.core), refused, place).drop();
    session.exit();
  }
}
