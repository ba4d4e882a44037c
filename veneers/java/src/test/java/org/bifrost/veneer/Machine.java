package org.bifrost.veneer;

import static org.bifrost.veneer.Trees.list;
import static org.bifrost.veneer.Trees.map;
import static org.bifrost.veneer.Trees.number;
import static org.bifrost.veneer.Trees.plain;
import static org.bifrost.veneer.Trees.tree;

import java.io.IOException;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * A script of {@code vectors/recorder} that is being run: untyped operations of a recorder, a table
 * of stubs by their names in the script, and a queue of replies. It moves bytes as a client's
 * connection does. {@link Steps} has the operations.
 */
final class Machine {
  /** The interface that the stubs of a script were made from. */
  record Client(Stubs stubs, String text, int[] operators) {
    static Client of(String text) {
      Interface own = Interface.parse(text);
      byte[] digest = new byte[32];
      Arrays.fill(digest, (byte) 7);
      return new Client(Stubs.of(digest, own, List.of()), text, own.operators());
    }

    int type(Object name) {
      return found(stubs.own().findType((String) name), name);
    }

    /** Returns the number of a method or of an operator. */
    int method(Object name) {
      for (int index = 0; index < operators.length; index++) {
        if (Tables.OPERATORS.get(index).name().equals(name)) {
          return operators[index];
        }
      }
      return found(stubs.own().findMethod((String) name), name);
    }

    int routine(Object name) {
      return found(stubs.own().findRoutine((String) name), name);
    }

    private static int found(int number, Object name) {
      if (number == Tables.NO_NUMBER) {
        throw new IllegalArgumentException("there is no " + name);
      }
      return number;
    }

    /** Returns the interface of a server: the client's with changes. */
    String changed(Map<String, Object> changes) {
      Map<String, Object> described = map(Trees.parse(text));
      changes.forEach(
          (name, change) -> {
            int dot = name.lastIndexOf('.');
            for (Object part : list(described.get("types"))) {
              if (map(part).get("name").equals(name.substring(0, dot))) {
                change(list(map(part).get("methods")), name.substring(dot + 1), change);
              }
            }
          });
      return new com.google.gson.GsonBuilder().serializeNulls().create().toJson(described);
    }

    private static void change(List<Object> methods, String name, Object change) {
      Object method =
          methods.stream().filter(one -> map(one).get("name").equals(name)).findFirst().get();
      switch ((String) change) {
        case "removed" -> methods.remove(method);
        case "without parameters" -> map(method).remove("params");
        case "last" -> {
          methods.remove(method);
          methods.add(method);
        }
        default -> map(method).put("name", change);
      }
    }
  }

  /** The pieces in which a reply comes; one bit of all replies may be another one. */
  record Cut(int every, int at, int changed) {
    static final Cut NONE = new Cut(0, 0, -1);

    List<byte[]> pieces(byte[] reply) {
      int length = every > 0 ? every : at > 0 ? at : reply.length;
      List<byte[]> pieces = new ArrayList<>();
      int start = 0;
      while (start < reply.length) {
        int end = Math.min(start + length, reply.length);
        pieces.add(Arrays.copyOfRange(reply, start, end));
        start = end;
        length = every > 0 ? every : reply.length;
      }
      return pieces;
    }
  }

  /** A batch that was sent, and its answer; null if there was none. */
  record Crossed(List<byte[]> sent, byte[] answered) {
    String shown() {
      return sent.stream().map(Trees::hexed).toList()
          + " -> "
          + (answered == null ? "nothing" : Trees.hexed(answered));
    }
  }

  /** The origin of the replies of a machine. */
  interface Source {
    Recorder greet(Machine machine, Recorder.Settings settings);

    /** Takes the bytes that the client sends. */
    void sent(byte[] bytes);

    /** Returns true if the end of the stream is not for the machine to take from the script. */
    default boolean isLive() {
      return false;
    }

    /** Returns the answer to the oldest batch; null if the stream ends in its place. */
    byte[] reply(Machine machine, int wanted);
  }

  final Client client;
  private final Cut cut;
  private final Source source;
  final Recorder r;

  /** The slot of another session. */
  final Slot foreign;

  /** The number of the step. */
  Object step = 0;

  final Map<String, Slot> stubs = new HashMap<>();
  final Map<Object, Structures.Ended> ended = new HashMap<>();
  final Map<Object, Integer> procedures = new HashMap<>();
  final Map<Object, Failure> refusedProcedures = new HashMap<>();

