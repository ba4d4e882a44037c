package org.bifrost.veneer;

import static org.bifrost.veneer.Trees.list;
import static org.bifrost.veneer.Trees.map;
import static org.bifrost.veneer.Trees.number;
import static org.bifrost.veneer.Trees.text;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

/**
 * The cases of {@code cases/generated} in three ways: a case is replayed with the answers of its
 * file, it is live with those of a server, and it is evaluated with a flush after each step.
 */
class CasesTest {
  /** The tags of cases that are about batches: with a flush after each step they are others. */
  private static final Set<String> TAGS_OF_BATCHES =
      Set.of(
          "closed",
          "counters",
          "growth",
          "leave",
          "limits",
          "misuse",
          "not_reached",
          "overlap",
          "remap_many",
          "rounds",
          "rows",
          "transaction",
          "unseen");

  /** A test of a case. */
  private interface Body {
    void run(Map<String, Object> test) throws Exception;
  }

  private static Collection<DynamicTest> each(List<Map<String, Object>> cases, Body body) {
    return cases.stream()
        .map(test -> DynamicTest.dynamicTest(text(test.get("case")), () -> body.run(test)))
        .toList();
  }

  private static List<Map<String, Object>> cases() {
    List<Map<String, Object>> cases = Cases.all();
    assertTrue(cases.size() > 60, "there are few cases");
    return cases;
  }

  @TestFactory
  Collection<DynamicTest> casesAreReplayed() {
    return each(
        cases(),
        test -> {
          Machine.Client client = Machine.Client.of(Cases.interfaceOf(test.get("interface")));
          Map<String, Machine> machines = new HashMap<>();
          Cases.sessions(test)
              .forEach(
                  (name, session) ->
                      machines.put(
                          name,
                          new Machine(
                              client, test, Machine.Cut.NONE, new Cases.Replayed(test, session))));
          Cases.play(test, machines);
        });
  }

  @TestFactory
  Collection<DynamicTest> casesAreLive() {
    return each(
        cases(),
        test -> {
          try (LiveSessions live = new LiveSessions(test)) {
            Cases.play(test, live.machines);
          }
        });
  }

  @TestFactory
  Collection<DynamicTest> casesAreEvaluated() {
    List<Map<String, Object>> cases =
        cases().stream()
            .filter(test -> Collections.disjoint(list(test.get("covers")), TAGS_OF_BATCHES))
            .toList();
    assertTrue(cases.size() >= 40, "only " + cases.size() + " cases are evaluated");
    return each(
        cases,
        test -> {
          try (LiveSessions live = new LiveSessions(test)) {
            evaluate(test, live.machines);
          }
        });
  }

  /** Runs the steps with a flush after each. */
  private static void evaluate(Map<String, Object> test, Map<String, Machine> machines) {
    List<Object> script = list(test.get("script"));
    for (int index = 0; index < script.size(); index++) {
      Map<String, Object> step = map(script.get(index));
      Machine machine = machines.get(text(step.get("session")));
      machine.take(index + 1, step);
      // A further block follows its structure directly.
      boolean goesOn =
          index + 1 < script.size() && map(script.get(index + 1)).containsKey("reopen");
      Recorder r = machine.r;
      if (!r.structures.isOpen() && !r.isShipping && r.broken == null && !goesOn) {
        assertNull(machine.flush(), "the flush behind step " + (index + 1));
      }
    }
    Cases.sessions(test)
        .forEach(
            (name, expected) ->
                assertEquals(
                    claims(script, expected.get("results")),
                    claims(script, machines.get(name).finish().get("results")),
                    name));
  }

  /** Returns the results of the claims of a case. */
  private static List<Object> claims(List<Object> script, Object results) {
    List<Object> claims = new ArrayList<>();
    for (Object result : list(results)) {
      Map<String, Object> step = map(script.get((int) number(list(result).get(0)) - 1));
      if (step.containsKey("claim") || step.containsKey("read_rows")) {
        claims.add(withoutNumbers(list(result).subList(1, list(result).size())));
      }
    }
    return claims;
  }

