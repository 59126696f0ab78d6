//! Views of Oracle that need a mounted database. An ASM instance mounts none, so Oracle's refuses
//! them with ORA-01507, and monitoring takes that for what it is.

use crate::sql_error::SqlError;

const OF_DATABASES: [&str; 24] = [
    "v$archive_dest_status",
    "v$archived_log",
    "v$backup",
    "v$backup_set",
    "v$containers",
    "v$controlfile_record_section",
    "v$database",
    "v$database_block_corruption",
    "v$datafile",
    "v$datafile_header",
    "v$dataguard_stats",
    "v$flashback_database_log",
    "v$log",
    "v$log_history",
    "v$logfile",
    "v$pdbs",
    "v$recover_file",
    "v$recovery_area_usage",
    "v$recovery_file_dest",
    "v$restore_point",
    "v$tablespace",
    "v$tempfile",
    "v$thread",
    "v$undostat",
];

/// The refusal of such a view; `None`: any other name.
#[must_use]
pub fn refusal(view: &str) -> Option<SqlError> {
    let local = super::pg_compat::synonyms::local(view);
    OF_DATABASES.contains(&local.as_str()).then(|| {
        SqlError::new("55000", format!("no database is mounted: {local} is of a database"))
            .detail("NoDatabase, which Oracle calls ORA-01507")
            .hint("this instance has disk groups, as an ASM instance; v$instance says so")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_of_a_database_are_refused_with_the_reason() {
        assert!(OF_DATABASES.is_sorted());
        for view in ["v$database", "GV$DATABASE", "v_$datafile", "gv$log"] {
            let refusal = refusal(view).expect(view);
            assert!(refusal.detail.is_some_and(|detail| detail.contains("ORA-01507")), "{view}");
        }
        for other in ["v$databases", "v$instance", "database"] {
            assert_eq!(refusal(other), None, "{other}");
        }
    }
}
