package org.bifrost.veneer;

import static org.bifrost.veneer.Trees.tree;
import static org.bifrost.veneer.Trees.unsigned;

import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** The reader of commands, in the form of vectors/commands.json. */
final class CommandReader {
  private static final Pattern TRACE =
      Pattern.compile(
          "([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", Pattern.DOTALL);

  private final Reader r;

  private CommandReader(Reader reader) {
    r = reader;
  }

  /** A command, and its length. */
  record Decoded(Object command, int length) {}

  /** Reads the command at the front of bytes. */
  static Decoded decode(byte[] data, int start, int end)
      throws MalformedException, IncompleteException {
    byte[] front = java.util.Arrays.copyOfRange(data, start, end);
    Reader reader = new Reader(front, 0, front.length, Tables.FRAME_BYTES_MAX);
    Object command = new CommandReader(reader).command();
    return new Decoded(command, reader.at);
  }

  /** Reads all commands. */
  static List<Object> decodeAll(byte[] data) {
    List<Object> commands = new ArrayList<>();
    int at = 0;
    while (at < data.length) {
      try {
        Decoded decoded = decode(data, at, data.length);
        commands.add(decoded.command());
        at += decoded.length();
      } catch (MalformedException | IncompleteException bad) {
        throw new IllegalStateException("bytes that are no command", bad);
      }
    }
    return commands;
  }

  private Object part(int tag) throws MalformedException, IncompleteException {
    return tag == Tables.TAG_REF ? tree("ref", r.word()) : Showing.value(r.value(tag, 1));
  }

  private List<Object> arguments(long word) throws MalformedException, IncompleteException {
    int count = (int) (word >>> 8) & 0xff;
    long first = word >>> 16 & 0xffff;
    List<Object> parts = new ArrayList<>();
    if (count == 0) {
      r.check(first == 0, "no tags without arguments");
      return parts;
    }
    r.check(count >= 4 || first >>> 4 * count == 0, "no tags beyond the arguments");
    int words = (Math.max(count - 4, 0) + 15) / 16;
    int tagsAt = r.skip(8L * words);
    int last = (count - 4) % 16;
    if (words > 0 && last != 0) {
      boolean isEnd = Words.wordAt(r.data, r.at - 8) >>> 4 * last == 0;
      r.check(isEnd, "no tags beyond the arguments");
    }
    for (int index = 0; index < count; index++) {
      int more = index - 4;
      long tag = index < 4 ? first >>> 4 * index : r.data[tagsAt + more / 2] >> 4 * (more % 2);
      parts.add(part((int) tag & 15));
    }
    return parts;
  }

  private List<Object> types(int count) throws MalformedException, IncompleteException {
    int start = r.skip(8L * count);
    List<Object> numbers = new ArrayList<>();
    for (int index = 0; index < count; index++) {
      long number = Words.wordAt(r.data, start + 8 * index);
      r.check(number >= 0 && number < 0xffffffffL, "numbers of types");
      numbers.add(number);
    }
    return numbers;
  }

  private Object hello(long word) throws MalformedException, IncompleteException {
    r.check(word == Tables.MAGIC, "the magic word of hello");
    long first = r.word();
    r.check(first >>> 32 <= Tables.HELLO_TRACED, "a version");
    int digestAt = r.skip(32);
    String digest = HexFormat.of().formatHex(r.data, digestAt, digestAt + 32);
    Map<String, Object> hello =
        tree(
            "version", unsigned((int) first),
            "digest", digest,
            "token", r.text(),
            "client", r.text());
    if (first >>> 32 > 0) {
      String trace = trace(r.text());
      r.check(!trace.isEmpty(), "a traceparent of W3C");
      hello.put("trace", trace);
    }
    return tree("hello", hello);
  }

  /** Returns the trace context of a traceparent in the form of version 00; empty for none. */
  private static String trace(String text) {
    Matcher found = TRACE.matcher(text);
    boolean isOne =
        found.matches()
            && !found.group(1).equals("ff")
            && !found.group(2).equals("0".repeat(32))
            && !found.group(3).equals("0".repeat(16))
            && !(found.group(1).equals("00") && found.group(5) != null);
    return isOne ? "00-" + found.group(2) + "-" + found.group(3) + "-" + found.group(4) : "";
  }

  private Object command() throws MalformedException, IncompleteException {
    long word = r.word();
    int code = (int) word & 0xff;
    int flags = (int) (word >>> 8) & 0xffffff;
    int number = (int) (word >>> 32);
    switch (code) {
      case Tables.OP_HELLO:
        return hello(word);
      case Tables.OP_CALL, Tables.OP_SEND:
        long receiver = r.word();
        Object call =
            tree("method", unsigned(number), "receiver", receiver, "args", arguments(word));
        return tree(code == Tables.OP_CALL ? "call" : "send", call);
      case Tables.OP_CALL_ROUTINE:
        return tree("call_routine", tree("routine", unsigned(number), "args", arguments(word)));
      case Tables.OP_CALL_PROCEDURE:
        return tree("call_procedure", tree("procedure", unsigned(number), "args", arguments(word)));
      case Tables.OP_HISTORY:
        r.check(number == 0 && flags <= 1, "a flag");
        return flags == Tables.HISTORY_CLEAR ? "clear_history" : "history";
      default:
        for (Map.Entry<String, Integer> plain : Encoding.PLAIN.entrySet()) {
          if (code == plain.getValue()) {
            r.check(word == code, "zeros after the code");
            return plain.getKey();
          }
        }
        return other(word, code, flags, number);
    }
  }

