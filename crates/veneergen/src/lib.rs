//! Stubs for client languages from one description of the types
