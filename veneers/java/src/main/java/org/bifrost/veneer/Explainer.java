package org.bifrost.veneer;

import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * The writer of commands as lines of the text form, for people who ask what was recorded.
 *
 * <p>A result is named by its place in its batch, as in {@code @2 := @1.fetch("eve")}, and
 * variables of structures as {@code $x5}. Comments have what the text form has no words for:
 * handles given back, results that are wanted, results of earlier batches ({@code @3^1} is the
 * third of the last one). All languages write the same lines: {@code vectors/explained.json}.
 */
final class Explainer {
  private static final Pattern WORD = Pattern.compile("[A-Za-z][A-Za-z0-9_]*");

  /** The commands that are a word alone. */
  private static final Map<Integer, String> BARE =
      Map.of(
          Tables.OP_WHILE, "while",
          Tables.OP_IF, "if",
          Tables.OP_ELSE, "else",
          Tables.OP_EXCEPT, "except",
          Tables.OP_BREAK, "break",
          Tables.OP_CONTINUE, "continue",
          Tables.OP_DESCRIBE, "describe",
          Tables.OP_BYE, "bye");

  private static final Set<Integer> BEGINS =
      Set.of(Tables.OP_WHILE, Tables.OP_IF, Tables.OP_EXCEPT, Tables.OP_PROCEDURE);
  private static final Set<Integer> MIDDLES =
      Set.of(Tables.OP_DO, Tables.OP_THEN, Tables.OP_ELSE, Tables.OP_WHEN, Tables.OP_OTHERS);
  private static final Set<Integer> ENDS =
      Set.of(
          Tables.OP_END_WHILE,
          Tables.OP_END_IF,
          Tables.OP_END_FOREACH,
          Tables.OP_END_EXCEPT,
          Tables.OP_END_PROCEDURE);

  private static final int NO_TYPE = -1;

  private final Interface names;

  /** The names of the session's procedures, by number. */
  private final List<String> procedures;

  /** The number of results of the batch so far, of which some are variables. */
  int futures;

  private final Set<Integer> variables = new HashSet<>();

  /** The number of open blocks. */
  private int depth;

  /** True if the next call is that of a foreach. */
  private boolean isLoop;

  Explainer(Interface names, List<String> procedures) {
    this.names = names;
    this.procedures = new ArrayList<>(procedures);
  }

  /**
   * Returns the lines of commands.
   *
   * @throws IllegalArgumentException if the bytes are no whole commands
   */
  String lines(byte[] bytes) {
    StringBuilder out = new StringBuilder();
    int at = 0;
    while (at < bytes.length) {
      Reader reader = new Reader(bytes, at, bytes.length, bytes.length);
      try {
        out.append(line(reader));
      } catch (MalformedException | IncompleteException bad) {
        throw new IllegalArgumentException("no command at byte " + at, bad);
      }
      at = reader.at;
    }
    return out.toString();
  }

  /** Returns the line of the next command; none for foreach, which is a part of the next line. */
  private String line(Reader r) throws MalformedException, IncompleteException {
    long word = r.word();
    int code = (int) word & 0xff;
    if (code == Tables.OP_FOREACH) {
      isLoop = true;
      return "";
    }
    boolean begins = isLoop || BEGINS.contains(code);
    boolean isMiddle = MIDDLES.contains(code);
    boolean isEnd = ENDS.contains(code);
    // Markers of blocks stand at the depth of their structure.
    if (isMiddle || isEnd) {
      depth = Math.max(depth - 1, 0);
    }
    String indent = "  ".repeat(depth);
    String text = isEnd ? "end" : command(r, word);
    if (isMiddle || begins) {
      depth++;
    }
    return indent + text + "\n";
  }

