//! Runs beside each other: table, JSON, page.
