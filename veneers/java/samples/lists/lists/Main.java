package lists;

import lists.Lists.Bounds;
import lists.Lists.IntList;
import org.bifrost.veneer.Cell;
import org.bifrost.veneer.Session;

/** A linked list at the server, walked in one crossing; with {@code examples/lists/lists.theta}. */
public final class Main {
  private Main() {}

  /** Runs the sample with the server at {@code BIFROST_URL}. */
  public static void main(String[] arguments) {
    try (Session s = Lists.connect(System.getenv("BIFROST_URL"))) {
      IntList squares = s.lookup("squares", IntList.TYPE);
      // Ten steps along the list, one crossing: every step uses a result that does not exist yet.
      IntList at = squares;
      for (int step = 0; step < 9; step++) {
        at = at.next();
      }
      long tenth = at.first().claim();
      System.out.println(
          "the 10th is " + tenth + ", after " + s.counters().crossings() + " crossing");

      // How far the list goes is not known here: a loop at the server finds out.
      Cell<IntList> place = s.cell(IntList.TYPE, squares);
      Cell.OfInt count = s.cell(0);
      s.while_(
          () -> place.get().notEmpty(),
          () -> {
            count.put(count.get().plus(1));
            place.put(place.get().next());
          });
      long elements = count.get().claim();
      System.out.println(
          "it has " + elements + " elements, after " + s.counters().crossings() + " crossings");

      // The same as a routine that the program has.
      System.out.println("the 10th is " + Lists.nth(s, squares, 10).claim());
      try {
        Lists.nth(s, squares, 101).claim();
      } catch (Bounds error) {
        System.out.println("the 101st: " + error.signal());
      }
    }
  }
}
