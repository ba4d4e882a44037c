//! What running code calls: mode tables, dispatch, built-in types
