package org.bifrost.veneer;

import static org.bifrost.veneer.Trees.list;
import static org.bifrost.veneer.Trees.map;
import static org.bifrost.veneer.Trees.number;
import static org.bifrost.veneer.Trees.number32;
import static org.bifrost.veneer.Trees.only;
import static org.bifrost.veneer.Trees.text;
import static org.bifrost.veneer.Trees.tree;
import static org.bifrost.veneer.Trees.unhexed;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;

/** The writer of the values, replies and commands of the vectors: a server's half. */
final class Encoding {
  private Encoding() {}

  /** Returns a value of the vectors. */
  static Value value(Object part) {
    Map.Entry<String, Object> entry = only(part);
    Object payload = entry.getValue();
    return switch (entry.getKey()) {
      case "nil" -> Value.nil();
      case "bool" -> Value.of((boolean) payload);
      case "int" -> Value.of(Long.parseLong((String) payload));
      case "real" -> Value.of(real((String) payload));
      case "char" -> Value.ofChar(((String) payload).codePointAt(0));
      case "string" -> {
        if (Trees.isMap(payload)) {
          int times = Math.max((int) number(map(payload).get("times")), 1);
          yield Value.of(text(map(payload).get("text")).repeat(times));
        }
        yield Value.of((String) payload);
      }
      case "bytes" -> Value.of(unhexed(payload));
      case "compound" -> {
        List<Object> items = list(map(payload).get("items"));
        Words out = new Words(64);
        int tagsAt = out.beginItems(number32(map(payload).get("type")), items.size());
        for (int index = 0; index < items.size(); index++) {
          out.setTag(tagsAt, index, append(out, items.get(index)));
        }
        out.endItems(tagsAt);
        byte[] data = new byte[out.length - 8];
        System.arraycopy(out.bytes, 8, data, 0, data.length);
        yield Value.ofData(Tables.TAG_COMPOUND, data);
      }
      default -> throw new IllegalArgumentException(entry.getKey());
    };
  }

  private static double real(String text) {
    return switch (text) {
      case "NaN" -> Double.longBitsToDouble(0x7ff8L << 48);
      case "inf" -> Double.POSITIVE_INFINITY;
      case "-inf" -> Double.NEGATIVE_INFINITY;
      default -> Double.parseDouble(text);
    };
  }

  /** Appends a value or a reference, and returns its tag. */
  static int append(Words out, Object part) {
    if (map(part).containsKey("ref")) {
      out.word(number(map(part).get("ref")));
      return Tables.TAG_REF;
    }
    Value value = value(part);
    out.value(value);
    return value.tag;
  }

  // Replies.

  static byte[] reply(int code, int flags, int number, Words body) {
    return new Words(64)
        .word(Words.head(code, flags, number))
        .word(body.length)
        .raw(body.bytes, 0, body.length)
        .copy();
  }

  static byte[] welcome(byte[] digest, List<Reply.LimitValue> limits, long session, String server) {
    Words body = new Words(64).word(session).raw(digest, 0, 32).text(server);
    body.word(limits.size());
    limits.forEach(limit -> body.word(limit.number()).word(limit.value()));
    return reply(Tables.OP_WELCOME, 0, Tables.VERSION, body);
  }

  private static void outcome(Words out, Object outcome) {
    if (outcome.equals("absent")) {
      out.word(Words.head(Tables.TAG_ABSENT, 0, 0));
      return;
    }
    Map<String, Object> parts = map(outcome);
    if (parts.containsKey("handle")) {
      int type = parts.containsKey("type") ? number32(parts.get("type")) : 7;
      out.word(Words.head(Tables.TAG_REF, 0, type)).word(number(parts.get("handle")));
    } else if (parts.containsKey("exception")) {
      out.word(Words.head(Tables.TAG_EXCEPTION, 0, number32(parts.get("exception"))));
    } else if (parts.containsKey("rows")) {
      rows(out, map(parts.get("rows")));
    } else {
      Value value = value(outcome);
      out.word(Words.head(value.tag, 0, 0)).value(value);
    }
  }

  private static void rows(Words out, Map<String, Object> rows) {
    List<Object> columns = list(rows.get("columns"));
    List<Object> cells = list(rows.get("cells"));
    Words table = new Words(64).word(columns.size());
    for (Object column : columns) {
      int tag = (int) number(list(column).get(0));
      table.word(Words.head(tag, 0, number32(list(column).get(1))));
    }
    for (Object cell : cells) {
      if (map(cell).containsKey("handle")) {
        table.word(number(map(cell).get("handle")));
      } else {
        table.value(value(cell));
      }
    }
    out.word(Words.head(Tables.TAG_ROWS, 0, cells.size() / columns.size()))
        .word(table.length)
        .raw(table.bytes, 0, table.length);
  }

