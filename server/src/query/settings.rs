//! The settings that `SHOW` reads and `SET` changes, for one session.
//!
//! Almost no setting has an effect here; but a client that sets one can read it back, and after
//! RESET or DISCARD ALL, which pools send between two users, all settings have their defaults.

use std::collections::BTreeMap;

/// Most settings of one session, and the longest name and value, in bytes.
const SETTINGS_MAX: usize = 200;
const LENGTH_MAX: usize = 1024;

/// The settings that a client has changed.
#[derive(Debug, Clone, Default)]
pub struct Settings(BTreeMap<String, String>);

impl Settings {
    /// Sets one, or resets it if there is no value; without a name all are reset.
    pub fn set(&mut self, name: &str, value: Option<&str>) {
        match value {
            _ if name.is_empty() => self.0.clear(),
            None => drop(self.0.remove(name)),
            Some(value) => {
                let fits = name.len() <= LENGTH_MAX && value.len() <= LENGTH_MAX;
                if fits && FIXED.iter().all(|fixed| *fixed != name) && self.0.len() < SETTINGS_MAX {
                    self.0.insert(name.to_owned(), value.to_owned());
                }
            }
        }
    }

    /// The value that a setting was given.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The defaults, overlaid with these.
    #[must_use]
    pub fn over(&self, mut settings: BTreeMap<String, String>) -> BTreeMap<String, String> {
        settings.extend(self.0.clone());
        settings
    }
}

/// How times are written unless a session says otherwise: to the second, and with a fraction.
pub const DATE_FORMAT: (&str, &str) = ("nls_date_format", "YYYY-MM-DD HH24:MI:SS");
pub const TIMESTAMP_FORMAT: (&str, &str) = ("nls_timestamp_format", "YYYY-MM-DD HH24:MI:SS.FF6");

/// Settings that clients cannot change: some are set with ALTER SYSTEM, the others are facts.
const FIXED: [&str; 20] = [
    "afd_diskstring",
    "asm_diskgroups",
    "asm_diskstring",
    "asm_preferred_read_failure_groups",
    "client_encoding",
    "cluster_database",
    "db_unique_name",
    "diagnostic_dest",
    "instance_name",
    "instance_number",
    "instance_type",
    "is_superuser",
    "plinth.dir",
    "plinth.state",
    "plinth.version",
    "processes",
    "server_version",
    "server_version_num",
    "spfile",
    "standard_conforming_strings",
];

/// The defaults of settings that PostgreSQL's clients read.
#[must_use]
pub fn defaults() -> BTreeMap<String, String> {
    let settings = [
        ("application_name", ""),
        ("bytea_output", "hex"),
        ("client_encoding", "UTF8"),
        ("client_min_messages", "notice"),
        ("datestyle", "ISO, MDY"),
        ("default_transaction_isolation", "read committed"),
        ("default_transaction_read_only", "off"),
        ("extra_float_digits", "1"),
        ("idle_in_transaction_session_timeout", "0"),
        ("in_hot_standby", "off"),
        ("integer_datetimes", "on"),
        ("intervalstyle", "postgres"),
        ("lc_collate", "C"),
        ("lc_ctype", "C"),
        ("lock_timeout", "0"),
        DATE_FORMAT,
        TIMESTAMP_FORMAT,
        ("max_identifier_length", "63"),
        ("max_index_keys", "32"),
        ("password_encryption", "scram-sha-256"),
        ("search_path", "public"),
        ("server_encoding", "UTF8"),
        ("server_version", super::pg_compat::SERVER_VERSION),
        ("server_version_num", "150000"),
        ("standard_conforming_strings", "on"),
        ("statement_timeout", "0"),
        ("timezone", "UTC"),
        ("transaction_isolation", "read committed"),
        ("transaction_read_only", "off"),
    ];
    settings.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_is_shown_until_it_is_reset() {
        let mut settings = Settings::default();
        settings.set("application_name", Some("x"));
        settings.set("server_version", Some("99"));
        let shown = settings.over(defaults());
        assert_eq!(
            (shown["application_name"].as_str(), shown["server_version"].as_str()),
            ("x", "15.0")
        );
        settings.set("application_name", None);
        assert_eq!(settings.over(defaults())["application_name"], "");
        for number in 0..1000 {
            settings.set(&format!("own.{number}"), Some("x"));
        }
        assert_eq!(settings.0.len(), SETTINGS_MAX);
        settings.set("", None);
        assert!(settings.0.is_empty());
    }
}
