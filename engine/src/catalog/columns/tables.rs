//! The temporary tables under the views: the engine's present state, filled before each query.
//!
//! Only columns that no view shows unchanged are listed here. A column of a view whose source is
//! `Live` is also a column of the view's table.

use super::Table;

pub(super) const TABLES: &[Table] = &[
    // One row, whose rowid is 1.
    Table {
        name: "live_group",
        columns: &[
            ("number", "INTEGER"), // as the instance numbers groups
            ("logical_sector", "INTEGER"),
            ("sector", "INTEGER"),
            ("au_size", "INTEGER"),
            ("redundancy", "TEXT"), // EXTERN, NORMAL, HIGH
            ("total", "INTEGER"),   // bytes, before mirroring
            ("free", "INTEGER"),
            ("required_mirror_free", "INTEGER"),
            ("usable", "INTEGER"), // bytes, after mirroring; may be negative
        ],
    },
    Table {
        name: "live_disk",
        columns: &[
            ("number", "INTEGER PRIMARY KEY"),
            ("os_size", "INTEGER"), // bytes
            ("total", "INTEGER"),
            ("free", "INTEGER"),
            ("failure_group", "TEXT"),
            ("quorum", "INTEGER"),
            ("id", "TEXT"),
            ("created", "INTEGER"), // nanoseconds since 1970
            ("mounted", "INTEGER"),
            ("read_errors", "INTEGER"),
            ("write_errors", "INTEGER"),
            ("read_timeouts", "INTEGER"),
            ("write_timeouts", "INTEGER"),
            ("read_time", "INTEGER"), // microseconds
            ("write_time", "INTEGER"),
            ("votes", "INTEGER"),
            ("sector", "INTEGER"),
            ("logical_sector", "INTEGER"),
            ("can_discard", "INTEGER"),
            ("hash", "INTEGER"),   // of its id
            ("preferred", "TEXT"), // Y, N, U
        ],
    },
    Table {
        name: "live_operation",
        columns: &[
            ("so_far", "INTEGER"), // AUs
            ("work", "INTEGER"),
            ("rate", "INTEGER"), // AUs per minute
            ("error", "TEXT"),
        ],
    },
    Table {
        name: "live_move_wait",
        columns: &[
            ("micros", "INTEGER"), // a power of two: at most this long, and longer than half
            ("count", "INTEGER"),
        ],
    },
    // The defaults of attributes that were not set. Filled once.
    Table {
        name: "default_attribute",
        columns: &[("name", "TEXT PRIMARY KEY"), ("value", "TEXT"), ("read_only", "INTEGER")],
    },
    Table {
        name: "live_disk_time",
        columns: &[
            ("disk", "INTEGER"),
            ("class", "TEXT"),    // READ, WRITE, FLUSH, DISCARD
            ("below", "INTEGER"), // microseconds, a power of two
            ("count", "INTEGER"),
            ("last", "INTEGER"), // nanoseconds since 1970
        ],
    },
    Table {
        name: "live_file_time",
        columns: &[
            ("file", "INTEGER"), // 0: all others
            ("class", "TEXT"),   // SMALL READ, LARGE READ, SMALL WRITE, LARGE WRITE, SYNC
            ("below", "INTEGER"),
            ("count", "INTEGER"),
            ("last", "INTEGER"),
        ],
    },
    Table {
        name: "live_file",
        columns: &[
            ("number", "INTEGER PRIMARY KEY"), // 0: all others
            ("read_time", "INTEGER"),          // microseconds
            ("write_time", "INTEGER"),
            ("sync_time", "INTEGER"),
        ],
    },
    Table {
        name: "live_disk_client",
        columns: &[
            ("disk", "INTEGER"),
            ("client", "TEXT"), // FILES, CATALOG, RECORDS, CHECKSUMS, COPIES, CHECKS
            ("read_errors", "INTEGER"),
            ("read_timeouts", "INTEGER"),
            ("read_time", "INTEGER"), // microseconds
            ("write_errors", "INTEGER"),
            ("write_timeouts", "INTEGER"),
            ("write_time", "INTEGER"),
        ],
    },
    Table {
        name: "live_read_policy",
        columns: &[
            ("disk", "INTEGER PRIMARY KEY"),
            ("preferred", "INTEGER"), // reads, by why they went there
            ("faster", "INTEGER"),
            ("equal", "INTEGER"),
            ("only", "INTEGER"),
            ("retry", "INTEGER"),
            ("exploration", "INTEGER"),
            ("micro_16k", "INTEGER"), // expected time of reads up to this length
            ("micro_64k", "INTEGER"),
            ("micro_256k", "INTEGER"),
            ("micro_1m", "INTEGER"),
        ],
    },
    Table {
        name: "live_thin",
        columns: &[
            ("disk", "INTEGER PRIMARY KEY"),
            ("age", "INTEGER"), // seconds
        ],
    },
    Table {
        name: "live_trouble",
        columns: &[
            ("disk", "INTEGER"),
            ("first", "INTEGER"), // nanoseconds since 1970
            ("last", "INTEGER"),
            ("offset", "INTEGER"), // bytes
            ("length", "INTEGER"),
            ("text", "TEXT"),
        ],
    },
    // AUs that are neither free nor part of a file.
    Table {
        name: "live_unit",
        columns: &[
            ("disk", "INTEGER"),
            ("au", "INTEGER"),
            ("what", "TEXT"),      // SYSTEM, CHECKSUMS, HEADER, CATALOG, LOG
            ("number", "INTEGER"), // which one of its kind
        ],
    },
    Table {
        name: "live_unit_count",
        columns: &[("disk", "INTEGER PRIMARY KEY"), ("count", "INTEGER")],
    },
    Table { name: "live_partner", columns: &[("partner", "INTEGER"), ("active", "INTEGER")] },
    Table {
        name: "live_space",
        columns: &[
            ("total", "INTEGER"), // bytes
            ("free", "INTEGER"),
            ("catalog", "INTEGER"),
            ("files", "INTEGER"),
            ("pending", "INTEGER"),
            ("writable", "INTEGER"),
            ("safe", "INTEGER"),
            ("restorable", "INTEGER"),
            ("unprot", "INTEGER"),
            ("mirror", "INTEGER"),
            ("high", "INTEGER"),
            ("remark", "TEXT"),
        ],
    },
    Table {
        name: "live_failgroup",
        columns: &[
            ("quorum", "INTEGER"),
            ("online", "INTEGER"), // disks
            ("voting", "INTEGER"),
            ("may_go", "INTEGER"),
            ("mounts", "INTEGER"), // although the host goes down with it
        ],
    },
    Table {
        name: "live_protection",
        columns: &[
            ("waits", "INTEGER"), // for voters
            ("scrub_due", "INTEGER"),
            ("forced", "INTEGER"),  // the mount
            ("created", "INTEGER"), // nanoseconds since 1970
        ],
    },
    Table {
        name: "live_client",
        columns: &[
            ("instance", "TEXT"),
            ("database", "TEXT"),
            ("software", "TEXT"),
            ("kind", "TEXT"),
        ],
    },
];
