//! A SELECT over the views: rows of the catalog, on a snapshot of it, together with the present
//! state (`live.rs`).
//!
//! The catalog stores the size of a growing file late (`files/sizes.rs`). A client that has written
//! a file and then queries its size must see the new size, so the sizes are stored before a query
//! that names files.

use crate::{
    admin::{AdminError, Rows},
    catalog::{QueryLimits, rows::Receiver},
    check::Upkeep,
};
use futures::future::select;
use std::{pin::pin, time::Duration};

/// How long a query waits at most until the catalog has stored the sizes of growing files. If the
/// catalog cannot be written, the query shows the sizes that are stored.
const SIZES_WAIT: Duration = Duration::from_millis(500);

impl Upkeep {
    /// Runs a SELECT over the views on a snapshot. `GROUP_NUMBER` is 0 in it: the instance assigns
    /// the numbers of groups.
    ///
    /// # Errors
    /// If the statement is wrong, or the catalog has stopped.
    pub async fn query(&self, sql: &str) -> Result<Rows, AdminError> {
        self.query_parts(sql).await?.collect().await
    }

    /// Like `query`, with the rows in parts.
    ///
    /// # Errors
    /// If the catalog has stopped.
    pub async fn query_parts(&self, sql: &str) -> Result<Receiver, AdminError> {
        if self.files.sizes().are_kept() && sql.to_ascii_lowercase().contains("file") {
            let stored = pin!(self.files.store_times(&self.catalog));
            let _ = select(stored, self.world.sleep(SIZES_WAIT)).await;
        }
        let mut live = self.live();
        self.add_stats(&mut live, sql);
        self.catalog.query(sql, live, QueryLimits::default())
    }
}
