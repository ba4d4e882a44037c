//! Batches and replies as bytes and as text
