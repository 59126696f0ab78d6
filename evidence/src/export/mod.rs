//! Models as files of other load generators, and back.