  private String command(Reader r, long word) throws MalformedException, IncompleteException {
    int code = (int) word & 0xff;
    int flags = (int) (word >>> 8) & 0xffffff;
    int number = (int) (word >>> 32);
    String bare = BARE.get(code);
    if (bare != null) {
      return bare;
    }
    return switch (code) {
      case Tables.OP_COMMIT -> made(1, "commit");
      case Tables.OP_ABORT -> made(1, "abort");
      case Tables.OP_HISTORY -> flags == Tables.HISTORY_CLEAR ? "clear" : "history";
      case Tables.OP_CALL, Tables.OP_SEND -> method(r, code, word, number);
      case Tables.OP_CALL_ROUTINE -> {
        List<Value> parts = arguments(r, word);
        if (number < 0 || number >= names.routines.size()) {
          yield made(1, "? # routine " + Integer.toUnsignedString(number) + " is none");
        }
        Interface.Heading found = names.routines.get(number);
        yield made(resultsOf(found), call(found.name(), found, parts));
      }
      case Tables.OP_CALL_PROCEDURE -> {
        boolean isKnown = number >= 0 && number < procedures.size();
        String name = isKnown ? procedures.get(number) : "?";
        yield made(1, call(name, null, arguments(r, word)));
      }
      case Tables.OP_LOOKUP -> {
        String text = r.text();
        String name = WORD.matcher(text).matches() ? text : quoted(text, '"');
        String type = number == Tables.NO_NUMBER ? "" : ": " + names.typeName(number);
        yield made(1, "lookup " + name + type);
      }
      case Tables.OP_CONSTANT -> made(1, constant(operand(r, flags & 0xff)));
      case Tables.OP_CELL -> made(1, "cell " + names.typeName(number));
      case Tables.OP_ROWS -> made(1, "rows " + String.join(", ", typeNames(r, flags)));
      case Tables.OP_EMIT -> {
        List<String> parts = new ArrayList<>();
        parts.add(reference(r.word()));
        arguments(r, word).forEach(value -> parts.add(argument(value, NO_TYPE)));
        futures++;
        yield "emit " + String.join(", ", parts);
      }
      case Tables.OP_AS -> made(1, reference(r.word()) + " as " + names.typeName(number));
      case Tables.OP_IS -> made(1, reference(r.word()) + " is " + names.typeName(number));
      case Tables.OP_GET -> made(1, "get " + reference(r.word()));
      default -> marker(r, code, flags, number);
    };
  }

  private String method(Reader r, int code, long word, int number)
      throws MalformedException, IncompleteException {
    String receiver = reference(r.word());
    List<Value> parts = arguments(r, word);
    Interface.Heading found = names.method(number);
    String shown = Integer.toUnsignedString(number);
    if (code == Tables.OP_SEND) {
      futures++;
      return found == null
          ? "# send of method " + shown + ", which is none"
          : "send " + receiver + "." + call(found.name(), found, parts);
    }
    return found == null
        ? made(1, receiver + ".? # method " + shown + " is none")
        : made(resultsOf(found), receiver + "." + call(found.name(), found, parts));
  }

  private String marker(Reader r, int code, int flags, int number)
      throws MalformedException, IncompleteException {
    return switch (code) {
      case Tables.OP_HELLO -> {
        long first = r.word();
        r.skip(Stubs.DIGEST_BYTES);
        // The token is a secret.
        r.bytes();
        String client = r.text();
        if (first >>> 32 == Tables.HELLO_TRACED) {
          r.bytes();
        }
        yield "hello " + (first & 0xffffffffL) + " name " + quoted(client, '"');
      }
      case Tables.OP_FREE -> {
        List<String> handles = new ArrayList<>();
        for (long index = 0; index < (number & 0xffffffffL); index++) {
          handles.add(reference(r.word()));
        }
        yield "# gives back " + String.join(", ", handles);
      }
      case Tables.OP_FLUSH -> flush(r, number);
      case Tables.OP_TRANSACTION -> {
        String text = flags >>> 8 == 0 ? "transaction" : "transaction " + (flags >>> 8);
        if ((flags & 0xff) == Tables.TRANSACTION_NAMED) {
          // The client's bits of the name are a secret.
          r.skip(16);
          text += " # batch " + Long.toUnsignedString(r.word());
        }
        yield made(1, text);
      }
      case Tables.OP_WAIT -> made(1, "wait " + Integer.toUnsignedString(number));
      case Tables.OP_PROFILE -> flags == Tables.PROFILE_ON ? "profile on" : "profile off";
      case Tables.OP_DO -> "do " + reference(r.word());
      case Tables.OP_THEN -> "then " + reference(r.word());
      case Tables.OP_WHEN -> "when " + r.text() + typed(r, flags);
      case Tables.OP_OTHERS -> flags == Tables.OTHERS_NAMED ? "others " + variable() : "others";
      case Tables.OP_PROCEDURE -> {
        String name = r.text();
        if (!procedures.contains(name)) {
          procedures.add(name);
        }
        String text = "procedure " + name + typed(r, flags);
        yield number == Tables.NO_NUMBER ? text : text + " returns " + names.typeName(number);
      }
      case Tables.OP_RETURN ->
          (flags & 0xff) == 0 ? "return" : "return " + argument(operand(r, flags >>> 8), NO_TYPE);
      default -> throw r.wrong(Tables.ERROR_BAD_WORD, "the code of a command");
    };
  }

