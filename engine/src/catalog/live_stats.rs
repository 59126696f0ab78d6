//! Live tables of counters, histograms, and structures at fixed places. There may be many rows, so
//! only those of the views that a statement names are gathered: [`NamedViews`].

/// Which of these views a statement names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NamedViews {
    pub disk_times: bool,
    pub file_times: bool,
    pub file_counts: bool,
    pub disk_errors: bool,
    pub space: bool,
    pub units: bool,
    pub partners: bool,
    pub clients: bool,
    pub disk_clients: bool,
    pub read_policy: bool,
    pub thin: bool,
    pub failure_groups: bool,
    pub protection: bool,
}

impl NamedViews {
    /// Found by searching the text of a statement: a name in a comment is enough.
    #[must_use]
    pub fn in_statement(sql: &str) -> Self {
        let sql = sql.to_ascii_lowercase();
        let names = |what: &str| sql.contains(what);
        // There are many files, and most statements do not read the counters of each.
        let all_columns = sql.match_indices('*').any(|(at, _)| !sql[..at].ends_with('('));
        Self {
            disk_times: names("v$asm_disk_histogram")
                || names("v$asm_diskgroup_histogram")
                || names("v$event_histogram_micro"),
            file_times: names("v$asm_file_histogram") || names("v$event_histogram_micro"),
            file_counts: names("v$asm_file_")
                || names("v$event_histogram_micro")
                || (names("v$asm_file") && (names("cold_") || all_columns)),
            disk_errors: names("v$asm_error"),
            space: names("v$asm_space") || names("v$asm_filesystem"),
            units: names("x$kfdat"),
            disk_clients: names("v$asm_disk_iostat"),
            read_policy: names("v$asm_read_policy"),
            thin: names("v$asm_disk_thin"),
            failure_groups: names("v$asm_failgroup"),
            protection: names("v$asm_protection"),
            partners: names("x$kfdpartner"),
            clients: names("v$asm_client") || names("v$asm_filesystem"),
        }
    }
}

/// How much can be written, in bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LiveSpace {
    pub total: u64,
    pub free: u64,
    pub catalog: u64,
    pub files: u64,
    pub pending: u64,
    pub writable: u64,
    pub safe: u64,
    /// The failure group whose loss limits `safe`, if one does.
    pub bound_by: Option<String>,
    /// Whether redundancy can be restored after the loss of a failure group.
    pub restorable: bool,
    /// With one, two and three mirrors of each extent.
    pub by_mirrors: [u64; 3],
    pub remark: Option<String>,
}

/// A client of the group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LiveClient {
    pub instance: String,
    pub database: Option<String>,
    pub software: Option<String>,
    pub kind: String,
    pub pid: Option<u32>,
    pub mount_point: Option<String>,
    pub open_files: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_gathered_only_for_named_views() {
        assert_eq!(NamedViews::in_statement("SELECT path FROM v$asm_disk"), NamedViews::default());
        let wanted = NamedViews::in_statement("SELECT * FROM V$ASM_FILE_HISTOGRAM, x$kfdat");
        assert_eq!(
            wanted,
            NamedViews {
                file_times: true,
                file_counts: true,
                units: true,
                ..NamedViews::default()
            }
        );
        for (sql, wanted) in [
            ("SELECT type, count(*) FROM v$asm_file GROUP BY type", false),
            ("SELECT * FROM v$asm_file", true),
            ("SELECT sum(Cold_Reads) FROM V$ASM_FILE", true),
            ("SELECT f.* FROM v$asm_alias JOIN v$asm_file AS f USING (file_number)", true),
            ("SELECT small_reads FROM v$asm_file_iostat", true),
        ] {
            assert_eq!(NamedViews::in_statement(sql).file_counts, wanted, "{sql}");
        }
    }
}
