//! Facts that the instance knows of itself: the rows of `v$instance`, `v$session` and the other
//! views that no engine has, and the answers of `SYS_CONTEXT`.
//!
//! A row is made by name, and put into the order in which its view declares the columns. A column
//! without a value is NULL.

use super::Context;
use crate::{
    instance::{
        Instance,
        parameters::{INSTANCE_NAME, Parameter},
        sessions::{Place, Protocol, Session},
    },
    query::{
        Time,
        userenv::Facts,
        views::{self, View},
    },
    users,
};
use plinth_engine::admin::Value;
use std::{fs, sync::Arc, sync::atomic::Ordering};

/// The product, in `v$version` and `product_component_version`.
const PRODUCT: &str = "Plinth Automatic Storage Management";
/// The first `pid` of a session's thread in `v$process`; those before are processes.
const THREADS: i64 = 1000;

/// The version with five numbers, as programs expect that read Oracle's.
fn version() -> String {
    let mut numbers: Vec<&str> = env!("CARGO_PKG_VERSION").split('.').collect();
    numbers.resize(5, "0");
    numbers.join(".")
}

pub(super) fn text(text: impl ToString) -> Value {
    Value::Text(text.to_string())
}

pub(super) fn maybe(text: Option<impl ToString>) -> Value {
    text.map_or(Value::Null, |text| Value::Text(text.to_string()))
}

pub(super) fn number(number: impl TryInto<i64>) -> Value {
    Value::Integer(number.try_into().unwrap_or(i64::MAX))
}

fn truth(is: bool) -> Value {
    text(if is { "TRUE" } else { "FALSE" })
}

fn seconds_since(nanos: i64) -> i64 {
    crate::alert::now().saturating_sub(nanos).max(0) / 1_000_000_000
}

/// The row of these values in the order of the view's columns.
fn row(view: &View, values: Vec<(&str, Value)>) -> Vec<Value> {
    let is_declared = |name: &str| view.columns.iter().any(|(column, _)| *column == name);
    for (name, _) in &values {
        assert!(is_declared(name), "{} has no column {name}", view.name);
    }
    let value = |(column, _): &(&str, _)| {
        values
            .iter()
            .find(|(name, _)| name == column)
            .map_or(Value::Null, |(_, value)| value.clone())
    };
    view.columns.iter().map(value).collect()
}

/// The name of this host.
fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

fn address(pid: i64) -> Value {
    Value::Text(format!("{pid:016X}"))
}

/// Oracle's hash of a name is its own affair; this one is the same on every host.
fn hash(name: &str) -> i64 {
    let step = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(16_777_619);
    i64::from(name.bytes().fold(2_166_136_261, step))
}

/// The pid of a group's engine, if it runs.
fn engine_of(instance: &Instance, group: &str) -> Option<i64> {
    let pid: u32 =
        fs::read_to_string(instance.paths().engine_pid(group)).ok()?.trim().parse().ok()?;
    let command = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let mut words = command.split(|byte| *byte == 0);
    (words.nth(1) == Some(b"engine")).then_some(i64::from(pid))
}

fn owner_of(pid: i64) -> Value {
    use std::os::unix::fs::MetadataExt;
    maybe(fs::metadata(format!("/proc/{pid}")).ok().map(|found| users::name(found.uid())))
}

/// A parameter in `x$ksppi`.
fn internal((at, parameter): (i64, &Parameter)) -> Vec<(&'static str, Value)> {
    let session = if parameter.in_session { 256 } else { 0 };
    let system = if parameter.in_system.is_some() { 65536 } else { 0 };
    vec![
        ("addr", address(at)),
        ("indx", Value::Integer(at)),
        ("inst_id", Value::Integer(1)),
        ("con_id", Value::Integer(0)),
        ("ksppinm", text(parameter.name)),
        ("ksppity", Value::Integer(parameter.kind.number())),
        ("ksppdesc", text(parameter.description)),
        ("ksppiflg", Value::Integer(session + system)),
        ("ksppilrmflg", Value::Integer(0)),
        ("ksppihash", Value::Integer(hash(parameter.name))),
    ]
}

