//! The module of the example in Rust: the cost of shares, found next to the offers.

use bifrost_guest::{Failure, Method, Object, export, fail, raise, scope};

static LENGTH: Method = Method::named("Book:length");
static OFFER: Method = Method::named("Book:offer");
static OWNER: Method = Method::named("Offer:owner");
static PRICE: Method = Method::named("Offer:price");
static SIZE: Method = Method::named("Offer:size");

/// The number of shares of an offer; none if it was withdrawn.
fn size(offer: Object) -> Option<i64> {
    match SIZE.try_call(offer, &[]) {
        Ok(size) => Some(size),
        Err(Failure::Signalled(name)) if name == "withdrawn" => None,
        // Any other failure is that of the run.
        Err(_) => raise(),
    }
}

export! {
    /// The cost of so many shares, or of those that there are, without offers of the buyer.
    fn cost(book: Object, buyer: Object, wanted: i64) -> i64 {
        if wanted < 0 {
            fail("the number of shares is negative");
        }
        let buyer = buyer.text();
        let (mut cost, mut left) = (0, wanted);
        for n in 1..=LENGTH.call::<i64>(book, &[]) {
            if left == 0 {
                break;
            }
            // The objects of a round are forgotten at its end.
            let (take, price) = scope(|| {
                let offer: Object = OFFER.call(book, &[n.into()]);
                if OWNER.call::<String>(offer, &[]) == buyer {
                    return (0, 0);
                }
                size(offer).map_or((0, 0), |size| (size.min(left), PRICE.call(offer, &[])))
            });
            cost += take * price;
            left -= take;
        }
        cost
    }

    /// The price of the offer number n. The exception `bounds` is that of the run.
    fn price(book: Object, n: i64) -> i64 {
        PRICE.call(OFFER.call(book, &[n.into()]), &[])
    }
}
