//! Oracle's views about what Plinth does not have. They have no rows, as in an instance of ASM that
//! does not use it, so that a script that lists everything runs.

use super::{
    Column,
    Source::Instance,
    Type::{Integer, Real, Text, Time},
    View, column,
};

const fn view(name: &'static str, columns: &'static [Column]) -> View {
    View { name, has_twin: false, live: None, with: "", from: "", columns }
}

const fn text(name: &'static str) -> Column {
    column(name, Text, Instance, "")
}

const fn number(name: &'static str) -> Column {
    column(name, Integer, Instance, "")
}

const fn seconds(name: &'static str) -> Column {
    column(name, Real, Instance, "")
}

const fn time(name: &'static str) -> Column {
    column(name, Time, Instance, "")
}

pub(super) const VIEWS: &[View] = &[
    view(
        "v$asm_acfsautoresize",
        &[text("fs_name"), number("resize_increment"), number("resize_maximum"), number("con_id")],
    ),
    view(
        "v$asm_acfsrepl",
        &[
            text("fsname"),
            text("voldev"),
            text("site"),
            text("lag"),
            text("status"),
            text("initstatus"),
            number("dirsscan"),
            number("percent"),
            time("lastsync"),
            number("crsrun"),
            number("crstotal"),
            text("pmntpt"),
            text("smntpt"),
            text("psvcname"),
            text("ssvcname"),
            text("phost"),
            text("shost"),
            text("remalias"),
            number("tags"),
            text("compression"),
            number("dbglvl"),
            number("con_id"),
        ],
    ),
    view("v$asm_acfsrepltag", &[text("fsname"), text("voldev"), text("tag"), number("con_id")]),
    view(
        "v$asm_acfssnapshots",
        &[
            text("fs_name"),
            text("vol_device"),
            text("snap_name"),
            time("create_time"),
            text("type"),
            text("parent"),
            text("link"),
            number("additional_storage"),
            number("quota"),
            text("repl"),
            text("state"),
            number("con_id"),
        ],
    ),
    view(
        "v$asm_acfstag",
        &[text("tag_name"), text("fs_name"), text("path_name"), number("con_id")],
    ),
    view(
        "v$asm_acfsvolumes",
        &[
            text("fs_name"),
            text("vol_device"),
            text("vol_label"),
            text("primary_vol"),
            number("total_mb"),
            number("free_mb"),
            number("con_id"),
        ],
    ),
    view(
        "v$asm_acfs_encryption_info",
        &[
            text("fs_name"),
            text("vol_device"),
            text("set_status"),
            text("enabled_status"),
            text("algorithm"),
            text("key_length"),
            time("last_rekey_time"),
            number("con_id"),
        ],
    ),
    view(
        "v$asm_acfs_security_info",
        &[
            text("fs_name"),
            text("vol_device"),
            text("prepared_status"),
            text("enabled_status"),
            number("con_id"),
        ],
    ),
    view("v$asm_acfs_sec_admin", &[text("admin_name"), number("con_id")]),
    view(
        "v$asm_acfs_sec_cmdrule",
        &[text("cmd_rule_name"), text("fs_name"), text("vol_device"), number("con_id")],
    ),
    view(
        "v$asm_acfs_sec_realm",
        &[text("realm_name"), text("fs_name"), text("vol_device"), number("con_id")],
    ),
    view(
        "v$asm_acfs_sec_realm_filter",
        &[
            text("realm_name"),
            text("cmd_rule_name"),
            text("ruleset_name"),
            text("fs_name"),
            text("vol_device"),
            number("con_id"),
        ],
    ),
    view(
        "v$asm_acfs_sec_realm_group",
        &[
            text("realm_name"),
            text("group_name"),
            text("fs_name"),
            text("vol_device"),
            number("con_id"),
        ],
    ),
    view(
        "v$asm_acfs_sec_realm_user",
        &[
            text("realm_name"),
            text("user_name"),
            text("fs_name"),
            text("vol_device"),
            number("con_id"),
        ],
    ),
    view(
        "v$asm_acfs_sec_rule",
        &[
            text("rule_name"),
            text("rule_type"),
            text("rule_value"),
            text("rule_value2"),
            text("rule_option"),
            text("fs_name"),
            text("vol_device"),
            number("con_id"),
        ],
    ),
    view(
        "v$asm_acfs_sec_ruleset",
        &[
            text("ruleset_name"),
            text("ruleset_option"),
            text("fs_name"),
            text("vol_device"),
            number("con_id"),
        ],
    ),
    view(
        "v$asm_acfs_sec_ruleset_rule",
        &[
            text("ruleset_name"),
            text("rule_name"),
            text("fs_name"),
            text("vol_device"),
            number("con_id"),
        ],
    ),
    view(
        "v$asm_audit_clean_events",
        &[
            text("audit_trail"),
            time("cleanup_time"),
            number("delete_count"),
            text("was_forced"),
            number("con_id"),
        ],
    ),
    view(
        "v$asm_audit_cleanup_jobs",
        &[
            text("job_name"),
            text("job_status"),
            text("audit_trail"),
            number("job_frequency"),
            number("con_id"),
        ],
    ),
    view(
        "v$asm_audit_config_params",
        &[
            text("parameter_name"),
            text("parameter_value"),
            text("audit_trail"),
            text("parameter_unit"),
            number("con_id"),
        ],
    ),
    view(
        "v$asm_audit_last_arch_ts",
        &[text("audit_trail"), time("last_archive_ts"), number("con_id")],
    ),
    view(
        "v$asm_dbclone_info",
        &[
            number("group_number"),
            text("dbclone_name"),
            text("mirrorcopy_name"),
            text("dbclone_status"),
            text("parent_dbname"),
            text("parent_filegroup_name"),
            number("con_id"),
        ],
    ),
    view(
        "v$asm_filegroup",
        &[
            number("group_number"),
            number("filegroup_number"),
            number("incarnation"),
            number("compound_index"),
            text("name"),
            number("client_type"),
            text("client_name"),
            text("guid"),
            number("quotagroup_number"),
            number("quotagroup_incarnation"),
            number("used_quota_mb"),
            number("user_number"),
            number("user_incarnation"),
            number("usergroup_number"),
            number("usergroup_incarnation"),
            number("con_id"),
        ],
    ),
    view(
        "v$asm_filegroup_file",
        &[
            number("group_number"),
            number("filegroup_number"),
            number("filegroup_incarn"),
            number("file_number"),
            number("incarnation"),
            number("compound_index"),
            number("con_id"),
        ],
    ),
    view(
        "v$asm_filegroup_property",
        &[
            number("group_number"),
            number("filegroup_number"),
            number("compound_index"),
            number("property_index"),
            number("incarnation"),
            text("file_type"),
            text("name"),
            text("value"),
            number("con_id"),
        ],
    ),
    view(
        "v$asm_quotagroup",
        &[
            number("group_number"),
            number("quotagroup_number"),
            number("incarnation"),
            text("name"),
            number("used_quota_mb"),
            number("quota_limit_mb"),
            number("con_id"),
        ],
    ),
    view(
        "v$asm_diskgroup_sparse",
        &[
            number("group_number"),
            number("allocated_mat_mb"),
            number("total_mat_mb"),
            number("con_id"),
        ],
    ),
    view(
        "v$asm_disk_sparse",
        &[
            number("group_number"),
            number("disk_number"),
            number("incarnation"),
            number("allocated_mat_mb"),
            number("total_mat_mb"),
            number("sparse_reads"),
            number("sparse_bytes_read"),
            seconds("sparse_read_time"),
            number("con_id"),
        ],
    ),
    view(
        "v$asm_disk_sparse_stat",
        &[
            number("group_number"),
            number("disk_number"),
            number("incarnation"),
            number("allocated_mat_mb"),
            number("total_mat_mb"),
            number("sparse_reads"),
            number("sparse_bytes_read"),
            seconds("sparse_read_time"),
            number("con_id"),
        ],
    ),
    view(
        "v$asm_disk_iostat_sparse",
        &[
            text("instname"),
            text("dbname"),
            text("cluster_name"),
            number("group_number"),
            number("disk_number"),
            number("sparse_reads"),
            number("sparse_bytes_read"),
            seconds("sparse_read_time"),
            number("con_id"),
        ],
    ),
    // Of a database, which is not mounted here.
    view(
        "v$controlfile",
        &[
            text("status"),
            text("name"),
            text("is_recovery_dest_file"),
            number("block_size"),
            number("file_size_blks"),
            number("con_id"),
        ],
    ),
    view(
        "v$locked_object",
        &[
            number("xidusn"),
            number("xidslot"),
            number("xidsqn"),
            number("object_id"),
            number("session_id"),
            text("oracle_username"),
            text("os_user_name"),
            text("process"),
            number("locked_mode"),
            number("con_id"),
        ],
    ),
    // Of clusters: with a single instance they have no rows.
    view("v$active_instances", &[number("inst_number"), text("inst_name"), number("con_id")]),
    view("v$cluster_interconnects", INTERCONNECT),
    view("v$configured_interconnects", INTERCONNECT),
];

const INTERCONNECT: &[Column] =
    &[text("name"), text("ip_address"), text("is_public"), text("source"), number("con_id")];
