//! Views of Oracle that need a database: mounted for `v$datafile`, open for the data dictionary. An
//! ASM instance mounts none, so Oracle's refuses them with ORA-01507 and ORA-01219, and monitoring
//! takes that for what it is.

use crate::sql_error::SqlError;

const OF_DATABASES: [&str; 33] = [
    "v$archive_dest_status",
    "v$archive_gap",
    "v$archived_log",
    "v$backup",
    "v$backup_files",
    "v$backup_set",
    "v$block_change_tracking",
    "v$containers",
    "v$controlfile_record_section",
    "v$database",
    "v$database_block_corruption",
    "v$datafile",
    "v$datafile_copy",
    "v$datafile_header",
    "v$dataguard_stats",
    "v$dbfile",
    "v$flash_recovery_area_usage",
    "v$flashback_database_log",
    "v$log",
    "v$log_history",
    "v$logfile",
    "v$pdbs",
    "v$recover_file",
    "v$recovery_area_usage",
    "v$recovery_file_dest",
    "v$restore_point",
    "v$rman_backup_job_details",
    "v$rman_status",
    "v$standby_log",
    "v$tablespace",
    "v$tempfile",
    "v$thread",
    "v$undostat",
];

/// How the names of views of the data dictionary begin.
const DICTIONARIES: [&str; 4] = ["all_", "cdb_", "dba_", "user_"];
/// Others of its views.
const OF_DICTIONARY: [&str; 14] = [
    "cat",
    "database_properties",
    "dict",
    "dict_columns",
    "dictionary",
    "global_name",
    "nls_database_parameters",
    "nls_instance_parameters",
    "nls_session_parameters",
    "role_sys_privs",
    "session_privs",
    "session_roles",
    "tab",
    "user$",
];

/// The refusal of such a view; `None`: any other name.
#[must_use]
pub fn refusal(view: &str) -> Option<SqlError> {
    let name = view.rsplit_once('.').map_or(view, |(_, name)| name);
    let local = super::pg_compat::synonyms::local(name);
    let of_dictionary = DICTIONARIES.iter().any(|start| local.starts_with(start))
        || OF_DICTIONARY.contains(&local.as_str());
    if of_dictionary {
        let message = format!(
            "no database is open: {local} is of the data dictionary, and only v$ views are here"
        );
        let refusal = SqlError::new("55000", message)
            .detail("NoDictionary, which Oracle calls ORA-01219")
            .hint(
                "this instance has disk groups, as an ASM instance; v$fixed_table lists its views",
            );
        return Some(refusal);
    }
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
        assert!(OF_DICTIONARY.is_sorted());
        for view in ["dba_data_files", "ALL_TABLES", "sys.dba_users", "dict", "GLOBAL_NAME"] {
            let refusal = refusal(view).expect(view);
            assert!(refusal.detail.is_some_and(|detail| detail.contains("ORA-01219")), "{view}");
        }
        for other in ["v$databases", "v$instance", "database", "alls", "v$user_"] {
            assert_eq!(refusal(other), None, "{other}");
        }
    }
}
