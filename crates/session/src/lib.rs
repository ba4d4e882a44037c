//! One client's connection: handles, futures, checking, limits
