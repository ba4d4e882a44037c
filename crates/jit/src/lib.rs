//! Programs compiled to machine code
