// Imports and services, against the trader and the servers of ../../c/tests/services.sh.

#include <chrono>
#include <csignal>
#include <fstream>
#include <thread>

#include "bifrost_stubs.hpp"
#include "check.hpp"

using stubs::DataBase;
using stubs::signals::NotFound;

static std::string folder;

static std::string url(const std::string &query) {
  return "trader+unix://" + folder + "/trader?service=DataBase&" + query;
}

static std::string socket_of(int number) { return "unix://" + folder + "/server" + std::to_string(number); }

static void say(int number, int signal) {
  int pid = 0;
  std::ifstream(folder + "/pid" + std::to_string(number)) >> pid;
  CHECK(pid > 0 && kill(pid, signal) == 0);
}

static void nap() { std::this_thread::sleep_for(std::chrono::milliseconds(10)); }

/** Stops a server, and waits until it stands. */
static void stop(int number) {
  say(number, SIGSTOP);
  int pid = 0;
  std::ifstream(folder + "/pid" + std::to_string(number)) >> pid;
  for (std::string state; state != "T"; nap()) {
    std::string skipped;
    std::ifstream("/proc/" + std::to_string(pid) + "/stat") >> skipped >> skipped >> state;
  }
}

/** Kills the server of a session, and waits until that is known. */
static void end(const bf::Session &s, int number) {
  say(number, SIGKILL);
  for (int i = 0; s.is_open(); ++i) {
    CHECK(i < 1000);
    nap();
  }
}

static bool has(const bf::Error &error, const std::string &text) {
  return std::string(error.what()).find(text) != std::string::npos;
}

static void imports() {
  auto s = stubs::connect(url("number=2"));
  SAME(s.imported_name(), std::string("database"));
  SAME(s.imported_address(), socket_of(2));
  SAME(s.lookup<DataBase>(s.imported_name()).new_user("zoe").visits().claim(), 0);

  auto [session, db] = stubs::import_service<DataBase>(url("prefer=max(number)&number<9"));
  SAME(session.imported_address(), socket_of(3));
  THROWS(NotFound, db.fetch("nobody").name().claim());
  SAME(stubs::connect(socket_of(1)).imported_name(), std::string());

  bf_options options{};
  options.timeout_ms = 500;
  THROWS(bf::ConnectError, stubs::connect(url("number=77"), &options), CHECK(has(error, "cannot import `DataBase`")));
  THROWS(bf::ConnectError, stubs::import_service<DataBase>("trader://host"), CHECK(has(error, "names no service")));
  auto none = stubs::service<DataBase>(url("number=77"), &options);
  SAME(none.address(), std::string());
  THROWS(bf::ConnectError,
         none.run([](const bf::Session &, const DataBase &) { CHECK(false && "a run without a server"); }),
         CHECK(has(error, "cannot import")));
}

/** Makes a user, and commits. */
static void make(const bf::Session &s, const DataBase &db, const std::string &name) {
  db.new_user(name);
  s.commit().claim();
}

static void runs() {
  bf_options options{};
  options.timeout_ms = 2000;
  auto service = stubs::service<DataBase>(url("prefer=min(number)&number<9"), &options);
  int calls = 0;
  service.run([&](const bf::Session &s, const DataBase &db) { make(s, db, "zoe"); });
  SAME(service.address(), socket_of(1));
  SAME(service.name(), std::string("database"));

  // A run that has failed: what it has not committed is undone, and the session goes on.
  THROWS(NotFound, service.run([](const bf::Session &, const DataBase &db) {
    db.new_user("una");
    return db.fetch("nobody").visits().claim();
  }));
  struct Own {};
  bool thrown = false;
  try {
    service.run([&](const bf::Session &s, const DataBase &db) {
      s.if_(db.new_user("una").visits() > 0, [&] { throw Own(); });
    });
  } catch (const Own &) {
    thrown = true;
  }
  CHECK(thrown);
  std::string name = service.run([](const bf::Session &, const DataBase &db) {
    THROWS(NotFound, db.fetch("una").name().claim());
    return db.fetch("zoe").name().claim();
  });
  SAME(name, std::string("zoe"));

  // Lost in a run before anything of it was sent: the body runs again, with another server. A stub and a session that
  // are kept live on, and say so.
  std::optional<bf::Session> kept;
  std::optional<DataBase> old;
  service.run([&](const bf::Session &s, const DataBase &db) {
    if (++calls == 1) {
      kept = s;
      old = db;
      end(s, 1);
    }
    make(s, db, "zoe");
  });
  SAME(calls, 2);
  SAME(service.address(), socket_of(2));
  THROWS(bf::Closed, old->fetch("zoe").name().claim());
  kept.reset();
  THROWS(bf::Closed, old->fetch("zoe").name().claim());
  old.reset();

  // Stopped while a run waits for its answer: it is not begun again.
  calls = 0;
  THROWS(bf::Lost, service.run([&](const bf::Session &, const DataBase &db) {
    ++calls;
    stop(2);
    return db.fetch("zoe").visits().claim();
  }),
         CHECK(error.ran() == BF_RAN_UNKNOWN && has(error, "nobody knows if the run was done")));
  SAME(calls, 1);
  say(2, SIGKILL);

  service.run([](const bf::Session &s, const DataBase &db) { make(s, db, "zoe"); });
  SAME(service.address(), socket_of(3));
}

/** Counts a visit of a user, and returns their number. */
static std::int64_t count(bf::Service<DataBase> &service, const std::string &user) {
  auto visits = service.run_named([&](const bf::Session &, const DataBase &db) {
    auto elem = db.fetch(user);
    elem.touch();
    return elem.visits();
  });
  return visits.claim();
}

static void a_transaction_is_done_once() {
  auto service = stubs::service<DataBase>(url("number=9"));
  service.run([](const bf::Session &s, const DataBase &db) { make(s, db, "zoe"); });
  int calls = 0;
  auto visits = service.run_named([&](const bf::Session &, const DataBase &db) {
    if (++calls == 1) say(9, SIGKILL);
    auto zoe = db.fetch("zoe");
    zoe.touch();
    return zoe.visits();
  });
  SAME(visits.claim(), 1);
  THROWS(bf::Error, service.run_named([](const bf::Session &, const DataBase &db) { db.fetch("nobody").touch(); }));
  bf_how how{};
  how.named = true;
  how.client[0] = 7;
  how.number = 1;
  for (int i = 0; i < 2; ++i) {
    service.run_transaction(how, [](const bf::Session &, const DataBase &db) { db.fetch("zoe").touch(); });
  }
  SAME(service.run([](const bf::Session &, const DataBase &db) { return db.fetch("zoe").visits().claim(); }), 2);
  SAME(count(service, "zoe"), 3);
}

int main() {
  const char *given = std::getenv("BIFROST_FOLDER");
  CHECK(given);
  folder = given;
  imports();
  a_transaction_is_done_once();
  runs();
  std::cout << "services passed\n";
}