impl Context {
    /// The rows of a view that the instance has.
    pub(super) fn rows_of(&self, view: &View) -> Vec<Vec<Value>> {
        let rows = match view.name {
            "v$instance" => vec![self.of_instance()],
            "v$version" => {
                let banner = format!("{PRODUCT} Release {} - Production", version());
                let full = format!("{banner}\nVersion {}", version());
                let (first, last) = (text(&banner), text(banner));
                let con = ("con_id", Value::Integer(0));
                vec![vec![
                    ("banner", first),
                    ("banner_full", text(full)),
                    ("banner_legacy", last),
                    con,
                ]]
            }
            "product_component_version" => vec![vec![
                ("product", text(PRODUCT)),
                ("version", text(version())),
                ("version_full", text(version())),
                ("status", text("Production")),
            ]],
            "v$parameter" | "v$system_parameter" => {
                let all = self.parameters(view.name == "v$parameter");
                let numbered = (1..).zip(&all);
                numbered.map(|(at, parameter)| self.of_parameter(at, parameter)).collect()
            }
            "v$parameter2" | "v$system_parameter2" => {
                let all = self.parameters(view.name == "v$parameter2");
                (1..).zip(&all).flat_map(|(at, one)| self.values_of_parameter(at, one)).collect()
            }
            "x$ksppi" => (0..).zip(&self.parameters(false)).map(internal).collect(),
            "x$ksppcv" | "x$ksppsv" => {
                let of_session = view.name == "x$ksppcv";
                let all = self.parameters(of_session);
                (0..).zip(&all).map(|(at, one)| self.of_value(at, one, of_session)).collect()
            }
            "v$spparameter" => {
                self.instance.parameters().iter().flat_map(of_stored_parameter).collect()
            }
            "v$session" => self
                .instance
                .sessions
                .all()
                .iter()
                .map(|session| self.of_session(session))
                .collect(),
            "v$process" => self.of_processes(),
            "v$diag_info" => self.of_diagnosis(),
            "v$asm_health" => self.of_health(),
            "v$asm_filter" => vec![self.of_filter()],
            "v$asm_filter_disk" => self.of_filter_disks(),
            "v$asm_filter_refusal" => self.of_filter_refusals(),
            "v$license" => vec![self.of_license()],
            "v$option" => of_options(),
            "v$nls_parameters" => self.of_languages(),
            "v$fixed_table" => of_views(),
            _ => Vec::new(),
        };
        rows.into_iter().map(|values| row(view, values)).collect()
    }

    fn of_instance(&self) -> Vec<(&'static str, Value)> {
        let is_ending = self.instance.ending.load(Ordering::Acquire);
        vec![
            ("instance_number", Value::Integer(1)),
            ("instance_name", text(INSTANCE_NAME)),
            ("host_name", text(host())),
            ("version", text(version())),
            ("version_legacy", text(version())),
            ("version_full", text(version())),
            ("startup_time", text(Time::of_unix(self.instance.began).in_second().text())),
            ("status", text("STARTED")),
            ("parallel", text("NO")),
            ("thread#", Value::Integer(0)),
            ("archiver", text("STOPPED")),
            ("logins", text("ALLOWED")),
            ("shutdown_pending", text(if is_ending { "YES" } else { "NO" })),
            ("database_status", text("ACTIVE")),
            ("instance_role", text("UNKNOWN")),
            ("active_state", text("NORMAL")),
            ("blocked", text("NO")),
            ("con_id", Value::Integer(0)),
            ("instance_mode", text("REGULAR")),
            ("database_type", text("SINGLE")),
        ]
    }

