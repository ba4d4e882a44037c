package org.bifrost.veneer;

import static org.bifrost.veneer.Trees.list;
import static org.bifrost.veneer.Trees.map;
import static org.bifrost.veneer.Trees.number;
import static org.bifrost.veneer.Trees.tree;
import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** The cases of {@code cases/generated}, and their files. */
final class Cases {
  static final Path FOLDER = Trees.ROOT.resolve("cases/generated");

  private Cases() {}

  static List<Map<String, Object>> all() {
    List<Map<String, Object>> cases = new ArrayList<>();
    for (Path file : Trees.files(FOLDER, ".json")) {
      if (!file.toString().endsWith(".interface.json")) {
        cases.add(map(Trees.parse(Trees.read(file))));
      }
    }
    return cases;
  }

  static String interfaceOf(Object name) {
    return Trees.read(FOLDER.resolve(name + ".interface.json"));
  }

  /** Returns the outputs of each session by its name; a single one has none. */
  static Map<String, Map<String, Object>> sessions(Map<String, Object> test) {
    Map<String, Map<String, Object>> sessions = new LinkedHashMap<>();
    if (test.get("sessions") == null) {
      sessions.put("", test);
    } else {
      map(test.get("sessions")).forEach((name, outputs) -> sessions.put(name, map(outputs)));
    }
    return sessions;
  }

  private static boolean hasLoops(Map<String, Object> test) {
    return list(test.get("script")).stream().anyMatch(step -> map(step).containsKey("loop"));
  }

  /** Returns the bytes that stand in few words. */
  private static byte[] unfoldBytes(Object part) {
    if (part instanceof String) {
      return Trees.unhexed(part);
    } else if (part instanceof List<?>) {
      return Trees.joined(list(part).stream().map(Cases::unfoldBytes).toList());
    }
    byte[] words = Trees.unhexed(map(part).get("words"));
    List<Object> plus = list(map(part).get("plus"));
    Words all = new Words(1024);
    for (long time = 0; time < number(map(part).get("times")); time++) {
      all.raw(words, 0, words.length);
      for (int index = 0; index < plus.size(); index++) {
        long word = Words.wordAt(words, 8 * index) + number(plus.get(index));
        Words.setWordAt(words, 8 * index, word);
      }
    }
    return all.copy();
  }

  /** Returns the crossings of a session's outputs as bytes. */
  static List<Machine.Crossed> unfold(Map<String, Object> session) {
    List<Machine.Crossed> all = new ArrayList<>();
    for (Object part : list(session.get("crossings"))) {
      List<byte[]> sent = new ArrayList<>();
      for (Object piece : list(map(part).get("sent"))) {
        boolean isFolded = Trees.isMap(piece) && map(piece).containsKey("sent");
        Object bytes = isFolded ? map(piece).get("sent") : piece;
        int times = isFolded ? (int) number(map(piece).get("times")) : 1;
        sent.addAll(Collections.nCopies(times, unfoldBytes(bytes)));
      }
      Object answer = map(part).get("answered");
      byte[] answered = answer == null ? null : unfoldBytes(answer);
      int times = Math.max((int) number(map(part).get("times")), 1);
      all.addAll(Collections.nCopies(times, new Machine.Crossed(sent, answered)));
    }
    return all;
  }

  /** Runs the steps of all sessions in their order, and compares the outputs of each. */
  static void play(Map<String, Object> test, Map<String, Machine> machines) {
    List<Object> script = list(test.get("script"));
    for (int index = 0; index < script.size(); index++) {
      Map<String, Object> step = map(script.get(index));
      machines.get(Trees.text(step.get("session"))).take(index + 1, step);
    }
    sessions(test)
        .forEach(
            (name, expected) -> {
              Machine machine = machines.get(name);
              RecorderTest.compare(machine.finish(), expected, test.get("case") + " " + name);
              if (hasLoops(test)) {
                assertEquals(shown(unfold(expected)), shown(machine.crossings));
              } else {
                assertEquals(expected.get("crossings"), machine.shownCrossings());
              }
            });
  }

  private static List<String> shown(List<Machine.Crossed> crossings) {
    return crossings.stream().map(Machine.Crossed::shown).toList();
  }

  /** The answers of a case's file. */
  static final class Replayed implements Machine.Source {
    private final Map<String, Object> test;
    private final List<Machine.Crossed> answers;
    private int next;

    Replayed(Map<String, Object> test, Map<String, Object> session) {
      this.test = test;
      answers = unfold(session);
    }

    @Override
    public Recorder greet(Machine machine, Recorder.Settings settings) {
      if (test.get("server_interface") == null) {
        return new Machine.Scripted(test).greet(machine, settings);
      }
      Greeting greeting = machine.greeting(settings);
      greeting.takeBytes();
      byte[] welcome = Encoding.welcome(new byte[32], Machine.limits(test), 1, "replay");
      greeting.handleBytes(welcome, welcome.length);
      greeting.takeBytes();
      byte[] described =
          Encoding.reply(tree("interface", interfaceOf(test.get("server_interface"))));
      return greeting.handleBytes(described, described.length);
    }

    @Override
    public void sent(byte[] bytes) {}

    @Override
    public byte[] reply(Machine machine, int wanted) {
      return answers.get(next++).answered();
    }
  }
}
