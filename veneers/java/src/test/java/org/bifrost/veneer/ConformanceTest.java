package org.bifrost.veneer;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.bifrost.veneer.conformance.Conformance;
import org.bifrost.veneer.conformance.Conformance.Counter;
import org.bifrost.veneer.conformance.Conformance.Everything;
import org.bifrost.veneer.conformance.Conformance.Item;
import org.bifrost.veneer.conformance.Conformance.NotFound;
import org.bifrost.veneer.conformance.Conformance.Odd;
import org.bifrost.veneer.conformance.Conformance.Overflow;
import org.bifrost.veneer.conformance.Conformance.Probe;
import org.bifrost.veneer.conformance.Conformance.Rejected;
import org.bifrost.veneer.conformance.Conformance.Spot;
import org.bifrost.veneer.conformance.Conformance.SpotRef;
import org.bifrost.veneer.conformance.Conformance.Tagged;
import org.bifrost.veneer.conformance.Conformance.Third;
import org.bifrost.veneer.conformance.Conformance.WrongTag;
import org.bifrost.veneer.conformance.Conformance.Zero;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** The cases of {@code cases/conformance.yaml} in the words of the Java library. */
class ConformanceTest {
  private Server server;
  private Session s;
  private Probe p;

  @BeforeEach
  void serve() throws IOException {
    server = Server.serve("cases/programs/conformance.theta");
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

  /** Returns the misuse that a claim or a flush tells. */
  static Misuse misuse(org.junit.jupiter.api.function.Executable work) {
    BifrostException told = assertThrows(BifrostException.class, work);
    Throwable first = told instanceof UnseenException ? told.getSuppressed()[0] : told;
    return assertInstanceOf(MisuseException.class, first).misuse();
  }

  @Test
  void valuesComeBackAsTheyWent() {
    long[] ints = {0, 1, -1, Long.MIN_VALUE, Long.MAX_VALUE};
    double[] reals = {0.0, -0.0, 0.1, Double.MIN_VALUE, Double.NEGATIVE_INFINITY, Double.NaN, 1};
    int[] chars = {0, 'x', '€', 0xd7ff, 0x10ffff};
    String[] texts = {"", "a", "1234567", "12345678", "äß€🦀\0\n\"", "long ".repeat(5000)};
    byte[][] datas = {{}, {0}, {-1, -1, -1, -1, -1, -1, -1, -1}, new byte[100_000]};
    List<Runnable> checks = new ArrayList<>();
    for (long one : ints) {
      Int same = p.sameInt(one);
      checks.add(() -> assertEquals(one, same.claim()));
    }
    for (double one : reals) {
      Real same = p.sameReal(one);
      checks.add(() -> assertEquals(one, same.claim()));
    }
    for (int one : chars) {
      Char same = p.sameChar(one);
      checks.add(() -> assertEquals(one, same.claim()));
    }
    for (String one : texts) {
      Str same = p.sameString(one);
      checks.add(() -> assertEquals(one, same.claim()));
    }
    for (byte[] one : datas) {
      Bytes same = p.sameBytes(one);
      checks.add(() -> assertArrayEquals(one, same.claim()));
    }
    Bool yes = p.sameBool(true);
    Nil nil = p.sameNull(s.nil());
    // A value is kept by its stub, and can be a receiver.
    Bytes added = s.value(new byte[] {1, 2}).concat(p.sameBytes(new byte[] {0}));
    crossings(0);
    checks.forEach(Runnable::run);
    assertTrue(yes.claim());
    nil.claim();
    assertArrayEquals(new byte[] {1, 2, 0}, added.claim());
    assertEquals(3, added.length().claim());
    crossings(2);
  }

  @Test
  void resultsOfAllShapes() {
    var divided = p.divide(17, 5);
    var made = p.itemAndLength("grüße");
    Str name = made.first().name();
    Str text =
        p.all(
            s.value(true),
            divided.first().plus(1),
            s.value(0.5),
            s.charValue('ß'),
            name.concat("!"),
            made.first());
    assertEquals(3, divided.first().claim());
    assertEquals(2, divided.second().claim());
    assertEquals(5, made.second().claim());
    assertEquals("true 4 0.5 ß grüße! grüße", text.claim());
    crossings(1);
    // A failed call fails all its results.
    var failed = p.divide(1, 0);
    assertThrows(Zero.class, () -> failed.first().claim());
    assertThrows(Zero.class, () -> failed.second().claim());
    crossings(2);
  }

  @Test
  void aSubtypePassesForItsSupertype() {
    Counter counter = s.lookup("counter", Counter.TYPE);
    Str before = p.nameOf(counter);
    Item item = counter;
    item.rename("other");
    p.addItem(counter);
    Str after = p.nameOf(item);
    assertEquals("counter", before.claim());
    assertEquals("other", after.claim());
    crossings(1);
    // The server says that an object is what the stub says, or refuses it.
    Counter wrong = s.lookup("probe", Counter.TYPE);
    RefusedException refused = assertThrows(RefusedException.class, () -> wrong.value().claim());
    assertEquals("WrongType", refused.error());
  }

  @Test
  void recordsOneofsAndAnysAreStubs() {
    Tagged t = p.tagged();
    var point = t.point(3, 4);
    point.setX(5);
    var labelled = t.labelled(point, "here");
    Str name = labelled.replaceName("there").name();
    Int x = labelled.at().x();
    Bool same = labelled.at().equal(point);
    var number = t.answer(3);
    Int value = number.valueNumber();
    Str wrong = number.valueText();
    Bool isText = t.answer(12).isText();
    Str shown = t.answer(12).unparse();
    Nil nil = t.answer(0).valueNothing();
    Int total = t.sum(t.found(2));
    Int none = t.sum(t.found(0));
    Int other = t.found(0).valueOr(point).y();
    Cell.OfInt cell = s.cell(0);
    s.foreach(t.answers(4), answer -> cell.put(cell.get().plus(answer.valueNumber())));
    List<Str> things = List.of(t.what(t.thing(0)), t.what(t.thing(7)), t.what(t.thing(12)));
    assertEquals("there", name.claim());
    assertEquals(5, x.claim());
    assertTrue(same.claim());
    assertTrue(isText.claim());
    assertEquals(3, value.claim());
    assertThrows(WrongTag.class, wrong::claim);
    assertEquals("{text: \"12\"}", shown.claim());
    nil.claim();
    assertEquals(4, total.claim());
    assertEquals(0, none.claim());
    assertEquals(4, other.claim());
    assertEquals(10, cell.get().claim());
    assertEquals(
        List.of("nil", "7", "{x: 12, y: 12}"), things.stream().map(Promise::claim).toList());
    // One for all of it, and one for the cell.
    crossings(2);
  }

  @Test
  void iteratorsOfMethodsRoutinesAndValues() {
    Cell.OfStr out = s.cell("");
    Consumer<Str> say = text -> out.put(out.get().concat(text).concat(" "));
    s.foreach(p.numbers(3), i -> say.accept(i.unparse()));
    s.foreach(p.pairs(2), (i, text) -> say.accept(i.unparse().concat("=").concat(text)));
    s.foreach(p.items(), item -> say.accept(item.name()));
    s.foreach(Conformance.squares(s, 3), i -> say.accept(i.unparse()));
    s.foreach(s.value(7).to(8), i -> say.accept(i.unparse()));
    s.foreach(p.numbers(0), i -> say.accept(i.unparse()));
    assertEquals("1 2 3 1=1 2=2 a b c counter 1 4 9 7 8 ", out.get().claim());
    crossings(1);
  }

  @Test
  void signalsCarryTheirValues() {
    Int everything = p.choose(6);
    Int fine = p.choose(4);
    Item missing = p.item("zoë");
    Everything all = assertThrows(Everything.class, everything::claim);
    assertEquals(List.of(true, 6L, 0.5, (int) 'x', "ß"), all.values());
    NotFound none = assertThrows(NotFound.class, missing::await);
    assertEquals(List.of("zoë", 4L), none.values());
    assertEquals("not_found", none.signal());
    assertEquals(4, fine.claim());
    crossings(1);
    Rejected found = assertThrows(Rejected.class, () -> p.values().reject(p.fresh(), 3).claim());
    assertEquals(3, found.second());
    assertEquals("fresh", found.first().name().claim());
    SpotRef spot = found.third();
    assertEquals(new Spot(3, 3), spot.get().claim());
  }

  @Test
  void cellsOfEverything() {
    Cell<Char> chars = s.cell(Char.TYPE);
    Bool before = chars.full();
    Char empty = chars.get();
    chars.put(s.charValue('x'));
    Char first = chars.get();
    Bool after = chars.full();
    Cell<Probe> probe = s.cell(Probe.TYPE, p);
    Cell<Counter> counter = s.cell(Counter.TYPE, probe.get().counter());
    Cell<Item> item = s.cell(Item.TYPE, counter.get());
    assertFalse(before.claim());
    assertTrue(after.claim());
    assertEquals('x', first.claim());
    assertThrows(Conformance.NotPossible.class, empty::claim);
    assertEquals("counter", item.get().name().claim());
    // A cell outlives its batch.
    item.put(probe.get().item("a"));
    assertEquals("a", item.get().name().claim());
  }

  @Test
  void structuresNest() {
    StringBuilder expected = new StringBuilder();
    for (int i = 1; i < 4; i++) {
      for (int j = 1; j <= i + 3; j++) {
        if (j % 2 != 0) {
          expected.append(i == 2 ? "two " : i + ":" + j + " ");
        }
      }
    }
    Cell.OfStr out = s.cell("");
    s.foreach(
        p.numbers(5),
        n -> {
          s.if_(n.eq(4), s::break_);
          Cell.OfInt k = s.cell(0);
          s.while_(
              () -> k.get().lt(10),
              () -> {
                k.put(k.get().plus(1));
                s.if_(k.get().mod(2).eq(0), s::continue_);
                s.if_(k.get().gt(n.plus(3)), s::break_)
                    .else_(
                        () ->
                            s.if_(n.eq(2), () -> out.put(out.get().concat("two ")))
                                .else_(
                                    () -> {
                                      Str pair = n.unparse().concat(":").concat(k.get().unparse());
                                      out.put(out.get().concat(pair).concat(" "));
                                    }));
              });
        });
    Supplier<Bool> endless =
        () -> {
          p.endless();
          return p.sameBool(true);
        };
    Bool yes = s.value(true);
    Bool no = s.value(false);
    List<Bool> logic =
        List.of(yes.and(() -> no), yes.or(endless), no.and(endless), no.or(() -> yes));
    assertEquals(expected.toString(), out.get().claim());
    assertEquals(List.of(false, true, false, true), logic.stream().map(Promise::claim).toList());
    crossings(1);
    assertTrue(s.exceptions().isEmpty());
  }

  @Test
  void handlersGetNamesAndValues() {
    Cell.OfStr out = s.cell("");
    Consumer<Str> say = text -> out.put(out.get().concat(text).concat(" "));
    s.foreach(
        p.numbers(8),
        i ->
            s.except(
                    () -> {
                      s.if_(i.eq(8), () -> p.item("zoe"));
                      say.accept(p.choose(i).unparse());
                    })
                .when(Third.TYPE, () -> say.accept(p.sameString("third")))
                .when(Odd.TYPE, n -> say.accept(n.unparse().concat("!")))
                .when(Everything.TYPE, values -> say.accept(((Str) values.get(4)).concat("6")))
                .others(say));
    assertEquals("1! 2 third 4 5! ß6 7! not_found ", out.get().claim());
    crossings(1);
    assertTrue(s.exceptions().isEmpty(), "an exception that is handled is none");
    // An exception that no handler names goes on to the structure around it.
    Cell.OfInt seen = s.cell(0);
    s.except(
            () -> {
              s.except(
                      () -> {
                        p.choose(3);
                        seen.put(1);
                      })
                  .when("odd", () -> seen.put(2));
              seen.put(3);
            })
        .others(() -> seen.put(seen.get().plus(10)));
    assertEquals(10, seen.get().claim());
  }

  @Test
  void exceptionsInLoopsSayTheRound() {
    Cell.OfInt cell = s.cell(0);
    s.foreach(
        p.numbers(4),
        i -> {
          cell.put(i);
          p.choose(i.plus(1));
          p.counter().add(1);
        });
    Int begun = cell.get();
    Int ended = p.counter().value();
    // No stub of the loop is left, so the claim behind it tells, once.
    UnseenException unseen = assertThrows(UnseenException.class, begun::claim);
    assertInstanceOf(Third.class, unseen.getSuppressed()[0]);
    assertEquals(2, begun.claim());
    assertEquals(1, ended.claim());
    assertEquals(List.of(2), s.exceptions().get(0).failure().call().rounds());
    s.clearExceptions();
    s.foreach(
        p.numbers(4),
        i -> s.foreach(p.numbers(2), j -> p.choose(i.times(i).times(2).plus(j.minus(1).times(2)))));
    assertThrows(UnseenException.class, s::flush);
    assertEquals(List.of(3, 1), s.exceptions().get(0).failure().call().rounds());
    crossings(2);
  }

  @Test
  void whatDependsOnAFailureSaysWhy() {
    Item zoe = p.item("zoe");
    Str name = zoe.name();
    Str passed = p.nameOf(zoe);
    Int further = p.sameString(name).length().plus(1);
    Int fine = p.sameInt(1);
    NotFound first = assertThrows(NotFound.class, name::claim);
    assertTrue(first.getMessage().contains("its receiver failed"), first.getMessage());
    NotFound second = assertThrows(NotFound.class, passed::claim);
    assertTrue(second.getMessage().contains("its argument 1 failed"), second.getMessage());
    assertEquals(4, assertThrows(NotFound.class, further::claim).via().size());
    assertEquals(1, fine.claim());
    crossings(1);
    // In a later batch the failed stub is the error-handle.
    NotFound later = assertThrows(NotFound.class, () -> zoe.name().claim());
    assertTrue(later.getMessage().contains("its receiver failed"), later.getMessage());
    crossings(2);
  }

  @Test
  void misuseIsToldAndTheSessionGoesOn() {
    // A claim where the batch cannot end.
    Int before = p.sameInt(1);
    Cell.OfInt total = s.cell(0);
    s.foreach(
        p.numbers(3),
        i -> {
          assertEquals(Misuse.OPEN_STRUCTURE, misuse(before::claim));
          assertEquals(Misuse.OPEN_STRUCTURE, misuse(s::flush));
          total.put(total.get().plus(i));
        });
    assertEquals(6, total.get().claim(), "the structure is not harmed by it");
    assertEquals(1, before.claim());
    crossings(1);
    // A stub that is used after its structure.
    List<Item> kept = new ArrayList<>();
    s.foreach(p.items(), kept::add);
    Str late = kept.get(0).name();
    assertEquals(Misuse.OUT_OF_SCOPE, misuse(late::claim));
    assertEquals(2, p.sameInt(2).claim());
    // Outside of loops, and behind other calls.
    s.break_();
    assertEquals(Misuse.NO_LOOP, misuse(s::flush));
    If choice = s.if_(s.value(true), () -> p.nothing());
    p.nothing();
    choice.else_(() -> p.nothing());
    assertEquals(Misuse.NOT_ADJACENT, misuse(s::flush));
    // A body that throws: its structure is not sent.
    Cell.OfInt count = s.cell(0);
    assertThrows(
        ArithmeticException.class,
        () ->
            s.foreach(
                p.numbers(3),
                i -> {
                  count.put(i);
                  throw new ArithmeticException();
                }));
    Int value = count.get();
    assertEquals(Misuse.ABANDONED, misuse(value::claim));
    assertEquals(0, value.claim());
    // A stub that was released.
    Item released = p.fresh();
    released.release();
    assertEquals(Misuse.RELEASED, misuse(() -> released.name().claim()));
  }

  @Test
  void proceduresAreKeptByTheSession() {
    var label =
        s.procedure(
            "label",
            Str.TYPE,
            Int.TYPE,
            Item.TYPE,
            Str.TYPE,
            (self, prefix, n, item) -> {
              s.if_(n.lt(0), () -> self.return_("negative"));
              return prefix.concat(n.unparse()).concat(item.name());
            });
    Str one = label.invoke("x", 1, p.item("a"));
    Str two = label.call(p.sameString("y"), s.value(-2), p.counter());
    assertEquals("x1a", one.claim());
    assertEquals("negative", two.claim());
    crossings(1);
    // By name, in a later batch and in a loop.
    assertEquals(null, s.findProcedure("label", List.of(Int.TYPE), Int.TYPE));
    var found = s.findProcedure("label", List.of(Str.TYPE, Int.TYPE, Item.TYPE), Str.TYPE);
    Cell.OfStr out = s.cell("");
    s.foreach(p.numbers(3), i -> out.put(out.get().concat(found.invoke(":", i, p.item("b")))));
    assertEquals(":1b:2b:3b", out.get().claim());
    crossings(2);
    // Recursion.
    var factorial =
        s.procedure(
            "factorial",
            Int.TYPE,
            Int.TYPE,
            (self, n) -> {
              s.if_(n.le(1), () -> self.return_(1));
              return self.call(n.minus(1)).times(n);
            });
    Int small = factorial.invoke(10);
    Int large = factorial.invoke(21);
    assertEquals(3_628_800, small.claim());
    assertThrows(Overflow.class, large::claim);
    crossings(3);
    // Without result, and without parameters.
    var touch = s.procedure("touch", Done.TYPE, self -> p.counter().add(5));
    touch.call();
    touch.call().claim();
    assertEquals(10, p.counter().value().claim());
  }

  @Test
  void numbersSignalTheResultsThatTheyLack() {
    Int most = s.value(Long.MAX_VALUE);
    Int least = s.value(Long.MIN_VALUE);
    List<Int> tooGreat =
        List.of(most.plus(1), least.minus(1), most.times(2), least.div(-1), least.negate());
    List<Int> zeros = List.of(s.value(1).div(0), s.value(1).mod(0));
    tooGreat.forEach(one -> assertThrows(Overflow.class, one::claim));
    zeros.forEach(one -> assertThrows(Zero.class, one::claim));
    assertEquals(Double.POSITIVE_INFINITY, s.value(1.0).div(0.0).claim());
    crossings(2);
  }
}
