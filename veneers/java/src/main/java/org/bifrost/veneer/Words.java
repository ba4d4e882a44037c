package org.bifrost.veneer;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/** A buffer of words, to which commands are appended. It grows by doubling. */
final class Words {
  private static final VarHandle LONG =
      MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);

  /** The bytes; those behind {@link #length} are none of the buffer. */
  byte[] bytes;

  /** The number of bytes. */
  int length;

  Words(int capacity) {
    bytes = new byte[capacity];
  }

  /** Returns the first word of a command: its code, 24 bits of counts, tags or flags, a number. */
  static long head(int code, int flags, int number) {
    return code | (long) (flags & 0xffffff) << 8 | (long) number << 32;
  }

  /** Returns a word of two halves. */
  static long pair(int low, int high) {
    return (low & 0xffffffffL) | (long) high << 32;
  }

  /** Returns the number of bytes of the words that have so many tags. */
  static int tagBytes(int count) {
    return (count + 15) / 16 * 8;
  }

  /** Reads a word. */
  static long wordAt(byte[] from, int at) {
    return (long) LONG.get(from, at);
  }

  /** Writes a word. */
  static void setWordAt(byte[] into, int at, long word) {
    LONG.set(into, at, word);
  }

  private void room(int count) {
    int needed = Math.addExact(length, count);
    if (needed > bytes.length) {
      long doubled = Math.min(2L * bytes.length, Integer.MAX_VALUE - 8);
      bytes = Arrays.copyOf(bytes, (int) Math.max(needed, doubled));
    }
  }

  /** Appends a word. */
  Words word(long word) {
    if (length + 8 > bytes.length) {
      room(8);
    }
    LONG.set(bytes, length, word);
    length += 8;
    return this;
  }

  /** Appends bytes. */
  Words raw(byte[] from, int start, int end) {
    room(end - start);
    System.arraycopy(from, start, bytes, length, end - start);
    length += end - start;
    return this;
  }

  /** Appends zeros. */
  Words zeros(int count) {
    room(count);
    Arrays.fill(bytes, length, length + count, (byte) 0);
    length += count;
    return this;
  }

  /** Appends a byte string: its length, its bytes, zeros up to a whole word. */
  Words bytes(byte[] from) {
    word(from.length);
    raw(from, 0, from.length);
    return zeros(-from.length & 7);
  }

  /** Appends a text, which is to be well-formed. */
  Words text(String text) {
    int count = text.length();
    // A text of ASCII is copied without a copy in between.
    room(8 + count + 8);
    int at = length + 8;
    for (int index = 0; index < count; index++) {
      char c = text.charAt(index);
      if (c >= 0x80) {
        return bytes(text.getBytes(StandardCharsets.UTF_8));
      }
      bytes[at + index] = (byte) c;
    }
    word(count);
    length += count;
    return zeros(-count & 7);
  }

  /** Appends a value, whose tag stands elsewhere. */
  Words value(Value value) {
    return switch (value.tag) {
      case Tables.TAG_STRING -> text(value.string());
      case Tables.TAG_BYTES, Tables.TAG_COMPOUND -> bytes(value.raw());
      default -> word(value.word);
    };
  }

  /** Writes the tag of four bits with this index into the tags at a place, which are zero. */
  void setTag(int at, int index, int tag) {
    bytes[at + index / 2] |= (byte) (tag << 4 * (index % 2));
  }

  /**
   * Appends the front of a compound with room for the tags of its items. The caller appends the
   * items, sets their tags from the returned place on, and calls {@link #endItems}.
   */
  int beginItems(int type, int count) {
    word(0);
    word(pair(type, count));
    int tagsAt = length;
    zeros(tagBytes(count));
    return tagsAt;
  }

  /** Writes the length of a compound that has all its items, by the place of its tags. */
  void endItems(int tagsAt) {
    LONG.set(bytes, tagsAt - 16, (long) (length - tagsAt + 8));
  }

  /** Appends {@code hello}. Without a trace context it has no flags. */
  Words hello(byte[] digest, String token, String client, String trace, int version) {
    boolean isTraced = !trace.isEmpty();
    word(Tables.MAGIC);
    word(pair(version, isTraced ? Tables.HELLO_TRACED : 0));
    raw(digest, 0, digest.length);
    text(token);
    text(client);
    return isTraced ? text(trace) : this;
  }

  /** Returns a copy of the bytes. */
  byte[] copy() {
    return Arrays.copyOf(bytes, length);
  }

  /** Returns true for a text without half a pair of surrogates: it can be written as UTF-8. */
  static boolean isText(String text) {
    int index = 0;
    while (index < text.length()) {
      char c = text.charAt(index);
      boolean isPair =
          Character.isHighSurrogate(c)
              && index + 1 < text.length()
              && Character.isLowSurrogate(text.charAt(index + 1));
      if (Character.isSurrogate(c) && !isPair) {
        return false;
      }
      index += isPair ? 2 : 1;
    }
    return true;
  }

  /** Returns true for a Unicode scalar value. */
  static boolean isScalar(long code) {
    return code >= 0 && code <= Character.MAX_CODE_POINT && (code < 0xd800 || code > 0xdfff);
  }
}
