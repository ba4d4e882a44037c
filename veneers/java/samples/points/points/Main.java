package points;

import org.bifrost.veneer.Cell;
import org.bifrost.veneer.Done;
import org.bifrost.veneer.Int;
import org.bifrost.veneer.Procedure;
import org.bifrost.veneer.Session;
import points.Points.ListOfInt;
import points.Points.Point;

/**
 * Points that are moved and swapped, a procedure, and a list; with {@code
 * examples/points/points.theta}.
 */
public final class Main {
  private Main() {}

  private static void show(Point home) {
    Int x = home.x();
    Int y = home.y();
    System.out.println("x = " + x.claim() + ", y = " + y.claim());
  }

  /** Runs the sample with the server at {@code BIFROST_URL}. */
  public static void main(String[] arguments) {
    try (Session s = Points.connect(System.getenv("BIFROST_URL"))) {
      // Swap the coordinates of a point, step by step: one crossing.
      Point home = s.lookup("home", Point.TYPE);
      Int x = home.x();
      home.setX(home.y());
      home.setY(x);
      show(home);

      // A procedure is a batch with a name: defined once, called like a routine.
      Procedure.Of2<Point, Int, Done> move =
          s.procedure(
              "move",
              Point.TYPE,
              Int.TYPE,
              Done.TYPE,
              (self, point, by) -> {
                point.setX(point.x().plus(by));
                return point.setY(point.y().plus(by));
              });
      move.invoke(home, 10L);
      move.invoke(home, 100L);
      show(home);

      // The sum of a list, with a loop over a cell.
      Cell<ListOfInt> at = s.cell(ListOfInt.TYPE, s.lookup("primes", ListOfInt.TYPE));
      Cell.OfInt total = s.cell(0);
      s.while_(
          () -> at.get().notEmpty(),
          () -> {
            total.put(total.get().plus(at.get().first()));
            at.put(at.get().next());
          });
      long sum = total.get().claim();
      System.out.println("sum = " + sum + ", after " + s.counters().crossings() + " crossings");

      // Or the whole list at once, as a list of Java.
      System.out.println("primes: " + s.lookup("primes", ListOfInt.TYPE).get().claim());
    }
  }
}
