// The cases of crates/cli/tests/conformance.rs and values.rs, in C++: one name is one case, without a name all are run.
//
// Each case has a session of its own. BIFROST_URL is a server of cases/programs/conformance.theta.

#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>

#include <sys/socket.h>

#include "check.hpp"

#include "bifrost_stubs.hpp"

using namespace stubs;
using Int = std::int64_t;
using IntPromise = bf::Promise<Int>;
using Text = bf::Promise<std::string>;

static bf::Session open_session() { return stubs::connect(std::getenv("BIFROST_URL")); }

static std::uint64_t crossings(const bf::Session &s) { return s.counters().crossings; }

static void values_come_back_as_they_went(const bf::Session &s, const Probe &p) {
  constexpr Int least = std::numeric_limits<Int>::min(), most = std::numeric_limits<Int>::max();
  std::vector<std::pair<Int, IntPromise>> ints;
  for (Int v : {Int{0}, Int{1}, Int{-1}, least, most}) ints.emplace_back(v, p.same_int(v));
  std::vector<std::pair<double, bf::Promise<double>>> reals;
  for (double v : {0.0, -0.0, 0.1, 2.2250738585072014e-308, 1.7976931348623157e308, HUGE_VAL, std::nan("")}) {
    reals.emplace_back(v, p.same_real(v));
  }
  std::vector<std::pair<char32_t, bf::Promise<char32_t>>> chars;
  for (char32_t v : {U'\0', U'x', U'€', U'\xd7ff', U'\x10ffff'}) chars.emplace_back(v, p.same_char(v));
  std::vector<std::pair<std::string, Text>> texts;
  for (const std::string &v : {std::string(), std::string("a"), std::string("1234567"), std::string("12345678"),
                               std::string("äß€🦀\0\n\"", 14), std::string(25000, 'l')}) {
    texts.emplace_back(v, p.same_string(v));
  }
  std::vector<std::pair<bf::Bytes, bf::Promise<bf::Bytes>>> bytes;
  for (const bf::Bytes &v : {bf::Bytes{}, bf::Bytes{0}, bf::Bytes(8, 0xff), bf::Bytes(100000, 1)}) {
    bytes.emplace_back(v, p.same_bytes(v));
  }
  auto yes = p.same_bool(true), no = p.same_bool(false);
  auto turned = !yes;
  // A value is kept by its stub, and can be a receiver.
  auto mine = s.value<bf::Bytes>(bf::Bytes{1, 2});
  auto added = mine.concat(bytes[1].second.concat(bf::Bytes{1}));
  auto null = p.same_null(bf::Nil{});
  auto nothing = p.nothing();
  CHECK(crossings(s) == 0);
  for (const auto &[v, promise] : ints) SAME(promise.claim(), v);
  for (const auto &[v, promise] : reals) {
    double got = promise.claim();
    CHECK(std::memcmp(&got, &v, sizeof v) == 0);
  }
  for (const auto &[v, promise] : chars) CHECK(promise.claim() == v);
  for (const auto &[v, promise] : texts) SAME(promise.claim(), v);
  for (const auto &[v, promise] : bytes) CHECK(promise.claim() == v);
  CHECK(yes.claim() && !no.claim() && !turned.claim());
  CHECK(added.claim() == bf::Bytes({1, 2, 0, 1}));
  SAME(added.length().claim(), 4);
  null.claim();
  nothing.claim();
  CHECK(crossings(s) == 2);
  THROWS(bf::Misuse, p.same_string("\xff").claim(), CHECK(error.status() == BF_E_NOT_TEXT));
}

static void results_of_all_shapes(const bf::Session &s, const Probe &p) {
  auto [quotient, remainder] = p.divide(17, 5);
  auto [item, length] = p.item_and_length("grüße");
  auto name = item.name();
  auto text = p.all(true, quotient + 1, 0.5, U'ß', name + "!", item);
  SAME(quotient.claim(), 3);
  SAME(remainder.claim(), 2);
  SAME(length.claim(), 5);
  SAME(text.claim(), "true 4 0.5 ß grüße! grüße");
  CHECK(crossings(s) == 1);
  // A failed call fails all its results.
  auto [none, neither] = p.divide(1, 0);
  THROWS(signals::Zero, none.claim());
  THROWS(signals::Zero, neither.claim());
  CHECK(crossings(s) == 2);
}

static void a_subtype_passes_for_its_supertype(const bf::Session &s, const Probe &p) {
  auto counter = s.lookup<Counter>("counter");
  auto by_reference = p.name_of(counter);
  Item item = counter;
  item.rename("other");
  p.add_item(counter);
  auto by_value = p.name_of(item);
  SAME(by_reference.claim(), "counter");
  SAME(by_value.claim(), "other");
  CHECK(crossings(s) == 1);
  // The server says that an object is what the stub says, or refuses it.
  auto wrong = s.lookup<Counter>("probe");
  THROWS(bf::Refused, wrong.value().claim(), CHECK(error.number() == 8));
}

