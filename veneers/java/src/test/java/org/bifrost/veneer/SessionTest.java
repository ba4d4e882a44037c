package org.bifrost.veneer;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.TimeUnit;
import org.bifrost.veneer.conformance.Conformance;
import org.bifrost.veneer.conformance.Conformance.Probe;
import org.bifrost.veneer.database.Database;
import org.bifrost.veneer.database.Database.DataBase;
import org.bifrost.veneer.database.Database.DataElem;
import org.bifrost.veneer.database.Database.NotFound;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Tests of sessions beside the cases: futures, batches, calls by name, ends. */
@Timeout(value = 60, unit = TimeUnit.SECONDS)
class SessionTest {
  private Server server;
  private Session s;
  private DataBase db;

  @BeforeEach
  void serve() throws IOException {
    server = Server.serve("cases/programs/database.theta");
    s = Database.connect(server.url());
    db = s.lookup("database", DataBase.TYPE);
  }

  @AfterEach
  void end() {
    s.close();
    server.close();
  }

  @Test
  void futuresOfJavaShareACrossing() throws Exception {
    Str name = db.fetch("ann").name();
    Int visits = db.fetch("bob").visits();
    CompletableFuture<String> first = name.toFuture();
    CompletableFuture<Long> second = visits.toFuture();
    assertEquals("ann 0", first.thenCombine(second, (one, two) -> one + " " + two).get());
    assertEquals(1, s.counters().crossings());
    // Calls are recorded meanwhile, and use results that are not there yet.
    DataElem eve = db.fetch("eve");
    CompletableFuture<Void> there = eve.toFuture();
    eve.touch();
    CompletableFuture<Long> count = eve.visits().toFuture();
    assertEquals(1, count.get());
    there.get();
    assertEquals(3, s.counters().crossings());
    // A future of a result that has come is done.
    assertTrue(name.toFuture().isDone());
  }

  @Test
  void futuresOfJavaTellFailures() {
    CompletableFuture<String> none = db.fetch("nobody").name().toFuture();
    CompletionException failed = assertThrows(CompletionException.class, none::join);
    assertInstanceOf(NotFound.class, failed.getCause());
    Int total = s.value(0).plus(1);
    s.foreach(
        db.users(),
        e -> {
          CompletionException misused =
              assertThrows(CompletionException.class, () -> total.toFuture().join());
          assertInstanceOf(MisuseException.class, misused.getCause());
        });
    assertEquals(1, total.toFuture().join());
    s.commit();
  }

  @Test
  void manyFuturesOfJavaAreAnsweredInOrder() {
    List<CompletableFuture<Long>> futures = new ArrayList<>();
    DataElem bob = db.fetch("bob");
    for (int round = 0; round < 200; round++) {
      bob.touch();
      futures.add(bob.visits().toFuture());
    }
    for (int round = 0; round < 200; round++) {
      assertEquals(round + 1, futures.get(round).join());
    }
  }

  private record Seen(Str name, List<Int> visits) {}

  @Test
  void onlyTheResultOfABatchCrosses() {
    List<Int> lost = new ArrayList<>();
    Seen seen =
        s.batch(
            () -> {
              DataElem eve = db.fetch("eve");
              eve.touch();
              lost.add(eve.visits());
              return new Seen(eve.name(), List.of(eve.visits(), eve.visits().plus(1)));
            });
    assertEquals("eve", seen.name().claim());
    assertEquals(2, seen.visits().get(1).claim());
    assertEquals(1, s.counters().crossings());
    assertEquals(Misuse.RELEASED, ConformanceTest.misuse(lost.get(0)::claim));
    // A failure of a batch without result is told by it.
    assertThrows(NotFound.class, () -> s.batch(() -> db.fetch("nobody").touch()));
    Runnable lostCall = () -> db.fetch("nobody").touch();
    assertThrows(UnseenException.class, () -> s.batch(lostCall));
    Map<String, Int> map = s.batch(() -> Map.of("ann", db.fetch("ann").visits()));
    assertEquals(0, map.get("ann").claim());
    assertEquals(2, s.batch(() -> new Int[] {s.value(1).plus(1)})[0].claim());
  }

