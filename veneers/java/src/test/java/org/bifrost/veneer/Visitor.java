package org.bifrost.veneer;

import org.bifrost.veneer.database.Database;
import org.bifrost.veneer.database.Database.DataBase;
import org.bifrost.veneer.database.Database.DataElem;

/**
 * A client among many of one server: {@code Visitor NAME TIMES} visits Ann and a person of its own,
 * so many times. {@code veneers/together.sh} runs it beside clients in other languages, over other
 * media.
 */
public final class Visitor {
  private Visitor() {}

  /** Runs the client with the server at {@code BIFROST_URL}. */
  public static void main(String[] arguments) {
    String name = arguments[0];
    int times = Integer.parseInt(arguments[1]);
    try (Session s = Database.connect(System.getenv("BIFROST_URL"))) {
      DataBase db = s.lookup("database", DataBase.TYPE);
      DataElem own = s.transaction(() -> db.newUser(name));
      long last = -1;
      for (int i = 0; i < times; i++) {
        Int visits =
            s.transaction(
                () -> {
                  DataElem ann = db.fetch("ann");
                  ann.touch();
                  own.touch();
                  return ann.visits();
                });
        long seen = visits.claim();
        if (seen <= last) {
          throw new IllegalStateException("Ann had " + last + " visits, and has " + seen);
        }
        last = seen;
      }
      System.out.println(name + ": " + own.visits().claim() + " visits, Ann at least " + last);
    }
  }
}