    /// The columns that the views of parameters have in common.
    fn common(at: i64, parameter: &Parameter, is_modified: bool) -> Vec<(&'static str, Value)> {
        let modified = match (is_modified, parameter.is_changed) {
            (true, _) => "MODIFIED",
            (_, true) => "SYSTEM_MOD",
            _ => "FALSE",
        };
        let in_system = parameter.in_system.is_some();
        vec![
            ("num", Value::Integer(at)),
            ("name", text(parameter.name)),
            ("type", Value::Integer(parameter.kind.number())),
            ("isdefault", truth(parameter.is_default())),
            ("isses_modifiable", truth(parameter.in_session)),
            ("issys_modifiable", text(if in_system { "IMMEDIATE" } else { "FALSE" })),
            ("ispdb_modifiable", truth(false)),
            ("isinstance_modifiable", truth(in_system)),
            ("ismodified", text(modified)),
            ("isadjusted", truth(false)),
            ("isdeprecated", truth(false)),
            ("isbasic", truth(parameter.is_basic)),
            ("description", text(parameter.description)),
            ("update_comment", maybe(parameter.comment.as_ref())),
            ("con_id", Value::Integer(0)),
        ]
    }

    fn of_parameter(&self, at: i64, parameter: &Parameter) -> Vec<(&'static str, Value)> {
        let mut row = Self::common(at, parameter, self.has_set(parameter));
        let default = (!parameter.default.is_empty()).then_some(&parameter.default);
        row.extend([
            ("value", maybe(parameter.value())),
            ("display_value", maybe(parameter.value())),
            ("default_value", maybe(default)),
            ("hash", Value::Integer(hash(parameter.name))),
        ]);
        row
    }

    /// A parameter's value in `x$ksppcv`, and in `x$ksppsv`.
    fn of_value(
        &self,
        at: i64,
        parameter: &Parameter,
        of_session: bool,
    ) -> Vec<(&'static str, Value)> {
        let flag = match (of_session && self.has_set(parameter), parameter.is_changed) {
            (true, _) => 1,
            (_, true) => 4,
            _ => 0,
        };
        let default = (!parameter.default.is_empty()).then_some(&parameter.default);
        vec![
            ("addr", address(at)),
            ("indx", Value::Integer(at)),
            ("inst_id", Value::Integer(1)),
            ("con_id", Value::Integer(0)),
            ("ksppstvl", maybe(parameter.value())),
            ("ksppstdvl", maybe(parameter.value())),
            ("ksppstdfl", maybe(default)),
            ("ksppstdf", truth(parameter.is_default())),
            ("ksppstvf", Value::Integer(flag)),
            ("ksppstcmnt", maybe(parameter.comment.as_ref())),
        ]
    }

    /// A row for each value of a list.
    fn values_of_parameter(
        &self,
        at: i64,
        parameter: &Parameter,
    ) -> Vec<Vec<(&'static str, Value)>> {
        let none = [None];
        let some: Vec<Option<&String>> = parameter.values.iter().map(Some).collect();
        let values = if some.is_empty() { &none[..] } else { &some[..] };
        let row = |(ordinal, value): (i64, &Option<&String>)| {
            let mut row = Self::common(at, parameter, self.has_set(parameter));
            row.extend([
                ("value", maybe(*value)),
                ("display_value", maybe(*value)),
                ("ordinal", Value::Integer(ordinal)),
            ]);
            row
        };
        (1..).zip(values).map(row).collect()
    }

