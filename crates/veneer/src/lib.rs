//! The Rust veneer: recording, futures, promises, control structures
