// The cases of cases/clients.yaml with the program `database`: one name is one case. BIFROST_URL is a server of
// cases/programs/database.theta, or for the last case of database_other.theta.

#include <cstring>

#include "check.hpp"

#include "bifrost_stubs.hpp"

using namespace stubs;

static void a_table_of_rows(const bf::Session &s, const DataBase &db) {
  auto table = s.rows<DataElem, std::string, std::int64_t>();
  s.foreach(db.users(), [&](DataElem e) {
    e.touch();
    table.push(e, e.name(), e.visits());
  });
  auto rows = table.claim();
  CHECK(rows.size() == 3 && s.counters().crossings == 1);
  CHECK(std::get<1>(rows[0]) == "ann" && std::get<1>(rows[2]) == "eve" && std::get<2>(rows[1]) == 1);
  table.push(db.fetch("ann"), "ann", 1);
  THROWS(bf::Unseen, (s.flush(), 0), CHECK(error.parts().at(0).status() == BF_E_ENDED_TABLE));
  s.abort().claim();
}

static void transactions_commit_and_abort(const bf::Session &s, const DataBase &db) {
  auto e = db.fetch("eve");
  e.touch();
  auto done = s.commit();
  e.touch();
  auto two = e.visits();
  auto undone = s.abort();
  auto one = e.visits();
  done.claim();
  SAME(two.claim(), 2);
  undone.claim();
  SAME(one.claim(), 1);
  CHECK(s.counters().crossings == 1);
}

static void a_commit_names_unseen_failures(const bf::Session &s, const DataBase &db) {
  db.fetch("nobody");
  THROWS(bf::Unseen, s.commit().claim(), {
    SAME(error.parts().at(0).signal(), "not_found");
    SAME(error.parts().at(0).call(), "DataBase.fetch");
  });
  THROWS(signals::NotFound, (db.fetch("nobody").resolve(), 0));
  s.commit().claim();
}

static void a_batch_is_a_transaction(const bf::Session &s, const DataBase &db) {
  s.flush();
  bf_how how{};
  how.tries = 3;
  auto [e, one] = s.transaction(
      [&] {
        auto zoe = db.new_user("zoe");
        zoe.touch();
        return std::make_tuple(zoe, zoe.visits());
      },
      how);
  SAME(one.claim(), 1);
  CHECK(s.counters().crossings == 2);
  auto elem = e;
  THROWS(bf::Unseen,
         (s.transaction([&] {
           elem.touch();
           db.new_user("zoe");
         }),
          0),
         SAME(error.parts().at(0).signal(), "not_possible"));
  s.clear_exceptions();
  SAME(elem.visits().claim(), 1);
}

static void a_named_batch_is_done_once(const bf::Session &s, const DataBase &db) {
  auto e = db.fetch("bob");
  auto before = e.visits().claim();
  bf_how how{};
  how.named = true;
  how.client[0] = 7;
  how.number = 1;
  for (int i = 0; i < 2; ++i) s.transaction([&] { e.touch(); }, how);
  SAME(e.visits().claim(), before + 1);
}

static void a_wait_without_changes(const bf::Session &s, const DataBase &db) {
  auto visits = db.fetch("ann").visits();
  auto changed = s.wait(std::chrono::milliseconds(10));
  visits.claim();
  CHECK(!changed.claim());
}

// The server lacks some methods, and has others under other numbers.
static void another_interface_at_the_server(const bf::Session &s, const DataBase &db) {
  auto e = db.fetch("eve");
  e.touch();
  auto visits = e.visits();
  auto name = e.name();
  SAME(visits.claim(), 1);
  SAME(name.claim(), "eve");
  auto renamed = db.new_user("zoe");
  auto other = db.loop_fetch("eve", 1);
  auto after = renamed.name();
  THROWS(bf::Misuse, (renamed.resolve(), 0),
         CHECK(error.status() == BF_E_MISSING && error.signal() == "DataBase.new_user"));
  THROWS(bf::Misuse, other.claim(), CHECK(error.status() == BF_E_MISSING));
  THROWS(bf::Misuse, after.claim(), CHECK(error.status() == BF_E_MISSING));
  s.foreach(db.users(), [&](DataElem user) { user.touch(); });
  THROWS(bf::Unseen, (s.flush(), 0), CHECK(error.parts().at(0).status() == BF_E_MISSING));
  CHECK(s.counters().crossings == 1);
}

struct Test {
  const char *name;
  void (*run)(const bf::Session &, const DataBase &);
};

#define TEST(name)                                                                                                     \
  { #name, name }

static const Test TESTS[] = {
    TEST(a_table_of_rows),
    TEST(transactions_commit_and_abort),
    TEST(a_commit_names_unseen_failures),
    TEST(a_batch_is_a_transaction),
    TEST(a_named_batch_is_done_once),
    TEST(a_wait_without_changes),
    TEST(another_interface_at_the_server),
};

int main(int argc, char **argv) {
  for (const Test &test : TESTS) {
    if (argc < 2 || std::strcmp(argv[1], test.name) != 0) continue;
    try {
      auto s = stubs::connect(std::getenv("BIFROST_URL"));
      test.run(s, s.lookup<DataBase>("database"));
    } catch (const std::exception &error) {
      std::cerr << error.what() << "\n";
      return 1;
    }
    std::cout << "case " << test.name << " ok\n";
    return 0;
  }
  return 2;
}