static void records_oneofs_and_anys_are_stubs(const bf::Session &s, const Probe &p) {
  auto t = p.tagged();
  auto point = t.point(3, 4);
  point.set_x(5);
  auto labelled = t.labelled(point, "here");
  auto name = labelled.replace_name("there").name();
  auto x = labelled.at_().x();
  auto same = labelled.at_().equal(point);
  auto number = t.answer(3), text = t.answer(12), nothing = t.answer(0);
  auto value = number.value_number();
  auto wrong = number.value_text();
  auto is_text = text.is_text();
  auto shown = text.unparse();
  auto nil = nothing.value_nothing();
  auto sum = t.sum(t.found(2)), none = t.sum(t.found(0));
  auto other = t.found(0).value_or(point).y();
  auto total = s.cell_with<Int>(0);
  s.foreach(t.answers(4), [&](AnswerRef answer) { total.put(total.get() + answer.value_number()); });
  std::vector<Text> what;
  for (Int n : {0, 7, 12}) what.push_back(t.what(t.thing(n)));
  SAME(name.claim(), "there");
  SAME(x.claim(), 5);
  CHECK(same.claim() && is_text.claim());
  SAME(value.claim(), 3);
  THROWS(signals::WrongTag, wrong.claim());
  SAME(shown.claim(), "{text: \"12\"}");
  nil.claim();
  SAME(sum.claim(), 4);
  SAME(none.claim(), 0);
  SAME(other.claim(), 4);
  SAME(total.get().claim(), 10);
  SAME(what[0].claim() + what[1].claim() + what[2].claim(), "nil7{x: 12, y: 12}");
  CHECK(crossings(s) == 2);
}

static void iterators_of_methods_routines_and_values(const bf::Session &s, const Probe &p) {
  auto out = s.cell_with<std::string>("");
  auto say = [&](const Text &text) { out.put(out.get() + text + " "); };
  s.foreach(p.numbers(3), [&](IntPromise n) { say(n.unparse()); });
  s.foreach(p.pairs(2), [&](IntPromise n, Text text) { say(text + n.unparse()); });
  s.foreach(p.items(), [&](Item item) { say(item.name()); });
  s.foreach(squares(s, 3), [&](IntPromise n) { say(n.unparse()); });
  s.foreach(s.value(8).to(9), [&](IntPromise n) { say(n.unparse()); });
  s.foreach(p.numbers(0), [&](IntPromise n) { say(n.unparse()); });
  SAME(out.get().claim(), "1 2 3 11 22 a b c counter 1 4 9 8 9 ");
  CHECK(crossings(s) == 1);
}

static void signals_carry_their_values(const bf::Session &s, const Probe &p) {
  auto everything = p.choose(6), fine = p.choose(4);
  auto missing = p.item("zoë");
  THROWS(signals::Everything, everything.claim(), {
    const auto &[b, i, r, c, text] = error.values();
    CHECK(b && i == 6 && r == 0.5 && c == U'x' && text == "ß");
  });
  THROWS(signals::NotFound_, missing.resolve(), {
    CHECK(error.values() == std::make_tuple(std::string("zoë"), Int{4}));
    CHECK(std::strstr(error.place().file, "conformance.cpp") && error.place().line > 100);
    SAME(error.call(), "Probe.item");
    SAME(error.signal(), "not_found");
  });
  SAME(fine.claim(), 4);
  CHECK(crossings(s) == 1);
  auto tried = p.choose(3).try_claim();
  CHECK(!tried && tried.error().signal() == "third");
  auto kept = p.choose(4).try_claim();
  CHECK(kept && *kept == 4);
}

template <class V> static void check_cell(const bf::Session &s, const V &one, const V &two) {
  auto cell = s.cell<V>();
  auto before = cell.full();
  auto empty = cell.get();
  cell.put(one);
  auto first = cell.get();
  cell.put(two);
  auto after = cell.full();
  auto second = cell.get();
  CHECK(!before.claim() && after.claim());
  CHECK(first.claim() == one && second.claim() == two);
  THROWS(bf::Signal, empty.claim(), SAME(error.signal(), "not_possible"));
}

static void cells_of_everything(const bf::Session &s, const Probe &p) {
  check_cell<bool>(s, true, false);
  check_cell<Int>(s, 1, std::numeric_limits<Int>::min());
  check_cell<double>(s, 0.5, -0.5);
  check_cell<char32_t>(s, U'x', U'\x10ffff');
  check_cell<std::string>(s, "", "äß€🦀");
  check_cell<bf::Nil>(s, {}, {});
  CHECK(crossings(s) == 6);
  auto item = s.cell<Item>();
  auto counter = s.cell<Counter>();
  auto probe = s.cell<Probe>();
  probe.put(p);
  counter.put(probe.get().counter());
  item.put(counter.get());
  SAME(item.get().name().claim(), "counter");
  CHECK(crossings(s) == 7);
  // A cell outlives its batch.
  item.put(probe.get().item("a"));
  SAME(item.get().name().claim(), "a");
  CHECK(crossings(s) == 8);
}

static void straight_futures_take_one_crossing(const bf::Session &s, const Probe &p) {
  auto last = p.itself();
  for (int i = 0; i < 5000; ++i) last = last.itself();
  auto name = last.counter().name();
  CHECK(crossings(s) == 0);
  SAME(name.claim(), "counter");
  // A lookup, 5001 times `itself`, two more.
  CHECK(crossings(s) == 1 && s.counters().calls == 5004);
}

static void a_claim_flushes_once_for_all_promises(const bf::Session &s, const Probe &p) {
  std::vector<IntPromise> promises;
  for (Int i = 0; i < 100; ++i) promises.push_back(p.same_int(i));
  auto sum = s.value(0);
  for (const auto &promise : promises) sum = sum + promise;
  CHECK(!promises[7].is_known());
  SAME(promises[50].claim(), 50);
  for (const auto &promise : promises) CHECK(promise.is_known());
  SAME(sum.claim(), 4950);
  CHECK(crossings(s) == 1);
  // A promise that is kept goes as a value.
  SAME(p.same_int(promises[50]).claim(), 50);
  s.flush();
  CHECK(crossings(s) == 2);
}

static void the_same_object_is_the_same_handle(const bf::Session &s, const Probe &p) {
  std::optional<Counter> a = p.counter(), b = p.counter();
  auto other = p.fresh();
  s.flush();
  std::optional<Counter> c = s.lookup<Counter>("counter");
  s.flush();
  CHECK(a->is_same(*b) && a->is_same(*c));
  CHECK(!a->is_same(other) && !other.is_same(p.fresh()));
  a.reset();
  b.reset();
  s.flush();
  SAME(c->name().claim(), "counter");
  c.reset();
  s.flush();
  SAME(p.counter().name().claim(), "counter");
}

