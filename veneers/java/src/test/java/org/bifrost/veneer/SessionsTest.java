package org.bifrost.veneer;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.bifrost.veneer.hermitage.Hermitage;
import org.bifrost.veneer.hermitage.Hermitage.NotFound;
import org.bifrost.veneer.hermitage.Hermitage.Row;
import org.bifrost.veneer.hermitage.Hermitage.Table;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** The cases of {@code cases/sessions.yaml}: several sessions at one server. */
class SessionsTest {
  private Server server;
  private final List<Session> sessions = new ArrayList<>();

  @BeforeEach
  void serve() throws IOException {
    server = Server.serve("cases/programs/hermitage.theta");
  }

  @AfterEach
  void end() {
    sessions.forEach(Session::close);
    server.close();
  }

  /** A session, with the table and its first rows. */
  private final class Seat {
    final Session s = Hermitage.connect(server.url());
    final Table t = s.lookup("table", Table.TYPE);
    final Row one = t.row(1);
    final Row two = t.row(2);

    Seat() {
      sessions.add(s);
      s.commit();
    }

    void conflicts() {
      assertTrue(assertThrows(RefusedException.class, s::commit).isConflict());
    }

    List<Long> values() {
      Int first = one.value();
      Int second = two.value();
      return List.of(first.claim(), second.claim());
    }
  }

  @Test
  void g0WriteCycles() {
    Seat a = new Seat();
    Seat b = new Seat();
    a.one.put(11);
    a.s.flush();
    b.one.put(12);
    b.s.flush();
    a.two.put(21);
    a.s.commit();
    b.two.put(22);
    b.conflicts();
    assertEquals(List.of(11L, 21L), b.values());
  }

  @Test
  void g1aAbortedReads() {
    Seat a = new Seat();
    Seat b = new Seat();
    a.one.put(101);
    a.s.flush();
    assertEquals(10, b.one.value().claim());
    a.s.abort();
    assertEquals(10, b.one.value().claim());
    b.s.commit();
  }

  @Test
  void g1bIntermediateReads() {
    Seat a = new Seat();
    Seat b = new Seat();
    a.one.put(101);
    a.s.flush();
    assertEquals(10, b.one.value().claim());
    a.one.put(11);
    a.s.commit();
    assertEquals(10, b.one.value().claim());
    b.conflicts();
    assertEquals(11, b.one.value().claim());
  }

  @Test
  void g1cCircularInformationFlow() {
    Seat a = new Seat();
    Seat b = new Seat();
    a.one.put(11);
    a.s.flush();
    b.two.put(22);
    b.s.flush();
    assertEquals(20, a.two.value().claim());
    assertEquals(10, b.one.value().claim());
    a.s.commit();
    b.conflicts();
    assertEquals(List.of(11L, 20L), b.values());
  }

  @Test
  void otvObservedTransactionVanishes() {
    Seat a = new Seat();
    Seat b = new Seat();
    Seat c = new Seat();
    a.one.put(11);
    a.two.put(19);
    a.s.flush();
    b.one.put(12);
    b.s.flush();
    a.s.commit();
    assertEquals(11, c.one.value().claim());
    b.two.put(18);
    b.conflicts();
    assertEquals(19, c.two.value().claim());
    assertEquals(List.of(11L, 19L), c.values());
    c.s.commit();
  }

  @Test
  void pmpPredicateManyPreceders() {
    Seat a = new Seat();
    Seat b = new Seat();
    assertEquals(0, a.t.withValue(30).claim());
    b.t.insert(3, 30);
    b.s.commit();
    assertEquals(0, a.t.divisible(3).claim());
    a.conflicts();
    assertEquals(1, a.t.divisible(3).claim());
    a.s.commit();
  }

  @Test
  void pmpWithChanges() {
    Seat a = new Seat();
    Seat b = new Seat();
    Runnable remove =
        () ->
            b.s.foreach(b.t.rows(), row -> b.s.if_(row.value().eq(20), () -> b.t.remove(row.id())));
    a.s.foreach(a.t.rows(), row -> row.add(10));
    a.s.flush();
    remove.run();
    b.s.flush();
    a.s.commit();
    b.conflicts();
    remove.run();
    b.s.commit();
    assertEquals(30, b.t.total().claim());
  }

  @Test
  void p4LostUpdate() {
    Seat a = new Seat();
    Seat b = new Seat();
    Int first = a.one.value();
    Int second = b.one.value();
    assertEquals(10, first.claim());
    assertEquals(10, second.claim());
    a.one.put(first.plus(1));
    a.s.commit();
    b.one.put(second.plus(1));
    b.conflicts();
    // The same again, with the value that is there now.
    b.one.put(b.one.value().plus(1));
    b.s.commit();
    assertEquals(12, b.one.value().claim());
  }

  @Test
  void gSingleReadSkew() {
    Seat a = new Seat();
    Seat b = new Seat();
    assertEquals(10, a.one.value().claim());
    b.one.put(12);
    b.two.put(18);
    b.s.commit();
    assertEquals(20, a.two.value().claim());
    a.two.put(0);
    a.conflicts();
    assertEquals(List.of(12L, 18L), a.values());
    a.s.commit();
  }

  @Test
  void g2ItemWriteSkew() {
    Seat a = new Seat();
    Seat b = new Seat();
    assertEquals(List.of(10L, 20L), a.values());
    assertEquals(List.of(10L, 20L), b.values());
    a.one.put(11);
    a.s.flush();
    b.two.put(21);
    b.s.flush();
    a.s.commit();
    b.conflicts();
    assertEquals(31, b.t.total().claim());
  }

