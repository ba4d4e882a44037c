// The measured client of `bifrost bench veneers` in C++.
//
// It connects to BIFROST_URL, a server of cases/programs/conformance.theta, and answers lines `CASE N` by the
// nanoseconds and the result of N steps (bench/veneers/README.md).

#include <cstdlib>
#include <stdexcept>
#include <thread>

#include <sys/socket.h>
#include <unistd.h>

#include "bifrost_stubs.hpp"
#include "lines.h"

static constexpr std::size_t MESSAGE = 64;

/** A pair of sockets, of which one sends each message back. */
class Echo {
public:
  Echo() {
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends_) != 0) throw std::runtime_error("no pair of sockets");
    other_ = std::thread([this] {
      char bytes[MESSAGE];
      while (recv(ends_[1], bytes, sizeof bytes, MSG_WAITALL) == static_cast<ssize_t>(sizeof bytes)) {
        if (send(ends_[1], bytes, sizeof bytes, 0) < 0) break;
      }
    });
  }
  ~Echo() {
    close(ends_[0]);
    other_.join();
    close(ends_[1]);
  }
  void ping() {
    char bytes[MESSAGE] = {};
    if (send(ends_[0], bytes, sizeof bytes, 0) < 0 ||
        recv(ends_[0], bytes, sizeof bytes, MSG_WAITALL) != static_cast<ssize_t>(sizeof bytes))
      throw std::runtime_error("the other end is gone");
  }

private:
  int ends_[2];
  std::thread other_;
};

static Ran run(bf::Session &s, stubs::Probe &p, Echo &echo, const std::string &name, std::int64_t count) {
  std::int64_t result = 0;
  Watch watch;
  if (name == "record") {
    // Calls whose results are not wanted: the recording alone.
    for (std::int64_t n = 0; n < count; ++n) {
      p.same_int(n);
      result += n;
    }
    auto spent = watch.nanoseconds();
    s.flush();
    return {spent, result};
  }
  if (name == "batch") {
    std::vector<bf::Promise<std::int64_t>> results;
    results.reserve(static_cast<std::size_t>(count));
    for (std::int64_t n = 0; n < count; ++n) results.push_back(p.same_int(n));
    results.back().claim();
    auto spent = watch.nanoseconds();
    for (auto &promise : results) result += promise.claim();
    return {spent, result};
  }
  if (name == "null") {
    for (; result < count; ++result) p.nothing().claim();
  } else if (name == "pair") {
    for (std::int64_t n = 0; n < count; ++n) result += p.same_int(n).claim();
  } else if (name == "two") {
    for (std::int64_t n = 0; n < count; ++n) result += p.itself().same_int(n).claim();
  } else if (name == "table") {
    auto rows = s.collect(p.pairs(count), [](auto n, auto text) { return std::make_tuple(n, text); }).claim();
    for (const auto &[number, text] : rows) result += number + static_cast<std::int64_t>(text.size());
  } else if (name == "raw") {
    for (; result < count; ++result) echo.ping();
  } else {
    throw std::runtime_error("no such case");
  }
  return {watch.nanoseconds(), result};
}

int main() {
  auto s = stubs::connect(std::getenv("BIFROST_URL"));
  auto p = s.lookup<stubs::Probe>("probe");
  p.resolve();
  Echo echo;
  return answer_lines([&](const std::string &name, std::int64_t count) { return run(s, p, echo, name, count); });
}