  /** The replies of the script; an empty one is the end of the stream. */
  final Deque<byte[]> replies = new ArrayDeque<>();

  private int answeredBytes;
  private List<byte[]> sent = new ArrayList<>();
  private final Deque<Integer> wanted = new ArrayDeque<>();
  List<Failure> refusals = List.of();
  boolean isShipped;
  final List<Crossed> crossings = new ArrayList<>();
  private final List<Object[]> results = new ArrayList<>();

  Machine(Client client, Map<String, Object> test, Cut cut, Source source) {
    this.client = client;
    this.cut = cut;
    this.source = source;
    Recorder.Settings settings = new Recorder.Settings();
    settings.place = at -> "step " + at;
    if (test.containsKey("remap_futures")) {
      settings.remapFutures = number(test.get("remap_futures"));
    }
    if (test.containsKey("reply_bytes_max")) {
      settings.replyBytesMax = (int) number(test.get("reply_bytes_max"));
    }
    r = source.greet(this, settings);
    foreign =
        new Slot(
            new Recorder(
                Numbers.same(client.stubs()), new Bounds(), settings, new Replies(1 << 20)));
  }

  Greeting greeting(Recorder.Settings settings) {
    return new Greeting(client.stubs(), "", "", settings);
  }

  static List<Reply.LimitValue> limits(Map<String, Object> test) {
    Map<String, Object> named = test.get("limits") == null ? Map.of() : map(test.get("limits"));
    List<Reply.LimitValue> limits = new ArrayList<>();
    for (Tables.LimitRow row : Tables.LIMITS) {
      if (named.containsKey(row.name())) {
        limits.add(new Reply.LimitValue(row.number(), number(named.get(row.name()))));
      }
    }
    if (limits.size() != named.size()) {
      throw new IllegalArgumentException("unknown limits: " + named);
    }
    return limits;
  }

  /** The replies of a script, which stand in it. */
  record Scripted(Map<String, Object> test) implements Source {
    @Override
    public Recorder greet(Machine machine, Recorder.Settings settings) {
      Greeting greeting = machine.greeting(settings);
      greeting.takeBytes();
      Object changes = test.get("server");
      byte[] digest = changes == null ? machine.client.stubs().digest : new byte[32];
      byte[] welcome = Encoding.welcome(digest, limits(test), 1, "script");
      Recorder greeted = greeting.handleBytes(welcome, welcome.length);
      if (changes == null) {
        return greeted;
      }
      if (greeted != null || greeting.takeBytes().length != 8) {
        throw new IllegalStateException("the interface was not asked for");
      }
      byte[] described = Encoding.reply(tree("interface", machine.client.changed(map(changes))));
      return greeting.handleBytes(described, described.length);
    }

    @Override
    public void sent(byte[] bytes) {}

    @Override
    public byte[] reply(Machine machine, int wanted) {
      return Encoding.nilForEach(wanted);
    }
  }

  /** Runs all steps, and returns the outputs of the case, but for the crossings. */
  Map<String, Object> run(List<Object> steps) {
    for (int index = 0; index < steps.size(); index++) {
      take(index + 1, map(steps.get(index)));
    }
    return finish();
  }

  /** Runs the step with this number. */
  void take(int number, Map<String, Object> what) {
    step = number;
    if (!what.containsKey("loop")) {
      perform(what);
      return;
    }
    for (int round = 1; round <= number(what.get("loop")); round++) {
      for (Object inner : list(what.get("steps"))) {
        perform(map(isNumbered(inner) ? numbered(inner, round) : inner));
      }
    }
  }

  private static boolean isNumbered(Object part) {
    if (part instanceof String text) {
      return text.startsWith("$") && text.endsWith("_n");
    } else if (part instanceof List<?> parts) {
      return parts.stream().anyMatch(Machine::isNumbered);
    }
    return part instanceof Map<?, ?> parts && parts.values().stream().anyMatch(Machine::isNumbered);
  }

  /** Returns a step of a loop, with the number of its round in its names. */
  private static Object numbered(Object part, int round) {
    if (part instanceof String text) {
      return isNumbered(text) ? text.substring(0, text.length() - 1) + round : text;
    } else if (part instanceof List<?> parts) {
      return new ArrayList<>(parts.stream().map(one -> numbered(one, round)).toList());
    } else if (part instanceof Map<?, ?>) {
      Map<String, Object> made = new HashMap<>();
      map(part).forEach((key, one) -> made.put(key, numbered(one, round)));
      return made;
    }
    return part;
  }

