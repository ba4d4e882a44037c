/* The module of the example in C: the cost of shares, found next to the offers. */
#include "bifrost_module.h"

/* Most bytes of the name of a buyer. */
#define NAME_MAX 64

static bifrost_name length = BIFROST_NAME("Book:length");
static bifrost_name offer = BIFROST_NAME("Book:offer");
static bifrost_name owner = BIFROST_NAME("Offer:owner");
static bifrost_name price = BIFROST_NAME("Offer:price");
static bifrost_name size = BIFROST_NAME("Offer:size");

typedef struct {
  char bytes[NAME_MAX];
  size_t length;
} text;

static text text_of(bifrost_object object) {
  text of;
  of.length = bifrost_text(object, of.bytes, sizeof of.bytes);
  bifrost_require(of.length <= sizeof of.bytes);
  return of;
}

static bool same(const text *a, const text *b) {
  if (a->length != b->length) return false;
  for (size_t i = 0; i < a->length; i++)
    if (a->bytes[i] != b->bytes[i]) return false;
  return true;
}

static bifrost_object nth(bifrost_object book, int64_t n) {
  bifrost_value argument = bifrost_of_int(n);
  return bifrost_result_object(bifrost_call(bifrost_method(&offer), book, 1, &argument));
}

/* The cost of at most so many shares of an offer; their number is taken from `left`. */
static int64_t cost_of(bifrost_object one, const text *buyer, int64_t *left) {
  text of = text_of(bifrost_result_object(bifrost_call(bifrost_method(&owner), one, 0, 0)));
  if (same(&of, buyer)) return 0;
  bifrost_results found = bifrost_try_call(bifrost_method(&size), one, 0, 0);
  if (found.count == BIFROST_SIGNALLED && bifrost_failure_is("withdrawn", 9)) return 0;
  if (found.count < 0) bifrost_raise();
  int64_t take = bifrost_int(found);
  if (take > *left) take = *left;
  *left -= take;
  return take * bifrost_int(bifrost_call(bifrost_method(&price), one, 0, 0));
}

/* The cost of so many shares, or of those that there are, without offers of the buyer. */
BIFROST_EXPORT(cost) int64_t cost(bifrost_object book, bifrost_object buyer, int64_t wanted) {
  static const char mistake[] = "the number of shares is negative";
  if (wanted < 0) bifrost_fail(mistake, sizeof mistake - 1);
  text name = text_of(buyer);
  int64_t cost = 0, left = wanted;
  int64_t count = bifrost_int(bifrost_call(bifrost_method(&length), book, 0, 0));
  for (int64_t n = 1; n <= count && left != 0; n++) {
    bifrost_object one = nth(book, n);
    cost += cost_of(one, &name, &left);
    /* The objects of a round are forgotten at its end. */
    bifrost_release(one);
  }
  return cost;
}

/* The price of the offer number n. The exception `bounds` is that of the run. */
BIFROST_EXPORT(price) int64_t price_of(bifrost_object book, int64_t n) {
  return bifrost_int(bifrost_call(bifrost_method(&price), nth(book, n), 0, 0));
}
