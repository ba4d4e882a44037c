package org.bifrost.veneer;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.function.LongConsumer;
import org.jspecify.annotations.Nullable;

/**
 * A value of the wire form: nil, a bool, an int, a real, a char, a string, bytes or a compound; or,
 * among the items of a compound or the values of an exception, an object.
 */
public final class Value {
  private static final Value NIL = new Value(Tables.TAG_NIL, 0, null, Tables.NO_NUMBER);
  private static final Value TRUE = new Value(Tables.TAG_BOOL, 1, null, Tables.NO_NUMBER);
  private static final Value FALSE = new Value(Tables.TAG_BOOL, 0, null, Tables.NO_NUMBER);

  final int tag;

  /** The word of a value that is one, and the number of an object's handle. */
  final long word;

  /** A string; bytes, or those of a compound behind its length; a table. */
  private final @Nullable Object data;

  /** The server's number of an object's type, if it was told. */
  final int type;

  private Value(int tag, long word, @Nullable Object data, int type) {
    this.tag = tag;
    this.word = word;
    this.data = data;
    this.type = type;
  }

  /** Returns the value nil. */
  public static Value nil() {
    return NIL;
  }

  /** Returns a bool. */
  public static Value of(boolean value) {
    return value ? TRUE : FALSE;
  }

  /** Returns an int. */
  public static Value of(long value) {
    return new Value(Tables.TAG_INT, value, null, Tables.NO_NUMBER);
  }

  /** Returns a real. */
  public static Value of(double value) {
    return new Value(Tables.TAG_REAL, Double.doubleToRawLongBits(value), null, Tables.NO_NUMBER);
  }

  /**
   * Returns a string.
   *
   * @throws IllegalArgumentException if the text has half a pair of surrogates
   */
  public static Value of(String text) {
    if (!Words.isText(text)) {
      throw new IllegalArgumentException("a text has half a pair of surrogates");
    }
    return new Value(Tables.TAG_STRING, 0, text, Tables.NO_NUMBER);
  }

  /** Returns a byte string, with a copy of the bytes. */
  public static Value of(byte[] bytes) {
    return new Value(Tables.TAG_BYTES, 0, bytes.clone(), Tables.NO_NUMBER);
  }

  /**
   * Returns a char.
   *
   * @throws IllegalArgumentException if the number is no Unicode scalar value
   */
  public static Value ofChar(int codePoint) {
    if (!Words.isScalar(codePoint)) {
      throw new IllegalArgumentException("a character is a Unicode scalar value");
    }
    return new Value(Tables.TAG_CHAR, codePoint, null, Tables.NO_NUMBER);
  }

  /** Returns the value that stands for an object by its handle. */
  static Value object(long handle, int type) {
    return new Value(Tables.TAG_REF, handle, null, type);
  }

  /** Returns a value of a word with this tag. */
  static Value ofWord(int tag, long word) {
    return new Value(tag, word, null, Tables.NO_NUMBER);
  }

  /** Returns a string, bytes, a compound by the bytes behind its length, or a table. */
  static Value ofData(int tag, Object data) {
    return new Value(tag, 0, data, Tables.NO_NUMBER);
  }

  /** Returns true for nil. */
  public boolean isNil() {
    return tag == Tables.TAG_NIL || tag == Tables.TAG_REF && word == 0;
  }

  /** Returns true for an object. */
  public boolean isObject() {
    return tag == Tables.TAG_REF && word != 0;
  }

  /** Returns true for a value with items. */
  public boolean isCompound() {
    return tag == Tables.TAG_COMPOUND;
  }

  private void check(int wanted, String name) {
    if (tag != wanted) {
      throw new ClassCastException(this + " is no " + name);
    }
  }

  /**
   * Returns the bool.
   *
   * @throws ClassCastException if it is none
   */
  public boolean bool() {
    check(Tables.TAG_BOOL, "bool");
    return word == 1;
  }

  /**
   * Returns the int.
   *
   * @throws ClassCastException if it is none
   */
  public long integer() {
    check(Tables.TAG_INT, "int");
    return word;
  }

  /**
   * Returns the real.
   *
   * @throws ClassCastException if it is none
   */
  public double real() {
    check(Tables.TAG_REAL, "real");
    return Double.longBitsToDouble(word);
  }

  /**
   * Returns the code point of the char.
   *
   * @throws ClassCastException if it is none
   */
  public int codePoint() {
    check(Tables.TAG_CHAR, "char");
    return (int) word;
  }