static void structures_nest(const bf::Session &s, const Probe &p) {
  std::string expected;
  for (int i = 1; i <= 5; ++i) {
    if (i == 4) break;
    for (int j = 1; j <= 10; ++j) {
      if (j % 2 == 0) continue;
      if (j > i + 3) break;
      expected += i == 2 ? "two " : std::to_string(i) + ":" + std::to_string(j) + " ";
    }
  }
  auto out = s.cell_with<std::string>("");
  BF_FOREACH(s, p.numbers(5), IntPromise i) {
    BF_IF(s, i == 4) {
      BF_BREAK(s);
    };
    auto j = s.cell_with<Int>(0);
    BF_WHILE(s, j.get() < 10) {
      j.put(j.get() + 1);
      BF_IF(s, j.get() % 2 == 0) {
        BF_CONTINUE(s);
      };
      BF_IF(s, j.get() > i + 3) {
        BF_BREAK(s);
      }
      BF_ELSE {
        s.if_(i == 2, [&] { out.put(out.get() + "two "); }).else_([&] {
          out.put(out.get() + i.unparse() + ":" + j.get().unparse() + " ");
        });
      };
    };
  };
  auto yes = s.value(true), no = s.value(false);
  auto endless = [&] {
    p.endless();
    return p.same_bool(true);
  };
  auto one = yes.and_([&] { return no; }), two = yes.or_(endless);
  auto three = no.and_(endless), four = no.or_([&] { return yes; });
  SAME(out.get().claim(), expected);
  CHECK(!one.claim() && two.claim() && !three.claim() && four.claim());
  CHECK(crossings(s) == 1);
  CHECK(s.exceptions().empty());
}

static void handlers_get_names_and_values(const bf::Session &s, const Probe &p) {
  auto out = s.cell_with<std::string>("");
  auto say = [&](const Text &text) { out.put(out.get() + text + " "); };
  s.foreach(p.numbers(8), [&](IntPromise i) {
    s.except([&] {
       s.if_(i == 8, [&] { p.item("zoe"); });
       say(p.choose(i).unparse());
     })
        .when<signals::Third>([&] { say(p.same_string("third")); })
        .when<signals::Odd>([&](IntPromise n) { say(n.unparse() + "!"); })
        .when<signals::Everything>(
            [&](auto b, auto n, auto r, auto c, auto text) { say(p.all(b, n, r, c, text, p.item("a"))); })
        .others([&](Text name) { say(name); });
  });
  SAME(out.get().claim(), "1! 2 third 4 5! true 6 0.5 x ß a 7! not_found ");
  CHECK(crossings(s) == 1);
  CHECK(s.exceptions().empty());
  // What no handler names goes on to the structure around it.
  auto seen = s.cell_with<Int>(0);
  s.except([&] {
     s.except([&] {
        p.choose(3);
        seen.put(1);
      }).when<signals::Odd>([&] { seen.put(2); });
     seen.put(3);
   }).others([&] { seen.put(seen.get() + 10); });
  SAME(seen.get().claim(), 10);
}

static void exceptions_in_loops_say_the_round(const bf::Session &s, const Probe &p) {
  // An exception that nothing handles ends the structure, and the batch goes on behind it.
  auto cell = s.cell_with<Int>(0);
  s.foreach(p.numbers(4), [&](IntPromise i) {
    cell.put(i);
    p.choose(i + 1);
    p.counter().add(1);
  });
  auto begun = cell.get(), ended = p.counter().value();
  // No stub of the loop is left, so the claim behind it tells, once.
  THROWS(bf::Unseen, begun.claim(), SAME(error.parts().at(0).signal(), "third"));
  SAME(begun.claim(), 2);
  SAME(ended.claim(), 1);
  CHECK(s.exceptions().at(0).rounds() == std::vector<std::uint32_t>({2}));
  s.clear_exceptions();
  s.foreach(p.numbers(4),
            [&](IntPromise i) { s.foreach(p.numbers(2), [&](IntPromise j) { p.choose(i * i * 2 + (j - 1) * 2); }); });
  THROWS(bf::Unseen, (s.flush(), 0), SAME(error.parts().at(0).signal(), "third"));
  auto history = s.exceptions();
  CHECK(history.size() == 1 && history[0].rounds() == std::vector<std::uint32_t>({3, 1}));
  std::string shown = history[0].what();
  CHECK(shown.find("Probe.choose at ") != std::string::npos && shown.find("conformance.cpp:") != std::string::npos &&
        shown.find("rounds [3, 1]") != std::string::npos);
  CHECK(crossings(s) == 2);
}

static void what_depends_on_a_failure_says_why(const bf::Session &s, const Probe &p) {
  auto zoe = p.item("zoe");
  auto name = zoe.name(), passed = p.name_of(zoe);
  auto further = p.same_string(name).length() + 1;
  auto fine = p.same_int(1);
  THROWS(signals::NotFound, name.claim(), CHECK(error.is_consequence() && error.causes() == 1));
  THROWS(signals::NotFound, passed.claim());
  THROWS(signals::NotFound, further.claim(), CHECK(error.causes() >= 3));
  SAME(fine.claim(), 1);
  CHECK(crossings(s) == 1);
  // In a later batch the failed stub is the error-handle.
  THROWS(signals::NotFound, zoe.name().claim());
  CHECK(crossings(s) == 2);
}

