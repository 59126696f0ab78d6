//! The views of the instance itself: its process, its parameters, its sessions. No engine has rows
//! of them.

use super::{
    Column,
    Source::Instance,
    Type::{Integer, Real, Text, Time},
    View, column,
};

const fn view(name: &'static str, columns: &'static [Column]) -> View {
    View { name, has_twin: false, live: None, with: "", from: "", columns }
}

pub(super) const VIEWS: &[View] = &[
    view("v$instance", INSTANCE),
    view("v$version", VERSION),
    view("product_component_version", PRODUCT),
    view("v$parameter", PARAMETER),
    view("v$parameter2", PARAMETER2),
    view("v$system_parameter", PARAMETER),
    view("v$system_parameter2", PARAMETER2),
    view("v$spparameter", SPPARAMETER),
    view("v$session", SESSION),
    view("v$process", PROCESS),
    view("v$diag_info", DIAG_INFO),
    view("v$license", LICENSE),
    view("v$asm_health", HEALTH),
    view("v$asm_filter", FILTER),
    view("v$asm_filter_disk", FILTER_DISK),
    view("v$asm_filter_refusal", FILTER_REFUSAL),
    view("v$option", OPTION),
    view("v$nls_parameters", NLS_PARAMETERS),
    view("v$fixed_table", FIXED_TABLE),
    view("x$ksppi", KSPPI),
    view("x$ksppcv", KSPPCV),
    view("x$ksppsv", KSPPCV),
];

const KSPPI: &[Column] = &[
    column("addr", Text, Instance, "identifies the row"),
    column("indx", Integer, Instance, "counts from 0, by name"),
    column("inst_id", Integer, Instance, "1"),
    column("con_id", Integer, Instance, "0"),
    column("ksppinm", Text, Instance, "the name, in lower case; none begins with `_`"),
    column("ksppity", Integer, Instance, "1 boolean, 2 string, 3 integer"),
    column("ksppdesc", Text, Instance, "what it is"),
    column(
        "ksppiflg",
        Integer,
        Instance,
        "256 if `ALTER SESSION` can set it, and 65536 if `ALTER SYSTEM` can",
    ),
    column("ksppilrmflg", Integer, Instance, "0"),
    column("ksppihash", Integer, Instance, "of the name"),
];

const KSPPCV: &[Column] = &[
    column("addr", Text, Instance, "identifies the row"),
    column("indx", Integer, Instance, "`indx` of the parameter in `x$ksppi`"),
    column("inst_id", Integer, Instance, "1"),
    column("con_id", Integer, Instance, "0"),
    column("ksppstvl", Text, Instance, "the value; of a list all of its values; NULL: none is set"),
    column("ksppstdvl", Text, Instance, "the same"),
    column("ksppstdfl", Text, Instance, "the value where none is set"),
    column("ksppstdf", Text, Instance, "`TRUE`: none is set"),
    column(
        "ksppstvf",
        Integer,
        Instance,
        "1: this session has set it; 4: `ALTER SYSTEM` has since the instance started; else 0",
    ),
    column("ksppstcmnt", Text, Instance, "the `COMMENT` of the last `ALTER SYSTEM SET`"),
];

const DIAG_INFO: &[Column] = &[
    column("inst_id", Integer, Instance, "1"),
    column(
        "name",
        Text,
        Instance,
        "`Diag Enabled`, `ADR Base`, `ADR Home`, `Diag Trace`, `Diag Alert`",
    ),
    column("value", Text, Instance, "`TRUE`; for the others the folder of `alert.log`"),
    column("con_id", Integer, Instance, "0"),
];

const LICENSE: &[Column] = &[
    column("sessions_max", Integer, Instance, "0: no license limits them"),
    column("sessions_warning", Integer, Instance, "0"),
    column("sessions_current", Integer, Instance, "sessions now"),
    column("sessions_highwater", Integer, Instance, "NULL: not counted"),
    column("users_max", Integer, Instance, "0"),
    column("cpu_count_current", Integer, Instance, "processors that the instance may use"),
    column("cpu_core_count_current", Integer, Instance, "NULL"),
    column("cpu_socket_count_current", Integer, Instance, "NULL"),
    column("cpu_count_highwater", Integer, Instance, "NULL"),
    column("cpu_core_count_highwater", Integer, Instance, "NULL"),
    column("cpu_socket_count_highwater", Integer, Instance, "NULL"),
    column("con_id", Integer, Instance, "0"),
];

