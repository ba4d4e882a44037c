// The cases of cases/sessions.yaml: several sessions at one server. BIFROST_URL is a server of
// cases/programs/hermitage.theta. Each case begins with two new rows, of the values 10 and 20.

#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "check.hpp"

#include "bifrost_stubs.hpp"

using namespace stubs;
using namespace std::chrono_literals;

static constexpr std::uint32_t NO_SUCH_HANDLE = 1, CONFLICT = 26;

// A session, with the table and its rows.
struct Seat {
  bf::Session s = connect(std::getenv("BIFROST_URL"));
  Table t = s.lookup<Table>("table");
  Row one = t.row(1), two = t.row(2);

  Seat() { s.abort().claim(); }

  void commit() const { s.commit().claim(); }
  void conflicts() const { THROWS(bf::Refused, s.commit().claim(), SAME(error.number(), CONFLICT)); }
  void has_values(std::int64_t first, std::int64_t second) const {
    auto mine = one.value(), other = two.value();
    SAME(mine.claim(), first);
    SAME(other.claim(), second);
  }
};

static void g0_write_cycles(const Seat &a, const Seat &b, const Seat &) {
  a.one.put(11);
  a.s.flush();
  b.one.put(12);
  b.s.flush();
  a.two.put(21);
  a.commit();
  b.two.put(22);
  b.conflicts();
  b.has_values(11, 21);
}

static void g1a_aborted_reads(const Seat &a, const Seat &b, const Seat &) {
  a.one.put(101);
  a.s.flush();
  SAME(b.one.value().claim(), 10);
  a.s.abort().claim();
  SAME(b.one.value().claim(), 10);
  b.commit();
}

static void g1b_intermediate_reads(const Seat &a, const Seat &b, const Seat &) {
  a.one.put(101);
  a.s.flush();
  SAME(b.one.value().claim(), 10);
  a.one.put(11);
  a.commit();
  SAME(b.one.value().claim(), 10);
  b.conflicts();
  SAME(b.one.value().claim(), 11);
}

static void g1c_circular_information_flow(const Seat &a, const Seat &b, const Seat &) {
  a.one.put(11);
  a.s.flush();
  b.two.put(22);
  b.s.flush();
  SAME(a.two.value().claim(), 20);
  SAME(b.one.value().claim(), 10);
  a.commit();
  b.conflicts();
  b.has_values(11, 20);
}

static void otv_observed_transaction_vanishes(const Seat &a, const Seat &b, const Seat &c) {
  a.one.put(11);
  a.two.put(19);
  a.s.flush();
  b.one.put(12);
  b.s.flush();
  a.commit();
  SAME(c.one.value().claim(), 11);
  b.two.put(18);
  b.conflicts();
  SAME(c.two.value().claim(), 19);
  c.has_values(11, 19);
  c.commit();
}

static void pmp_predicate_many_preceders(const Seat &a, const Seat &b, const Seat &) {
  SAME(a.t.with_value(30).claim(), 0);
  b.t.insert(3, 30);
  b.commit();
  SAME(a.t.divisible(3).claim(), 0);
  a.conflicts();
  SAME(a.t.divisible(3).claim(), 1);
  a.commit();
}

static void pmp_with_changes(const Seat &a, const Seat &b, const Seat &) {
  auto remove = [&] {
    b.s.foreach(b.t.rows(), [&](Row row) { b.s.if_(row.value() == 20, [&] { b.t.remove(row.id()); }); });
  };
  a.s.foreach(a.t.rows(), [&](Row row) { row.add(10); });
  a.s.flush();
  remove();
  b.s.flush();
  a.commit();
  b.conflicts();
  remove();
  b.commit();
  SAME(b.t.total().claim(), 30);
}

