//! Issues the load of a model to targets, and measures it.
