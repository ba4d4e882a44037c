package org.bifrost.veneer;

import org.jspecify.annotations.Nullable;

/** A promise of a character, which is a code point. */
public final class Char extends Promise<Integer> {
  /** The type. */
  public static final Type<Char> TYPE =
      new Type.OfValue<>("char", 4, Char::new) {
        @Override
        void putValue(Calls calls, @Nullable Object value) {
          if (!(value instanceof Integer || value instanceof Character)) {
            throw wrong(value);
          }
          calls.character(value instanceof Character c ? c : (int) value);
        }

        @Override
        @Nullable Object take(Session session, Value value) {
          return readValue(value);
        }
      };

  Char(Session session) {
    super(session);
  }

  private static @Nullable Object readValue(Value value) {
    return value.tag == Tables.TAG_CHAR ? (Object) (int) value.word : Type.MISMATCH;
  }

  @Override
  @Nullable Object read(Value value) {
    return readValue(value);
  }

  /** Returns the test if both are equal, at the server. */
  public Bool eq(int other) {
    return begin(Tables.OP_CALL, session.stubs().operator(Tables.OPERATOR_CHAR_EQUAL), 1)
        .addChar(other)
        .to(Bool.TYPE);
  }

  /** Returns the test if both are equal, at the server. */
  public Bool eq(Char other) {
    return begin(Tables.OP_CALL, session.stubs().operator(Tables.OPERATOR_CHAR_EQUAL), 1)
        .add(other)
        .to(Bool.TYPE);
  }

  /** Returns the test if both are not equal, at the server. */
  public Bool ne(int other) {
    return eq(other).not();
  }

  /** Returns the test if both are not equal, at the server. */
  public Bool ne(Char other) {
    return eq(other).not();
  }
}
