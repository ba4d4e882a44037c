package org.bifrost.veneer;

import static org.bifrost.veneer.Trees.list;
import static org.bifrost.veneer.Trees.map;
import static org.bifrost.veneer.Trees.tree;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

/** Tests of the recorder by the scripts that every language runs. */
class RecorderTest {
  /** The outputs of a case, but for the crossings. */
  static final List<String> OUTPUTS =
      List.of("results", "known", "history", "history_omitted", "counters", "closed");

  private static final Machine.Client CLIENT =
      Machine.Client.of(Trees.read(Trees.VECTORS.resolve("interface.json")));

  private static List<Map<String, Object>> cases() {
    List<Map<String, Object>> cases = new ArrayList<>();
    for (Path file : Trees.files(Trees.VECTORS.resolve("recorder"), ".json")) {
      list(Trees.parse(Trees.read(file))).forEach(test -> cases.add(map(test)));
    }
    assertTrue(cases.size() > 100, "there are few cases");
    return cases;
  }

  private static Machine machine(Map<String, Object> test, Machine.Cut cut) {
    return new Machine(CLIENT, test, cut, new Machine.Scripted(test));
  }

  /** Compares outputs with those of a case. */
  static void compare(Map<String, Object> found, Map<String, Object> expected, Object where) {
    for (String name : OUTPUTS) {
      assertEquals(expected.get(name), found.get(name), name + " of " + where);
    }
  }

  @TestFactory
  Collection<DynamicTest> scriptsHaveTheirOutputs() {
    return cases().stream()
        .map(
            test ->
                DynamicTest.dynamicTest(
                    (String) test.get("case"),
                    () -> {
                      Machine machine = machine(test, Machine.Cut.NONE);
                      compare(machine.run(list(test.get("script"))), test, test.get("case"));
                      assertEquals(test.get("crossings"), machine.shownCrossings());
                    }))
        .toList();
  }

  /** The file is that of {@code BIFROST_RANDOM}, or the committed one. */
  @TestFactory
  Collection<DynamicTest> randomScriptsHaveTheirOutputs() {
    String named = System.getenv("BIFROST_RANDOM");
    Path file = named == null ? Trees.VECTORS.resolve("random.jsonl") : Path.of(named);
    List<DynamicTest> tests = new ArrayList<>();
    for (String line : Trees.read(file).lines().toList()) {
      Map<String, Object> test = map(Trees.parse(line));
      tests.add(DynamicTest.dynamicTest((String) test.get("case"), () -> runRandom(test)));
    }
    assertTrue(tests.size() >= 500, "there are few scripts");
    return tests;
  }

  private static void runRandom(Map<String, Object> test) {
    Machine machine = machine(test, Machine.Cut.NONE);
    compare(machine.run(list(test.get("script"))), test, test.get("case"));
    List<Object> sent = new ArrayList<>();
    for (Object crossing : machine.shownCrossings()) {
      sent.add(tree("sent", map(crossing).get("sent")));
    }
    assertEquals(test.get("crossings"), sent);
  }

  /** Returns all that a run of a case gives. */
  private static String outputs(Map<String, Object> test, Machine.Cut cut, List<byte[]> answers) {
    Machine machine = machine(test, cut);
    StringBuilder all = new StringBuilder();
    Map<String, Object> found = machine.run(list(test.get("script")));
    OUTPUTS.forEach(name -> all.append(found.get(name)).append('\n'));
    for (Machine.Crossed crossed : machine.crossings) {
      crossed.sent().forEach(piece -> all.append(Trees.hexed(piece)).append('\n'));
      if (crossed.answered() != null) {
        answers.add(crossed.answered());
      }
    }
    return all.toString();
  }

  @Test
  void aReplyMayBeCutAnywhere() {
    for (Map<String, Object> test : cases()) {
      List<byte[]> answers = new ArrayList<>();
      String whole = outputs(test, Machine.Cut.NONE, answers);
      int longest = answers.stream().mapToInt(answer -> answer.length).max().orElse(0);
      List<Machine.Cut> cuts = new ArrayList<>();
      cuts.add(new Machine.Cut(4096, 0, -1));
      if (longest < 20_000) {
        cuts.add(new Machine.Cut(1, 0, -1));
        cuts.add(new Machine.Cut(5, 0, -1));
        int most = test.get("server") == null ? 64 : 4;
        for (int at = 1; at < Math.min(longest, most); at++) {
          cuts.add(new Machine.Cut(0, at, -1));
        }
      }
      for (Machine.Cut cut : cuts) {
        assertEquals(whole, outputs(test, cut, new ArrayList<>()), test.get("case") + " " + cut);
      }
    }
  }

  /**
   * No exception comes of a changed reply, and no session goes on that sends bytes that are no
   * command.
   */
  @Test
  void noByteOfAReplyIsTrusted() {
    int runs = 0;
    for (Map<String, Object> test : cases()) {
      if (test.get("server") != null) {
        continue;
      }
      List<byte[]> answers = new ArrayList<>();
      outputs(test, Machine.Cut.NONE, answers);
      int length = answers.stream().mapToInt(answer -> answer.length).sum();
      for (int at = 0; at < Math.min(length, 300); at += 3) {
        outputs(test, new Machine.Cut(0, 0, at), new ArrayList<>());
        runs++;
      }
    }
    assertTrue(runs > 1000, "only " + runs + " changes were tried");
  }
}