  private Object other(long word, int code, int flags, int number)
      throws MalformedException, IncompleteException {
    switch (code) {
      case Tables.OP_LOOKUP:
        r.check(flags == 0, "zeros between code and number");
        return tree("lookup", tree("name", r.text(), "expected", Showing.optional(number)));
      case Tables.OP_CONSTANT:
        r.check(number == 0 && flags <= 0xff, "zeros after the tag");
        r.check(flags != Tables.TAG_REF, "the tag of a value");
        return tree("constant", part(flags));
      case Tables.OP_CELL:
        r.check(flags == 0, "zeros between code and number");
        return tree("cell", tree("element", unsigned(number)));
      case Tables.OP_ROWS:
        r.check(number == 0 && flags >= 1 && flags <= 0xff, "a count of columns");
        return tree("rows", tree("columns", types(flags)));
      case Tables.OP_EMIT:
        long rows = r.word();
        List<Object> values = arguments(word);
        r.check(number == 0, "zeros after the tags");
        return tree("emit", tree("rows", rows, "values", values));
      case Tables.OP_AS, Tables.OP_IS:
        r.check(flags == 0, "zeros between code and number");
        Object typed = tree("type", unsigned(number), "object", r.word());
        return tree(code == Tables.OP_AS ? "as" : "is", typed);
      case Tables.OP_GET:
        r.check(word == code, "zeros after the code");
        return tree("get", tree("object", r.word()));
      case Tables.OP_DO, Tables.OP_THEN:
        r.check(word == code, "zeros after the code");
        return tree(code == Tables.OP_DO ? "do" : "then", tree("test", r.word()));
      case Tables.OP_FREE:
        return free(flags, number);
      case Tables.OP_FLUSH:
        return flush(flags, number);
      case Tables.OP_PROFILE:
        r.check(number == 0 && flags <= 1, "a flag");
        return tree("profile", tree("on", flags == Tables.PROFILE_ON));
      case Tables.OP_TRANSACTION:
        return transaction(flags, number);
      case Tables.OP_WAIT:
        r.check(flags == 0, "zeros between code and number");
        return tree("wait", tree("ms", unsigned(number)));
      case Tables.OP_WHEN:
        r.check(number == 0 && flags <= 0xff, "a count");
        return tree("when", tree("name", r.text(), "values", types(flags)));
      case Tables.OP_OTHERS:
        r.check(number == 0 && flags <= 1, "a flag");
        return tree("others", tree("named", flags == Tables.OTHERS_NAMED));
      case Tables.OP_PROCEDURE:
        r.check(flags <= 0xff, "a count");
        return tree(
            "procedure",
            tree("name", r.text(), "params", types(flags), "result", Showing.optional(number)));
      case Tables.OP_RETURN:
        r.check(number == 0, "zeros after the tag");
        if ((flags & 0xff) == 1 && flags >>> 16 == 0) {
          return tree("return", part(flags >>> 8));
        }
        r.check(flags == 0, "a count and a tag");
        return tree("return", null);
      default:
        throw r.wrong(Tables.ERROR_BAD_WORD, "the code of a command");
    }
  }

  private Object free(int flags, int number) throws MalformedException, IncompleteException {
    r.check(flags <= 0xff, "a number of batches");
    int start = r.skip(8 * unsigned(number));
    List<Object> handles = new ArrayList<>();
    for (int at = start; at < r.at; at += 8) {
      handles.add(Words.wordAt(r.data, at));
    }
    return tree(
        "free", flags > 0 ? tree("handles", handles, "unanswered", flags) : (Object) handles);
  }

  private Object transaction(int flags, int number) throws MalformedException, IncompleteException {
    r.check(number == 0 && (flags & 0xff) <= 1, "a flag and a number of tries");
    Object batch = null;
    if ((flags & 0xff) == Tables.TRANSACTION_NAMED) {
      long low = r.word();
      long high = r.word();
      String client = String.format(Locale.ROOT, "%016x%016x", high, low);
      batch = tree("client", client, "number", unsigned(r.word()));
    }
    return tree("transaction", tree("tries", flags >>> 8, "batch", batch));
  }

  private Object flush(int flags, int number) throws MalformedException, IncompleteException {
    boolean isKept = (flags & Tables.FLUSH_KEPT) != 0;
    int unanswered = flags >>> 8;
    boolean isGood = (flags & 0xfc) == 0 && unanswered <= 0xff && (isKept || unanswered == 0);
    r.check(isGood, "flags and a number of batches");
    int start = r.skip(8 * unsigned(number));
    List<Object> ranges = new ArrayList<>();
    long least = 1;
    for (int at = start; at < r.at; at += 8) {
      long word = Words.wordAt(r.data, at);
      long first = word & 0xffffffffL;
      long count = word >>> 32;
      boolean isInOrder = first >= least && count > 0 && first + count - 1 <= 0xffffffffL;
      r.check(isInOrder, "ranges in order");
      // One more than touching, so that a set of futures has one encoding.
      least = first + count + 1;
      ranges.add(List.of(first, count));
    }
    Map<String, Object> flush = tree("wanted", ranges, "quiet", (flags & Tables.FLUSH_QUIET) != 0);
    if (isKept) {
      flush.put("kept", unanswered);
    }
    return tree("flush", flush);
  }
}
