/* A client of examples/auctions/auctions.theta: a service of actors. */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "bifrost_stubs.h"

static void ok(bf_session *s, bf_status status) {
  if (status == BF_OK) return;
  fprintf(stderr, "%s\n", bf_error_text(s));
  exit(1);
}

int main(void) {
  bf_session *s = stubs_connect(getenv("BIFROST_URL"));
  if (!s) {
    fprintf(stderr, "%s\n", bf_error_text(NULL));
    return 1;
  }
  int64_t n, m;

  /* Two auctions. Their references are used before they are known, and the first two bids run at the same time. */
  House house = House_lookup(s, "house");
  Auction lamp = House_open(house, bf_s("lamp"), bf_i(10)), clock = House_open(house, bf_s("clock"), bf_i(50));
  bf_int first = Auction_bid(lamp, bf_i(12)), second = Auction_bid(clock, bf_i(60));
  ok(s, BF_CLAIM(first, &n));
  ok(s, BF_CLAIM(second, &m));
  printf("bids: %" PRId64 " and %" PRId64 "\n", n, m);

  /* A bid that is too low is an exception of the call, and the rest goes on. */
  bf_int low = Auction_bid(lamp, bf_i(11)), price = Auction_price(clock);
  if (BF_CLAIM(low, &n) == BF_E_SIGNAL) {
    printf("too low: %" PRId64 " is offered\n", bf_value_int(bf_error_values(bf_error_last(s)).items[0]));
  }
  ok(s, BF_CLAIM(price, &n));
  printf("clock: %" PRId64 "\n", n);

  /* Bids in a loop: all are sent before the first is awaited. Each failure is told with its round. */
  BF_FOREACH(s, bf_int, i, bf_int_to(bf_int_stub(s, 1), bf_i(5))) Auction_bid(lamp, bf_int_mul(i, bf_i(5)));
  bf_int best = Auction_price(lamp);
  if (BF_CLAIM(best, &n) == BF_E_UNSEEN) {
    const bf_error *unseen = bf_error_last(s);
    for (size_t i = 0; i < bf_error_parts(unseen); i++) {
      size_t count;
      const uint32_t *rounds = bf_error_rounds(bf_error_part(unseen, i), &count);
      printf("round %" PRIu32 ": %s\n", count ? rounds[0] : 0, bf_error_name(bf_error_part(unseen, i)));
    }
  }
  ok(s, BF_CLAIM(best, &n));
  printf("lamp: %" PRId64 "\n", n);

  /* Nobody waits for a message, and messages of a session to an actor arrive in the order in which they were sent. */
  AuctionSend_bid(clock, bf_i(70));
  AuctionSend_bid(clock, bf_i(65));
  ok(s, BF_CLAIM(Auction_price(clock), &n));
  printf("clock: %" PRId64 "\n", n);
  /* The second message was too low, of which the next flush tells. */
  if (bf_finish(s, BF_HERE) != BF_OK) printf("%s\n", bf_error_name(bf_error_root(bf_error_part(bf_error_last(s), 0))));
  bf_close(s);
  return 0;
}