  private String flush(Reader r, int count) throws IncompleteException {
    List<String> ranges = new ArrayList<>();
    for (long index = 0; index < (count & 0xffffffffL); index++) {
      long word = r.word();
      long first = word & 0xffffffffL;
      long wanted = word >>> 32;
      ranges.add("@" + first + (wanted > 1 ? " to @" + (first + wanted - 1) : ""));
    }
    futures = 0;
    depth = 0;
    variables.clear();
    return ranges.isEmpty() ? "flush" : "flush # wants " + String.join(", ", ranges);
  }

  /** Returns the number of results of a call, at least one. */
  private static int resultsOf(Interface.Heading heading) {
    List<Integer> results = heading.yields() == null ? heading.results() : heading.yields();
    return Math.max(results.size(), 1);
  }

  /** Returns a line that makes so many results, or the head of a loop over them. */
  private String made(int count, String text) {
    List<String> results = new ArrayList<>();
    boolean isHead = isLoop;
    isLoop = false;
    for (int index = 0; index < count; index++) {
      results.add(isHead ? variable() : "@" + ++futures);
    }
    String shown = String.join(", ", results);
    return isHead ? "foreach " + shown + " in " + text + " do" : shown + " := " + text;
  }

  /** Names the next result as a variable. */
  private String variable() {
    variables.add(++futures);
    return "$x" + futures;
  }

  private List<String> typeNames(Reader r, int count) throws IncompleteException {
    List<String> types = new ArrayList<>();
    for (int index = 0; index < count; index++) {
      types.add(names.typeName((int) r.word()));
    }
    return types;
  }

  /** Names variables with their types. */
  private String typed(Reader r, int count) throws IncompleteException {
    List<String> shown = new ArrayList<>();
    typeNames(r, count).forEach(type -> shown.add(variable() + ": " + type));
    return shown.isEmpty() ? "" : " (" + String.join(", ", shown) + ")";
  }

  private static Value operand(Reader r, int tag) throws MalformedException, IncompleteException {
    return tag == Tables.TAG_REF ? Value.object(r.word(), Tables.NO_NUMBER) : r.value(tag, 1);
  }

  /** Reads the arguments of a call, by its first word. */
  private static List<Value> arguments(Reader r, long word)
      throws MalformedException, IncompleteException {
    int count = (int) (word >>> 8) & 0xff;
    int tagsAt = r.skip(Words.tagBytes(Math.max(count - 4, 0)));
    List<Value> values = new ArrayList<>();
    for (int index = 0; index < count; index++) {
      int more = index - 4;
      long tag = index < 4 ? word >>> 16 + 4 * index : r.data[tagsAt + more / 2] >> 4 * (more % 2);
      values.add(operand(r, (int) tag & 15));
    }
    return values;
  }

  private String call(String name, Interface.@Nullable Heading heading, List<Value> values) {
    List<String> parts = new ArrayList<>();
    List<Integer> types = heading == null ? List.of() : heading.params();
    for (int index = 0; index < values.size(); index++) {
      parts.add(argument(values.get(index), index < types.size() ? types.get(index) : NO_TYPE));
    }
    return name + "(" + String.join(", ", parts) + ")";
  }

  private String reference(long reference) {
    // Zero stands for a stub whose call was refused or has failed.
    if (reference >= 0) {
      return reference == 0 ? "@0" : "h" + reference;
    }
    int position = (int) -reference;
    long back = -reference >> 32;
    if (back > 0) {
      return "@" + Integer.toUnsignedString(position) + "^" + back;
    }
    return (variables.contains(position) ? "$x" : "@") + Integer.toUnsignedString(position);
  }

  private String constant(Value value) {
    if (!value.isCompound()) {
      return shown(value);
    }
    int type = value.compoundType();
    return "value " + names.typeName(type) + " " + compound(value, type);
  }

