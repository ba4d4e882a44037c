// Figures of the veneer of C++: JSON lines as those of veneers/c/bench.
//
// BIFROST_URL is a server of cases/programs/conformance.theta.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include <sys/socket.h>
#include <unistd.h>

#include "bifrost_stubs.hpp"

using Clock = std::chrono::steady_clock;

static constexpr int SAMPLES = 101, RECORDED = 1000, BATCH = 10000, ROWS = 10000, PAIRS = 200;
static constexpr std::size_t MESSAGE = 64;

/** Runs some work so often, and prints the nanoseconds (or microseconds) of each of its `n` parts. */
template <class F> static void measure(const char *name, const char *peer, int n, int count, const char *unit, F work) {
  std::vector<double> samples;
  for (int i = 0; i < count; ++i) {
    auto from = Clock::now();
    work();
    auto spent = std::chrono::duration<double, std::nano>(Clock::now() - from).count() / n;
    samples.push_back(unit[0] == 'u' ? spent / 1000 : spent);
  }
  std::sort(samples.begin(), samples.end());
  std::printf(
      "{\"bench\":\"veneers\",\"case\":\"%s\",\"peer\":\"%s\",\"n\":%d,\"value\":%.1f,\"min\":%.1f,\"max\":%.1f,"
      "\"unit\":\"%s\"}\n",
      name, peer, n, samples[samples.size() / 2], samples.front(), samples.back(), unit);
}

int main() {
  auto s = stubs::connect(std::getenv("BIFROST_URL"));
  auto p = s.lookup<stubs::Probe>("probe");
  p.resolve();

  // Recording alone: calls whose results are not wanted. The flush between two samples is not measured.
  std::vector<double> samples;
  for (int i = 0; i < SAMPLES; ++i) {
    auto from = Clock::now();
    for (int n = 0; n < RECORDED; ++n) p.same_int(n);
    samples.push_back(std::chrono::duration<double, std::nano>(Clock::now() - from).count() / RECORDED);
    s.flush();
  }
  std::sort(samples.begin(), samples.end());
  std::printf(
      "{\"bench\":\"veneers\",\"case\":\"record\",\"peer\":\"cpp\",\"n\":%d,\"value\":%.1f,\"min\":%.1f,\"max\":%.1f,"
      "\"unit\":\"ns\"}\n",
      RECORDED, samples[SAMPLES / 2], samples.front(), samples.back());

  measure("batch", "cpp", BATCH, SAMPLES / 4, "ns", [&] {
    std::vector<bf::Promise<std::int64_t>> results;
    results.reserve(BATCH);
    for (int n = 0; n < BATCH; ++n) results.push_back(p.same_int(n));
    if (results.back().claim() != BATCH - 1) std::exit(1);
  });
  measure("pair", "cpp", PAIRS, SAMPLES, "us", [&] {
    for (int n = 0; n < PAIRS; ++n) {
      if (p.same_int(n).claim() != n) std::exit(1);
    }
  });
  measure("table", "cpp", ROWS, SAMPLES / 4, "ns", [&] {
    auto rows = s.collect(p.pairs(ROWS), [](auto n, auto text) { return std::make_tuple(n, text); }).claim();
    std::int64_t sum = 0;
    for (const auto &row : rows) sum += std::get<0>(row);
    if (sum != std::int64_t{ROWS} * (ROWS + 1) / 2) std::exit(1);
  });

  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return 1;
  std::thread other([&] {
    char bytes[MESSAGE];
    while (recv(ends[1], bytes, sizeof bytes, MSG_WAITALL) == static_cast<ssize_t>(sizeof bytes)) {
      if (send(ends[1], bytes, sizeof bytes, 0) < 0) break;
    }
  });
  measure("pair", "raw", PAIRS, SAMPLES, "us", [&] {
    char bytes[MESSAGE] = {};
    for (int n = 0; n < PAIRS; ++n) {
      if (send(ends[0], bytes, sizeof bytes, 0) < 0) std::exit(1);
      if (recv(ends[0], bytes, sizeof bytes, MSG_WAITALL) != static_cast<ssize_t>(sizeof bytes)) std::exit(1);
    }
  });
  close(ends[0]);
  other.join();
  close(ends[1]);
}
