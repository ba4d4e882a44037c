// Checks of tests: a failed one says where, and ends the program.

#ifndef CHECK_HPP
#define CHECK_HPP

#include <cstdlib>
#include <iostream>

#define CHECK(...)                                                                                                     \
  do {                                                                                                                 \
    if (!(__VA_ARGS__)) {                                                                                              \
      std::cerr << __FILE__ << ":" << __LINE__ << ": not so: " #__VA_ARGS__ << "\n";                                   \
      std::exit(1);                                                                                                    \
    }                                                                                                                  \
  } while (0)

template <class A, class B> void check_same(const A &a, const B &b, const char *file, int line) {
  if (a == b) return;
  std::cerr << file << ":" << line << ": " << a << ", not " << b << "\n";
  std::exit(1);
}

#define SAME(a, b) check_same((a), (b), __FILE__, __LINE__)

/** Checks that a call throws an exception of a class; the rest is run with it. */
#define THROWS(Class, call, ...)                                                                                       \
  do {                                                                                                                 \
    bool thrown_ = false;                                                                                              \
    try {                                                                                                              \
      (void)(call);                                                                                                    \
    } catch (const Class &error) {                                                                                     \
      thrown_ = true;                                                                                                  \
      (void)error;                                                                                                     \
      __VA_ARGS__;                                                                                                     \
    }                                                                                                                  \
    CHECK(thrown_);                                                                                                    \
  } while (0)

#endif
