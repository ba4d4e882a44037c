package org.bifrost.veneer;

import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/** A promise of a truth value. */
public final class Bool extends Promise<Boolean> {
  /** The type. */
  public static final Type<Bool> TYPE =
      new Type.OfValue<>("bool", 1, Bool::new) {
        @Override
        void putValue(Calls calls, @Nullable Object value) {
          if (!(value instanceof Boolean bool)) {
            throw wrong(value);
          }
          calls.word(Tables.TAG_BOOL, bool ? 1 : 0);
        }

        @Override
        @Nullable Object take(Session session, Value value) {
          return readValue(value);
        }
      };

  Bool(Session session) {
    super(session);
  }

  private static @Nullable Object readValue(Value value) {
    return value.tag == Tables.TAG_BOOL ? (Object) (value.word == 1) : Type.MISMATCH;
  }

  @Override
  @Nullable Object read(Value value) {
    return readValue(value);
  }

  /** Returns the negation. */
  public Bool not() {
    return begin(Tables.OP_CALL, session.stubs().operator(Tables.OPERATOR_BOOL_NOT), 0)
        .to(Bool.TYPE);
  }

  /** Returns the test if both are equal, at the server. */
  public Bool eq(boolean other) {
    return begin(Tables.OP_CALL, session.stubs().operator(Tables.OPERATOR_BOOL_EQUAL), 1)
        .add(other)
        .to(Bool.TYPE);
  }

  /** Returns the test if both are equal, at the server. */
  public Bool eq(Bool other) {
    return begin(Tables.OP_CALL, session.stubs().operator(Tables.OPERATOR_BOOL_EQUAL), 1)
        .add(other)
        .to(Bool.TYPE);
  }

  /** Returns the test if both are not equal, at the server. */
  public Bool ne(boolean other) {
    return eq(other).not();
  }

  /** Returns the test if both are not equal, at the server. */
  public Bool ne(Bool other) {
    return eq(other).not();
  }

  /** Returns true if both hold. The other is computed at the server, and only if this one holds. */
  public Bool and(Supplier<Bool> other) {
    return decide(this, other);
  }

  /**
   * Returns true if either holds. The other is computed at the server, and only if this one does
   * not hold.
   */
  public Bool or(Supplier<Bool> other) {
    return decide(not(), other);
  }

  private Bool decide(Bool test, Supplier<Bool> other) {
    Cell<Bool> result = session.cell(TYPE, this);
    session.if_(test, () -> result.put(other.get()));
    return result.get();
  }
}
