//! A capsule: listeners, sessions, configuration
