package org.bifrost.veneer;

import org.jspecify.annotations.Nullable;

/** A promise of a byte string. */
public final class Bytes extends Promise<byte[]> {
  /** The type. */
  public static final Type<Bytes> TYPE =
      new Type.OfValue<>("bytes", -1, Bytes::new) {
        @Override
        int[] numbersIn(Stubs stubs) {
          return stubs.builtin(Tables.BUILTIN_BYTES);
        }

        @Override
        void putValue(Calls calls, @Nullable Object value) {
          if (!(value instanceof byte[] bytes)) {
            throw wrong(value);
          }
          calls.bytes(bytes);
        }

        @Override
        @Nullable Object take(Session session, Value value) {
          return value.tag == Tables.TAG_BYTES ? value.bytes() : MISMATCH;
        }
      };

  Bytes(Session session) {
    super(session);
  }

  @Override
  @Nullable Object read(Value value) {
    return TYPE.take(session, value);
  }

  private Call call(int method, int count) {
    int first = session.stubs().builtin(Tables.BUILTIN_BYTES)[5];
    int number = first == Tables.NO_NUMBER ? first : first + method;
    return begin(Tables.OP_CALL, number, count);
  }

  /** Returns its number of bytes. */
  public Int length() {
    return call(0, 0).to(Int.TYPE);
  }

  /** Returns the byte at a place, from 1; the server signals {@code bounds}. */
  public Int fetch(long at) {
    return call(1, 1).add(at).to(Int.TYPE);
  }

  /** Returns the byte at a place, from 1; the server signals {@code bounds}. */
  public Int fetch(Int at) {
    return call(1, 1).add(at).to(Int.TYPE);
  }

  /** Returns these bytes with others behind them. */
  public Bytes concat(byte[] other) {
    return call(2, 1).add(other).to(TYPE);
  }

  /** Returns these bytes with others behind them. */
  public Bytes concat(Bytes other) {
    return call(2, 1).add(other).to(TYPE);
  }

  /** Returns some bytes from a place on; the server signals {@code bounds}. */
  public Bytes slice(long at, long count) {
    return call(3, 2).add(at).add(count).to(TYPE);
  }

  /** Returns the text in UTF-8 that the bytes are; the server signals {@code bad_format}. */
  public Str toText() {
    return call(4, 0).to(Str.TYPE);
  }

  /** Returns the test if both are equal, at the server. */
  public Bool eq(byte[] other) {
    return call(5, 1).add(other).to(Bool.TYPE);
  }

  /** Returns the test if both are equal, at the server. */
  public Bool eq(Bytes other) {
    return call(5, 1).add(other).to(Bool.TYPE);
  }
}