static void misuse_is_a_value_and_the_session_goes_on(const bf::Session &s, const Probe &p) {
  // A claim where the batch cannot end.
  auto before = p.same_int(1);
  auto total = s.cell_with<Int>(0);
  s.foreach(p.numbers(3), [&](IntPromise i) {
    THROWS(bf::Misuse, before.claim(), CHECK(error.status() == BF_E_OPEN_STRUCTURE));
    THROWS(bf::Misuse, (s.flush(), 0), CHECK(error.status() == BF_E_OPEN_STRUCTURE));
    total.put(total.get() + i);
  });
  SAME(total.get().claim(), 6);
  SAME(before.claim(), 1);
  CHECK(crossings(s) == 1);
  // A stub that is used after its structure.
  std::optional<Item> inside;
  s.foreach(p.items(), [&](Item item) { inside = item; });
  THROWS(bf::Misuse, inside->name().claim(), CHECK(error.status() == BF_E_OUT_OF_SCOPE));
  SAME(p.same_int(2).claim(), 2);
  // Outside of loops and procedures.
  s.break_();
  THROWS(bf::Unseen, (s.flush(), 0), CHECK(error.parts().at(0).status() == BF_E_NO_LOOP));
  s.flush();
  // A block that an exception leaves: its structure is not sent.
  auto count = s.cell_with<Int>(0);
  try {
    s.foreach(p.numbers(3), [&](IntPromise i) {
      count.put(i);
      throw 7;
    });
    CHECK(false);
  } catch (int thrown) {
    CHECK(thrown == 7);
  }
  auto counted = count.get();
  THROWS(bf::Unseen, counted.claim(), CHECK(error.parts().at(0).status() == BF_E_ABANDONED));
  SAME(counted.claim(), 0);
  // Of another session.
  auto other = open_session();
  THROWS(bf::Misuse, p.name_of(other.lookup<Probe>("probe").fresh()).claim(),
         CHECK(error.status() == BF_E_OTHER_SESSION));
  // A stub that was moved from is none.
  Item moved = p.fresh();
  Item taken = std::move(moved);
  THROWS(std::logic_error, (moved.resolve(), 0));
  taken.resolve();
}

static void procedures_are_kept_by_the_session(const bf::Session &s, const Probe &p) {
  using Label = std::string(std::string, Int, Item);
  auto label = s.procedure<Label>("label", [&](auto &, Text prefix, IntPromise n, Item item) {
    s.if_(n < 0, [&] { s.return_<std::string>("negative"); });
    return prefix + n.unparse() + item.name();
  });
  auto one = label("x", 1, p.item("a")), two = label(p.same_string("y"), -2, p.counter());
  SAME(one.claim(), "x1a");
  SAME(two.claim(), "negative");
  CHECK(crossings(s) == 1);
  // By name, in a later batch and in a loop.
  CHECK(!s.find_procedure<Int(Int)>("label"));
  auto found = s.find_procedure<Label>("label");
  CHECK(found.has_value());
  auto out = s.cell_with<std::string>("");
  s.foreach(p.numbers(3), [&](IntPromise i) { out.put(out.get() + (*found)(":", i, p.item("b"))); });
  SAME(out.get().claim(), ":1b:2b:3b");
  CHECK(crossings(s) == 2);
  // Recursion.
  auto factorial = s.procedure<Int(Int)>("factorial", [&](auto &self, IntPromise n) {
    s.if_(n <= 1, [&] { s.return_<Int>(1); });
    return self(n - 1) * n;
  });
  auto small = factorial(10), large = factorial(21);
  SAME(small.claim(), 3628800);
  THROWS(bf::Signal, large.claim(), SAME(error.signal(), "overflow"));
  CHECK(crossings(s) == 3);
  // Without result, and without parameters.
  auto touch = s.procedure<void()>("touch", [&](auto &) { p.counter().add(5); });
  touch();
  touch().claim();
  SAME(p.counter().value().claim(), 10);
}

static void numbers_signal_what_has_no_result(const bf::Session &s, const Probe &) {
  auto least = s.value(std::numeric_limits<Int>::min()), most = s.value(std::numeric_limits<Int>::max());
  auto one = s.value(1);
  for (const auto &promise : {most + 1, least - 1, most * 2, least / -1, -least}) {
    THROWS(bf::Signal, promise.claim(), SAME(error.signal(), "overflow"));
  }
  for (const auto &promise : {one / 0, one % 0}) THROWS(signals::Zero, promise.claim());
  CHECK(std::isinf((s.value(1.0) / 0.0).claim()));
  CHECK(crossings(s) == 3);
  // A value on the left; the place is that of the operator.
  SAME((5 - one).claim(), 4);
  int line = __LINE__ + 1;
  auto failed = one / 0;
  THROWS(signals::Zero, failed.claim(), SAME(static_cast<int>(error.place().line), line));
}

static void messages_name_objects_by_the_calls_that_they_came_from(const bf::Session &s, const Probe &) {
  auto counter = s.lookup<Counter>("counter");
  std::string name = "`Counter` (the result of `lookup` at " __FILE__ ":" + std::to_string(__LINE__ - 1) + ")";
  SAME(counter.value().claim(), 0);
  {
    auto other = open_session();
    other.lookup<Counter>("counter").add(5);
    other.commit().claim();
  }
  counter.add(1);
  THROWS(bf::Refused, s.commit().claim(), {
    CHECK(error.number() == 26);
    CHECK(std::string(error.what()).find(name) != std::string::npos);
  });
  counter.add(-5);
  s.commit().claim();
}