  private static void exception(Words out, Object part) {
    Map<String, Object> e = map(part);
    if (e.containsKey("signal")) {
      Map<String, Object> signal = map(e.get("signal"));
      List<Object> values = list(signal.get("values"));
      List<Object> places = list(signal.get("places"));
      first(out, e, Tables.EXCEPTION_SIGNAL, values.size(), places.size());
      out.text(text(signal.get("name")));
      values.forEach(value -> outcome(out, value));
      if (!places.isEmpty()) {
        out.word(number(signal.get("more_places")));
      }
      for (Object place : places) {
        out.word(number(map(place).get("line")));
        out.text(text(map(place).get("routine"))).text(text(map(place).get("file")));
      }
    } else if (e.containsKey("unhandled")) {
      Map<String, Object> unhandled = map(e.get("unhandled"));
      first(out, e, Tables.EXCEPTION_UNHANDLED, 0, 0);
      out.word(
          number(unhandled.get("argument")) & 0xffffff
              | number(unhandled.get("back")) << 24
              | number(unhandled.get("cause")) << 32);
    } else {
      Map<String, Object> refused = map(e.get("refused"));
      first(out, e, Tables.EXCEPTION_REFUSED, 0, 0);
      out.word(number(refused.get("number"))).text(text(refused.get("text")));
    }
  }

  private static void first(
      Words out, Map<String, Object> exception, int kind, int values, int places) {
    List<Object> rounds = list(exception.get("iterations"));
    int flags = values | rounds.size() << 8 | places << 16;
    out.word(Words.head(kind, flags, number32(exception.get("call"))));
    rounds.forEach(round -> out.word(number(round)));
  }

  private static void cost(Words out, Map<String, Object> cost) {
    out.word(number(cost.get("nanoseconds")));
    out.word(Words.pair(number32(cost.get("calls")), number32(cost.get("fuel"))));
    out.word(Words.pair(number32(cost.get("fetches")), number32(cost.get("objects"))));
  }

  private static void profile(Words out, Map<String, Object> profile) {
    List<Object> entries = list(profile.get("entries"));
    Map<String, Object> rest = map(profile.get("rest"));
    out.word(number(profile.get("nanoseconds")));
    out.word(Words.pair(number32(profile.get("fetches")), number32(profile.get("objects"))));
    out.word(number(profile.get("runs")));
    int omitted = rest == null ? 0 : number32(rest.get("omitted"));
    out.word(Words.pair(entries.size(), omitted));
    for (Object entry : entries) {
      boolean isStructure = Boolean.TRUE.equals(map(entry).get("structure"));
      int kind = isStructure ? Tables.PROFILE_STRUCTURE : Tables.PROFILE_COMMAND;
      out.word(Words.pair(kind, number32(map(entry).get("call"))));
      cost(out, map(entry));
    }
    if (rest != null) {
      out.word(Tables.PROFILE_REST);
      cost(out, rest);
    }
  }

  /** Returns a reply of the vectors as bytes. */
  static byte[] reply(Object reply) {
    if (reply.equals("farewell")) {
      return reply(Tables.OP_FAREWELL, 0, 0, new Words(8));
    } else if (reply.equals("welcome")) {
      return welcome(new byte[32], List.of(), 1, "");
    } else if (reply.equals("interface")) {
      return reply(tree("interface", "{}"));
    }
    Object part = only(reply).getValue();
    switch (only(reply).getKey()) {
      case "bytes":
        return unhexed(part);
      case "interface":
        return reply(Tables.OP_INTERFACE, 0, 0, new Words(64).text((String) part));
      case "welcome":
        List<Reply.LimitValue> limits = new ArrayList<>();
        for (Object limit : list(map(part).get("limits"))) {
          limits.add(
              new Reply.LimitValue(number32(list(limit).get(0)), number(list(limit).get(1))));
        }
        return welcome(
            unhexed(map(part).get("digest")),
            limits,
            number(map(part).get("session")),
            text(map(part).get("server")));
      case "error":
        Words error =
            new Words(64).word(number(map(part).get("position"))).text(text(map(part).get("text")));
        return reply(Tables.OP_ERROR, 0, number32(map(part).get("number")), error);
      case "exceptions":
        Words history = new Words(64).word(number(map(part).get("omitted")));
        List<Object> listed = list(map(part).get("list"));
        for (Object entry : listed) {
          history.word(number(list(entry).get(0)));
          exception(history, list(entry).get(1));
        }
        return reply(Tables.OP_EXCEPTIONS, 0, listed.size(), history);
      default:
        return flushed(map(part));
    }
  }

