// What the programs of peers in C++ have in common: orders are read line by line, and figures are written.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <iostream>
#include <string>
#include <thread>

// Answers lines `CASE N` until the input ends: nanoseconds and result of N steps.
template <class Case>
int answer_lines(Case run) {
  std::string name;
  std::int64_t count;
  while (std::cin >> name >> count) {
    try {
      auto [nanoseconds, result] = run(name, count);
      std::cout << nanoseconds << ' ' << result << std::endl;
    } catch (const std::exception& error) {
      std::cerr << name << ": " << error.what() << std::endl;
      return 1;
    }
  }
  return 0;
}

// A measured run.
struct Ran {
  std::int64_t nanoseconds;
  std::int64_t result;
};

// The time since it was made.
class Watch {
 public:
  std::int64_t nanoseconds() const {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin_).count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin_ = Clock::now();
};

// Says that a server is ready. The process ends when its input does: there is nothing to keep.
inline void be_ready() {
  std::cout << "ready" << std::endl;
  std::thread([] {
    std::string line;
    while (std::getline(std::cin, line)) {
    }
    std::_Exit(0);
  }).detach();
}
