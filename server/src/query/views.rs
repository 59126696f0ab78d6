//! The views: their names, columns and types, as ASM has them; what only Plinth has stands last.
//!
//! Rows come from the engines (engine's `views.sql`) and, for disks and groups that are not
//! mounted, from discovery.

mod stats;

use Type::{Integer, Real, Text};

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    Integer,
    Real,
    Text,
    /// These two only in PostgreSQL's own catalog: none of our views has one.
    Truth,
    /// What PostgreSQL calls `"char"`.
    Letter,
}

impl Type {
    /// As SQLite takes it in a declaration.
    #[must_use]
    pub fn declaration(self) -> &'static str {
        match self {
            Self::Integer => "INTEGER",
            Self::Real => "REAL",
            Self::Text => "TEXT",
            Self::Truth => "BOOLEAN",
            Self::Letter => "CHARCODE",
        }
    }

    /// The type that a declaration names.
    #[must_use]
    pub fn declared(declaration: &str) -> Option<Self> {
        [Self::Integer, Self::Real, Self::Text, Self::Truth, Self::Letter]
            .into_iter()
            .find(|kind| kind.declaration() == declaration)
    }
}

/// One view.
#[derive(Debug)]
pub struct View {
    pub name: &'static str,
    pub columns: &'static [(&'static str, Type)],
    /// Whether there is a twin, `..._stat`, that looks for no disks.
    pub has_twin: bool,
}

/// Columns that are the group's number.
pub const GROUP: [&str; 4] = ["group_number", "group_kffxp", "group_kfdat", "grp"];
/// Columns whose numbers have the group's number in their high bits.
pub const COMPOUND: [&str; 6] = [
    "compound_index",
    "parent_index",
    "reference_index",
    "compound_kffxp",
    "compound_kfdat",
    "compound",
];

/// What is said of an operation, under way or ended.
const OPERATION: &[(&str, Type)] = &[
    ("group_number", Integer),
    ("operation", Text),
    ("pass", Text),
    ("state", Text),
    ("power", Integer),
    ("actual", Integer),
    ("sofar", Integer),
    ("est_work", Integer),
    ("est_rate", Integer),
    ("est_minutes", Integer),
    ("error_code", Text),
    ("con_id", Integer),
    ("bytes", Integer),
];

