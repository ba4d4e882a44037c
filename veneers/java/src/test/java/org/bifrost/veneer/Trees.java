package org.bifrost.veneer;

import com.google.gson.stream.JsonReader;
import java.io.IOException;
import java.io.StringReader;
import java.io.UncheckedIOException;
import java.math.BigInteger;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;

/** Trees of JSON: maps, lists, texts, booleans, null, and numbers as {@link BigInteger}. */
final class Trees {
  static final Path ROOT = Path.of("../..");
  static final Path VECTORS = ROOT.resolve("vectors");

  private Trees() {}

  static String read(Path file) {
    try {
      return Files.readString(file);
    } catch (IOException failed) {
      throw new UncheckedIOException(failed);
    }
  }

  static List<Path> files(Path folder, String ending) {
    try (Stream<Path> files = Files.list(folder)) {
      return files.filter(file -> file.toString().endsWith(ending)).sorted().toList();
    } catch (IOException failed) {
      throw new UncheckedIOException(failed);
    }
  }

  static Object parse(String text) {
    try (JsonReader reader = new JsonReader(new StringReader(text))) {
      return value(reader);
    } catch (IOException failed) {
      throw new UncheckedIOException(failed);
    }
  }

  private static Object value(JsonReader reader) throws IOException {
    switch (reader.peek()) {
      case BEGIN_OBJECT:
        Map<String, Object> object = new LinkedHashMap<>();
        reader.beginObject();
        while (reader.hasNext()) {
          object.put(reader.nextName(), value(reader));
        }
        reader.endObject();
        return object;
      case BEGIN_ARRAY:
        List<Object> list = new ArrayList<>();
        reader.beginArray();
        while (reader.hasNext()) {
          list.add(value(reader));
        }
        reader.endArray();
        return list;
      case NULL:
        reader.nextNull();
        return null;
      case BOOLEAN:
        return reader.nextBoolean();
      case NUMBER:
        return new BigInteger(reader.nextString());
      default:
        return reader.nextString();
    }
  }

  /** Returns a map of keys and values in turn. */
  static Map<String, Object> tree(Object... parts) {
    Map<String, Object> made = new LinkedHashMap<>();
    for (int index = 0; index < parts.length; index += 2) {
      made.put((String) parts[index], parts[index + 1]);
    }
    return made;
  }

  /** Returns data as {@link #parse} would have it. */
  static Object plain(Object data) {
    if (data instanceof Map<?, ?> map) {
      Map<String, Object> made = new LinkedHashMap<>();
      map.forEach((key, part) -> made.put((String) key, plain(part)));
      return made;
    }
    if (data instanceof List<?> list) {
      List<Object> made = new ArrayList<>();
      list.forEach(part -> made.add(plain(part)));
      return made;
    }
    if (data instanceof Integer || data instanceof Long) {
      return BigInteger.valueOf(((Number) data).longValue());
    }
    return data;
  }

  /** Returns an unsigned number of 64 bits. */
  static BigInteger unsigned(long number) {
    return new BigInteger(Long.toUnsignedString(number));
  }

  /** Returns an unsigned number of 32 bits. */
  static long unsigned(int number) {
    return number & 0xffffffffL;
  }

  /** Returns the 64 bits of a number; 0 for null. */
  static long number(Object part) {
    return part == null ? 0 : ((BigInteger) part).longValue();
  }

  /** Returns a number of 32 bits; NO_NUMBER for null. */
  static int number32(Object part) {
    return part == null ? Tables.NO_NUMBER : (int) number(part);
  }

  @SuppressWarnings("unchecked")
  static Map<String, Object> map(Object part) {
    return (Map<String, Object>) part;
  }

  @SuppressWarnings("unchecked")
  static List<Object> list(Object part) {
    return part == null ? List.of() : (List<Object>) part;
  }

  static String text(Object part) {
    return part == null ? "" : (String) part;
  }

  static boolean isMap(Object part) {
    return part instanceof Map;
  }

  /** Returns the entry of an object that has one. */
  static Map.Entry<String, Object> only(Object part) {
    Map<String, Object> object = map(part);
    if (object.size() != 1) {
      throw new IllegalArgumentException("not one entry: " + object);
    }
    return object.entrySet().iterator().next();
  }

  /** Returns bytes in hexadecimal digits, with a space after each word. */
  static String hexed(byte[] bytes) {
    List<String> words = new ArrayList<>();
    for (int at = 0; at < bytes.length; at += 8) {
      words.add(HexFormat.of().formatHex(bytes, at, Math.min(at + 8, bytes.length)));
    }
    return String.join(" ", words);
  }

  static byte[] unhexed(Object digits) {
    return HexFormat.of().parseHex(((String) digits).replace(" ", ""));
  }

  static byte[] joined(List<byte[]> pieces) {
    Words all = new Words(64);
    pieces.forEach(piece -> all.raw(piece, 0, piece.length));
    return all.copy();
  }
}