    fn of_session(&self, session: &Session) -> Vec<(&'static str, Value)> {
        let now = session.now();
        let (os_user, process, machine, port) = match &session.place {
            Place::Here { pid, user } => (text(user), text(pid), text(host()), 0),
            Place::There(from) => {
                (Value::Null, Value::Null, text(from.ip()), i64::from(from.port()))
            }
        };
        let program = session.program.as_ref().unwrap_or(&session.application);
        let role = match &session.place {
            Place::Here { .. } => Some(session.role),
            // It may have been given another one meanwhile.
            Place::There(_) => self.instance.role(&session.user),
        };
        let idle = |value: Value| if now.is_active() { Value::Null } else { value };
        let since = seconds_since(now.since);
        let waited = if now.is_active() { 0 } else { since };
        vec![
            ("sid", number(session.sid)),
            ("serial#", number(session.serial)),
            ("audsid", number(session.serial)),
            ("paddr", address(THREADS + i64::from(session.sid))),
            ("username", text(&session.user)),
            ("status", text(if now.is_active() { "ACTIVE" } else { "INACTIVE" })),
            ("server", text("DEDICATED")),
            ("schemaname", text(session.schema())),
            ("osuser", os_user),
            ("process", process),
            ("machine", machine),
            ("port", Value::Integer(port)),
            ("program", text(program)),
            ("type", text("USER")),
            ("module", text(session.module())),
            ("logon_time", text(Time::of_unix(session.began).in_second().text())),
            ("last_call_et", Value::Integer(since)),
            ("blocking_session_status", text("NO HOLDER")),
            ("event", idle(text("message from client"))),
            ("wait_class", idle(text("Idle"))),
            ("wait_time", Value::Real(0.0)),
            ("seconds_in_wait", Value::Integer(waited)),
            ("state", text(if now.is_active() { "WAITED KNOWN TIME" } else { "WAITING" })),
            ("service_name", text(INSTANCE_NAME)),
            ("con_id", Value::Integer(0)),
            (
                "protocol",
                text(match session.protocol {
                    Protocol::Postgresql => "POSTGRESQL",
                    Protocol::Control => "CONTROL",
                    Protocol::Http => "HTTP",
                }),
            ),
            ("role", maybe(role)),
            ("statement", maybe(now.statement)),
        ]
    }

    /// The instance, the engines, and the threads of the sessions.
    fn of_processes(&self) -> Vec<Vec<(&'static str, Value)>> {
        let own = i64::from(std::process::id());
        let process = |pid: i64, system: i64, name: &str, program: String| {
            vec![
                ("addr", address(pid)),
                ("pid", Value::Integer(pid)),
                ("sosid", text(system)),
                ("spid", text(system)),
                ("stid", text(system)),
                ("pname", text(name)),
                ("username", owner_of(system)),
                ("program", text(program)),
                ("background", text("1")),
                ("con_id", Value::Integer(0)),
            ]
        };
        let mut rows = vec![process(1, own, "INSTANCE", "plinth serve".to_owned())];
        for (group, number) in self.instance.groups() {
            if let Some(system) = engine_of(&self.instance, &group) {
                let program = format!("plinth engine {group}");
                rows.push(process(1 + i64::from(number), system, "ENGINE", program));
            }
        }
        let thread = |session: &Arc<Session>| {
            let pid = THREADS + i64::from(session.sid);
            vec![
                ("addr", address(pid)),
                ("pid", Value::Integer(pid)),
                ("sosid", Value::Text(format!("{own}_{}", session.thread))),
                ("spid", text(own)),
                ("stid", text(session.thread)),
                ("username", owner_of(own)),
                ("program", text("plinth serve")),
                ("con_id", Value::Integer(0)),
            ]
        };
        rows.extend(self.instance.sessions.all().iter().map(thread));
        rows
    }

    /// Where the alert log is.
    fn of_diagnosis(&self) -> Vec<Vec<(&'static str, Value)>> {
        let alert = self.instance.paths().alert();
        let folder = alert.parent().unwrap_or(&alert).display().to_string();
        let names = ["ADR Base", "ADR Home", "Diag Trace", "Diag Alert"];
        let places = names.into_iter().map(|name| (name, folder.as_str()));
        let row = |(name, value): (&str, &str)| {
            vec![
                ("inst_id", Value::Integer(1)),
                ("name", text(name)),
                ("value", text(value)),
                ("con_id", Value::Integer(0)),
            ]
        };
        [("Diag Enabled", "TRUE")].into_iter().chain(places).map(row).collect()
    }