static void a_table_is_one_crossing(const bf::Session &s, const Probe &p) {
  auto pairs = s.collect(p.pairs(3), [&](IntPromise n, Text text) { return std::make_tuple(n, text, n + 1); });
  CHECK(crossings(s) == 0);
  auto rows = pairs.claim();
  CHECK(rows.size() == 3);
  for (const auto &[n, text, more] : rows) CHECK(more == n + 1 && text == std::to_string(n));
  CHECK(crossings(s) == 1);
  // Objects are stubs, one for each cell, and the values of a row are known.
  p.add_item(p.counter());
  auto table = s.collect(p.items(), [&](Item item) { return std::make_tuple(item, item.name(), item.is<Counter>()); });
  auto items = table.claim();
  CHECK(crossings(s) == 2);
  std::vector<Text> names;
  for (const auto &row : items) names.push_back(std::get<0>(row).name());
  bool is_counter = false;
  for (std::size_t i = 0; i < items.size(); ++i) {
    SAME(names[i].claim(), std::get<1>(items[i]));
    is_counter |= std::get<2>(items[i]);
  }
  CHECK(crossings(s) == 3 && is_counter);
}

static void rows_come_from_structures_and_procedures(const bf::Session &s, const Probe &p) {
  auto rows = s.rows<Int, bool>();
  rows.push(0, true);
  auto odd = s.procedure<void(Int)>("odd", [&](auto &, IntPromise n) { rows.push(n, false); });
  s.foreach(p.numbers(4),
            [&](IntPromise n) { s.if_(n % 2 == 0, [&] { rows.push(n * 10, true); }).else_([&] { odd(n); }); });
  auto claimed = rows.claim();
  CHECK(claimed.size() == 5 && claimed[0] == std::make_tuple(Int{0}, true));
  for (const auto &[n, even] : claimed) CHECK((n % 2 == 0) == even);
  CHECK(crossings(s) == 1);
  // The table is gone, and a procedure that adds to it too.
  THROWS(bf::Refused, odd(7).claim(), CHECK(error.number() == 5));
}

static void a_table_of_an_earlier_batch_takes_no_rows(const bf::Session &s, const Probe &) {
  auto rows = s.rows<Int>();
  rows.push(1);
  CHECK(rows.claim().size() == 1);
  rows.push(2);
  // Nobody can claim the row, so the next flush tells it.
  THROWS(bf::Unseen, (s.flush(), 0), CHECK(error.parts().at(0).status() == BF_E_ENDED_TABLE));
  CHECK(rows.claim().size() == 1);
}

static void a_row_that_fails_is_told(const bf::Session &s, const Probe &p) {
  auto rows = s.collect(p.numbers(6), [&](IntPromise n) { return std::make_tuple(p.choose(n)); });
  THROWS(bf::Unseen, rows.claim(), CHECK(error.parts().size() == 1));
  // Told once, what was there before is there.
  rows.claim();
}

static void types_at_run_time(const bf::Session &s, const Probe &p) {
  auto tagged = p.tagged();
  auto number = tagged.thing(1);
  auto integer = number.as<Int>();
  auto is_int = number.is<Int>(), is_item = number.is<Item>();
  Item item = p.counter();
  auto value = item.as<Counter>().value();
  auto wrong = p.fresh().as<Counter>().value();
  CHECK(crossings(s) == 0);
  SAME(integer.claim(), 1);
  CHECK(is_int.claim() && !is_item.claim());
  value.claim();
  THROWS(bf::WrongType, wrong.claim());
  CHECK(crossings(s) == 1);
  // In a loop, with a handler.
  p.add_item(item);
  auto values = s.rows<std::string, Int>();
  s.foreach(p.items(), [&](Item each) {
    s.except([&] { values.push(each.name(), each.as<Counter>().value()); }).when<bf::WrongType>([&] {
      values.push(each.name(), -1);
    });
  });
  bool counters = false;
  for (const auto &row : values.claim()) counters |= std::get<1>(row) >= 0;
  CHECK(counters);
}

static void sequences_are_vectors(const bf::Session &s, const Probe &p) {
  auto v = p.values();
  auto n = s.value(4);
  std::vector<IntPromise> sums = {v.total({1, 2, 3}), v.total(std::vector<Int>{5}), v.total(std::vector<Int>{}),
                                  v.total({n, n + 1}), v.nested(std::vector<std::vector<Int>>{{1, 2}, {}, {3}})};
  auto twice = v.twice({1, 2});
  auto again = v.total(twice);
  auto contents = twice.get();
  CHECK(contents.claim() == std::vector<Int>({2, 4}));
  SAME(again.claim(), 6);
  Int expected[] = {6, 5, 0, 9, 6};
  for (std::size_t i = 0; i < sums.size(); ++i) SAME(sums[i].claim(), expected[i]);
  CHECK(crossings(s) == 1);
  std::vector<Int> many;
  for (Int i = 0; i < 10000; ++i) many.push_back(i);
  SAME(v.total(many).claim(), 49995000);
  SAME(v.twice(many).get().claim()[9999], 19998);
}

static void compounds_cross_by_value(const bf::Session &s, const Probe &p) {
  auto v = p.values();
  Line line{"ab", Spot{1, 2}, Spot{5, 9}};
  auto distance = v.distance(line);
  auto n = s.value(3);
  auto with_promises = v.distance(std::make_tuple("a", std::make_tuple(n, n), Spot{4, 5}));
  auto circle = v.area(Shape::Circle{2.5}), nothing = v.area(Shape::Nothing{}), dot = v.area(Shape::Dot{Spot{1, 2}});
  auto own = v.area(v.shape(1));
  auto zero = v.shape(0).get(), one = v.shape(1).get(), two = v.shape(2).get();
  SAME(distance.claim(), 211);
  SAME(with_promises.claim(), 103);
  SAME(circle.claim() + nothing.claim() + dot.claim() + own.claim(),
       "{circle: 2.5}{nothing: nil}{dot: {x: 1, y: 2}}{circle: 0.5}");
  CHECK(zero.claim() == Shape(Shape::Nothing{}) && one.claim() == Shape(Shape::Circle{0.5}));
  CHECK(two.claim() == Shape(Shape::Dot{Spot{2, 0}}));
  CHECK(crossings(s) == 1);
}