  /** Runs a step, and notes its result. Equal ones of a loop are counted. */
  private void perform(Map<String, Object> what) {
    Object result = new Steps(this, what).run();
    if (result == Steps.NO_RESULT) {
      return;
    }
    Object value = plain(result);
    Object[] last = results.isEmpty() ? null : results.get(results.size() - 1);
    if (last != null && last[0].equals(step) && java.util.Objects.equals(last[1], value)) {
      last[2] = (int) last[2] + 1;
    } else {
      results.add(new Object[] {step, value, 1});
    }
  }

  /** Returns the outputs of the steps that were run. */
  Map<String, Object> finish() {
    if (!replies.isEmpty() && cut.changed() < 0) {
      throw new IllegalStateException("there are replies that nobody asked for");
    }
    if (!sent.isEmpty()) {
      cross(null);
    }
    Map<String, Object> known = new HashMap<>();
    stubs.forEach((name, slot) -> known.put(name, known(slot)));
    List<Object> listed = new ArrayList<>();
    for (Object[] result : results) {
      List<Object> entry = new ArrayList<>(Arrays.asList(result));
      if (entry.get(2).equals(1)) {
        entry.remove(2);
      }
      listed.add(entry);
    }
    long omitted = r.account.historyOmitted;
    boolean isClosed = r.broken != null;
    List<Object> history = new ArrayList<>();
    for (Failure.Entry entry : r.account.exceptions()) {
      history.add(tree("batch", entry.batch(), "error", Showing.failure(entry.failure())));
    }
    return map(
        plain(
            tree(
                "results", listed,
                "known", known,
                "history", history,
                "history_omitted", omitted,
                "counters", tree("crossings", r.crossing.crossings, "calls", r.crossing.commands),
                "closed", isClosed)));
  }

  /** Returns the crossings as the vectors have them. */
  List<Object> shownCrossings() {
    List<Object> shown = new ArrayList<>();
    for (Crossed one : crossings) {
      List<Object> pieces = new ArrayList<>();
      one.sent().forEach(piece -> pieces.add(Trees.hexed(piece)));
      shown.add(
          tree(
              "sent",
              pieces,
              "commands",
              CommandReader.decodeAll(Trees.joined(one.sent())),
              "answered",
              one.answered() == null ? null : Trees.hexed(one.answered())));
    }
    return list(plain(shown));
  }

  // Bytes.

  private void cross(byte[] answered) {
    crossings.add(new Crossed(sent, answered));
    sent = new ArrayList<>();
  }

  void send(boolean onlyFlushed) {
    byte[] bytes = r.crossing.takeBytes(onlyFlushed);
    while (bytes.length > 0) {
      source.sent(bytes);
      sent.add(bytes);
      countWanted(bytes);
      bytes = r.crossing.takeBytes(onlyFlushed);
    }
  }

  private void countWanted(byte[] bytes) {
    for (Object command : CommandReader.decodeAll(bytes)) {
      if (command instanceof Map<?, ?> parts && parts.containsKey("flush")) {
        int count = 0;
        for (Object range : list(map(parts.get("flush")).get("wanted"))) {
          count += ((Number) list(range).get(1)).intValue();
        }
        wanted.add(count);
      }
    }
  }

  Failure admit() {
    if (r.isReady()) {
      return null;
    }
    Failure refusal = r.dueRefusal();
    if (refusal != null) {
      return refusal;
    }
    switch (r.due()) {
      case SEND -> send(false);
      case FLUSH -> {
        return flush();
      }
      default -> {}
    }
    return null;
  }

  Failure flush() {
    Failure wrong = r.crossing.beginFlush(false);
    return wrong == null ? answerAll() : wrong;
  }

  Failure synchronize(String name) {
    Failure wrong = r.crossing.beginFlushFor(name, false, step);
    return wrong == null ? answerAll() : wrong;
  }

  Failure answerAll() {
    while (!r.underWay.isEmpty()) {
      Failure wrong = answer();
      if (wrong != null) {
        return wrong;
      }
    }
    return null;
  }