    fn of_license(&self) -> Vec<(&'static str, Value)> {
        let processors = std::thread::available_parallelism().ok();
        vec![
            ("sessions_max", Value::Integer(0)),
            ("sessions_warning", Value::Integer(0)),
            ("sessions_current", number(self.instance.sessions.all().len())),
            ("users_max", Value::Integer(0)),
            ("cpu_count_current", processors.map_or(Value::Null, |count| number(count.get()))),
            ("con_id", Value::Integer(0)),
        ]
    }

    fn of_languages(&self) -> Vec<Vec<(&'static str, Value)>> {
        let settings = self.settings();
        let setting = |name: &str| settings.get(name).cloned().unwrap_or_default();
        let says = ToOwned::to_owned;
        let row = |(name, value): (&str, String)| {
            vec![("parameter", text(name)), ("value", text(value)), ("con_id", Value::Integer(0))]
        };
        [
            ("NLS_LANGUAGE", says("AMERICAN")),
            ("NLS_TERRITORY", says("AMERICA")),
            ("NLS_CURRENCY", says("$")),
            ("NLS_ISO_CURRENCY", says("AMERICA")),
            ("NLS_NUMERIC_CHARACTERS", says(".,")),
            ("NLS_CALENDAR", says("GREGORIAN")),
            ("NLS_DATE_FORMAT", setting("nls_date_format")),
            ("NLS_DATE_LANGUAGE", says("AMERICAN")),
            ("NLS_CHARACTERSET", says("AL32UTF8")),
            ("NLS_SORT", says("BINARY")),
            ("NLS_TIMESTAMP_FORMAT", setting("nls_timestamp_format")),
            ("NLS_NCHAR_CHARACTERSET", says("AL16UTF16")),
            ("NLS_COMP", says("BINARY")),
            ("NLS_LENGTH_SEMANTICS", says("CHAR")),
            ("NLS_NCHAR_CONV_EXCP", says("FALSE")),
        ]
        .map(row)
        .into()
    }

    /// The facts that `SYS_CONTEXT('USERENV', ...)` looks up.
    pub(super) fn facts(&self) -> Facts {
        let session = &self.session;
        let (os_user, address) = match &session.place {
            Place::Here { user, .. } => (Some(user.clone()), None),
            Place::There(from) => (None, Some(from.ip().to_string())),
        };
        let client = address.clone().unwrap_or_else(host);
        let settings = self.settings();
        let setting = |name: &str| settings.get(name).cloned();
        let says = |text: &str| Some(text.to_owned());
        let user = Some(session.user.clone());
        let schema = Some(session.schema());
        let is_local = matches!(session.place, Place::Here { .. });
        let administers = self.access == crate::sql::Role::Administer;
        Facts::from([
            ("action", None),
            ("authenticated_identity", user.clone()),
            ("authentication_method", says(if is_local { "OS" } else { "PASSWORD" })),
            ("bg_job_id", None),
            ("client_identifier", None),
            ("client_info", None),
            ("client_program_name", session.program.clone()),
            ("con_id", says("0")),
            ("current_schema", schema.clone()),
            ("current_user", user.clone()),
            ("database_role", None),
            ("db_domain", None),
            ("db_name", says(INSTANCE_NAME)),
            ("db_unique_name", says(INSTANCE_NAME)),
            ("host", Some(client)),
            ("instance", says("1")),
            ("instance_name", says(INSTANCE_NAME)),
            ("ip_address", address),
            ("isdba", says(if administers { "TRUE" } else { "FALSE" })),
            ("lang", says("US")),
            ("language", says("AMERICAN_AMERICA.AL32UTF8")),
            ("module", Some(session.module())),
            ("network_protocol", (!is_local).then(|| "tcp".to_owned())),
            ("nls_calendar", says("GREGORIAN")),
            ("nls_currency", says("$")),
            ("nls_date_format", setting("nls_date_format")),
            ("nls_date_language", says("AMERICAN")),
            ("nls_sort", says("BINARY")),
            ("nls_territory", says("AMERICA")),
            ("nls_timestamp_format", setting("nls_timestamp_format")),
            ("oracle_home", None),
            ("os_user", os_user),
            ("server_host", Some(host())),
            ("service_name", says(INSTANCE_NAME)),
            ("session_schema", schema),
            ("session_user", user),
            ("sessionid", Some(session.serial.to_string())),
            ("sid", Some(session.sid.to_string())),
            ("terminal", None),
        ])
    }
}

