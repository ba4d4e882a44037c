// The lines of the programs of `bifrost bench echo` in C++. README.md has them.
//
// A program includes this, and adds the calls of its system: `serve` and `Caller`.
#pragma once

#include <time.h>

#include <cstdint>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>

// The number of bytes wanted that asks for those that were sent.
constexpr uint32_t ECHO = UINT32_MAX;
// The most bytes of a message.
constexpr size_t BYTES_MAX = 1 << 20;
// The bytes of the exchange that checks whether bytes arrive as they were sent.
constexpr size_t CHECK = 50'000;

inline int64_t clock_ns(clockid_t clock) {
  timespec time;
  clock_gettime(clock, &time);
  return time.tv_sec * 1'000'000'000LL + time.tv_nsec;
}

// Bytes with a pattern that shows lost and exchanged parts.
inline std::string pattern(size_t bytes) {
  std::string text(bytes, 'a');
  for (size_t at = 0; at < bytes; at++) text[at] = char('a' + at % 23);
  return text;
}

// The bytes of an answer, which stay where they are.
struct Part {
  const char* start;
  size_t size;
};

// The answer to a message.
inline Part answer(const char* sent, size_t size, uint32_t wanted) {
  static const std::string all = pattern(BYTES_MAX);
  if (wanted == ECHO) return {sent, size};
  if (wanted > BYTES_MAX) throw std::runtime_error("too many bytes are wanted");
  return {all.data(), wanted};
}

// Prints where the server is. A thread answers `counts`, and ends the process when its input does: there is nothing
// to keep.
inline void be_ready(const std::string& where) {
  std::cout << "ready " << where << std::endl;
  std::thread([] {
    std::string line;
    while (std::getline(std::cin, line)) std::cout << clock_ns(CLOCK_PROCESS_CPUTIME_ID) << " -" << std::endl;
    std::_Exit(0);
  }).detach();
}

// Follows the orders of the input until it ends. `exchange(sent, wanted)` makes a call, and returns an object that holds
// the answer; `part` gives the bytes in it.
template <class Exchange, class GetPart>
int follow_orders(Exchange exchange, GetPart part) {
  std::cout << "ready" << std::endl;
  std::string line;
  while (std::getline(std::cin, line)) {
    try {
      bool is_check = line == "check";
      size_t sent = CHECK, received = CHECK, count = 1;
      std::istringstream words(line);
      if (!is_check && !(words >> sent >> received >> count)) throw std::runtime_error("unknown order");
      const std::string bytes = pattern(sent), expected = pattern(received);
      const uint32_t wanted = is_check ? ECHO : uint32_t(received);
      std::ostringstream times;
      int64_t processor = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
      for (size_t n = 0; n < count; n++) {
        int64_t began = clock_ns(CLOCK_MONOTONIC);
        auto answer = exchange(bytes, wanted);
        Part got = part(answer);
        times << ' ' << clock_ns(CLOCK_MONOTONIC) - began;
        if (expected.compare(0, std::string::npos, got.start, got.size) != 0)
          throw std::runtime_error("the bytes received are not those expected");
      }
      processor = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - processor;
      if (is_check)
        std::cout << "checked" << std::endl;
      else
        std::cout << "done " << processor << " -" << times.str() << std::endl;
    } catch (const std::exception& error) {
      std::cout << "failed " << error.what() << std::endl;
    }
  }
  return 0;
}

inline int usage(const char* program) {
  std::cerr << "usage: " << program << " serve ADDRESS | client WHERE | version" << std::endl;
  return 2;
}