  private static byte[] flushed(Map<String, Object> parts) {
    List<Object> outcomes = list(parts.get("outcomes"));
    List<Object> exceptions = list(parts.get("exceptions"));
    Words body = new Words(64);
    body.word(Words.pair(exceptions.size(), (int) number(parts.get("omitted"))));
    body.word(Words.pair((int) number(parts.get("calls")), (int) number(parts.get("fuel"))));
    outcomes.forEach(outcome -> outcome(body, outcome));
    exceptions.forEach(exception -> exception(body, exception));
    int flags = 0;
    if (parts.get("profile") != null) {
      flags = Tables.FLUSHED_PROFILED;
      profile(body, map(parts.get("profile")));
    }
    return reply(Tables.OP_FLUSHED, flags, outcomes.size(), body);
  }

  /** Returns the reply to a flush for which a script has none: nil for each wanted result. */
  static byte[] nilForEach(int wanted) {
    List<Object> outcomes = Collections.nCopies(wanted, tree("nil", null));
    return flushed(tree("outcomes", outcomes));
  }

  // Commands.

  /** The commands without parts. */
  static final Map<String, Integer> PLAIN =
      Map.ofEntries(
          Map.entry("describe", Tables.OP_DESCRIBE),
          Map.entry("commit", Tables.OP_COMMIT),
          Map.entry("abort", Tables.OP_ABORT),
          Map.entry("bye", Tables.OP_BYE),
          Map.entry("while", Tables.OP_WHILE),
          Map.entry("end_while", Tables.OP_END_WHILE),
          Map.entry("if", Tables.OP_IF),
          Map.entry("else", Tables.OP_ELSE),
          Map.entry("end_if", Tables.OP_END_IF),
          Map.entry("foreach", Tables.OP_FOREACH),
          Map.entry("end_foreach", Tables.OP_END_FOREACH),
          Map.entry("break", Tables.OP_BREAK),
          Map.entry("continue", Tables.OP_CONTINUE),
          Map.entry("except", Tables.OP_EXCEPT),
          Map.entry("end_except", Tables.OP_END_EXCEPT),
          Map.entry("end_procedure", Tables.OP_END_PROCEDURE),
          Map.entry("history", Tables.OP_HISTORY));

  private static void call(Words out, int code, int number, Object receiver, List<Object> args) {
    int start = out.length;
    out.word(Words.head(code, args.size(), number));
    if (receiver != null) {
      out.word(number(receiver));
    }
    int tagsAt = out.length;
    out.zeros(Words.tagBytes(Math.max(args.size() - 4, 0)));
    for (int index = 0; index < args.size(); index++) {
      int tag = append(out, args.get(index));
      if (index < 4) {
        out.setTag(start + 2, index, tag);
      } else {
        out.setTag(tagsAt, index - 4, tag);
      }
    }
  }

  private static void types(Words out, Object numbers) {
    list(numbers).forEach(number -> out.word(Trees.unsigned(number32(number))));
  }