  /** Answers the oldest batch under way. */
  Failure answer() {
    send(true);
    int count = wanted.isEmpty() ? 0 : wanted.remove();
    byte[] reply = source.reply(this, count);
    if (!source.isLive() && !replies.isEmpty()) {
      reply = replies.remove();
      reply = reply.length == 0 ? null : reply;
    }
    if (reply == null) {
      cross(null);
      return r.crossing.close(new Failure.ByConnection(new IOException("the stream ended")));
    }
    int at = cut.changed() - answeredBytes;
    if (cut.changed() >= 0 && at >= 0 && at < reply.length) {
      reply = reply.clone();
      reply[at] ^= (byte) (1 << at % 8);
    }
    answeredBytes += reply.length;
    cross(reply);
    // A changed reply may have left bytes behind it.
    if (r.crossing.handleBytes(new byte[0], 0)) {
      throw new IllegalStateException("an answer of no bytes");
    }
    for (byte[] piece : cut.pieces(reply)) {
      if (r.broken != null) {
        return r.broken;
      }
      if (r.crossing.handleBytes(piece, piece.length)) {
        return null;
      }
    }
    return r.crossing.close(new Failure.ByConnection(new IOException("the stream ended")));
  }

  // Stubs.

  Slot slot(Object name) {
    Slot slot = stubs.get(name);
    if (slot == null) {
      throw new IllegalArgumentException("there is no stub " + name);
    }
    return slot;
  }

  void name(Object name, Slot slot) {
    Slot old = stubs.put((String) name, slot);
    if (old != null) {
      old.drop();
    }
  }

  Object known(Slot slot) {
    return switch (slot.state) {
      case FUTURE -> tree("future", slot.number);
      case UNDER_WAY -> tree("under_way", slot.batch);
      case OBJECT -> tree("handle", slot.number);
      case FAILED -> tree("failed", Showing.failure(slot.failure()));
      case VALUE ->
          slot.isRows()
              ? tree("rows", slot.value().table().count())
              : tree("value", Showing.value(slot.value()));
    };
  }

  /** Returns one name, several, or none. */
  static List<Object> names(Object part) {
    return part instanceof String ? List.of(part) : list(part);
  }

  Object operand(Object part) {
    if (part == null) {
      return null;
    } else if (part instanceof String) {
      return slot(part);
    }
    Map<String, Object> object = map(part);
    if (object.containsKey("foreign")) {
      return foreign;
    } else if (object.containsKey("nested")) {
      Calls.Items nested = new Calls.Items(List.of());
      for (int level = 1; level < number(object.get("nested")); level++) {
        nested = new Calls.Items(List.of(nested));
      }
      return nested;
    } else if (object.containsKey("items")) {
      return new Calls.Items(operands(object.get("items")));
    }
    return Encoding.value(part);
  }

  List<Object> operands(Object parts) {
    List<Object> operands = new ArrayList<>();
    list(parts).forEach(part -> operands.add(operand(part)));
    return operands;
  }

  List<Integer> types(Object part) {
    return names(part).stream().map(client::type).toList();
  }

  Structures.Heading heading(Map<String, Object> what) {
    int result =
        what.containsKey("result") ? client.type(what.get("result")) : Structures.Heading.NO_RESULT;
    return new Structures.Heading(types(what.get("params")), result);
  }

  /** Returns items; objects by their number among all. */
  private List<Object> items(List<Value> values, List<Slot> objects) {
    List<Object> items = new ArrayList<>();
    for (Value value : values) {
      if (value.tag == Tables.TAG_REF) {
        objects.add(r.object(new Slot(r), value.word));
        items.add(tree("object", objects.size()));
      } else if (value.isCompound()) {
        items.add(items(value.items(), objects));
      } else {
        items.add(Showing.value(value));
      }
    }
    return items;
  }

  Object readRows(Map<String, Object> what, Slot slot) {
    List<Slot> objects = new ArrayList<>();
    List<Object> read = null;
    if (slot.isRows()) {
      List<Object> cells = items(slot.value().table().cells(), objects);
      int width = slot.value().table().columns().size();
      read = new ArrayList<>();
      for (int at = 0; at < cells.size(); at += width) {
        read.add(cells.subList(at, at + width));
      }
    } else if (slot.state == Slot.State.VALUE && slot.value().isCompound()) {
      read = items(slot.value().items(), objects);
    }
    List<Object> names = names(what.get("as"));
    for (int index = 0; index < Math.max(objects.size(), names.size()); index++) {
      // A changed reply may have fewer objects.
      Slot object = index < objects.size() ? objects.get(index) : r.value(new Slot(r), Value.nil());
      if (index < names.size()) {
        name(names.get(index), object);
      } else {
        object.drop();
      }
    }
    return read;
  }
}
