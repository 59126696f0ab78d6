//! SLOB.