const FILTER: &[Column] = &[
    column("state", Text, Instance, "`LOADED` or `NOT LOADED`"),
    column("filtering", Text, Instance, "`ENABLED`: members are protected; else `DISABLED`"),
    column("reason", Text, Instance, "why it is not loaded although it shall be; else NULL"),
    column("refused", Integer, Instance, "opens for writing that were refused since it was loaded"),
];

const HEALTH: &[Column] = &[
    column(
        "group_number",
        Integer,
        Instance,
        "the group's number, as in `v$asm_diskgroup`; 0: the group is not mounted, or it is about no group",
    ),
    column("group_name", Text, Instance, "the disk group; NULL: it is about no group"),
    column(
        "severity",
        Text,
        Instance,
        "`OK`: a fact; `NOTE`: worth knowing, and no trouble; `WARNING`; `CRITICAL`",
    ),
    column("kind", Text, Instance, "what kind of fact or finding it is: the tables below"),
    column(
        "subject",
        Text,
        Instance,
        "the disk, failure group, path or operation; NULL: the group",
    ),
    column("detail", Text, Instance, "the case, in words"),
    column(
        "remedy",
        Text,
        Instance,
        "the statements that mend it, or a command; NULL: there is nothing to mend, or `detail` says what has to be done",
    ),
    column("value", Real, Instance, "the figure of the row, if it has one"),
    column(
        "unit",
        Text,
        Instance,
        "of `value`: `BYTES`, `MICROSECONDS`, `PERCENT`, `EXTENTS`, `SECONDS`",
    ),
    column("con_id", Integer, Instance, "0"),
];

const FILTER_DISK: &[Column] = &[
    column(
        "group_name",
        Text,
        Instance,
        "the disk group; NULL if discovery does not show the disk",
    ),
    column("name", Text, Instance, "the disk; NULL if discovery does not show it"),
    column("path", Text, Instance, "its device"),
    column(
        "filtering",
        Text,
        Instance,
        "`ENABLED`: only its engine can open it for writing; `WRITERS`: so, but `writers` have it open from before; `DISABLED`; `NOT A DEVICE`: a file, which no filter protects",
    ),
    column("refused", Integer, Instance, "opens that were refused since it was protected"),
    column(
        "nodes",
        Text,
        Instance,
        "the device nodes that are protected with it: its partitions or its disk, paths, generic nodes",
    ),
    column(
        "writers",
        Text,
        Instance,
        "programs that had it open for writing before, and still have",
    ),
];

const FILTER_REFUSAL: &[Column] = &[
    column("refusal", Integer, Instance, "counts from 1 since the filter was loaded"),
    column("time", Time, Instance, "when"),
    column("pid", Integer, Instance, "the process; NULL on kernels before 6.10"),
    column(
        "program",
        Text,
        Instance,
        "its program, 15 letters at most; NULL on kernels before 6.10",
    ),
    column("username", Text, Instance, "its user"),
    column("path", Text, Instance, "the device node, by the kernel's name"),
    column("group_name", Text, Instance, "the disk group whose member it is"),
    column("name", Text, Instance, "the disk"),
];

const OPTION: &[Column] = &[
    column("parameter", Text, Instance, "the option, as Oracle calls it"),
    column(
        "value",
        Text,
        Instance,
        "`TRUE` for `Automatic Storage Management`; `FALSE` for what is Oracle's, such as `Real Application Clusters`",
    ),
    column("con_id", Integer, Instance, "0"),
];

const NLS_PARAMETERS: &[Column] = &[
    column("parameter", Text, Instance, "`NLS_DATE_FORMAT`, `NLS_CHARACTERSET` ..."),
    column("value", Text, Instance, "its value in this session"),
    column("con_id", Integer, Instance, "0"),
];

const FIXED_TABLE: &[Column] = &[
    column("name", Text, Instance, "a view of this page, in upper case, and its form `GV$`"),
    column("object_id", Integer, Instance, "of the name, the same on every host"),
    column("type", Text, Instance, "`VIEW`, or `TABLE` for `X$`"),
    column("table_num", Integer, Instance, "65537 for a view; else counts from 0"),
    column("con_id", Integer, Instance, "0"),
];

