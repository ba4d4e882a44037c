#include "bench.h"

// Strings are values: putting two together makes a third.
typedef struct {
  int64_t length;
  char *at;
} String;

static String string(const char *text) {
  String s = {strlen(text), NULL};
  s.at = allocate(s.length + 1);
  memcpy(s.at, text, s.length);
  return s;
}

static String unparse(int64_t i) {
  char text[24];
  snprintf(text, sizeof text, "%" PRId64, i);
  return string(text);
}

// Both parts are gone afterwards.
static String joined(String a, String b) {
  String s = {a.length + b.length, allocate(a.length + b.length + 1)};
  memcpy(s.at, a.at, a.length);
  memcpy(s.at + a.length, b.at, b.length);
  free(a.at);
  free(b.at);
  return s;
}

static bool starts_with(String s, const char *text) {
  int64_t length = strlen(text);
  return s.length >= length && memcmp(s.at, text, length) == 0;
}

static String line(int64_t i) {
  String s = joined(string("item "), unparse(i));
  return joined(joined(joined(s, string(" costs ")), unparse(mul(i, 7))), string(".\n"));
}

static int64_t run(int64_t n) {
  int64_t characters = 0, sevens = 0;
  String text = string("");
  for (int64_t i = 1; i <= n; i++) {
    String one = line(i);
    if (starts_with(one, "item 7")) sevens = add(sevens, 1);
    text = joined(text, one);
    if (i % 100 == 0) {
      characters = add(characters, text.length);
      free(text.at);
      text = string("");
    }
  }
  characters = add(characters, text.length);
  free(text.at);
  return add(mul(characters, 1000000), sevens);
}