  @Test
  void batchesOverlap() {
    DataElem bob = db.fetch("bob");
    s.sendBatch();
    bob.touch();
    s.sendBatch();
    Int count = bob.visits();
    s.sendBatch();
    assertEquals(1, count.claim());
    assertEquals(3, s.counters().crossings());
    DataElem zoe = db.fetch("zoe");
    s.sendBatch();
    assertThrows(NotFound.class, () -> zoe.name().claim());
    assertThrows(MisuseException.class, () -> s.foreach(db.users(), e -> s.sendBatch()));
  }

  @Test
  void callsByNameNeedNoStubs() {
    try (Session plain = Session.connect(server.url(), Options.defaults())) {
      Any people = plain.lookup("database", "DataBase");
      Any ann = people.call("DataBase.fetch", "ann");
      ann.call("DataElem.touch");
      assertEquals(1, ann.call("DataElem.visits").claim().integer());
      assertTrue(ann.claim().isObject());
      Cell.OfInt total = plain.cell(0L);
      plain.foreach(
          people.iterate("DataBase.users"),
          e -> total.put(total.get().plus(e.call("DataElem.visits").as(Int.TYPE))));
      assertEquals(1, total.get().claim());
      Any found = people.call("DataBase.matching", List.of("a", 0)).get();
      assertEquals("ann", found.items().get(0).claim().string());
      assertThrows(MissingException.class, () -> people.call("DataBase.fetsh", "ann").claim());
      assertThrows(MissingException.class, () -> plain.lookup("database", "Base").claim());
      assertThrows(MissingException.class, () -> plain.routine("none").claim());
      assertThrows(ClassCastException.class, () -> people.call("DataBase.fetch", new int[1]));
      SignalException none =
          assertThrows(SignalException.class, () -> people.call("DataBase.fetch", "zoe").claim());
      assertEquals("not_found", none.signal());
      // The refused argument has left nothing.
      assertEquals("ann", ann.call("DataElem.name").claim().string());
    }
  }

  @Test
  void placesAreNotedIfTheyAreWanted() {
    Options options = Database.options().withDebug(true);
    try (Session debug = Session.connect(server.url(), options)) {
      DataBase people = debug.lookup("database", DataBase.TYPE);
      NotFound none = assertThrows(NotFound.class, () -> people.fetch("nobody").name().claim());
      assertTrue(none.getMessage().contains("DataBase.fetch at SessionTest.java:"));
    }
    NotFound plain = assertThrows(NotFound.class, () -> db.fetch("nobody").name().claim());
    assertFalse(plain.getMessage().contains(" at "), plain.getMessage());
  }

  @Test
  void stubsOfOtherSessionsAndInterfacesAreRefused() {
    try (Session other = Database.connect(server.url())) {
      Str name = other.lookup("database", DataBase.TYPE).fetch("ann").name();
      assertEquals(Misuse.OTHER_SESSION, ConformanceTest.misuse(() -> db.fetch(name).await()));
      assertEquals(
          Misuse.OTHER_INTERFACE,
          ConformanceTest.misuse(() -> s.lookup("database", Probe.TYPE).await()));
    }
    s.clearExceptions();
    assertThrows(NullPointerException.class, () -> db.fetch((String) null));
    assertEquals(Misuse.NOT_TEXT, ConformanceTest.misuse(() -> db.fetch("\ud800").await()));
    assertThrows(IllegalArgumentException.class, () -> s.value("\ud800"));
    assertEquals("ann", db.fetch("ann").name().claim());
  }

