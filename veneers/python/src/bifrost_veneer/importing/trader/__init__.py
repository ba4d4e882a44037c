"""The stubs of a trader, made from ``crates/trader/trader.theta``."""
