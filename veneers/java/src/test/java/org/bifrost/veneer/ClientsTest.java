package org.bifrost.veneer;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import java.util.stream.LongStream;
import org.bifrost.veneer.actors.Actors;
import org.bifrost.veneer.actors.Actors.Adder;
import org.bifrost.veneer.conformance.Conformance;
import org.bifrost.veneer.conformance.Conformance.Counter;
import org.bifrost.veneer.conformance.Conformance.Item;
import org.bifrost.veneer.conformance.Conformance.Line;
import org.bifrost.veneer.conformance.Conformance.Probe;
import org.bifrost.veneer.conformance.Conformance.Shape;
import org.bifrost.veneer.conformance.Conformance.Spot;
import org.bifrost.veneer.database.Database;
import org.bifrost.veneer.database.Database.DataBase;
import org.bifrost.veneer.database.Database.DataElem;
import org.bifrost.veneer.database.Database.NotFound;
import org.bifrost.veneer.database.Database.NotPossible;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** The cases of {@code cases/clients.yaml} and {@code cases/limits.yaml}, each under its name. */
class ClientsTest {
  private Server server;
  private Session s;
  private DataBase db;
  private Probe p;

  /** Opens a session with a server of the database. */
  private void people(String program) throws IOException {
    server = Server.serve("cases/programs/" + program + ".theta");
    s = Database.connect(server.url());
    db = s.lookup("database", DataBase.TYPE);
  }

  /** Opens a session with a server of the conformance program. */
  private void probe(String... arguments) throws IOException {
    server = Server.serve("cases/programs/conformance.theta", arguments);
    s = Conformance.connect(server.url());
    p = s.lookup("probe", Probe.TYPE);
  }

  @AfterEach
  void end() {
    s.close();
    server.close();
  }

  private void crossings(long count) {
    assertEquals(count, s.counters().crossings());
  }

  @Test
  void aTableOfRows() throws IOException {
    people("database");
    Rows t = s.rows(DataElem.TYPE, Str.TYPE, Int.TYPE);
    s.foreach(
        db.users(),
        e -> {
          e.touch();
          t.push(e, e.name(), e.visits());
        });
    List<Rows.Row> rows = t.claim();
    assertEquals(3, rows.size());
    String name = rows.get(1).get(1);
    long visits = rows.get(1).get(2);
    DataElem bob = rows.get(1).get(0);
    assertEquals("bob", name);
    assertEquals(1, visits);
    crossings(1);
    assertEquals("bob", bob.name().claim());
    t.push(db.fetch("ann"), "ann", 1);
    assertEquals(Misuse.ENDED_TABLE, ConformanceTest.misuse(s::flush));
  }

  @Test
  void aTableWithABreak() throws IOException {
    people("database");
    Rows t = s.rows(Str.TYPE);
    Rows none = s.rows(Int.TYPE, Bool.TYPE);
    s.foreach(
        db.users(),
        e -> {
          s.if_(e.name().eq("eve"), s::break_);
          t.push(e.name());
        });
    assertEquals("[[ann], [bob]]", t.claim().toString());
    assertEquals(List.of(), none.claim());
    assertThrows(IllegalArgumentException.class, () -> none.push(1));
  }

  @Test
  void aWideCall() throws IOException {
    server = Server.serve("cases/programs/wide.theta");
    s = Session.connect(server.url(), Options.defaults());
    Object[] numbers = LongStream.rangeClosed(1, 22).boxed().toArray();
    Any sum = s.routine("wide_sum", numbers);
    assertEquals(1 + 50 + 2_100 + 22_000, sum.claim().integer());
  }

