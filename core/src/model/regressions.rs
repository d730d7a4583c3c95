//! Sequences that once failed, shortened, each with the name of what it taught.