static void p4_lost_update(const Seat &a, const Seat &b, const Seat &) {
  auto first = a.one.value(), second = b.one.value();
  SAME(first.claim(), 10);
  SAME(second.claim(), 10);
  a.one.put(first + 1);
  a.s.commit().claim();
  b.one.put(second + 1);
  THROWS(bf::Refused, b.s.commit().claim(), SAME(error.number(), CONFLICT));
  // The same again, with the value that is there now.
  b.one.put(b.one.value() + 1);
  b.s.commit().claim();
  SAME(b.one.value().claim(), 12);
}

static void g_single_read_skew(const Seat &a, const Seat &b, const Seat &) {
  SAME(a.one.value().claim(), 10);
  b.one.put(12);
  b.two.put(18);
  b.commit();
  SAME(a.two.value().claim(), 20);
  a.two.put(0);
  a.conflicts();
  a.has_values(12, 18);
  a.commit();
}

static void g2_item_write_skew(const Seat &a, const Seat &b, const Seat &) {
  a.has_values(10, 20);
  b.has_values(10, 20);
  a.one.put(11);
  a.s.flush();
  b.two.put(21);
  b.s.flush();
  a.commit();
  b.conflicts();
  SAME(b.t.total().claim(), 31);
}

static void g2_anti_dependency_cycles(const Seat &a, const Seat &b, const Seat &) {
  SAME(a.t.divisible(3).claim(), 0);
  SAME(b.t.divisible(3).claim(), 0);
  a.t.insert(3, 30);
  a.s.flush();
  b.t.insert(4, 42);
  b.s.flush();
  a.commit();
  b.conflicts();
  b.s.if_(b.t.divisible(3) == 0, [&] { b.t.insert(4, 42); });
  b.commit();
  SAME(b.t.divisible(3).claim(), 1);
}

static void g2_two_edges(const Seat &a, const Seat &b, const Seat &c) {
  SAME(a.t.total().claim(), 30);
  b.two.add(5);
  b.commit();
  SAME(c.t.total().claim(), 35);
  c.commit();
  a.one.put(0);
  a.conflicts();
  SAME(a.t.total().claim(), 35);
}

static void changes_are_seen_after_the_commit(const Seat &a, const Seat &b, const Seat &) {
  auto three = a.t.insert(3, 30);
  a.s.flush();
  THROWS(signals::NotFound, (b.t.row(3).resolve(), 0));
  SAME(b.t.total().claim(), 30);
  b.commit();
  a.commit();
  auto same = b.t.row(3);
  SAME(b.t.total().claim(), 60);
  same.add(1);
  b.commit();
  SAME(three.value().claim(), 31);
}

static void changes_of_different_objects_do_not_conflict(const Seat &a, const Seat &b, const Seat &) {
  a.one.add(1);
  a.s.flush();
  b.two.add(1);
  b.s.flush();
  a.commit();
  b.commit();
  SAME(a.t.total().claim(), 32);
}

static void commands_behind_a_conflict_are_not_reached(const Seat &a, const Seat &b, const Seat &) {
  SAME(b.one.value().claim(), 10);
  a.one.add(1);
  a.commit();
  b.one.add(1);
  auto done = b.s.commit();
  b.one.add(1);
  auto value = b.one.value();
  THROWS(bf::Refused, done.claim(), SAME(error.number(), CONFLICT));
  // The failure is that of the commit, from which this one follows.
  THROWS(bf::Refused, value.claim(), {
    SAME(error.number(), CONFLICT);
    CHECK(error.is_consequence());
  });
  SAME(b.one.value().claim(), 11);
}

static void a_conflict_undoes_objects(const Seat &a, const Seat &b, const Seat &) {
  SAME(a.t.total().claim(), 30);
  auto three = a.t.insert(3, 1);
  a.s.flush();
  b.t.insert(3, 2);
  b.commit();
  a.conflicts();
  THROWS(bf::Refused, three.value().claim(), SAME(error.number(), NO_SUCH_HANDLE));
  SAME(a.t.row(3).value().claim(), 2);
  a.commit();
}