  @Test
  void compoundsCrossByValue() throws IOException {
    probe();
    var v = p.values();
    Int total = v.total(List.of(1L, 2L, 3L, 4L));
    Int none = v.total(List.of());
    Int nested = v.nested(List.of(List.of(1L, 2L), List.of(), List.of(3L)));
    Int far = v.distance(new Line("x", new Spot(1, 1), new Spot(3, 4)));
    Str dot = v.area(new Shape.Dot(new Spot(1, 2)));
    Str circle = v.area(new Shape.Circle(0.5));
    Str nothing = v.area(new Shape.Nothing());
    Str nobody = v.named(Optional.empty());
    Str eve = v.named(Optional.of("eve"));
    Got<List<Long>> twice = v.twice(List.of(5L, 6L)).get();
    Got<Shape> shape = v.shape(3).get();
    var counts = v.counts().get();
    assertEquals(10, total.claim());
    assertEquals(0, none.claim());
    assertEquals(6, nested.claim());
    assertEquals(105, far.claim());
    assertEquals("{dot: {x: 1, y: 2}}", dot.claim());
    assertEquals("{circle: 0.5}", circle.claim());
    assertEquals("{nothing: nil}", nothing.claim());
    assertEquals("nobody", nobody.claim());
    assertEquals("eve", eve.claim());
    assertEquals(List.of(10L, 12L), twice.claim());
    assertEquals(new Shape.Dot(new Spot(3, 0)), shape.claim());
    assertEquals(new Spot(2, 2), counts.claim().get("two"));
    crossings(1);
  }

  @Test
  void typesAtRunTime() throws IOException {
    probe();
    s.foreach(p.items(), item -> s.if_(item.is(Counter.TYPE), () -> item.as(Counter.TYPE).add(7)));
    Int seven = p.counter().value();
    Item a = p.item("a");
    Bool no = a.is(Counter.TYPE);
    Bool yes = p.counter().is(Item.TYPE);
    Int value = a.as(Counter.TYPE).value();
    assertEquals(7, seven.claim());
    assertFalse(no.claim());
    assertTrue(yes.claim());
    SignalException wrong = assertThrows(SignalException.class, value::claim);
    assertEquals("wrong_type", wrong.signal());
  }

  @Test
  void transactionsCommitAndAbort() throws IOException {
    people("database");
    DataElem e = db.fetch("eve");
    e.touch();
    Done done = s.recordCommit();
    e.touch();
    Int two = e.visits();
    Done undone = s.recordAbort();
    Int one = e.visits();
    done.claim();
    undone.claim();
    assertEquals(2, two.claim());
    assertEquals(1, one.claim());
    crossings(1);
  }

  @Test
  void aCommitNamesUnseenFailures() throws IOException {
    people("database");
    db.fetch("nobody").release();
    UnseenException unseen = assertThrows(UnseenException.class, s::commit);
    assertEquals(1, unseen.getSuppressed().length);
    assertInstanceOf(NotFound.class, unseen.getSuppressed()[0]);
    assertEquals("commit", unseen.failure().call().name());
    assertThrows(NotFound.class, () -> db.fetch("nobody").await());
    s.commit();
  }

  @Test
  void aRefusedCallPreventsTheCommitLive() throws IOException {
    people("database");
    DataElem bob = db.fetch("bob");
    bob.touch();
    List<DataElem> left = new ArrayList<>();
    s.foreach(db.users(), left::add);
    left.get(0).touch();
    UnseenException unseen = assertThrows(UnseenException.class, s::commit);
    MisuseException misuse = assertInstanceOf(MisuseException.class, unseen.getSuppressed()[0]);
    assertEquals(Misuse.OUT_OF_SCOPE, misuse.misuse());
    // The transaction was aborted; told once, it prevents no further commit.
    assertEquals(0, bob.visits().claim());
    bob.touch();
    s.commit();
    assertEquals(1, bob.visits().claim());
  }

  private record Made(DataElem elem, Int visits) {}

  private Made newUser() {
    DataElem e = db.newUser("zoe");
    e.touch();
    return new Made(e, e.visits());
  }