  /** Returns an argument for a place of a type. */
  private String argument(Value value, int place) {
    if (value.tag == Tables.TAG_REF) {
      return reference(value.word);
    }
    return value.isCompound() ? compound(value, place) : shown(value);
  }

  /** Returns a compound of its own type, or else of that of its place. */
  private String compound(Value value, int place) {
    int own = value.compoundType();
    int number = own >= 0 && own < names.types.size() ? own : place;
    boolean isKnown = number >= 0 && number < names.types.size();
    Interface.TypeEntry of = isKnown ? names.types.get(number) : null;
    List<Value> items = value.items();
    String kind = of == null ? "" : of.kind();
    boolean isChoice = kind.equals("oneof") || kind.equals("maybe");
    if (isChoice && items.size() == 2 && items.get(0).tag == Tables.TAG_INT) {
      return "{" + labelled(of, items.get(0).word, items.get(1)) + "}";
    }
    boolean hasFields = kind.equals("record") || kind.equals("struct");
    List<String> texts = new ArrayList<>();
    for (int at = 0; at < items.size(); at++) {
      texts.add(
          hasFields
              ? labelled(of, at, items.get(at))
              : argument(items.get(at), of == null ? NO_TYPE : of.element()));
    }
    return "{" + String.join(", ", texts) + "}";
  }

  private String labelled(Interface.@Nullable TypeEntry of, long at, Value item) {
    if (of == null || at < 0 || at >= of.fields().size()) {
      return argument(item, NO_TYPE);
    }
    return of.fieldNames().get((int) at) + ": " + argument(item, of.fields().get((int) at));
  }

  /** Returns a value as the text form reads it. */
  static String shown(Value value) {
    return switch (value.tag) {
      case Tables.TAG_BOOL -> value.word == 0 ? "false" : "true";
      case Tables.TAG_INT -> Long.toString(value.word);
      case Tables.TAG_REAL -> real(Double.longBitsToDouble(value.word));
      case Tables.TAG_CHAR -> quoted(Character.toString((int) value.word), '\'');
      case Tables.TAG_STRING -> quoted(value.string(), '"');
      case Tables.TAG_BYTES -> "x\"" + HexFormat.of().formatHex(value.raw()) + '"';
      default -> "nil";
    };
  }

  /** Returns a real in the shortest digits that read back as it. */
  static String real(double real) {
    if (Double.isNaN(real)) {
      return "NaN";
    } else if (Double.isInfinite(real)) {
      return real > 0 ? "inf" : "-inf";
    } else if (real == 0) {
      return 1 / real < 0 ? "-0.0" : "0.0";
    }
    BigDecimal shortest = shortest(real).stripTrailingZeros();
    int exponent = shortest.precision() - shortest.scale() - 1;
    if (exponent < -4 || exponent >= 16) {
      String digits = shortest.unscaledValue().abs().toString();
      String fraction = digits.length() > 1 ? "." + digits.substring(1) : "";
      return (real < 0 ? "-" : "") + digits.charAt(0) + fraction + "e" + exponent;
    }
    String plain = shortest.toPlainString();
    return plain.contains(".") ? plain : plain + ".0";
  }

  private static BigDecimal shortest(double real) {
    for (int digits = 1; digits < 17; digits++) {
      String text = String.format(Locale.ROOT, "%." + (digits - 1) + "e", real);
      if (Double.parseDouble(text) == real) {
        return new BigDecimal(text);
      }
    }
    return new BigDecimal(String.format(Locale.ROOT, "%.16e", real));
  }

  /** Returns a text in quotes, without characters that could move the cursor of a terminal. */
  static String quoted(String text, char quote) {
    StringBuilder out = new StringBuilder().append(quote);
    text.codePoints()
        .forEach(
            c -> {
              int place = "\n\t\r".indexOf(c);
              if (place >= 0) {
                out.append('\\').append("ntr".charAt(place));
              } else if (c == '\\' || c == quote) {
                out.append('\\').appendCodePoint(c);
              } else if (Character.getType(c) == Character.CONTROL) {
                out.append("\\u{").append(Integer.toHexString(c)).append('}');
              } else {
                out.appendCodePoint(c);
              }
            });
    return out.append(quote).toString();
  }
}