  @Test
  void g2AntiDependencyCycles() {
    Seat a = new Seat();
    Seat b = new Seat();
    assertEquals(0, a.t.divisible(3).claim());
    assertEquals(0, b.t.divisible(3).claim());
    a.t.insert(3, 30);
    a.s.flush();
    b.t.insert(4, 42);
    b.s.flush();
    a.s.commit();
    b.conflicts();
    b.s.if_(b.t.divisible(3).eq(0), () -> b.t.insert(4, 42));
    b.s.commit();
    assertEquals(1, b.t.divisible(3).claim());
  }

  @Test
  void g2TwoEdges() {
    Seat a = new Seat();
    Seat b = new Seat();
    Seat c = new Seat();
    assertEquals(30, a.t.total().claim());
    b.two.add(5);
    b.s.commit();
    assertEquals(35, c.t.total().claim());
    c.s.commit();
    a.one.put(0);
    a.conflicts();
    assertEquals(35, a.t.total().claim());
  }

  @Test
  void changesAreSeenAfterTheCommit() {
    Seat a = new Seat();
    Seat b = new Seat();
    Row three = a.t.insert(3, 30);
    a.s.flush();
    NotFound none = assertThrows(NotFound.class, () -> b.t.row(3).await());
    assertEquals(List.of(3L), none.values());
    assertEquals(30, b.t.total().claim());
    b.s.commit();
    a.s.commit();
    Row same = b.t.row(3);
    assertEquals(60, b.t.total().claim());
    same.add(1);
    b.s.commit();
    assertEquals(31, three.value().claim());
  }

  @Test
  void changesOfDifferentObjectsDoNotConflict() {
    Seat a = new Seat();
    Seat b = new Seat();
    a.one.add(1);
    a.s.flush();
    b.two.add(1);
    b.s.flush();
    a.s.commit();
    b.s.commit();
    assertEquals(32, b.t.total().claim());
  }

  @Test
  void commandsBehindAConflictAreNotReached() {
    Seat a = new Seat();
    Seat b = new Seat();
    assertEquals(10, b.one.value().claim());
    a.one.add(1);
    a.s.commit();
    b.one.add(1);
    Done done = b.s.recordCommit();
    b.one.add(1);
    Int value = b.one.value();
    assertTrue(assertThrows(RefusedException.class, done::claim).isConflict());
    // The failure is that of the commit, with the call that followed from it.
    RefusedException behind = assertThrows(RefusedException.class, value::claim);
    assertInstanceOf(Failure.NotReached.class, behind.failure());
    assertEquals("Row.value", behind.via().get(0).name());
    assertEquals(11, b.one.value().claim());
  }

  @Test
  void aConflictUndoesObjects() {
    Seat a = new Seat();
    Seat b = new Seat();
    assertEquals(30, a.t.total().claim());
    Row three = a.t.insert(3, 1);
    a.s.flush();
    b.t.insert(3, 2);
    b.s.commit();
    a.conflicts();
    RefusedException gone = assertThrows(RefusedException.class, three.value()::claim);
    assertEquals("NoSuchHandle", gone.error());
    assertEquals(2, a.t.row(3).value().claim());
    a.s.commit();
  }

  @Test
  void conflictsAreRunAgainByTheServer() throws Exception {
    Callable<Boolean> work =
        () -> {
          try (Session s = Hermitage.connect(server.url())) {
            Table t = s.lookup("table", Table.TYPE);
            s.transaction(
                Transaction.defaults().withTries(30),
                () -> s.foreach(s.value(1).to(1000), i -> s.foreach(t.rows(), row -> row.add(1))));
            return true;
          }
        };
    ExecutorService threads = Executors.newFixedThreadPool(3);
    try {
      for (Future<Boolean> done : threads.invokeAll(List.of(work, work, work))) {
        assertTrue(done.get());
      }
    } finally {
      threads.shutdownNow();
    }
    assertEquals(6030, new Seat().t.total().claim());
  }

  @Test
  void aWaitIsEndedByAChange() {
    Seat a = new Seat();
    Seat b = new Seat();
    assertEquals(10, a.one.value().claim());
    Bool changed = a.s.await(60_000);
    Int after = a.one.value();
    Done done = a.s.recordCommit();
    a.s.sendBatch();
    b.one.put(11);
    b.s.abort();
    b.one.put(12);
    b.s.commit();
    assertTrue(changed.claim());
    assertEquals(12, after.claim());
    done.claim();
  }

  @Test
  void aWaitMissesNoChange() {
    Seat a = new Seat();
    Seat b = new Seat();
    assertEquals(10, a.one.value().claim());
    b.two.put(21);
    b.s.commit();
    assertFalse(a.s.await(10).claim());
    b.one.put(11);
    b.s.commit();
    assertTrue(a.s.await(60_000).claim());
    assertEquals(11, a.one.value().claim());
  }

  @Test
  void aLiveBatchIsRunAgain() {
    Seat a = new Seat();
    Seat b = new Seat();
    long before = a.s.counters().crossings();
    Iterator<Rows> views =
        a.s
            .live(
                () -> {
                  Rows view = a.s.rows(Int.TYPE, Int.TYPE);
                  a.s.foreach(a.t.rows(), row -> view.push(row.id(), row.value()));
                  return view;
                })
            .iterator();
    assertEquals("[[1, 10], [2, 20]]", views.next().claim().toString());
    b.two.put(22);
    b.s.commit();
    assertEquals("[[1, 10], [2, 22]]", views.next().claim().toString());
    b.t.insert(3, 30);
    b.t.remove(1);
    b.s.commit();
    assertEquals("[[2, 22], [3, 30]]", views.next().claim().toString());
    assertEquals(before + 3, a.s.counters().crossings());
  }
}
