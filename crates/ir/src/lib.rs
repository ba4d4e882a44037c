//! Types, signatures and programs: the one form that methods and batches share
