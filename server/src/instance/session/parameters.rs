//! `SHOW PARAMETER` and `ALTER SESSION SET`.
//!
//! What a session sets has an effect, or it changes nothing here and is accepted, or it is refused:
//! nothing that would change a result is ignored.

use super::{Context, Result, SqlError};
use crate::{
    instance::parameters::{Parameter, power_limit},
    query::{
        Column, Table, Time,
        settings::{DATE_FORMAT, TIMESTAMP_FORMAT},
        views::Type,
    },
    sql::At,
    sql_error::state,
};
use plinth_engine::admin::Value;
use plinth_host::lock;

/// Settings of Oracle's sessions that change nothing here: plans, traces, storage, and the NLS
/// settings of what there is not.
const WITHOUT_EFFECT: [&str; 46] = [
    "commit_logging",
    "commit_wait",
    "commit_write",
    "constraint",
    "constraints",
    "cursor_sharing",
    "db_file_multiblock_read_count",
    "ddl_lock_timeout",
    "deferred_segment_creation",
    "edition",
    "error_on_overlap_time",
    "events",
    "filesystemio_options",
    "flagger",
    "global_names",
    "hash_area_size",
    "isolation_level",
    "log_archive_min_succeed_dest",
    "max_dump_file_size",
    "nls_currency",
    "nls_dual_currency",
    "nls_iso_currency",
    "nls_length_semantics",
    "nls_nchar_conv_excp",
    "nls_time_format",
    "nls_time_tz_format",
    "nls_timestamp_tz_format",
    "object_cache_max_size_percent",
    "object_cache_optimal_size",
    "pga_aggregate_limit",
    "query_rewrite_enabled",
    "query_rewrite_integrity",
    "recyclebin",
    "result_cache_mode",
    "resumable_timeout",
    "row_archival_visibility",
    "session_cached_cursors",
    "skip_unusable_indexes",
    "sort_area_size",
    "sql_trace",
    "star_transformation_enabled",
    "statistics_level",
    "timed_os_statistics",
    "timed_statistics",
    "tracefile_identifier",
    "workarea_size_policy",
];
const PREFIXES_WITHOUT_EFFECT: [&str; 5] = ["_", "optimizer_", "parallel_", "plscope_", "plsql_"];

/// Settings with values that are what happens here anyway, and why others are refused.
const AS_IT_IS: [(&str, &[&str], &str); 9] = [
    ("nls_calendar", &["GREGORIAN"], "years are those of the Gregorian calendar"),
    ("nls_comp", &["BINARY", "ANSI"], "texts are compared by their bytes"),
    ("nls_date_language", &["AMERICAN", "ENGLISH"], "names of days and months are English"),
    ("nls_language", &["AMERICAN", "ENGLISH"], "messages and names of months are English"),
    ("nls_numeric_characters", &[".,"], "numbers have a decimal point"),
    ("nls_sort", &["BINARY"], "texts are sorted by their bytes"),
    ("nls_territory", &["AMERICA"], "weeks begin on Sunday, and numbers have a decimal point"),
    (
        "time_zone",
        &["UTC", "GMT", "ETC/UTC", "+00:00", "-00:00", "00:00", "+0:00", "DBTIMEZONE"],
        "times are UTC",
    ),
    ("container", &["CDB$ROOT"], "there are no containers"),
];

/// Whether a parameter of this name, in lower case, has rules of its own in a session.
pub(super) fn has_rules(name: &str) -> bool {
    name.starts_with("nls_") || name == "asm_power_limit" || name == "current_schema"
}

/// The effect of a setting.
enum Effect {
    /// It is kept, and holds from now on.
    Kept,
    /// It changes nothing.
    None,
}

fn refused(name: &At<String>, value: &At<String>, why: impl std::fmt::Display) -> SqlError {
    let text = format!("{} cannot be '{}': {why}", name.value, value.value);
    SqlError::new("22023", text).at(value.at)
}

/// Checks a setting of a session.
fn effect(name: &At<String>, value: &At<String>) -> Result<Effect> {
    let word = name.value.as_str();
    if word == DATE_FORMAT.0 || word == TIMESTAMP_FORMAT.0 {
        let written = Time::now().written(&value.value);
        return match written {
            Ok(text) if !text.trim().is_empty() => Ok(Effect::Kept),
            Ok(_) => Err(refused(name, value, "it shows nothing of a time").hint(DATE_FORMAT.1)),
            Err(why) => Err(refused(name, value, why).hint(format!("such as '{}'", DATE_FORMAT.1))),
        };
    }
    if word == "asm_power_limit" {
        return match power_limit(&value.value) {
            Ok(_) => Ok(Effect::Kept),
            Err(error) => Err(SqlError::from(error).at(value.at)),
        };
    }
    if word == "current_schema" {
        return Ok(Effect::Kept);
    }
    if let Some((_, values, why)) = AS_IT_IS.iter().find(|(known, ..)| *known == word) {
        return if values.iter().any(|known| value.value.eq_ignore_ascii_case(known)) {
            Ok(Effect::None)
        } else {
            let hint = format!("it can be '{}'", values.first().copied().unwrap_or_default());
            Err(refused(name, value, why).hint(hint))
        };
    }
    let is_known = WITHOUT_EFFECT.contains(&word)
        || PREFIXES_WITHOUT_EFFECT.iter().any(|prefix| word.starts_with(prefix));
    if is_known {
        return Ok(Effect::None);
    }
    let text = format!("a session has no parameter \"{}\" to set", name.value);
    Err(SqlError::new(state::UNKNOWN_SETTING, text)
        .detail("Unknown, which Oracle calls ORA-02248")
        .hint("nls_date_format, nls_timestamp_format, current_schema and asm_power_limit have an effect")
        .at(name.at))
}

