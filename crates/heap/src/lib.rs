//! Object layout and allocation
