package org.bifrost.veneer;

import org.jspecify.annotations.Nullable;

/** A promise of {@code nil}, the one value of the type {@code null}. */
public final class Nil extends Promise<@Nullable Object> {
  /** The type. */
  public static final Type<Nil> TYPE =
      new Type.OfValue<>("null", 0, Nil::new) {
        @Override
        void putValue(Calls calls, @Nullable Object value) {
          if (!(value == null)) {
            throw wrong(value);
          }
          calls.word(Tables.TAG_NIL, 0);
        }

        @Override
        @Nullable Object take(Session session, Value value) {
          return readValue(value);
        }
      };

  Nil(Session session) {
    super(session);
  }

  private static @Nullable Object readValue(Value value) {
    return value.isNil() ? null : Type.MISMATCH;
  }

  @Override
  @Nullable Object read(Value value) {
    return readValue(value);
  }
}