impl Context {
    /// `ALTER SESSION SET`: all of the settings, or none.
    pub(super) fn alter_session(&self, settings: &[(At<String>, At<String>)]) -> Result<()> {
        let mut kept = Vec::new();
        for (name, value) in settings {
            if let Effect::Kept = effect(name, value)? {
                kept.push((&name.value, &value.value));
            }
        }
        let mut settings = lock(&self.settings);
        kept.into_iter().for_each(|(name, value)| settings.set(name, Some(value)));
        Ok(())
    }

    /// The parameters; with the session's own values, or those of the instance.
    pub(super) fn parameters(&self, of_session: bool) -> Vec<Parameter> {
        let mut all = self.instance.parameters();
        if of_session {
            let settings = lock(&self.settings);
            for parameter in all.iter_mut().filter(|parameter| parameter.in_session) {
                if let Some(value) = settings.get(parameter.name) {
                    parameter.values = vec![value.to_owned()];
                }
            }
        }
        all
    }

    /// Whether the session has set a parameter.
    pub(super) fn has_set(&self, parameter: &Parameter) -> bool {
        parameter.in_session && lock(&self.settings).get(parameter.name).is_some()
    }

    /// The power of a rebalance for which this session names none: the session's own, if it has
    /// set one.
    pub(super) fn own_power(&self) -> Option<u32> {
        lock(&self.settings).get("asm_power_limit").and_then(|power| power.parse().ok())
    }

    /// `SHOW PARAMETER`: those whose name contains the text.
    pub(super) fn show_parameters(&self, like: Option<&str>, stored: bool) -> Table {
        let like = like.unwrap_or_default().to_lowercase();
        let text = |text: &str| Value::Text(text.to_owned());
        let row = |parameter: Parameter| {
            let value = parameter.value().filter(|_| !stored || parameter.is_stored);
            let value = value.map_or(Value::Null, Value::Text);
            let mut row = vec![text(parameter.name), text(parameter.kind.word()), value];
            if stored {
                row.insert(0, text("*"));
            }
            row
        };
        let all = self.parameters(!stored).into_iter();
        let rows = all.filter(|parameter| is_like(parameter.name, &like)).map(row).collect();
        Table { columns: parameter_columns(stored), rows }
    }
}

/// Whether a name contains a text, in which `%` stands for anything.
fn is_like(name: &str, text: &str) -> bool {
    let mut rest = name;
    text.split('%').all(|part| match rest.find(part) {
        Some(at) => {
            rest = rest.get(at + part.len()..).unwrap_or_default();
            true
        }
        None => false,
    })
}

/// The columns of `SHOW PARAMETER`, or of `SHOW SPPARAMETER`.
pub(super) fn parameter_columns(stored: bool) -> Vec<Column> {
    let names: &[&str] =
        if stored { &["SID", "NAME", "TYPE", "VALUE"] } else { &["NAME", "TYPE", "VALUE"] };
    let column = |name: &&str| Column { name: (*name).to_owned(), kind: Type::Text };
    names.iter().map(column).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(value: &str, at: usize) -> At<String> {
        At { value: value.to_owned(), at }
    }

    #[test]
    fn a_name_is_found_by_a_part_of_it() {
        for text in ["", "power", "asm_power_limit", "asm%limit", "%power%", "a%s%m"] {
            assert!(is_like("asm_power_limit", text), "{text}");
        }
        for text in ["limit%asm", "powers", "asm_power_limit_"] {
            assert!(!is_like("asm_power_limit", text), "{text}");
        }
    }

    #[test]
    fn a_setting_has_an_effect_or_changes_nothing_or_is_refused() {
        assert!(WITHOUT_EFFECT.is_sorted());
        let check = |name: &str, value: &str| effect(&at(name, 1), &at(value, 2));
        for (name, value) in [
            ("nls_date_format", "DD-MON-RR"),
            ("nls_timestamp_format", "YYYY-MM-DD HH24:MI:SS.FF"),
            ("current_schema", "SYS"),
            ("asm_power_limit", "0"),
        ] {
            assert!(matches!(check(name, value), Ok(Effect::Kept)), "{name}");
        }
        for (name, value) in [
            ("nls_numeric_characters", ".,"),
            ("nls_language", "american"),
            ("time_zone", "UTC"),
            ("optimizer_mode", "FIRST_ROWS"),
            ("_any", "1"),
            ("sql_trace", "TRUE"),
            ("nls_timestamp_tz_format", "anything"),
        ] {
            assert!(matches!(check(name, value), Ok(Effect::None)), "{name}");
        }
        for (name, value, place, says) in [
            ("nls_date_format", "nonsense", 2, "nonsense"),
            ("nls_date_format", " ", 2, "shows nothing"),
            ("nls_numeric_characters", ",.", 2, "decimal point"),
            ("nls_comp", "LINGUISTIC", 2, "by their bytes"),
            ("time_zone", "Europe/Berlin", 2, "UTC"),
            ("container", "PDB1", 2, "no containers"),
            ("asm_power_limit", "many", 2, "0 to 1024"),
            ("nls_nothing", "x", 1, "no parameter"),
            ("optimiser_mode", "x", 1, "no parameter"),
        ] {
            let error = check(name, value).err().unwrap_or_else(|| panic!("{name} = {value}"));
            assert_eq!(error.at, Some(place), "{name}");
            assert!(error.message.contains(says) && error.hint.is_some(), "{error}");
        }
    }
}