  /** Appends a command of the vectors. */
  static void command(Words out, Object command) {
    if (command instanceof String name) {
      boolean isClear = name.equals("clear_history");
      out.word(isClear ? Words.head(Tables.OP_HISTORY, Tables.HISTORY_CLEAR, 0) : PLAIN.get(name));
      return;
    }
    Object part = only(command).getValue();
    Map<String, Object> p = part instanceof Map ? map(part) : Map.of();
    switch (only(command).getKey()) {
      case "hello" ->
          out.hello(
              unhexed(p.get("digest")),
              text(p.get("token")),
              text(p.get("client")),
              text(p.get("trace")),
              number32(p.get("version")));
      case "call" ->
          call(
              out,
              Tables.OP_CALL,
              number32(p.get("method")),
              p.get("receiver"),
              list(p.get("args")));
      case "send" ->
          call(
              out,
              Tables.OP_SEND,
              number32(p.get("method")),
              p.get("receiver"),
              list(p.get("args")));
      case "call_routine" ->
          call(out, Tables.OP_CALL_ROUTINE, number32(p.get("routine")), null, list(p.get("args")));
      case "call_procedure" ->
          call(
              out,
              Tables.OP_CALL_PROCEDURE,
              number32(p.get("procedure")),
              null,
              list(p.get("args")));
      case "emit" -> call(out, Tables.OP_EMIT, 0, p.get("rows"), list(p.get("values")));
      case "lookup" ->
          out.word(Words.head(Tables.OP_LOOKUP, 0, number32(p.get("expected"))))
              .text(text(p.get("name")));
      case "constant" -> {
        Value value = value(part);
        out.word(Words.head(Tables.OP_CONSTANT, value.tag, 0)).value(value);
      }
      case "cell" -> out.word(Words.head(Tables.OP_CELL, 0, number32(p.get("element"))));
      case "rows" -> {
        out.word(Words.head(Tables.OP_ROWS, list(p.get("columns")).size(), 0));
        types(out, p.get("columns"));
      }
      case "as" -> typed(out, Tables.OP_AS, p);
      case "is" -> typed(out, Tables.OP_IS, p);
      case "get" -> out.word(Tables.OP_GET).word(number(p.get("object")));
      case "do" -> out.word(Tables.OP_DO).word(number(p.get("test")));
      case "then" -> out.word(Tables.OP_THEN).word(number(p.get("test")));
      case "free" -> {
        List<Object> handles = list(part instanceof List ? part : p.get("handles"));
        out.word(Words.head(Tables.OP_FREE, (int) number(p.get("unanswered")), handles.size()));
        handles.forEach(handle -> out.word(number(handle)));
      }
      case "flush" -> flush(out, p);
      case "transaction" -> transaction(out, p);
      case "wait" -> out.word(Words.head(Tables.OP_WAIT, 0, number32(p.get("ms"))));
      case "profile" ->
          out.word(Words.head(Tables.OP_PROFILE, flag(p.get("on"), Tables.PROFILE_ON), 0));
      case "when" -> {
        out.word(Words.head(Tables.OP_WHEN, list(p.get("values")).size(), 0));
        out.text(text(p.get("name")));
        types(out, p.get("values"));
      }
      case "others" ->
          out.word(Words.head(Tables.OP_OTHERS, flag(p.get("named"), Tables.OTHERS_NAMED), 0));
      case "procedure" -> {
        int count = list(p.get("params")).size();
        out.word(Words.head(Tables.OP_PROCEDURE, count, number32(p.get("result"))));
        out.text(text(p.get("name")));
        types(out, p.get("params"));
      }
      case "return" -> {
        if (part == null) {
          out.word(Tables.OP_RETURN);
        } else {
          int at = out.length;
          out.word(0);
          int tag = append(out, part);
          Words.setWordAt(out.bytes, at, Words.head(Tables.OP_RETURN, 1 | tag << 8, 0));
        }
      }
      default -> throw new IllegalArgumentException(command.toString());
    }
  }

  private static void typed(Words out, int code, Map<String, Object> p) {
    out.word(Words.head(code, 0, number32(p.get("type")))).word(number(p.get("object")));
  }

  private static int flag(Object part, int flag) {
    return Boolean.TRUE.equals(part) ? flag : 0;
  }

  private static void flush(Words out, Map<String, Object> p) {
    List<Object> wanted = list(p.get("wanted"));
    int flags = flag(p.get("quiet"), Tables.FLUSH_QUIET);
    if (p.containsKey("kept")) {
      flags |= Tables.FLUSH_KEPT | (int) number(p.get("kept")) << 8;
    }
    out.word(Words.head(Tables.OP_FLUSH, flags, wanted.size()));
    for (Object range : wanted) {
      out.word(Words.pair(number32(list(range).get(0)), number32(list(range).get(1))));
    }
  }

  private static void transaction(Words out, Map<String, Object> p) {
    int flags = number32(p.get("tries")) << 8;
    if (p.get("batch") == null) {
      out.word(Words.head(Tables.OP_TRANSACTION, flags, 0));
      return;
    }
    Ends.BatchName name = batchName(p.get("batch"));
    out.word(Words.head(Tables.OP_TRANSACTION, flags | Tables.TRANSACTION_NAMED, 0));
    out.word(name.low()).word(name.high()).word(name.number());
  }

  /** Returns the name of a batch, whose client has 128 bits in hexadecimal digits. */
  static Ends.BatchName batchName(Object part) {
    String client = text(map(part).get("client"));
    String digits = "0".repeat(32 - client.length()) + client;
    return new Ends.BatchName(
        Long.parseUnsignedLong(digits.substring(16), 16),
        Long.parseUnsignedLong(digits.substring(0, 16), 16),
        number(map(part).get("number")));
  }
}
