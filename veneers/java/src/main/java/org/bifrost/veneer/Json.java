package org.bifrost.veneer;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * A reader of JSON, for interface descriptions. Objects are maps, arrays lists, numbers longs or
 * doubles. The depth of nesting is bounded.
 */
final class Json {
  /** The deepest nesting. */
  static final int DEPTH_MAX = 200;

  private final String text;
  private int at;

  private Json(String text) {
    this.text = text;
  }

  /**
   * Returns the value of a text.
   *
   * @throws IllegalArgumentException if the text is no JSON
   */
  static @Nullable Object parse(String text) {
    Json json = new Json(text);
    Object value = json.value(0);
    json.space();
    if (json.at < text.length()) {
      throw json.wrong("the end");
    }
    return value;
  }

  private IllegalArgumentException wrong(String expected) {
    return new IllegalArgumentException("no JSON: " + expected + " was expected at " + at);
  }

  private void space() {
    while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) {
      at++;
    }
  }

  private boolean take(char c) {
    space();
    if (at < text.length() && text.charAt(at) == c) {
      at++;
      return true;
    }
    return false;
  }

  private void need(char c) {
    if (!take(c)) {
      throw wrong("`" + c + "`");
    }
  }

  private @Nullable Object value(int depth) {
    if (depth > DEPTH_MAX) {
      throw wrong("no deeper nesting");
    }
    space();
    if (take('{')) {
      return object(depth);
    }
    if (take('[')) {
      List<@Nullable Object> list = new ArrayList<>();
      if (!take(']')) {
        do {
          list.add(value(depth + 1));
        } while (take(','));
        need(']');
      }
      return list;
    }
    if (take('"')) {
      return string();
    }
    for (String word : List.of("null", "true", "false")) {
      if (text.startsWith(word, at)) {
        at += word.length();
        return word.equals("null") ? null : (Object) word.equals("true");
      }
    }
    return number();
  }

  private Object object(int depth) {
    Map<String, @Nullable Object> object = new LinkedHashMap<>();
    if (!take('}')) {
      do {
        need('"');
        String name = string();
        need(':');
        object.put(name, value(depth + 1));
      } while (take(','));
      need('}');
    }
    return object;
  }

  private Object number() {
    int start = at;
    while (at < text.length() && "+-.0123456789eE".indexOf(text.charAt(at)) >= 0) {
      at++;
    }
    String digits = text.substring(start, at);
    try {
      return digits.matches("-?(0|[1-9][0-9]*)")
          ? (Object) Long.parseLong(digits)
          : (Object) Double.parseDouble(digits);
    } catch (NumberFormatException bad) {
      at = start;
      throw wrong("a value");
    }
  }

  private String string() {
    StringBuilder out = new StringBuilder();
    while (at < text.length()) {
      char c = text.charAt(at++);
      if (c == '"') {
        return out.toString();
      }
      if (c < ' ') {
        break;
      }
      out.append(c == '\\' ? escape() : c);
    }
    throw wrong("the end of a string");
  }

  private char escape() {
    if (at == text.length()) {
      throw wrong("an escape");
    }
    char c = text.charAt(at++);
    int place = "\"\\/bfnrt".indexOf(c);
    if (place >= 0) {
      return "\"\\/\b\f\n\r\t".charAt(place);
    }
    if (c != 'u' || at + 4 > text.length()) {
      throw wrong("an escape");
    }
    int code = 0;
    for (int index = 0; index < 4; index++) {
      int digit = Character.digit(text.charAt(at++), 16);
      if (digit < 0) {
        throw wrong("a hexadecimal digit");
      }
      code = code * 16 + digit;
    }
    return (char) code;
  }
}
