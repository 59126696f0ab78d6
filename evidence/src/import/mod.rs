//! Reads reports of databases and systems, and makes models of them.