static void maybe_is_an_optional(const bf::Session &, const Probe &p) {
  auto v = p.values();
  auto none = v.name(0).get(), seven = v.name(7).get();
  auto nobody = v.named(std::nullopt), ann = v.named(std::optional<std::string>("ann")), five = v.named(v.name(5));
  CHECK(none.claim() == std::nullopt && seven.claim() == std::optional<std::string>("7"));
  SAME(nobody.claim() + ann.claim() + five.claim(), "nobodyann5");
}

static void objects_in_values_are_stubs(const bf::Session &s, const Probe &p) {
  auto v = p.values();
  auto promise = v.family(3).get();
  CHECK(crossings(s) == 0);
  Family family = promise.claim();
  CHECK(family.members.size() == 3);
  std::vector<Text> names;
  for (const auto &member : family.members) names.push_back(member.name());
  auto members = v.members(family);
  family.members[1].rename("two");
  auto renamed = v.members(std::make_tuple(family.head, std::vector<Item>{family.members[1]}));
  SAME(members.claim(), "head,1,2,3");
  SAME(renamed.claim(), "head,two");
  SAME(names[2].claim(), "3");
  CHECK(crossings(s) == 2);
}

static void contents_of_collections_and_records(const bf::Session &s, const Probe &p) {
  auto v = p.values();
  auto array = v.array();
  auto before = array.get();
  array.append(9);
  auto after = array.get();
  CHECK(before.claim() == std::vector<Int>({7, 8}) && after.claim() == std::vector<Int>({7, 8, 9}));
  auto counts = v.counts().get().claim();
  CHECK(counts.size() == 2 && counts[0].first == "one" && counts[1].second == (Spot{2, 2}));
  CHECK(v.list().get().claim() == std::vector<char32_t>({U'a', U'b'}));
  auto point = p.tagged().point(3, 4);
  auto first = point.get();
  point.set_x(5);
  auto second = point.get();
  CHECK(first.claim() == (PointValue{3, 4}) && second.claim() == (PointValue{5, 4}));
  auto found = p.tagged().found(2).get().claim();
  SAME(found->x().claim(), 2);
  SAME(p.tagged().sum(std::optional<Point>(point)).claim(), 9);
  SAME(p.tagged().sum(std::nullopt).claim(), 0);
  // Not inside a structure.
  s.foreach(v.spots(3), [&](SpotRef spot) { spot.get(); });
  THROWS(bf::Unseen, (s.flush(), 0), CHECK(error.parts().at(0).status() == BF_E_CONTENTS_INSIDE));
}

static void rows_and_procedures_have_values(const bf::Session &s, const Probe &p) {
  auto v = p.values();
  auto spots = s.collect(v.spots(3), [&](SpotRef spot) { return std::make_tuple(spot, spot.x()); });
  auto rows = spots.claim();
  CHECK(rows.size() == 3 && std::get<0>(rows[2]) == (Spot{3, -3}) && std::get<1>(rows[2]) == 3);
  auto pair = s.procedure<Numbers(Int)>("pair", [&](auto &, IntPromise n) {
    return std::vector<IntPromise>{n, n + 1};
  });
  auto total = s.procedure<Int(Numbers)>("total", [&](auto &, Numbers ns) { return v.total(ns); });
  auto contents = pair(4).get();
  auto one = v.total(pair(1)), two = total(std::vector<Int>{5, 6});
  CHECK(contents.claim() == std::vector<Int>({4, 5}));
  SAME(one.claim(), 3);
  SAME(two.claim(), 11);
}

static void signals_carry_objects_and_compounds(const bf::Session &s, const Probe &p) {
  auto v = p.values();
  auto item = p.fresh();
  auto rejected = v.reject(item, 3), nothing = v.reject(item, 0);
  std::optional<Item> of;
  THROWS(signals::Rejected, rejected.claim(), {
    CHECK(std::get<1>(error.values()) == 3);
    of = std::get<0>(error.values());
    SAME(std::get<2>(error.values()).x().claim(), 3);
  });
  THROWS(signals::Nothing, nothing.claim());
  // They are stubs of the object, which outlive the failure.
  of->rename("told");
  SAME(of->name().claim(), "told");
  CHECK(of->is_same(item));
  auto heard = s.rows<std::string, Int>();
  s.except([&] { v.reject(item, 7); })
      .when<signals::Nothing>([&] { heard.push("nothing", 0); })
      .when<signals::Rejected>([&](Item one, IntPromise n, SpotRef spot) { heard.push(one.name(), n + spot.x()); });
  CHECK(heard.claim() == (std::vector<std::tuple<std::string, Int>>{{"told", 14}}));
}

static void batches_overlap(const bf::Session &s, const Probe &p) {
  auto one = p.same_int(1);
  s.flush_start();
  // A result that is not there yet is an operand of the next batch.
  auto two = one + 1;
  s.flush_start();
  while (!s.flush_poll()) {
  }
  CHECK(one.is_known());
  SAME(two.claim(), 2);
  CHECK(crossings(s) == 2);
}

static void transactions_commit_or_throw(const bf::Session &s, const Probe &p) {
  auto counter = s.lookup<Counter>("counter");
  auto value = s.transaction([&] { return counter.add(7); });
  SAME(value.claim(), 7);
  THROWS(bf::Unseen, (s.transaction([&] { p.choose(3); }), 0), SAME(error.parts().at(0).signal(), "third"));
  try {
    s.transaction([&] {
      counter.add(100);
      throw 7;
    });
    CHECK(false);
  } catch (int) {
  }
  SAME(counter.value().claim(), 7);
  // A failure that nobody was told of prevents the commit.
  p.choose(1);
  THROWS(bf::Unseen, s.commit().claim(), SAME(error.parts().at(0).signal(), "odd"));
  counter.add(-7);
  s.commit().claim();
}

