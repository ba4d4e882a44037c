package org.bifrost.veneer;

import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;

/** A reader of one message, from the front. No byte is trusted. */
final class Reader {
  private static final String ALLOWED = "a word that its tag allows";
  private static final String LENGTH_LIMIT = "a command within the length limit";

  final byte[] data;

  /** The place of the next word. */
  int at;

  /** The place behind the bytes that are there. */
  final int end;

  /** The greatest place that a length may reach. */
  private final int limit;

  Reader(byte[] data, int at, int end, int limit) {
    this.data = data;
    this.at = at;
    this.end = end;
    this.limit = limit;
  }

  /** Returns the error of the word that was read last. */
  MalformedException wrong(int number, String expected) {
    return new MalformedException(number, Math.max(at - 8, 0), expected);
  }

  /** Refuses the bytes unless a condition holds. */
  void check(boolean holds, String expected) throws MalformedException {
    if (!holds) {
      throw wrong(Tables.ERROR_BAD_WORD, expected);
    }
  }

  /** Returns the next word. */
  long word() throws IncompleteException {
    if (at + 8 > end) {
      throw new IncompleteException(at + 8);
    }
    long word = Words.wordAt(data, at);
    at += 8;
    return word;
  }

  /**
   * Passes over bytes, and returns the place of the first. A length beyond the limit is refused
   * before the bytes are there.
   */
  int skip(long length) throws MalformedException, IncompleteException {
    if (at > limit || length < 0 || length > limit - at) {
      throw wrong(Tables.ERROR_FRAME_TOO_LONG, LENGTH_LIMIT);
    }
    int start = at;
    if (start + (int) length > end) {
      throw new IncompleteException(start + (int) length);
    }
    at = start + (int) length;
    return start;
  }

  /** Passes over a byte string; returns its length. It ends at {@link #at}, without its zeros. */
  private int string() throws MalformedException, IncompleteException {
    long length = word();
    if (length < 0 || length > Long.MAX_VALUE - 7) {
      throw wrong(Tables.ERROR_FRAME_TOO_LONG, LENGTH_LIMIT);
    }
    int start = skip(length + 7 & ~7L);
    for (int index = start + (int) length; index < at; index++) {
      check(data[index] == 0, "zeros after a string");
    }
    return (int) length;
  }

  /** Returns a byte string. */
  byte[] bytes() throws MalformedException, IncompleteException {
    int length = string();
    byte[] bytes = new byte[length];
    System.arraycopy(data, at - (length + 7 & ~7), bytes, 0, length);
    return bytes;
  }

  /** Returns a text. */
  String text() throws MalformedException, IncompleteException {
    int length = string();
    return decode(at - (length + 7 & ~7), length);
  }

  private String decode(int start, int length) throws MalformedException {
    for (int index = start; index < start + length; index++) {
      if (data[index] < 0) {
        try {
          ByteBuffer bytes = ByteBuffer.wrap(data, start, length);
          return StandardCharsets.UTF_8.newDecoder().decode(bytes).toString();
        } catch (CharacterCodingException bad) {
          throw wrong(Tables.ERROR_BAD_TEXT, "a string in UTF-8");
        }
      }
    }
    return new String(data, start, length, StandardCharsets.ISO_8859_1);
  }

  /** Returns the word, string, bytes or compound that a tag announces. References have no value. */
  Value value(int tag, int depth) throws MalformedException, IncompleteException {
    switch (tag) {
      case Tables.TAG_STRING:
        return Value.ofData(tag, text());
      case Tables.TAG_BYTES:
        return Value.ofData(tag, bytes());
      case Tables.TAG_COMPOUND:
        return Value.ofData(tag, compound(depth));
      default:
        break;
    }
    long word = word();
    switch (tag) {
      case Tables.TAG_INT, Tables.TAG_REAL -> {}
      case Tables.TAG_NIL -> check(word == 0, ALLOWED);
      case Tables.TAG_BOOL -> check(word == 0 || word == 1, ALLOWED);
      case Tables.TAG_CHAR -> check(Words.isScalar(word), ALLOWED);
      default -> throw wrong(Tables.ERROR_BAD_WORD, "a tag");
    }
    return Value.ofWord(tag, word);
  }

  /** Reads and checks a compound; returns the bytes behind its length. */
  private byte[] compound(int depth) throws MalformedException, IncompleteException {
    check(depth <= Tables.COMPOUND_DEPTH_MAX, "compounds that nest at most 64 levels deep");
    long length = word();
    check(length % 8 == 0 && length != 0, "a length in whole words");
    int start = skip(length);
    byte[] bytes = new byte[(int) length];
    System.arraycopy(data, start, bytes, 0, bytes.length);
    Reader inner = new Reader(bytes, 0, bytes.length, bytes.length);
    try {
      inner.checkCompound(depth);
    } catch (IncompleteException isShort) {
      throw wrong(Tables.ERROR_BAD_WORD, "a compound of the length in its first word");
    }
    check(inner.at == bytes.length, "a compound no longer than its items");
    return bytes;
  }

  /** Checks the tags and the items of a compound. */
  private void checkCompound(int depth) throws MalformedException, IncompleteException {
    long count = word() >>> 32;
    int tagsAt = skip((count + 15) / 16 * 8);
    int last = (int) (count % 16);
    if (last != 0) {
      check(Words.wordAt(data, at - 8) >>> 4 * last == 0, "no tags beyond the items");
    }
    for (int index = 0; index < count; index++) {
      int tag = data[tagsAt + index / 2] >> 4 * (index % 2) & 15;
      switch (tag) {
        case Tables.TAG_REF -> word();
        case Tables.TAG_COMPOUND -> compound(depth + 1);
        default -> value(tag, 1);
      }
    }
  }
}
