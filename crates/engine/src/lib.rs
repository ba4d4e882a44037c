//! What runs interpreted and what compiled; caches of methods and batches
