//! A SELECT over the views of `views.sql`: what the catalog says, on a snapshot of it, beside what the moment says (`live.rs`).
//!
//! The catalog learns late how long files have grown (`files/sizes.rs`). Who has written a file and asks how long it is shall see it,
//! so a query that names files has their sizes stored first.

use crate::{
    admin::{AdminError, Rows},
    catalog::{QueryLimits, rows::Receiver},
    check::Upkeep,
};
use futures::future::select;
use std::{pin::pin, time::Duration};

/// How long a query waits at most until the catalog has the sizes of files that grow. Where it cannot be written, the query shows what it says.
const SIZES_WAIT: Duration = Duration::from_millis(500);

impl Upkeep {
    /// Runs a SELECT over the views on a snapshot. `GROUP_NUMBER` is 0 there: the instance numbers groups.
    ///
    /// # Errors
    /// What is wrong with the statement.
    pub async fn query(&self, sql: &str) -> Result<Rows, AdminError> {
        self.query_parts(sql).await?.collect().await
    }

    /// The same, piece by piece.
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
