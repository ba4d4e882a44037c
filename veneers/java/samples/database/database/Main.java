package database;

import database.Database.DataBase;
import database.Database.DataElem;
import database.Database.NotFound;
import java.util.Locale;
import org.bifrost.veneer.Cell;
import org.bifrost.veneer.Failure;
import org.bifrost.veneer.Int;
import org.bifrost.veneer.Procedure;
import org.bifrost.veneer.Session;
import org.bifrost.veneer.Str;
import org.bifrost.veneer.UnseenException;

/**
 * A tour of what a client can batch, with the objects of {@code examples/database/database.theta}.
 * Prints what {@code examples/database/rust/src/bin/tour.rs} prints.
 */
public final class Main {
  private Main() {}

  private static void futures(Session s, DataBase db) {
    // Every call returns at once. `carol` is used before anybody knows which object it is.
    DataElem carol = db.newUser("carol");
    carol.touch();
    carol.touch();
    // A promise can be an argument: the server puts the value in.
    DataElem child = db.newUser(carol.name().concat(" junior"));
    db.loopFetch(carol.name(), carol.visits());
    Str name = child.name();
    Int visits = carol.visits();
    System.out.println("before the first claim: " + s.counters().crossings() + " crossings");
    System.out.println(name.claim() + " is there; carol has " + visits.claim() + " visits");
    // One flush kept all promises.
    System.out.println("after two claims: " + s.counters().crossings() + " crossing");
  }

  private static void structures(Session s, DataBase db) {
    // A loop whose state is a cell at the server. The block runs once, here, and records what the
    // server repeats.
    DataElem bob = db.fetch("bob");
    Cell.OfInt rounds = s.cell(0);
    s.while_(
        () -> rounds.get().lt(10),
        () -> {
          bob.touch();
          rounds.put(rounds.get().plus(1));
        });
    System.out.println(
        "bob: " + bob.visits().claim() + " visits after " + rounds.get().claim() + " rounds");

    // Over an iterator of the server: skip whom nobody visits, and stop after the first with many.
    db.fetch("ann").touch();
    Cell.OfStr seen = s.cell("");
    s.foreach(
        db.users(),
        user -> {
          s.if_(user.visits().eq(0), s::continue_);
          seen.put(seen.get().concat(user.name()).concat(" "));
          s.if_(user.visits().gt(5), s::break_).else_(user::touch);
        });
    System.out.println("visited, up to the first with many: " + seen.get().claim().stripTrailing());

    // A batch with a name and parameters, sent once and called as often as you like.
    Procedure.Of2<Str, Int, Int> visit =
        s.procedure(
            "visit",
            Str.TYPE,
            Int.TYPE,
            Int.TYPE,
            (self, name, times) -> {
              DataElem user = db.fetch(name);
              s.foreach(s.value(1).to(times), n -> user.touch());
              return user.visits();
            });
    Int ann = visit.invoke("ann", 2L);
    Int eve = visit.invoke("eve", ann.plus(1));
    System.out.println("ann: " + ann.claim() + ", eve: " + eve.claim());
  }

  /** Returns a failure without the places in this file, which change when it is edited. */
  private static String brief(Failure failure) {
    Failure.CallName call = failure.call();
    String name = call == null ? "?" : call.name();
    // A call that was not run has the first failure as its cause.
    return failure instanceof Failure.Signal signal
        ? name + " signalled " + signal.name()
        : name + " was not run";
  }

  private static void exceptions(Session s, DataBase db) {
    // Handled at the server: who is not there is made.
    Cell<DataElem> found = s.cell(DataElem.TYPE);
    s.except(() -> found.put(db.fetch("dora")))
        .when(NotFound.TYPE, () -> found.put(db.newUser("dora")));
    System.out.println(found.get().name().claim() + " is there now");

    // Not handled: thrown by the claim, which says what went wrong and where.
    DataElem zoe = db.fetch("zoe");
    zoe.touch();
    try {
      System.out.println("zoe: " + zoe.visits().claim());
    } catch (NotFound error) {
      System.out.println("zoe: " + error.signal());
    }
    // A failure whose stub was released is told by the next claim, flush or commit.
    db.newUser("bob").release();
    try {
      s.flush();
    } catch (UnseenException unseen) {
      System.out.println("the flush: " + brief(unseen.failures().get(0)));
    }
    // All of them are in the history.
    for (Failure.Entry entry : s.exceptions()) {
      System.out.println("history: " + brief(entry.failure()));
    }
  }

  /** Runs the sample with the server at {@code BIFROST_URL}. */
  public static void main(String[] arguments) {
    try (Session s =
        Session.connect(System.getenv("BIFROST_URL"), Database.options().withName("tour"))) {
      DataBase db = s.lookup("database", DataBase.TYPE);
      futures(s, db);
      structures(s, db);
      exceptions(s, db);
      Session.Counters c = s.counters();
      System.out.printf(
          Locale.ROOT,
          "%d commands, %d crossings: B = %.1f%n",
          c.calls(),
          c.crossings(),
          (double) c.calls() / c.crossings());
    }
  }
}
