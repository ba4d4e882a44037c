package org.bifrost.veneer;

import org.jspecify.annotations.Nullable;

/** A promise of a floating-point number. */
public final class Real extends Promise<Double> {
  /** The type. */
  public static final Type<Real> TYPE =
      new Type.OfValue<>("real", 3, Real::new) {
        @Override
        void putValue(Calls calls, @Nullable Object value) {
          if (!(value instanceof Double number)) {
            throw wrong(value);
          }
          calls.word(Tables.TAG_REAL, Double.doubleToRawLongBits(number));
        }

        @Override
        @Nullable Object take(Session session, Value value) {
          return readValue(value);
        }
      };

  Real(Session session) {
    super(session);
  }

  private static @Nullable Object readValue(Value value) {
    return value.tag == Tables.TAG_REAL
        ? (Object) Double.longBitsToDouble(value.word)
        : Type.MISMATCH;
  }

  @Override
  @Nullable Object read(Value value) {
    return readValue(value);
  }

  /** Returns the sum. */
  public Real plus(double other) {
    return begin(Tables.OP_CALL, session.stubs().operator(Tables.OPERATOR_REAL_ADD), 1)
        .add(other)
        .to(Real.TYPE);
  }

  /** Returns the sum. */
  public Real plus(Real other) {
    return begin(Tables.OP_CALL, session.stubs().operator(Tables.OPERATOR_REAL_ADD), 1)
        .add(other)
        .to(Real.TYPE);
  }

  /** Returns the difference. */
  public Real minus(double other) {
    return begin(Tables.OP_CALL, session.stubs().operator(Tables.OPERATOR_REAL_SUB), 1)
        .add(other)
        .to(Real.TYPE);
  }

  /** Returns the difference. */
  public Real minus(Real other) {
    return begin(Tables.OP_CALL, session.stubs().operator(Tables.OPERATOR_REAL_SUB), 1)
        .add(other)
        .to(Real.TYPE);
  }

  /** Returns the product. */
  public Real times(double other) {
    return begin(Tables.OP_CALL, session.stubs().operator(Tables.OPERATOR_REAL_MUL), 1)
        .add(other)
        .to(Real.TYPE);
  }

  /** Returns the product. */
  public Real times(Real other) {
    return begin(Tables.OP_CALL, session.stubs().operator(Tables.OPERATOR_REAL_MUL), 1)
        .add(other)
        .to(Real.TYPE);
  }

  /** Returns the quotient. */
  public Real div(double other) {
    return begin(Tables.OP_CALL, session.stubs().operator(Tables.OPERATOR_REAL_DIV), 1)
        .add(other)
        .to(Real.TYPE);
  }

  /** Returns the quotient. */
  public Real div(Real other) {
    return begin(Tables.OP_CALL, session.stubs().operator(Tables.OPERATOR_REAL_DIV), 1)
        .add(other)
        .to(Real.TYPE);
  }

  /** Returns the negative. */
  public Real negate() {
    return begin(Tables.OP_CALL, session.stubs().operator(Tables.OPERATOR_REAL_NEGATE), 0)
        .to(Real.TYPE);
  }

  /** Returns the test if this one is less than the other, at the server. */
  public Bool lt(double other) {
    return begin(Tables.OP_CALL, session.stubs().operator(Tables.OPERATOR_REAL_LT), 1)
        .add(other)
        .to(Bool.TYPE);
  }

  /** Returns the test if this one is less than the other, at the server. */
  public Bool lt(Real other) {
    return begin(Tables.OP_CALL, session.stubs().operator(Tables.OPERATOR_REAL_LT), 1)
        .add(other)
        .to(Bool.TYPE);
  }

  /** Returns the test if this one is at most the other, at the server. */
  public Bool le(double other) {
    return begin(Tables.OP_CALL, session.stubs().operator(Tables.OPERATOR_REAL_LE), 1)
        .add(other)
        .to(Bool.TYPE);
  }

  /** Returns the test if this one is at most the other, at the server. */
  public Bool le(Real other) {
    return begin(Tables.OP_CALL, session.stubs().operator(Tables.OPERATOR_REAL_LE), 1)
        .add(other)
        .to(Bool.TYPE);
  }

  /** Returns the test if this one is greater than the other, at the server. */
  public Bool gt(double other) {
    return begin(Tables.OP_CALL, session.stubs().operator(Tables.OPERATOR_REAL_GT), 1)
        .add(other)
        .to(Bool.TYPE);
  }

  /** Returns the test if this one is greater than the other, at the server. */
  public Bool gt(Real other) {
    return begin(Tables.OP_CALL, session.stubs().operator(Tables.OPERATOR_REAL_GT), 1)
        .add(other)
        .to(Bool.TYPE);
  }

  /** Returns the test if this one is at least the other, at the server. */
  public Bool ge(double other) {
    return begin(Tables.OP_CALL, session.stubs().operator(Tables.OPERATOR_REAL_GE), 1)
        .add(other)
        .to(Bool.TYPE);
  }

  /** Returns the test if this one is at least the other, at the server. */
  public Bool ge(Real other) {
    return begin(Tables.OP_CALL, session.stubs().operator(Tables.OPERATOR_REAL_GE), 1)
        .add(other)
        .to(Bool.TYPE);
  }

  /** Returns the test if both are equal, at the server. */
  public Bool eq(double other) {
    return begin(Tables.OP_CALL, session.stubs().operator(Tables.OPERATOR_REAL_EQUAL), 1)
        .add(other)
        .to(Bool.TYPE);
  }

  /** Returns the test if both are equal, at the server. */
  public Bool eq(Real other) {
    return begin(Tables.OP_CALL, session.stubs().operator(Tables.OPERATOR_REAL_EQUAL), 1)
        .add(other)
        .to(Bool.TYPE);
  }

  /** Returns the test if both are not equal, at the server. */
  public Bool ne(double other) {
    return eq(other).not();
  }

  /** Returns the test if both are not equal, at the server. */
  public Bool ne(Real other) {
    return eq(other).not();
  }

  /** Returns its decimal digits. */
  public Str unparse() {
    return begin(Tables.OP_CALL, session.stubs().operator(Tables.OPERATOR_REAL_UNPARSE), 0)
        .to(Str.TYPE);
  }
}
