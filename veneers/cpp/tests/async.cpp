// Coroutines: many await results of few crossings, on one thread.
//
// BIFROST_URL is a server of cases/programs/conformance.theta.

#include "check.hpp"

#include "bifrost_stubs.hpp"

using namespace stubs;

static int finished = 0;

static bf::Task add(Probe p, std::int64_t from, std::int64_t *sum) {
  std::int64_t one = co_await p.same_int(from);
  // What was awaited goes into the next batch, with those of the other coroutines.
  std::string text = co_await p.same_string(std::to_string(one));
  *sum += std::stoll(text);
  ++finished;
}

static bf::Task fail(Probe p, bool *caught) {
  try {
    co_await p.item("zoe").name();
  } catch (const signals::NotFound_ &error) {
    *caught = std::get<0>(error.values()) == "zoe";
  }
  ++finished;
}

int main() {
  auto s = stubs::connect(std::getenv("BIFROST_URL"));
  auto p = s.lookup<Probe>("probe");
  bf::Loop loop;
  s.set_executor(&loop);
  std::int64_t sum = 0;
  bool caught = false;
  for (std::int64_t i = 1; i <= 100; ++i) add(p, i, &sum);
  fail(p, &caught);
  CHECK(finished == (s.descriptor() < 0 ? 101 : 0));
  loop.run();
  SAME(finished, 101);
  SAME(sum, 5050);
  if (s.descriptor() >= 0) SAME(s.counters().crossings, 2u);
  CHECK(caught);
  // A promise that is known is not waited for, and one of a session without an executor is claimed.
  s.set_executor(nullptr);
  add(p, 1, &sum);
  SAME(sum, 5051);
  s.close();
  std::cout << "case async ok, " << s.counters().crossings << " crossings\n";
}
