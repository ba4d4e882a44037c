package org.bifrost.veneer;

import org.jspecify.annotations.Nullable;

/** A promise of an integer of 64 bits. */
public final class Int extends Promise<Long> {
  /** The type. */
  public static final Type<Int> TYPE =
      new Type.OfValue<>("int", 2, Int::new) {
        @Override
        void putValue(Calls calls, @Nullable Object value) {
          if (!(value instanceof Long || value instanceof Integer)) {
            throw wrong(value);
          }
          calls.word(Tables.TAG_INT, ((Number) value).longValue());
        }

        @Override
        @Nullable Object take(Session session, Value value) {
          return readValue(value);
        }
      };

  Int(Session session) {
    super(session);
  }

  private static @Nullable Object readValue(Value value) {
    return value.tag == Tables.TAG_INT ? (Object) value.word : Type.MISMATCH;
  }

  @Override
  @Nullable Object read(Value value) {
    return readValue(value);
  }

  /** Returns the sum. */
  public Int plus(long other) {
    return begin(Tables.OP_CALL, session.stubs().operator(Tables.OPERATOR_INT_ADD), 1)
        .add(other)
        .to(Int.TYPE);
  }

  /** Returns the sum. */
  public Int plus(Int other) {
    return begin(Tables.OP_CALL, session.stubs().operator(Tables.OPERATOR_INT_ADD), 1)
        .add(other)
        .to(Int.TYPE);
  }

  /** Returns the difference. */
  public Int minus(long other) {
    return begin(Tables.OP_CALL, session.stubs().operator(Tables.OPERATOR_INT_SUB), 1)
        .add(other)
        .to(Int.TYPE);
  }

  /** Returns the difference. */
  public Int minus(Int other) {
    return begin(Tables.OP_CALL, session.stubs().operator(Tables.OPERATOR_INT_SUB), 1)
        .add(other)
        .to(Int.TYPE);
  }

  /** Returns the product. */
  public Int times(long other) {
    return begin(Tables.OP_CALL, session.stubs().operator(Tables.OPERATOR_INT_MUL), 1)
        .add(other)
        .to(Int.TYPE);
  }

  /** Returns the product. */
  public Int times(Int other) {
    return begin(Tables.OP_CALL, session.stubs().operator(Tables.OPERATOR_INT_MUL), 1)
        .add(other)
        .to(Int.TYPE);
  }

  /** Returns the quotient; the server signals {@code zero}. */
  public Int div(long other) {
    return begin(Tables.OP_CALL, session.stubs().operator(Tables.OPERATOR_INT_DIV), 1)
        .add(other)
        .to(Int.TYPE);
  }

  /** Returns the quotient; the server signals {@code zero}. */
  public Int div(Int other) {
    return begin(Tables.OP_CALL, session.stubs().operator(Tables.OPERATOR_INT_DIV), 1)
        .add(other)
        .to(Int.TYPE);
  }

  /** Returns the remainder; the server signals {@code zero}. */
  public Int mod(long other) {
    return begin(Tables.OP_CALL, session.stubs().operator(Tables.OPERATOR_INT_MOD), 1)
        .add(other)
        .to(Int.TYPE);
  }

  /** Returns the remainder; the server signals {@code zero}. */
  public Int mod(Int other) {
    return begin(Tables.OP_CALL, session.stubs().operator(Tables.OPERATOR_INT_MOD), 1)
        .add(other)
        .to(Int.TYPE);
  }

  /** Returns the negative. */
  public Int negate() {
    return begin(Tables.OP_CALL, session.stubs().operator(Tables.OPERATOR_INT_NEGATE), 0)
        .to(Int.TYPE);
  }

  /** Returns the test if this one is less than the other, at the server. */
  public Bool lt(long other) {
    return begin(Tables.OP_CALL, session.stubs().operator(Tables.OPERATOR_INT_LT), 1)
        .add(other)
        .to(Bool.TYPE);
  }

