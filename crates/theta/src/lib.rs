//! The language Theta: parsing, checking and lowering