static void conflicts_are_run_again_by_the_server(const Seat &a, const Seat &, const Seat &) {
  auto add_often = [] {
    Seat mine;
    bf_how how{};
    how.tries = 30;
    mine.s.transaction(
        [&] {
          mine.s.foreach(mine.s.value(std::int64_t{1}).to(1000), [&](bf::Promise<std::int64_t>) {
            mine.s.foreach(mine.t.rows(), [&](Row row) { row.add(1); });
          });
        },
        how);
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; i++) threads.emplace_back(add_often);
  for (auto &thread : threads) thread.join();
  SAME(a.t.total().claim(), 6030);
}

static void a_wait_is_ended_by_a_change(const Seat &a, const Seat &b, const Seat &) {
  SAME(a.one.value().claim(), 10);
  auto changed = a.s.wait(60s);
  auto after = a.one.value();
  auto done = a.s.commit();
  a.s.flush_start();
  b.one.put(11);
  b.s.abort().claim();
  b.one.put(12);
  b.s.commit().claim();
  CHECK(changed.claim());
  SAME(after.claim(), 12);
  done.claim();
}

static void a_wait_misses_no_change(const Seat &a, const Seat &b, const Seat &) {
  SAME(a.one.value().claim(), 10);
  b.two.put(21);
  b.commit();
  CHECK(!a.s.wait(10ms).claim());
  b.one.put(11);
  b.commit();
  CHECK(a.s.wait(60s).claim());
  SAME(a.one.value().claim(), 11);
}

static void a_live_batch_is_run_again(const Seat &a, const Seat &b, const Seat &) {
  using View = std::vector<std::tuple<std::int64_t, std::int64_t>>;
  auto before = a.s.counters().crossings;
  auto views =
      a.s.live([&] { return a.s.collect(a.t.rows(), [](Row row) { return std::make_tuple(row.id(), row.value()); }); });
  CHECK((views.next() == View{{1, 10}, {2, 20}}));
  b.two.put(22);
  b.s.commit().claim();
  CHECK((views.next() == View{{1, 10}, {2, 22}}));
  b.t.insert(3, 30);
  b.t.remove(1);
  b.s.commit().claim();
  CHECK((views.next() == View{{2, 22}, {3, 30}}));
  CHECK(a.s.counters().crossings == before + 3);
}

struct Test {
  const char *name;
  void (*run)(const Seat &, const Seat &, const Seat &);
};

#define TEST(name)                                                                                                     \
  { #name, name }

static const Test TESTS[] = {
    TEST(g0_write_cycles),
    TEST(g1a_aborted_reads),
    TEST(g1b_intermediate_reads),
    TEST(g1c_circular_information_flow),
    TEST(otv_observed_transaction_vanishes),
    TEST(pmp_predicate_many_preceders),
    TEST(pmp_with_changes),
    TEST(p4_lost_update),
    TEST(g_single_read_skew),
    TEST(g2_item_write_skew),
    TEST(g2_anti_dependency_cycles),
    TEST(g2_two_edges),
    TEST(changes_are_seen_after_the_commit),
    TEST(changes_of_different_objects_do_not_conflict),
    TEST(commands_behind_a_conflict_are_not_reached),
    TEST(a_conflict_undoes_objects),
    TEST(conflicts_are_run_again_by_the_server),
    TEST(a_wait_is_ended_by_a_change),
    TEST(a_wait_misses_no_change),
    TEST(a_live_batch_is_run_again),
};

// Removes all rows, and makes those with which a case begins.
static void renew() {
  auto s = connect(std::getenv("BIFROST_URL"));
  auto t = s.lookup<Table>("table");
  s.foreach(t.rows(), [&](Row row) { t.remove(row.id()); });
  t.insert(1, 10);
  t.insert(2, 20);
  s.commit().claim();
}

int main() {
  for (const Test &test : TESTS) {
    try {
      renew();
      test.run(Seat(), Seat(), Seat());
    } catch (const std::exception &error) {
      std::cerr << test.name << ": " << error.what() << "\n";
      return 1;
    }
    std::cout << "case " << test.name << " ok\n";
  }
}