  @Test
  void aBatchIsATransaction() throws IOException {
    people("database");
    Made made = s.transaction(Transaction.defaults().withTries(3), this::newUser);
    assertEquals(1, made.visits().claim());
    UnseenException unseen =
        assertThrows(UnseenException.class, () -> s.transaction(this::newUser));
    assertInstanceOf(NotPossible.class, unseen.getSuppressed()[0]);
    assertEquals(1, made.elem().visits().claim());
    // A body that throws: nothing of it is done.
    Runnable throwing =
        () -> {
          made.elem().touch();
          throw new ArithmeticException();
        };
    assertThrows(ArithmeticException.class, () -> s.transaction(throwing));
    assertEquals(1, made.elem().visits().claim());
  }

  @Test
  void aNamedBatchIsDoneOnce() throws IOException {
    people("database");
    UUID client = UUID.randomUUID();
    for (int time = 0; time < 3; time++) {
      try (Session again = Database.connect(server.url())) {
        DataBase people = again.lookup("database", DataBase.TYPE);
        Int visits =
            again.transaction(
                Transaction.defaults().withName(client, 1),
                () -> {
                  DataElem bob = people.fetch("bob");
                  bob.touch();
                  return bob.visits();
                });
        assertEquals(1, visits.claim());
      }
    }
    assertEquals(1, db.fetch("bob").visits().claim());
  }

  @Test
  void aWaitWithoutChanges() throws IOException {
    people("database");
    Int visits = db.fetch("eve").visits();
    Bool changed = s.await(10);
    assertEquals(0, visits.claim());
    assertFalse(changed.claim());
  }

  @Test
  void actorsAnswerAndAreSentTo() throws IOException {
    server = Server.serve("cases/programs/actors.theta");
    s = Actors.connect(server.url());
    Adder adder = s.lookup("adder", Adder.TYPE);
    Int one = adder.add(1);
    adder.sendAdd(10);
    Int value = adder.value();
    Int wrong = adder.add(-5);
    assertEquals(1, one.claim());
    assertEquals(11, value.claim());
    Actors.Negative negative = assertThrows(Actors.Negative.class, wrong::claim);
    assertEquals(List.of(-5L), negative.values());
  }

  @Test
  void anotherInterfaceAtTheServer() throws IOException {
    people("database_other");
    DataElem e = db.fetch("eve");
    e.touch();
    assertEquals(1, e.visits().claim());
    assertEquals("eve", e.name().claim());
    long before = s.counters().crossings();
    Str after = db.newUser("zoe").name();
    Done other = db.loopFetch("eve", 1);
    MissingException first = assertThrows(MissingException.class, after::claim);
    assertTrue(first.getMessage().contains("DataBase.new_user"), first.getMessage());
    MissingException second = assertThrows(MissingException.class, other::claim);
    assertTrue(second.getMessage().contains("DataBase.loop_fetch"), second.getMessage());
    assertEquals(before, s.counters().crossings());
    s.clearExceptions();
    s.foreach(db.users(), DataElem::touch);
    UnseenException unseen = assertThrows(UnseenException.class, s::flush);
    assertInstanceOf(MissingException.class, unseen.getSuppressed()[0]);
  }

  @Test
  void futuresAreMappedAgainLive() throws IOException {
    probe("--set", "limits.futures_max=50");
    Cell.OfInt total = s.cell(0);
    for (int i = 0; i < 40; i++) {
      total.put(total.get().plus(1));
    }
    assertEquals(40, total.get().claim());
    crossings(3);
  }

  @Test
  void manyResultsAreMappedAgain() throws IOException {
    probe();
    List<Item> items = new ArrayList<>();
    for (int i = 0; i < 16_400; i++) {
      items.add(p.fresh());
    }
    crossings(1);
    List<Str> names = items.stream().map(Item::name).toList();
    crossings(2);
    names.forEach(name -> assertEquals("fresh", name.claim()));
    crossings(3);
    items.forEach(Stub::release);
    s.flush();
    assertEquals(1, p.sameInt(1).claim());
  }