  /** Returns the test if this one is less than the other, at the server. */
  public Bool lt(Int other) {
    return begin(Tables.OP_CALL, session.stubs().operator(Tables.OPERATOR_INT_LT), 1)
        .add(other)
        .to(Bool.TYPE);
  }

  /** Returns the test if this one is at most the other, at the server. */
  public Bool le(long other) {
    return begin(Tables.OP_CALL, session.stubs().operator(Tables.OPERATOR_INT_LE), 1)
        .add(other)
        .to(Bool.TYPE);
  }

  /** Returns the test if this one is at most the other, at the server. */
  public Bool le(Int other) {
    return begin(Tables.OP_CALL, session.stubs().operator(Tables.OPERATOR_INT_LE), 1)
        .add(other)
        .to(Bool.TYPE);
  }

  /** Returns the test if this one is greater than the other, at the server. */
  public Bool gt(long other) {
    return begin(Tables.OP_CALL, session.stubs().operator(Tables.OPERATOR_INT_GT), 1)
        .add(other)
        .to(Bool.TYPE);
  }

  /** Returns the test if this one is greater than the other, at the server. */
  public Bool gt(Int other) {
    return begin(Tables.OP_CALL, session.stubs().operator(Tables.OPERATOR_INT_GT), 1)
        .add(other)
        .to(Bool.TYPE);
  }

  /** Returns the test if this one is at least the other, at the server. */
  public Bool ge(long other) {
    return begin(Tables.OP_CALL, session.stubs().operator(Tables.OPERATOR_INT_GE), 1)
        .add(other)
        .to(Bool.TYPE);
  }

  /** Returns the test if this one is at least the other, at the server. */
  public Bool ge(Int other) {
    return begin(Tables.OP_CALL, session.stubs().operator(Tables.OPERATOR_INT_GE), 1)
        .add(other)
        .to(Bool.TYPE);
  }

  /** Returns the test if both are equal, at the server. */
  public Bool eq(long other) {
    return begin(Tables.OP_CALL, session.stubs().operator(Tables.OPERATOR_INT_EQUAL), 1)
        .add(other)
        .to(Bool.TYPE);
  }

  /** Returns the test if both are equal, at the server. */
  public Bool eq(Int other) {
    return begin(Tables.OP_CALL, session.stubs().operator(Tables.OPERATOR_INT_EQUAL), 1)
        .add(other)
        .to(Bool.TYPE);
  }

  /** Returns the test if both are not equal, at the server. */
  public Bool ne(long other) {
    return eq(other).not();
  }

  /** Returns the test if both are not equal, at the server. */
  public Bool ne(Int other) {
    return eq(other).not();
  }

  /** Returns the integers from this one to a limit, for {@link Session#foreach}. */
  public Iter<Int> to(long limit) {
    return iter(Tables.OPERATOR_INT_TO, Value.of(limit));
  }

  /** Returns the integers from this one to a limit. */
  public Iter<Int> to(Int limit) {
    return iter(Tables.OPERATOR_INT_TO, limit);
  }

  /** Returns the integers from this one to a limit, in steps. */
  public Iter<Int> toBy(long limit, long step) {
    return iter(Tables.OPERATOR_INT_TO_BY, Value.of(limit), Value.of(step));
  }

  /** Returns the integers from this one to a limit, in steps. */
  public Iter<Int> toBy(Int limit, Int step) {
    return iter(Tables.OPERATOR_INT_TO_BY, limit, step);
  }

  private Iter<Int> iter(int operator, Object... arguments) {
    int method = session.stubs().operator(operator);
    return new Iter<>(Iteration.of(this, method, arguments), TYPE);
  }

  /** Returns the same number as a real. */
  public Real toReal() {
    return begin(Tables.OP_CALL, session.stubs().operator(Tables.OPERATOR_INT_TO_REAL), 0)
        .to(Real.TYPE);
  }

  /** Returns its decimal digits. */
  public Str unparse() {
    return begin(Tables.OP_CALL, session.stubs().operator(Tables.OPERATOR_INT_UNPARSE), 0)
        .to(Str.TYPE);
  }
}
