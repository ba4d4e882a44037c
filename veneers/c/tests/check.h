/* Checks of tests: a failed one says where, and ends the program. */

#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bifrost/bifrost.h>

#define CHECK(condition)                                                                                               \
  do {                                                                                                                 \
    if (!(condition)) {                                                                                                \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                                          \
      exit(1);                                                                                                         \
    }                                                                                                                  \
  } while (0)

/** Checks the status of a function of a session. */
#define IS(session, status, wanted)                                                                                    \
  do {                                                                                                                 \
    bf_status status_ = (status);                                                                                      \
    if (status_ != (wanted)) {                                                                                         \
      fprintf(stderr, "%s:%d: status %u, not %s: %s\n", __FILE__, __LINE__, (unsigned)status_, #wanted,                \
              bf_error_text(session));                                                                                 \
      exit(1);                                                                                                         \
    }                                                                                                                  \
  } while (0)

#define OK(session, status) IS(session, status, BF_OK)

#define IS_INT(session, promise, wanted)                                                                               \
  do {                                                                                                                 \
    int64_t value_ = -999;                                                                                             \
    OK(session, BF_CLAIM_INT(promise, &value_));                                                                       \
    if (value_ != (wanted)) {                                                                                          \
      fprintf(stderr, "%s:%d: %lld, not %s\n", __FILE__, __LINE__, (long long)value_, #wanted);                        \
      exit(1);                                                                                                         \
    }                                                                                                                  \
  } while (0)

#define IS_BOOL(session, promise, wanted)                                                                              \
  do {                                                                                                                 \
    bool value_ = !(wanted);                                                                                           \
    OK(session, BF_CLAIM_BOOL(promise, &value_));                                                                      \
    CHECK(value_ == (wanted));                                                                                         \
  } while (0)

#define IS_STR(session, promise, wanted)                                                                               \
  do {                                                                                                                 \
    const char *value_ = NULL;                                                                                         \
    OK(session, BF_CLAIM_STR(promise, &value_));                                                                       \
    if (strcmp(value_, wanted) != 0) {                                                                                 \
      fprintf(stderr, "%s:%d: \"%s\", not \"%s\"\n", __FILE__, __LINE__, value_, wanted);                              \
      exit(1);                                                                                                         \
    }                                                                                                                  \
  } while (0)

/** Checks that a promise ends in a signal, as its own or as that of its root. */
#define SIGNALS(session, status, wanted)                                                                               \
  do {                                                                                                                 \
    IS(session, status, BF_E_SIGNAL);                                                                                  \
    const char *name_ = bf_error_name(bf_error_root(bf_error_last(session)));                                          \
    if (strcmp(name_, wanted) != 0) {                                                                                  \
      fprintf(stderr, "%s:%d: %s, not %s\n", __FILE__, __LINE__, name_, wanted);                                       \
      exit(1);                                                                                                         \
    }                                                                                                                  \
  } while (0)

static inline uint64_t crossings(bf_session *s) {
  bf_counts counts;
  bf_counters(s, &counts);
  return counts.crossings;
}

#endif
