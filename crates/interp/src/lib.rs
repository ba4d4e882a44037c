//! Programs run as prepared nodes: the reference semantics