/// The views of what a group is and has.
const VIEWS: &[View] = &[
    View {
        name: "v$asm_diskgroup",
        columns: &[
            ("group_number", Integer),
            ("name", Text),
            ("sector_size", Integer),
            ("logical_sector_size", Integer),
            ("block_size", Integer),
            ("allocation_unit_size", Integer),
            ("state", Text),
            ("type", Text),
            ("total_mb", Integer),
            ("free_mb", Integer),
            ("hot_used_mb", Integer),
            ("cold_used_mb", Integer),
            ("required_mirror_free_mb", Integer),
            ("usable_file_mb", Integer),
            ("offline_disks", Integer),
            ("compatibility", Text),
            ("database_compatibility", Text),
            ("voting_files", Text),
            ("con_id", Integer),
        ],
        has_twin: true,
    },
    View {
        name: "v$asm_disk",
        columns: &[
            ("group_number", Integer),
            ("disk_number", Integer),
            ("compound_index", Integer),
            ("incarnation", Integer),
            ("mount_status", Text),
            ("header_status", Text),
            ("mode_status", Text),
            ("state", Text),
            ("redundancy", Text),
            ("library", Text),
            ("os_mb", Integer),
            ("total_mb", Integer),
            ("free_mb", Integer),
            ("hot_used_mb", Integer),
            ("cold_used_mb", Integer),
            ("name", Text),
            ("failgroup", Text),
            ("label", Text),
            ("path", Text),
            ("udid", Text),
            ("product", Text),
            ("create_date", Text),
            ("mount_date", Text),
            ("repair_timer", Integer),
            ("reads", Integer),
            ("writes", Integer),
            ("read_errs", Integer),
            ("write_errs", Integer),
            ("read_timeout", Integer),
            ("write_timeout", Integer),
            ("read_time", Real),
            ("write_time", Real),
            ("bytes_read", Integer),
            ("bytes_written", Integer),
            ("preferred_read", Text),
            ("hash_value", Integer),
            ("hot_reads", Integer),
            ("hot_writes", Integer),
            ("hot_bytes_read", Integer),
            ("hot_bytes_written", Integer),
            ("cold_reads", Integer),
            ("cold_writes", Integer),
            ("cold_bytes_read", Integer),
            ("cold_bytes_written", Integer),
            ("voting_file", Text),
            ("sector_size", Integer),
            ("logical_sector_size", Integer),
            ("failgroup_type", Text),
            ("thin_provision_capable", Text),
            ("data_integrity_capable", Text),
            ("site_name", Text),
            ("site_guid", Text),
            ("failgroup_label", Text),
            ("site_label", Text),
            ("site_status", Text),
            ("con_id", Integer),
            ("blocks_repaired", Integer),
            ("metadata_repaired", Integer),
            ("remark", Text),
        ],
        has_twin: true,
    },
    View {
        name: "v$asm_file",
        columns: &[
            ("group_number", Integer),
            ("file_number", Integer),
            ("compound_index", Integer),
            ("incarnation", Integer),
            ("block_size", Integer),
            ("blocks", Integer),
            ("bytes", Integer),
            ("space", Integer),
            ("type", Text),
            ("redundancy", Text),
            ("striped", Text),
            ("creation_date", Text),
            ("modification_date", Text),
            ("redundancy_lowered", Text),
            ("permissions", Text),
            ("user_number", Integer),
            ("user_incarnation", Integer),
            ("usergroup_number", Integer),
            ("usergroup_incarnation", Integer),
            ("primary_region", Text),
            ("mirror_region", Text),
            ("hot_reads", Integer),
            ("hot_writes", Integer),
            ("hot_bytes_read", Integer),
            ("hot_bytes_written", Integer),
            ("cold_reads", Integer),
            ("cold_writes", Integer),
            ("cold_bytes_read", Integer),
            ("cold_bytes_written", Integer),
            ("filegroup_number", Integer),
            ("filegroup_incarnation", Integer),
            ("remirror", Text),
            ("parent_filnum", Integer),
            ("parent_filnuminc", Integer),
            ("con_id", Integer),
        ],
        has_twin: false,
    },
    View {
        name: "v$asm_alias",
        columns: &[
            ("name", Text),
            ("group_number", Integer),
            ("file_number", Integer),
            ("file_incarnation", Integer),
            ("alias_index", Integer),
            ("alias_incarnation", Integer),
            ("parent_index", Integer),
            ("reference_index", Integer),
            ("alias_directory", Text),
            ("system_created", Text),
            ("con_id", Integer),
        ],
        has_twin: false,
    },
    View {
        name: "v$asm_template",
        columns: &[
            ("group_number", Integer),
            ("entry_number", Integer),
            ("redundancy", Text),
            ("stripe", Text),
            ("system", Text),
            ("name", Text),
            ("primary_region", Text),
            ("mirror_region", Text),
            ("con_id", Integer),
        ],
        has_twin: false,
    },
    View { name: "v$asm_operation", columns: OPERATION, has_twin: false },
    View { name: "v$asm_operation_ended", columns: OPERATION, has_twin: false },
    View {
        name: "v$asm_move_wait_histogram",
        columns: &[
            ("group_number", Integer),
            ("wait_time_micro", Integer),
            ("wait_count", Integer),
            ("wait_time_format", Text),
            ("con_id", Integer),
        ],
        has_twin: false,
    },
    View {
        name: "v$asm_missing_mirror",
        columns: &[
            ("group_number", Integer),
            ("file_number", Integer),
            ("name", Text),
            ("redundancy", Text),
            ("extents", Integer),
            ("mirrors_left", Integer),
            ("con_id", Integer),
        ],
        has_twin: false,
    },
    View {
        name: "v$asm_estimate",
        columns: &[
            ("group_number", Integer),
            ("statement_id", Text),
            ("timestamp", Text),
            ("est_work", Integer),
            ("con_id", Integer),
            ("least", Integer),
            ("bytes", Integer),
        ],
        has_twin: false,
    },
    View {
        name: "v$asm_user",
        columns: &[
            ("group_number", Integer),
            ("user_number", Integer),
            ("user_incarnation", Integer),
            ("os_id", Text),
            ("os_name", Text),
            ("con_id", Integer),
        ],
        has_twin: false,
    },
    View {
        name: "v$asm_usergroup",
        columns: &[
            ("group_number", Integer),
            ("usergroup_number", Integer),
            ("usergroup_incarnation", Integer),
            ("owner_number", Integer),
            ("owner_incarnation", Integer),
            ("name", Text),
            ("con_id", Integer),
        ],
        has_twin: false,
    },
    View {
        name: "v$asm_usergroup_member",
        columns: &[
            ("group_number", Integer),
            ("member_number", Integer),
            ("member_incarnation", Integer),
            ("usergroup_number", Integer),
            ("usergroup_incarnation", Integer),
            ("con_id", Integer),
        ],
        has_twin: false,
    },
    View {
        name: "v$asm_volume",
        columns: &[
            ("group_number", Integer),
            ("volume_name", Text),
            ("compound_index", Integer),
            ("size_mb", Integer),
            ("volume_number", Integer),
            ("redundancy", Text),
            ("stripe_columns", Integer),
            ("stripe_width_k", Integer),
            ("state", Text),
            ("file_number", Integer),
            ("incarnation", Integer),
            ("drl_file_number", Integer),
            ("resize_unit_mb", Integer),
            ("usage", Text),
            ("volume_device", Text),
            ("mountpath", Text),
            ("primary_region", Text),
            ("mirror_region", Text),
            ("con_id", Integer),
        ],
        has_twin: false,
    },
    View {
        name: "v$asm_volume_stat",
        columns: &[
            ("group_number", Integer),
            ("volume_name", Text),
            ("compound_index", Integer),
            ("volume_number", Integer),
            ("reads", Integer),
            ("writes", Integer),
            ("read_errs", Integer),
            ("write_errs", Integer),
            ("read_time", Real),
            ("write_time", Real),
            ("bytes_read", Integer),
            ("bytes_written", Integer),
            ("con_id", Integer),
        ],
        has_twin: false,
    },
    View {
        name: "v$asm_attribute",
        columns: &[
            ("name", Text),
            ("value", Text),
            ("group_number", Integer),
            ("attribute_index", Integer),
            ("attribute_incarnation", Integer),
            ("read_only", Text),
            ("system_created", Text),
            ("con_id", Integer),
        ],
        has_twin: false,
    },
    View {
        name: "v$pwfile_users",
        columns: &[
            ("username", Text),
            ("sysdba", Text),
            ("sysoper", Text),
            ("sysasm", Text),
            ("con_id", Integer),
            ("role", Text),
        ],
        has_twin: false,
    },
];

/// All views.
pub fn all() -> impl Iterator<Item = &'static View> {
    [VIEWS, stats::VIEWS].into_iter().flatten()
}

/// The view of this name, in any case.
#[must_use]
pub fn find(name: &str) -> Option<&'static View> {
    all().find(|view| view.name.eq_ignore_ascii_case(name))
}