static void live_batches_see_changes(const bf::Session &s, const Probe &) {
  auto other = open_session();
  auto counter = s.lookup<Counter>("counter"), theirs = other.lookup<Counter>("counter");
  Int round = 0;
  for (auto &[value, name] : s.live([&] { return std::make_tuple(counter.value(), counter.name()); })) {
    SAME(value, round);
    SAME(name, "counter");
    if (++round == 3) break;
    theirs.add(1);
    other.commit().claim();
  }
  theirs.add(-2);
  other.commit().claim();
}

static void sessions_end_with_their_last_stub(const bf::Session &s, const Probe &) {
  std::optional<Item> item;
  {
    auto other = open_session();
    item = other.lookup<Probe>("probe").fresh();
  }
  SAME(item->name().claim(), "fresh");
  item.reset();
  auto closed = open_session();
  auto p = closed.lookup<Probe>("probe");
  closed.close();
  THROWS(bf::Closed, p.fresh().name().claim());
  THROWS(bf::ConnectError, stubs::connect("unix:///nowhere"));
  CHECK(s.is_open());
}

static void names_of_the_root_directory(const bf::Session &s, const Probe &p) {
  auto directory = root(s);
  auto name = directory.lookup("counter").as<Counter>().name();
  auto gone = directory.lookup("again");
  auto all = s.cell_with<std::string>("");
  s.foreach(directory.names(), [&](Text n) { all.put(all.get() + n + " "); });
  auto refused = directory.insert("again", p.counter());
  SAME(all.get().claim(), "counter probe ");
  SAME(name.claim(), "counter");
  THROWS(signals::NotFound, (gone.resolve(), 0));
  THROWS(bf::Refused, refused.claim());
}

static void and_by_a_cell_live(const bf::Session &s, const Probe &p) {
  auto both = s.value(false).and_([&] {
    p.choose(3);
    return s.value(true);
  });
  CHECK(!both.claim());
  CHECK(s.exceptions().empty());
}

static void commands_are_sent_early(const bf::Session &s, const Probe &p) {
  for (int i = 0; i < 300; ++i) p.nothing();
  SAME(p.same_int(1).claim(), 1);
  CHECK(crossings(s) == 1 && s.counters().calls == 302);
}

static void a_session_is_left(const bf::Session &s, const Probe &p) {
  p.nothing();
  s.close();
  THROWS(bf::Closed, p.same_int(1).claim());
}

static void batches_are_explained(const bf::Session &s, const Probe &p) {
  auto one = p.same_int(7);
  std::string now = s.explain();
  CHECK(now.find("same_int(7)") != std::string::npos);
  SAME(one.claim(), 7);
  std::string last = s.explain_last();
  CHECK(last.find("same_int(7)") != std::string::npos && last.find("conformance.cpp:") != std::string::npos);
  CHECK(s.explain().find("same_int") == std::string::npos);
  // Profiles have the time, the fuel and the fetches of each command.
  s.profile(true);
  SAME(p.same_int(8).claim(), 8);
  last = s.explain_last();
  CHECK(last.find(", at the server ") != std::string::npos && last.find("profile on") != std::string::npos);
  auto call = last.find("same_int(8)  # ");
  CHECK(call != std::string::npos && last.find(" us, 1 calls, fuel 1", call) != std::string::npos);
  s.if_(s.value(true) == true, [&] { THROWS(bf::Misuse, (s.profile(false), 0)); });
  s.profile(false);
  s.flush();
  CHECK(s.explain_last().find("at the server") == std::string::npos);
  auto first = s.explain_batches();
  first = first.substr(0, first.find('\n'));
  CHECK(first.rfind("batch 1: ", 0) == 0 && first.find("answered in ") != std::string::npos);
  CHECK(first.find("; sent by the claim at ") != std::string::npos);
  // Claims that force a crossing again and again are named.
  for (int i = 0; i < 4; ++i) SAME(p.same_int(i).claim(), i);
  CHECK(s.advice().find("record the calls of all rounds before the first claim") != std::string::npos);
}

static void only_what_is_kept_gets_a_handle(const bf::Session &s, const Probe &p) { // limits.handles_max=8
  for (int i = 0; i < 1000000; ++i) p.fresh();
  s.flush();
  CHECK(bf_stubs_alive(s.get()) == 1);
  for (int round = 0; round < 5; ++round) {
    std::vector<Item> kept;
    for (int i = 0; i < 7; ++i) kept.push_back(p.fresh());
    s.flush();
    for (const auto &item : kept) item.resolve();
  }
  SAME(p.same_int(1).claim(), 1);
}

static void futures_are_mapped_again_live(const bf::Session &s, const Probe &) { // limits.futures_max=50
  auto total = s.cell_with<Int>(0);
  for (int i = 0; i < 40; ++i) total.put(total.get() + 1);
  SAME(total.get().claim(), 40);
}

static void many_results_are_mapped_again(const bf::Session &s, const Probe &p) {
  s.flush();
  auto before = crossings(s);
  std::vector<Item> items;
  std::vector<Text> names;
  for (int i = 0; i < 16400; ++i) items.push_back(p.fresh());
  CHECK(crossings(s) == before + 1);
  for (const Item &item : items) names.push_back(item.name());
  CHECK(crossings(s) == before + 2);
  for (const Text &name : names) SAME(name.claim(), "fresh");
  CHECK(crossings(s) == before + 3);
  items.clear();
  names.clear();
  s.flush();
  CHECK(bf_stubs_alive(s.get()) == 1);
  SAME(p.same_int(1).claim(), 1);
}