  /** Returns a result without the parts that count commands and batches. */
  private static Object withoutNumbers(Object part) {
    if (part instanceof List<?> parts) {
      List<Object> made = new ArrayList<>();
      parts.forEach(one -> made.add(withoutNumbers(one)));
      return made;
    } else if (part instanceof Map<?, ?>) {
      Map<String, Object> made = new HashMap<>();
      map(part)
          .forEach(
              (name, one) -> {
                if (!Set.of("number", "place", "rounds").contains(name)) {
                  made.put(name, name.equals("handle") ? "object" : withoutNumbers(one));
                }
              });
      return made;
    }
    return part;
  }

  /** The machines of a case, each with a connection to one server. */
  private static final class LiveSessions implements AutoCloseable {
    final Map<String, Machine> machines = new HashMap<>();
    private final List<Live> connections = new ArrayList<>();
    private final Server server;

    LiveSessions(Map<String, Object> test) throws IOException {
      List<String> settings = new ArrayList<>();
      for (Object setting : list(test.get("set"))) {
        settings.add("--set");
        settings.add(text(setting));
      }
      server =
          Server.serve(
              "cases/programs/" + test.get("program") + ".theta", settings.toArray(new String[0]));
      Machine.Client client = Machine.Client.of(Cases.interfaceOf(test.get("interface")));
      for (String name : Cases.sessions(test).keySet()) {
        Live live = new Live(server.url());
        connections.add(live);
        machines.put(name, new Machine(client, test, Machine.Cut.NONE, live));
      }
    }

    @Override
    public void close() {
      connections.forEach(live -> live.connection.close());
      server.close();
    }
  }

  /** The answers of a server. */
  private static final class Live implements Machine.Source {
    private static final long MINUTE = TimeUnit.MINUTES.toNanos(1);

    final Connection connection;
    private byte[] came = new byte[0];
    private final byte[] buffer = new byte[1 << 16];

    Live(String url) throws IOException {
      connection = Transports.connect(url, TlsFiles.NONE, System.nanoTime() + MINUTE);
    }

    private void receive() throws IOException {
      int count = connection.receive(buffer, System.nanoTime() + MINUTE);
      if (count < 0) {
        throw new IOException("the server has ended the session");
      }
      Words all = new Words(came.length + count);
      came = all.raw(came, 0, came.length).raw(buffer, 0, count).copy();
    }

    /**
     * The stubs have no digest of a server: its interface is asked for, and has the same numbers.
     */
    @Override
    public Recorder greet(Machine machine, Recorder.Settings settings) {
      Greeting greeting = machine.greeting(settings);
      try {
        Recorder greeted = null;
        while (greeted == null) {
          sent(greeting.takeBytes());
          receive();
          byte[] bytes = came;
          came = new byte[0];
          greeted = greeting.handleBytes(bytes, bytes.length);
        }
        return greeted;
      } catch (IOException failed) {
        throw new UncheckedIOException(failed);
      }
    }

    @Override
    public void sent(byte[] bytes) {
      try {
        connection.send(bytes, 0, bytes.length, System.nanoTime() + MINUTE);
      } catch (IOException failed) {
        throw new UncheckedIOException(failed);
      }
    }

    @Override
    public boolean isLive() {
      return true;
    }

    @Override
    public byte[] reply(Machine machine, int wanted) {
      if (!machine.replies.isEmpty()) {
        // The stream ends in its place.
        machine.replies.remove();
        connection.close();
        return null;
      }
      while (true) {
        try {
          int length = Reply.decode(came, came.length, Tables.REPLY_BYTES_MAX).length();
          byte[] whole = java.util.Arrays.copyOf(came, length);
          came = java.util.Arrays.copyOfRange(came, length, came.length);
          return whole;
        } catch (IncompleteException more) {
          try {
            receive();
          } catch (IOException failed) {
            throw new UncheckedIOException(failed);
          }
        } catch (MalformedException bad) {
          throw new IllegalStateException("the server sent no reply", bad);
        }
      }
    }
  }
}