const INSTANCE: &[Column] = &[
    column("instance_number", Integer, Instance, "1"),
    column("instance_name", Text, Instance, "`+ASM`, as the only ASM instance of a host is called"),
    column("host_name", Text, Instance, "the host, as `uname -n` says it"),
    column("version", Text, Instance, "Plinth's version, with five numbers as Oracle's has"),
    column("version_legacy", Text, Instance, "the same"),
    column("version_full", Text, Instance, "the same"),
    column("startup_time", Time, Instance, "when `plinth serve` started"),
    column("status", Text, Instance, "`STARTED`: no database is mounted in it"),
    column("parallel", Text, Instance, "`NO`"),
    column("thread#", Integer, Instance, "0"),
    column("archiver", Text, Instance, "`STOPPED`"),
    column("log_switch_wait", Text, Instance, "NULL"),
    column("logins", Text, Instance, "`ALLOWED`"),
    column(
        "shutdown_pending",
        Text,
        Instance,
        "`YES` while `plinth shutdown` dismounts the groups",
    ),
    column("database_status", Text, Instance, "`ACTIVE`"),
    column("instance_role", Text, Instance, "`UNKNOWN`: it is a database's"),
    column("active_state", Text, Instance, "`NORMAL`"),
    column("blocked", Text, Instance, "`NO`"),
    column("con_id", Integer, Instance, "0"),
    column("instance_mode", Text, Instance, "`REGULAR`"),
    column("edition", Text, Instance, "NULL"),
    column("family", Text, Instance, "NULL"),
    column("database_type", Text, Instance, "`SINGLE`"),
];

const VERSION: &[Column] = &[
    column("banner", Text, Instance, "the product, and its version after `Release`"),
    column("banner_full", Text, Instance, "the same, and a second line with the version"),
    column("banner_legacy", Text, Instance, "as `banner`"),
    column("con_id", Integer, Instance, "0"),
];

const PRODUCT: &[Column] = &[
    column("product", Text, Instance, "`Plinth Automatic Storage Management`"),
    column("version", Text, Instance, "as in `v$instance`"),
    column("version_full", Text, Instance, "as in `v$instance`"),
    column("status", Text, Instance, "`Production`"),
];

const PARAMETER: &[Column] = &[
    column("num", Integer, Instance, "counts from 1, by name"),
    column("name", Text, Instance, "the name, in lower case"),
    column("type", Integer, Instance, "1 boolean, 2 string, 3 integer"),
    column("value", Text, Instance, "the value; of a list all of its values; NULL: none is set"),
    column("display_value", Text, Instance, "the same"),
    column("default_value", Text, Instance, "the value where none is set"),
    column("isdefault", Text, Instance, "`TRUE`: none is set"),
    column("isses_modifiable", Text, Instance, "`TRUE`: `ALTER SESSION` can set it"),
    column(
        "issys_modifiable",
        Text,
        Instance,
        "`IMMEDIATE`: `ALTER SYSTEM` can set it; else `FALSE`",
    ),
    column("ispdb_modifiable", Text, Instance, "`FALSE`"),
    column("isinstance_modifiable", Text, Instance, "`TRUE`: `ALTER SYSTEM` can set it"),
    column(
        "ismodified",
        Text,
        Instance,
        "`MODIFIED` by this session; `SYSTEM_MOD` by `ALTER SYSTEM` since the instance started; else `FALSE`",
    ),
    column("isadjusted", Text, Instance, "`FALSE`"),
    column("isdeprecated", Text, Instance, "`FALSE`"),
    column("isbasic", Text, Instance, "`TRUE`: Oracle counts it among the basic ones"),
    column("description", Text, Instance, "what it is"),
    column("update_comment", Text, Instance, "the `COMMENT` of the last `ALTER SYSTEM SET`"),
    column("hash", Integer, Instance, "of the name"),
    column("con_id", Integer, Instance, "0"),
];

const PARAMETER2: &[Column] = &[
    column("num", Integer, Instance, "counts from 1, by name"),
    column("name", Text, Instance, "the name, in lower case"),
    column("type", Integer, Instance, "1 boolean, 2 string, 3 integer"),
    column("value", Text, Instance, "one value"),
    column("display_value", Text, Instance, "the same"),
    column("isdefault", Text, Instance, "`TRUE`: none is set"),
    column("isses_modifiable", Text, Instance, "`TRUE`: `ALTER SESSION` can set it"),
    column(
        "issys_modifiable",
        Text,
        Instance,
        "`IMMEDIATE`: `ALTER SYSTEM` can set it; else `FALSE`",
    ),
    column("ispdb_modifiable", Text, Instance, "`FALSE`"),
    column("isinstance_modifiable", Text, Instance, "`TRUE`: `ALTER SYSTEM` can set it"),
    column("ismodified", Text, Instance, "as in `v$parameter`"),
    column("isadjusted", Text, Instance, "`FALSE`"),
    column("isdeprecated", Text, Instance, "`FALSE`"),
    column("isbasic", Text, Instance, "`TRUE`: Oracle counts it among the basic ones"),
    column("description", Text, Instance, "what it is"),
    column("ordinal", Integer, Instance, "the place of the value in the list, from 1"),
    column("update_comment", Text, Instance, "the `COMMENT` of the last `ALTER SYSTEM SET`"),
    column("con_id", Integer, Instance, "0"),
];

