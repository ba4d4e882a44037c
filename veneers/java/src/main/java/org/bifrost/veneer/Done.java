package org.bifrost.veneer;

import org.jspecify.annotations.Nullable;

/** The outcome of a call without results. It crosses only if it is claimed. */
public final class Done extends Promise<@Nullable Void> {
  /** The type. */
  public static final Type<Done> TYPE =
      new Type.OfValue<>("null", 0, Done::new) {
        @Override
        void putValue(Calls calls, @Nullable Object value) {
          Nil.TYPE.put(calls, value);
        }

        @Override
        @Nullable Object take(Session session, Value value) {
          return null;
        }
      };

  Done(Session session) {
    super(session);
    isWanted = false;
  }

  @Override
  @Nullable Object read(Value value) {
    return null;
  }
}
