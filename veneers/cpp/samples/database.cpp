// A client of examples/database/database.theta, as the Rust one in that folder.

#include <iostream>

#include "bifrost_stubs.hpp"

using stubs::DataBase;
using stubs::DataElem;

int main() {
  auto s = stubs::connect(std::getenv("BIFROST_URL"));
  auto db = s.lookup<DataBase>("database");

  // Calls are recorded; `claim` sends all of them at once and waits for the value.
  auto eve = db.fetch("eve");
  eve.touch();
  eve.touch();
  std::cout << "eve: " << eve.visits().claim() << " visits\n";
  std::cout << "commands: " << s.counters().calls << ", crossings: " << s.counters().crossings << "\n";

  // A loop over an iterator of the server. It crosses as a whole; the block runs once, here.
  auto total = s.cell_with<std::int64_t>(0);
  BF_FOREACH(s, db.users(), DataElem e) {
    BF_IF(s, e.visits() > 0) {
      total.put(total.get() + e.visits());
    };
  };
  std::cout << "visits in all: " << total.get().claim() << "\n";

  // A loop whose state is in a cell at the server.
  auto round = s.cell_with<std::int64_t>(0);
  BF_WHILE(s, round.get() < 1000) {
    eve.touch();
    round.put(round.get() + 1);
  };
  std::cout << "eve: " << eve.visits().claim() << " visits\n";

  // A failure is thrown where a value is claimed, and can be handled at the server.
  try {
    db.fetch("zoe").name().claim();
  } catch (const stubs::signals::NotFound &error) {
    std::cout << "zoe: " << error.signal() << "\n";
  }
  auto found = s.cell<DataElem>();
  s.except([&] { found.put(db.fetch("zoe")); }).when<stubs::signals::NotFound>([&] { found.put(db.new_user("zoe")); });
  std::cout << found.get().name().claim() << " is there now\n";

  // A table of all users: one crossing, whatever their number.
  auto users = s.collect(db.users(), [](DataElem e) { return std::make_tuple(e.name(), e.visits()); });
  for (const auto &[name, visits] : users.claim()) std::cout << name << ": " << visits << " visits\n";

  // A struct as argument and a sequence as result: values cross with all their items.
  auto often = db.matching(stubs::Query{"e", 2});
  std::cout << "often here: [";
  const char *separator = "";
  for (const auto &name : often.get().claim()) std::cout << std::exchange(separator, ", ") << '"' << name << '"';
  std::cout << "]\n";

  // The root directory has objects of any type. A cast inside a loop makes them what they are.
  auto root = stubs::root(s);
  auto eves = s.rows<std::string, std::int64_t>();
  s.foreach(root.list(), [&](bf::Promise<std::string> name, auto) {
    auto object = root.lookup(name);
    s.if_(object.is<DataBase>(), [&] { eves.push(name, object.as<DataBase>().fetch("eve").visits()); });
  });
  std::cout << "eve's visits, by database: [";
  separator = "";
  for (const auto &[name, visits] : eves.claim()) {
    std::cout << std::exchange(separator, ", ") << "(\"" << name << "\", " << visits << ")";
  }
  std::cout << "]\n";

  // Others see what this session has done when it commits. A failure that nobody was told of would prevent that.
  s.commit().claim();
  s.close();
}