  /**
   * Returns the string.
   *
   * @throws ClassCastException if it is none
   */
  public String string() {
    check(Tables.TAG_STRING, "string");
    return (String) content();
  }

  /**
   * Returns the byte string.
   *
   * @throws ClassCastException if it is none
   */
  public byte[] bytes() {
    check(Tables.TAG_BYTES, "byte string");
    return raw().clone();
  }

  private Object content() {
    if (data == null) {
      throw new IllegalStateException("a value without its data");
    }
    return data;
  }

  /** Returns the bytes of a byte string or of a compound, which stay those of the value. */
  byte[] raw() {
    return (byte[]) content();
  }

  /** Returns the table. */
  Table table() {
    return (Table) content();
  }

  /** Returns the number of a compound's type. */
  int compoundType() {
    return (int) Words.wordAt(raw(), 0);
  }

  /**
   * Returns the items of a compound: values, and objects.
   *
   * @throws ClassCastException if it is none
   */
  public List<Value> items() {
    check(Tables.TAG_COMPOUND, "compound");
    byte[] bytes = raw();
    try {
      Reader reader = new Reader(bytes, 0, bytes.length, bytes.length);
      int count = (int) (reader.word() >>> 32);
      int tagsAt = reader.at;
      reader.skip(Words.tagBytes(count));
      List<Value> items = new ArrayList<>(count);
      for (int index = 0; index < count; index++) {
        int itemTag = bytes[tagsAt + index / 2] >> 4 * (index % 2) & 15;
        items.add(
            itemTag == Tables.TAG_REF
                ? object(reader.word(), Tables.NO_NUMBER)
                : reader.value(itemTag, 1));
      }
      return items;
    } catch (MalformedException | IncompleteException impossible) {
      throw new IllegalStateException("a compound that was checked", impossible);
    }
  }

  /** Calls a function with each reference in a compound, at any depth. */
  void eachReference(LongConsumer each) {
    if (tag != Tables.TAG_COMPOUND) {
      return;
    }
    for (Value item : items()) {
      if (item.tag == Tables.TAG_REF) {
        each.accept(item.word);
      } else {
        item.eachReference(each);
      }
    }
  }

  /** Returns true if both are the same value; reals are compared by their bits. */
  @Override
  public boolean equals(@Nullable Object other) {
    if (!(other instanceof Value value) || tag != value.tag || word != value.word) {
      return false;
    }
    if (data instanceof byte[] mine) {
      return value.data instanceof byte[] theirs && Arrays.equals(mine, theirs);
    }
    return data == null ? value.data == null : data.equals(value.data);
  }

  @Override
  public int hashCode() {
    int inner =
        data instanceof byte[] bytes ? Arrays.hashCode(bytes) : data == null ? 0 : data.hashCode();
    return 31 * (31 * tag + Long.hashCode(word)) + inner;
  }

  /** Returns the value as messages show it. */
  @Override
  public String toString() {
    return switch (tag) {
      case Tables.TAG_REF -> word == 0 ? "nil" : "an object";
      case Tables.TAG_BOOL -> word == 1 ? "true" : "false";
      case Tables.TAG_INT -> Long.toString(word);
      case Tables.TAG_REAL -> Explainer.shown(this);
      case Tables.TAG_CHAR -> "'" + Character.toString((int) word) + "'";
      case Tables.TAG_STRING ->
          '"' + ((String) content()).replace("\\", "\\\\").replace("\"", "\\\"") + '"';
      case Tables.TAG_BYTES -> "x\"" + HexFormat.of().formatHex(raw()) + '"';
      case Tables.TAG_COMPOUND -> {
        StringBuilder shown = new StringBuilder("{");
        for (Value item : items()) {
          shown.append(shown.length() > 1 ? ", " : "").append(item);
        }
        yield shown.append('}').toString();
      }
      case Tables.TAG_ROWS -> table().count() + " rows";
      default -> "nil";
    };
  }

  /** A column of a table: the tag of its cells, and the server's number of their type. */
  record Column(int tag, int type) {}

  /** A table of rows: its cells stand row by row. */
  record Table(int count, List<Column> columns, List<Value> cells) {
    /** Calls a function with the handle of each object in the table. */
    void eachHandle(LongConsumer each) {
      for (Value cell : cells) {
        if (cell.tag == Tables.TAG_REF) {
          each.accept(cell.word);
        } else {
          cell.eachReference(each);
        }
      }
    }
  }
}