  @Test
  void aMillionDroppedStubsLeaveNothing() throws IOException {
    probe("--set", "limits.handles_max=8");
    s.flush();
    for (int i = 0; i < 1_000_000; i++) {
      p.fresh().release();
    }
    s.flush();
    assertEquals("fresh", p.fresh().name().claim());
    assertEquals(1_000_003, s.counters().calls());
    // Those without a reference are given back by the garbage collector, some time after.
    for (int i = 0; i < 50; i++) {
      for (int j = 0; j < 4; j++) {
        p.fresh().await();
      }
      System.gc();
      awaitCollection();
      s.flush();
    }
  }

  /** Waits until the garbage collector has told of the stubs that are gone. */
  private static void awaitCollection() {
    java.lang.ref.ReferenceQueue<Object> queue = new java.lang.ref.ReferenceQueue<>();
    java.lang.ref.PhantomReference<Object> probe =
        new java.lang.ref.PhantomReference<>(new Object(), queue);
    try {
      while (queue.remove(100) == null) {
        System.gc();
      }
    } catch (InterruptedException interrupted) {
      throw new IllegalStateException(probe.toString(), interrupted);
    }
  }

  @Test
  void commandsAreSentEarly() throws IOException {
    probe();
    for (int i = 0; i < 300; i++) {
      p.nothing();
    }
    assertEquals(1, p.sameInt(1).claim());
    assertEquals(new Session.Counters(1, 302, 301), s.counters());
  }

  @Test
  void straightFuturesTakeOneCrossing() throws IOException {
    probe();
    Probe last = p;
    for (int i = 0; i < 300; i++) {
      last = last.itself();
    }
    Str name = last.counter().name();
    crossings(0);
    assertEquals("counter", name.claim());
    crossings(1);
    assertEquals(303, s.counters().calls());
  }

  @Test
  void aConnectionThatIsCut() throws Exception {
    probe();
    Int one = p.sameInt(1);
    assertEquals(1, one.claim());
    Int two = p.sameInt(2);
    server.kill();
    assertThrows(ClosedException.class, two::claim);
    assertThrows(ClosedException.class, () -> p.sameInt(3).claim());
    assertEquals(1, one.claim());
    assertTrue(s.isClosed());
  }

  @Test
  void aSessionIsLeft() throws IOException {
    people("database");
    db.fetch("eve").touch();
    s.recordCommit();
    s.close();
    assertThrows(ClosedException.class, () -> db.fetch("eve").visits().claim());
    try (Session again = Database.connect(server.url())) {
      DataBase people = again.lookup("database", DataBase.TYPE);
      // The end of a session is not awaited: its last batch may still run.
      long seen = 0;
      long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(10);
      while (seen == 0 && System.nanoTime() < end) {
        again.abort();
        seen = people.fetch("eve").visits().claim();
      }
      assertEquals(1, seen);
    }
  }

  @Test
  void andByACellLive() throws IOException {
    probe();
    Bool both =
        s.value(false)
            .and(
                () -> {
                  p.choose(3);
                  return s.value(true);
                });
    assertFalse(both.claim());
    assertTrue(s.exceptions().isEmpty());
  }

  @Test
  void namesOfTheRootDirectory() throws IOException {
    probe();
    Directory d = Conformance.root(s);
    Str name = d.lookup("counter").as(Counter.TYPE).name();
    Any gone = d.lookup("again");
    Rows names = s.rows(Str.TYPE);
    s.foreach(d.names(), names::push);
    Done refused = d.insert("again", p.counter());
    RefusedException not = assertThrows(RefusedException.class, refused::claim);
    assertEquals("NotAllowed", not.error());
    assertEquals("counter", name.claim());
    assertEquals("[[counter], [probe]]", names.claim().toString());
    SignalException none = assertThrows(SignalException.class, gone::claim);
    assertEquals("not_found", none.signal());
  }
}
