//! The cost of distance: overhead, slope and round trips of a log write.