// The kilobytes of memory that the process has.
static long resident() {
  std::ifstream file("/proc/self/statm");
  long all = 0, pages = 0;
  CHECK(file >> all >> pages);
  return pages * 4;
}

static void a_million_dropped_stubs_leave_nothing(const bf::Session &s, const Probe &p) { // limits.handles_max=8
  long before = 0;
  for (int i = 0; i < 1000000; ++i) {
    p.fresh();
    if (i == 200000) before = resident();
  }
  s.flush();
  CHECK(bf_stubs_alive(s.get()) == 1);
  long grown = resident() - before;
  if (grown > 2000) std::cerr << "grown by " << grown << " kB\n";
  CHECK(grown <= 2000);
  SAME(p.fresh().name().claim(), "fresh");
}

static void what_is_too_long_is_not_sent(const bf::Session &s, const Probe &p) { // limits.batch_commands_max=200
  s.flush();
  auto count = s.cell_with<Int>(0);
  s.flush();
  auto before = crossings(s);
  s.foreach(p.numbers(1), [&](IntPromise) {
    for (int i = 0; i < 3000; ++i) count.put(1);
  });
  THROWS(bf::Unseen, (s.flush(), 0), CHECK(error.parts().at(0).status() == BF_E_TOO_LONG));
  CHECK(crossings(s) == before);
  SAME(count.get().claim(), 0);
}

static void endless_batches_are_ended(const bf::Session &s, const Probe &p) { // limits.fuel_max=10000
  s.while_([&] { return s.value(true) == true; }, [&] { p.nothing(); });
  THROWS(bf::Refused, p.same_int(1).claim(), CHECK(error.number() == 21));
  SAME(p.same_int(2).claim(), 2);
  s.clear_exceptions();
  THROWS(bf::Refused, s.commit().claim());
  s.clear_exceptions();
  s.abort().claim();
  s.commit().claim();
}

static void a_connection_that_is_cut(const bf::Session &s, const Probe &p) {
  p.resolve();
  CHECK(::shutdown(s.descriptor(), SHUT_RDWR) == 0);
  THROWS(bf::Closed, p.same_int(1).claim());
  CHECK(!s.is_open());
}

static void a_server_that_is_killed(const bf::Session &s, const Probe &p) {
  p.resolve();
  CHECK(::kill(static_cast<pid_t>(std::atoi(std::getenv("BIFROST_SERVER"))), SIGKILL) == 0);
  THROWS(bf::Closed, p.same_int(1).claim());
  CHECK(!s.is_open());
}

struct Test {
  const char *name;
  void (*run)(const bf::Session &, const Probe &);
  bool is_limited = false;
};

#define TEST(name)                                                                                                     \
  { #name, name }

static const Test TESTS[] = {
    TEST(values_come_back_as_they_went),
    TEST(results_of_all_shapes),
    TEST(a_subtype_passes_for_its_supertype),
    TEST(records_oneofs_and_anys_are_stubs),
    TEST(iterators_of_methods_routines_and_values),
    TEST(signals_carry_their_values),
    TEST(cells_of_everything),
    TEST(straight_futures_take_one_crossing),
    TEST(a_claim_flushes_once_for_all_promises),
    TEST(the_same_object_is_the_same_handle),
    TEST(structures_nest),
    TEST(handlers_get_names_and_values),
    TEST(exceptions_in_loops_say_the_round),
    TEST(what_depends_on_a_failure_says_why),
    TEST(misuse_is_a_value_and_the_session_goes_on),
    TEST(procedures_are_kept_by_the_session),
    TEST(numbers_signal_what_has_no_result),
    TEST(messages_name_objects_by_the_calls_that_they_came_from),
    TEST(a_table_is_one_crossing),
    TEST(rows_come_from_structures_and_procedures),
    TEST(a_table_of_an_earlier_batch_takes_no_rows),
    TEST(a_row_that_fails_is_told),
    TEST(types_at_run_time),
    TEST(sequences_are_vectors),
    TEST(compounds_cross_by_value),
    TEST(maybe_is_an_optional),
    TEST(objects_in_values_are_stubs),
    TEST(contents_of_collections_and_records),
    TEST(rows_and_procedures_have_values),
    TEST(signals_carry_objects_and_compounds),
    TEST(batches_overlap),
    TEST(transactions_commit_or_throw),
    TEST(live_batches_see_changes),
    TEST(sessions_end_with_their_last_stub),
    TEST(batches_are_explained),
    TEST(names_of_the_root_directory),
    TEST(and_by_a_cell_live),
    TEST(commands_are_sent_early),
    TEST(a_session_is_left),
    {"only_what_is_kept_gets_a_handle", only_what_is_kept_gets_a_handle, true},
    {"futures_are_mapped_again_live", futures_are_mapped_again_live, true},
    {"many_results_are_mapped_again", many_results_are_mapped_again, true},
    {"a_million_dropped_stubs_leave_nothing", a_million_dropped_stubs_leave_nothing, true},
    {"what_is_too_long_is_not_sent", what_is_too_long_is_not_sent, true},
    {"endless_batches_are_ended", endless_batches_are_ended, true},
    {"a_connection_that_is_cut", a_connection_that_is_cut, true},
    {"a_server_that_is_killed", a_server_that_is_killed, true},
};

int main(int argc, char **argv) {
  std::size_t run = 0;
  for (const Test &test : TESTS) {
    if (argc > 1 ? std::strcmp(argv[1], test.name) != 0 : test.is_limited) continue;
    try {
      auto s = open_session();
      test.run(s, s.lookup<Probe>("probe"));
    } catch (const std::exception &error) {
      std::cerr << test.name << ": " << error.what() << "\n";
      return 1;
    }
    std::cout << "case " << test.name << " ok\n";
    ++run;
  }
  std::cout << run << " cases\n";
  return run == 0;
}