  @Test
  void anAnswerHasATimeLimit() throws IOException {
    try (Server slow =
        Server.serve(
            "cases/programs/conformance.theta", "--set", "limits.batch_time_ms_max=60000")) {
      Options options = Conformance.options().withTimeout(Duration.ofMillis(300));
      try (Session waiting = Session.connect(slow.url(), options)) {
        Probe probe = waiting.lookup("probe", Probe.TYPE);
        assertEquals(1, probe.sameInt(1).claim());
        ClosedException late = assertThrows(ClosedException.class, () -> probe.endless().claim());
        assertInstanceOf(Failure.ByConnection.class, late.ending());
        assertTrue(waiting.isClosed());
      }
    }
    assertThrows(
        IllegalArgumentException.class, () -> Options.defaults().withTimeout(Duration.ZERO));
    assertThrows(IllegalArgumentException.class, () -> Options.defaults().withReplyBytesMax(0));
    assertThrows(IllegalArgumentException.class, () -> Transaction.defaults().withTries(65_536));
    assertThrows(IllegalArgumentException.class, () -> Transaction.defaults().withTries(-1));
    Transaction.defaults().withTries(65_535);
  }

  @Test
  void aSecondThreadIsRefused() throws Exception {
    Int visits = db.fetch("bob").visits();
    server.stop();
    Thread claiming = new Thread(visits::claim);
    claiming.start();
    while (claiming.getState() == Thread.State.NEW || s.counters().crossings() == 0) {
      Thread.onSpinWait();
    }
    // The thread has sent its batch, and waits for an answer that does not come yet.
    while (claiming.getState() != Thread.State.RUNNABLE || !isReading(claiming)) {
      Thread.onSpinWait();
    }
    IllegalStateException refused = assertThrows(IllegalStateException.class, s::exceptions);
    server.resume();
    claiming.join();
    assertEquals("another thread uses the session", refused.getMessage());
    assertEquals(0, visits.claim());
  }

  private static boolean isReading(Thread thread) {
    long frames =
        Arrays.stream(thread.getStackTrace())
            .filter(frame -> frame.getMethodName().equals("receive"))
            .count();
    // That of the session, and that of its connection.
    return frames > 1;
  }

  @Test
  void tokensAreShownToServersThatAskForThem() throws IOException {
    try (Server asking =
        Server.serve(
            "cases/programs/database.theta", "--listen", "tcp://127.0.0.1:0", "--token", "right")) {
      String url = asking.at("tcp");
      for (Options options : List.of(Database.options(), Database.options().withToken("wrong"))) {
        ClosedException refused =
            assertThrows(ClosedException.class, () -> Session.connect(url, options));
        Failure.ByServer why = assertInstanceOf(Failure.ByServer.class, refused.ending());
        assertEquals(Tables.ERROR_BAD_TOKEN, why.number());
      }
      Options right = Database.options().withToken("right");
      try (Session open = Session.connect(url, right)) {
        DataBase people = open.lookup("database", DataBase.TYPE);
        assertEquals("bob", people.fetch("bob").name().claim());
      }
    }
  }

  @Test
  void anotherKindOfServerIsNone() throws IOException {
    for (String answer : List.of("HTTP/1.1 200 OK\r\n\r\n", "")) {
      try (ServerSocket listener = new ServerSocket(0)) {
        Thread serving =
            new Thread(
                () -> {
                  try (Socket peer = listener.accept()) {
                    peer.getInputStream().read(new byte[4096]);
                    peer.getOutputStream().write(answer.getBytes(StandardCharsets.UTF_8));
                  } catch (IOException ended) {
                    Thread.currentThread().interrupt();
                  }
                });
        serving.start();
        assertThrows(
            ClosedException.class,
            () -> Database.connect("tcp://127.0.0.1:" + listener.getLocalPort()));
      }
    }
    assertThrows(ClosedException.class, () -> Database.connect("unix:///nothing/there"));
    assertThrows(IllegalArgumentException.class, () -> Database.connect("nothing"));
  }

  @Test
  void profilesAreAskedFor() {
    s.setProfiled(true);
    db.fetch("ann").visits().claim();
    Profile profile = s.profile();
    assertTrue(profile.nanoseconds() > 0);
    assertFalse(profile.entries().isEmpty());
    s.setProfiled(false);
    db.fetch("ann").visits().claim();
    assertNull(s.profile());
  }

  @Test
  void aCallThatIsNotEndedIsNotedByTheNext() {
    db.call(0, 1);
    assertThrows(IllegalStateException.class, () -> db.fetch("ann"));
  }
}