const SPPARAMETER: &[Column] = &[
    column("family", Text, Instance, "NULL"),
    column("sid", Text, Instance, "`*`"),
    column("name", Text, Instance, "the name, in lower case"),
    column("type", Text, Instance, "`boolean`, `string`, `integer`"),
    column("value", Text, Instance, "one value"),
    column("display_value", Text, Instance, "the same"),
    column("isspecified", Text, Instance, "`TRUE`: it is in the file"),
    column(
        "ordinal",
        Integer,
        Instance,
        "the place of the value in the list, from 1; 0 if there is none",
    ),
    column("update_comment", Text, Instance, "the `COMMENT` of the last `ALTER SYSTEM SET`"),
    column("con_id", Integer, Instance, "0"),
];

const SESSION: &[Column] = &[
    column("sid", Integer, Instance, "the lowest number that was free when the client connected"),
    column("serial#", Integer, Instance, "counts connections since the instance started"),
    column("audsid", Integer, Instance, "the same"),
    column("paddr", Text, Instance, "`addr` of its thread in `v$process`"),
    column("username", Text, Instance, "the user, in upper case"),
    column("status", Text, Instance, "`ACTIVE` while a statement runs, else `INACTIVE`"),
    column("server", Text, Instance, "`DEDICATED`: it has a thread of its own"),
    column("schemaname", Text, Instance, "`SYS`, or what `ALTER SESSION SET CURRENT_SCHEMA` said"),
    column("osuser", Text, Instance, "the user of this host; NULL over the network"),
    column("process", Text, Instance, "the client's process; NULL over the network"),
    column("machine", Text, Instance, "this host, or the address of the client"),
    column("port", Integer, Instance, "the client's port; 0 on this host"),
    column("terminal", Text, Instance, "NULL: not known"),
    column("program", Text, Instance, "the client's program: on this host as the kernel knows it"),
    column("type", Text, Instance, "`USER`"),
    column("sql_id", Text, Instance, "NULL"),
    column("module", Text, Instance, "`application_name`, as the client gave or set it"),
    column("action", Text, Instance, "NULL"),
    column("client_info", Text, Instance, "NULL"),
    column("logon_time", Time, Instance, "when the client connected"),
    column("last_call_et", Integer, Instance, "seconds since `status` last changed"),
    column("blocking_session_status", Text, Instance, "`NO HOLDER`"),
    column("blocking_session", Integer, Instance, "NULL"),
    column(
        "event",
        Text,
        Instance,
        "`message from client` between statements; NULL while one runs",
    ),
    column("wait_class", Text, Instance, "`Idle` between statements; NULL while one runs"),
    column("wait_time", Real, Instance, "0"),
    column("seconds_in_wait", Integer, Instance, "`last_call_et` between statements; else 0"),
    column("state", Text, Instance, "`WAITING` between statements; else `WAITED KNOWN TIME`"),
    column("service_name", Text, Instance, "`+ASM`"),
    column("con_id", Integer, Instance, "0"),
    column(
        "protocol",
        Text,
        Instance,
        "*ours*: `POSTGRESQL`, `CONTROL` for the commands of `plinth`, or `HTTP` for a statement of the dashboard",
    ),
    column("role", Text, Instance, "*ours*: `LOOK`, `OPERATE`, `ADMINISTER`"),
    column("statement", Text, Instance, "*ours*: the kind of the last statement, such as `SELECT`"),
];

const PROCESS: &[Column] = &[
    column("addr", Text, Instance, "identifies the row"),
    column(
        "pid",
        Integer,
        Instance,
        "1 the instance; 2 and more the engines; from 1001 on the sessions",
    ),
    column("sosid", Text, Instance, "as `spid`; of a session's thread with `_` and its `stid`"),
    column("spid", Text, Instance, "the process of the operating system"),
    column("stid", Text, Instance, "the thread of the operating system"),
    column("pname", Text, Instance, "`INSTANCE`, `ENGINE`; NULL: the thread of a session"),
    column("username", Text, Instance, "the user of this host as whom it runs"),
    column("terminal", Text, Instance, "NULL: not known"),
    column("program", Text, Instance, "`plinth serve`, `plinth engine GROUP`"),
    column("background", Text, Instance, "`1`; NULL: the thread of a session"),
    column("con_id", Integer, Instance, "0"),
];