/// Options of Oracle that scripts ask for before they rely on them.
fn of_options() -> Vec<Vec<(&'static str, Value)>> {
    let row = |(name, is): (&str, bool)| {
        vec![("parameter", text(name)), ("value", truth(is)), ("con_id", Value::Integer(0))]
    };
    [
        ("Partitioning", false),
        ("Real Application Clusters", false),
        ("Advanced Compression", false),
        ("OLAP", false),
        ("Oracle Data Guard", false),
        ("Active Data Guard", false),
        ("Oracle Label Security", false),
        ("Oracle Database Vault", false),
        ("Automatic Storage Management", true),
        ("Unified Auditing", false),
    ]
    .map(row)
    .into()
}

/// The views, each with its form for all instances.
fn of_views() -> Vec<Vec<(&'static str, Value)>> {
    /// Oracle's number of what is a view.
    const OF_VIEW: i64 = 65537;
    let mut tables = 0;
    let mut rows = Vec::new();
    for view in views::all() {
        let name = view.name.to_uppercase();
        let is_table = name.starts_with("X$");
        let twin = view.has_twin.then(|| format!("{name}_STAT"));
        for name in [Some(name), twin].into_iter().flatten() {
            let forms = [Some(name.clone()), name.starts_with("V$").then(|| format!("G{name}"))];
            for name in forms.into_iter().flatten() {
                rows.push(vec![
                    ("object_id", Value::Integer(hash(&name))),
                    ("name", text(name)),
                    ("type", text(if is_table { "TABLE" } else { "VIEW" })),
                    ("table_num", Value::Integer(if is_table { tables } else { OF_VIEW })),
                    ("con_id", Value::Integer(0)),
                ]);
            }
        }
        tables += i64::from(is_table);
    }
    rows
}

fn of_stored_parameter(parameter: &Parameter) -> Vec<Vec<(&'static str, Value)>> {
    let row = |ordinal: i64, value: Option<&String>| {
        vec![
            ("sid", text("*")),
            ("name", text(parameter.name)),
            ("type", text(parameter.kind.word())),
            ("value", maybe(value)),
            ("display_value", maybe(value)),
            ("isspecified", truth(parameter.is_stored)),
            ("ordinal", Value::Integer(ordinal)),
            ("update_comment", maybe(parameter.comment.as_ref())),
            ("con_id", Value::Integer(0)),
        ]
    };
    if !parameter.is_stored {
        return vec![row(0, None)];
    }
    (1..).zip(&parameter.values).map(|(ordinal, value)| row(ordinal, Some(value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_has_five_numbers() {
        assert_eq!(version().split('.').count(), 5);
        assert!(version().starts_with(env!("CARGO_PKG_VERSION")));
        assert!(version().split('.').all(|part| part.parse::<u32>().is_ok()));
    }

    #[test]
    fn a_row_has_the_order_of_the_declaration_and_null_for_the_rest() {
        let view = crate::query::views::find("v$version").expect("a view");
        let made = row(view, vec![("con_id", Value::Integer(0)), ("banner", text("x"))]);
        assert_eq!(made, [text("x"), Value::Null, Value::Null, Value::Integer(0)]);
    }

    #[test]
    #[should_panic(expected = "has no column nonsense")]
    fn a_value_of_no_column_is_a_defect() {
        let view = crate::query::views::find("v$version").expect("a view");
        let _ = row(view, vec![("nonsense", Value::Null)]);
    }
}
