package org.bifrost.veneer;

import org.jspecify.annotations.Nullable;

/** A promise of a text. */
public final class Str extends Promise<String> {
  /** The type. */
  public static final Type<Str> TYPE =
      new Type.OfValue<>("string", 5, Str::new) {
        @Override
        void putValue(Calls calls, @Nullable Object value) {
          if (!(value instanceof String text)) {
            throw wrong(value);
          }
          calls.text(text);
        }

        @Override
        @Nullable Object take(Session session, Value value) {
          return readValue(value);
        }
      };

  Str(Session session) {
    super(session);
  }

  private static @Nullable Object readValue(Value value) {
    return value.tag == Tables.TAG_STRING ? value.string() : Type.MISMATCH;
  }

  @Override
  @Nullable Object read(Value value) {
    return readValue(value);
  }

  /** Returns its number of characters. */
  public Int length() {
    return begin(Tables.OP_CALL, session.stubs().operator(Tables.OPERATOR_STRING_LENGTH), 0)
        .to(Int.TYPE);
  }

  /** Returns this text with the other behind it. */
  public Str concat(String other) {
    return begin(Tables.OP_CALL, session.stubs().operator(Tables.OPERATOR_STRING_CONCAT), 1)
        .add(other)
        .to(Str.TYPE);
  }

  /** Returns this text with the other behind it. */
  public Str concat(Str other) {
    return begin(Tables.OP_CALL, session.stubs().operator(Tables.OPERATOR_STRING_CONCAT), 1)
        .add(other)
        .to(Str.TYPE);
  }

  /** Returns the test if this one is less than the other, at the server. */
  public Bool lt(String other) {
    return begin(Tables.OP_CALL, session.stubs().operator(Tables.OPERATOR_STRING_LT), 1)
        .add(other)
        .to(Bool.TYPE);
  }

  /** Returns the test if this one is less than the other, at the server. */
  public Bool lt(Str other) {
    return begin(Tables.OP_CALL, session.stubs().operator(Tables.OPERATOR_STRING_LT), 1)
        .add(other)
        .to(Bool.TYPE);
  }

  /** Returns the test if this one is at most the other, at the server. */
  public Bool le(String other) {
    return begin(Tables.OP_CALL, session.stubs().operator(Tables.OPERATOR_STRING_LE), 1)
        .add(other)
        .to(Bool.TYPE);
  }

  /** Returns the test if this one is at most the other, at the server. */
  public Bool le(Str other) {
    return begin(Tables.OP_CALL, session.stubs().operator(Tables.OPERATOR_STRING_LE), 1)
        .add(other)
        .to(Bool.TYPE);
  }

  /** Returns the test if this one is greater than the other, at the server. */
  public Bool gt(String other) {
    return begin(Tables.OP_CALL, session.stubs().operator(Tables.OPERATOR_STRING_GT), 1)
        .add(other)
        .to(Bool.TYPE);
  }

  /** Returns the test if this one is greater than the other, at the server. */
  public Bool gt(Str other) {
    return begin(Tables.OP_CALL, session.stubs().operator(Tables.OPERATOR_STRING_GT), 1)
        .add(other)
        .to(Bool.TYPE);
  }

  /** Returns the test if this one is at least the other, at the server. */
  public Bool ge(String other) {
    return begin(Tables.OP_CALL, session.stubs().operator(Tables.OPERATOR_STRING_GE), 1)
        .add(other)
        .to(Bool.TYPE);
  }

  /** Returns the test if this one is at least the other, at the server. */
  public Bool ge(Str other) {
    return begin(Tables.OP_CALL, session.stubs().operator(Tables.OPERATOR_STRING_GE), 1)
        .add(other)
        .to(Bool.TYPE);
  }

  /** Returns the test if both are equal, at the server. */
  public Bool eq(String other) {
    return begin(Tables.OP_CALL, session.stubs().operator(Tables.OPERATOR_STRING_EQUAL), 1)
        .add(other)
        .to(Bool.TYPE);
  }

  /** Returns the test if both are equal, at the server. */
  public Bool eq(Str other) {
    return begin(Tables.OP_CALL, session.stubs().operator(Tables.OPERATOR_STRING_EQUAL), 1)
        .add(other)
        .to(Bool.TYPE);
  }

  /** Returns the test if both are not equal, at the server. */
  public Bool ne(String other) {
    return eq(other).not();
  }

  /** Returns the test if both are not equal, at the server. */
  public Bool ne(Str other) {
    return eq(other).not();
  }
}
