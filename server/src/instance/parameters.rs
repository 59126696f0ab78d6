//! The parameters of the instance, as Oracle lists those of an ASM instance: `v$parameter`, `SHOW
//! PARAMETER`, `ALTER SYSTEM SET`.
//!
//! Only what is true here is a parameter. Those that can be set take effect at once and are kept in
//! `instance.json`, which is the `spfile`; all others are facts.
//!
//! `asm_power_limit` goes to each engine when it has been started or adopted, and when it changes,
//! as the preferred failure groups do ([`super::preferred`]).

use super::{Instance, Result, sessions::CONNECTIONS_MAX, state::DEFAULT_DISKSTRING};
use crate::{
    engine::{client::Client, protocol::ProcessRequest},
    query::settings::{DATE_FORMAT, TIMESTAMP_FORMAT},
    sql::statement::SystemParameter,
};
use plinth_engine::{
    admin::{AdminError, Code},
    event::Severity,
    group::{POWER_DEFAULT, POWER_MAX},
};
use plinth_host::lock;

/// The name of the instance: that of the only ASM instance of a host.
pub const INSTANCE_NAME: &str = "+ASM";

/// The type of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Boolean,
    String,
    Integer,
}

impl Kind {
    /// Oracle's number of the type.
    #[must_use]
    pub fn number(self) -> i64 {
        match self {
            Self::Boolean => 1,
            Self::String => 2,
            Self::Integer => 3,
        }
    }

    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Boolean => "boolean",
            Self::String => "string",
            Self::Integer => "integer",
        }
    }
}

/// A parameter with its present value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    pub name: &'static str,
    pub kind: Kind,
    /// Empty: it has no value.
    pub values: Vec<String>,
    /// The value where none is set; empty: there is none.
    pub default: String,
    pub description: &'static str,
    /// Whether it is among those that Oracle calls basic.
    pub is_basic: bool,
    /// Whether it is in `instance.json`.
    pub is_stored: bool,
    pub in_session: bool,
    /// Set with ALTER SYSTEM.
    pub in_system: Option<SystemParameter>,
    /// Changed by ALTER SYSTEM since the instance started.
    pub is_changed: bool,
    pub comment: Option<String>,
}

impl Parameter {
    fn fact(
        name: &'static str,
        kind: Kind,
        value: impl ToString,
        description: &'static str,
    ) -> Self {
        let value = value.to_string();
        Self {
            name,
            kind,
            default: value.clone(),
            values: vec![value],
            description,
            is_basic: false,
            is_stored: false,
            in_session: false,
            in_system: None,
            is_changed: false,
            comment: None,
        }
    }

    fn text(name: &'static str, value: impl ToString, description: &'static str) -> Self {
        Self::fact(name, Kind::String, value, description)
    }

    fn basic(self) -> Self {
        Self { is_basic: true, ..self }
    }

    /// The values as one text; `None`: there are none.
    #[must_use]
    pub fn value(&self) -> Option<String> {
        (!self.values.is_empty()).then(|| self.values.join(", "))
    }

    /// Whether it has the value that it has without being set.
    #[must_use]
    pub fn is_default(&self) -> bool {
        self.value().unwrap_or_default() == self.default
    }
}

/// The parts of a list.
fn listed(text: &str) -> Vec<String> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts.map(ToOwned::to_owned).collect()
}

impl Instance {
    /// The parameters, by name. Those that a session can set have the instance's value.
    #[must_use]
    pub fn parameters(&self) -> Vec<Parameter> {
        let mut all = self.settable();
        let stored = lock(&self.state).clone();
        let groups: Vec<String> = self.groups().into_keys().collect();
        all.push(Parameter {
            is_stored: !groups.is_empty(),
            values: groups,
            default: String::new(),
            ..Parameter::text("asm_diskgroups", "", "disk groups to mount at start")
        });
        let session = |(name, default): (&'static str, &str), description| Parameter {
            in_session: true,
            ..Parameter::text(name, default, description)
        };
        all.extend([
            Parameter::fact(
                "cluster_database",
                Kind::Boolean,
                "FALSE",
                "whether there are several instances",
            )
            .basic(),
            Parameter::text("db_unique_name", INSTANCE_NAME, "the name of the instance").basic(),
            Parameter::text("diagnostic_dest", self.paths.state().display(), "where alert.log is"),
            Parameter::fact("instance_number", Kind::Integer, 1, "the number of the instance")
                .basic(),
            Parameter::text("instance_name", INSTANCE_NAME, "the name of the instance"),
            Parameter::text("instance_type", "asm", "the type of the instance"),
            session(DATE_FORMAT, "how a session writes times"),
            session(TIMESTAMP_FORMAT, "how a session writes times with fractions of a second"),
            Parameter::fact(
                "processes",
                Kind::Integer,
                CONNECTIONS_MAX,
                "most clients of PostgreSQL's protocol",
            )
            .basic(),
            Parameter::text("spfile", self.paths.instance().display(), "where parameters are kept"),
        ]);
        for parameter in &mut all {
            parameter.comment = stored.comments.get(parameter.name).cloned();
        }
        all.sort_by_key(|parameter| parameter.name);
        all
    }

    /// The parameters that ALTER SYSTEM sets.
    fn settable(&self) -> Vec<Parameter> {
        let changed = lock(&self.changed).clone();
        let scan = self.discovery.label_scan();
        let (diskstring, preferred, power) = {
            let state = lock(&self.state);
            (state.diskstring.clone(), state.preferred.to_string(), state.power_limit)
        };
        let settable = |which: SystemParameter, description: &'static str| Parameter {
            in_system: Some(which),
            is_changed: changed.contains(&which),
            ..Parameter::text(which.name(), "", description)
        };
        vec![
            Parameter {
                is_stored: diskstring != DEFAULT_DISKSTRING,
                values: listed(&diskstring),
                default: listed(DEFAULT_DISKSTRING).join(", "),
                ..settable(SystemParameter::Diskstring, "where disks are looked for")
            },
            Parameter {
                is_stored: !scan.is_empty(),
                values: listed(&scan),
                ..settable(SystemParameter::LabelScan, "devices whose labels are read")
            },
            Parameter {
                kind: Kind::Integer,
                is_stored: power.is_some(),
                values: vec![power.unwrap_or(POWER_DEFAULT).to_string()],
                default: POWER_DEFAULT.to_string(),
                in_session: true,
                ..settable(
                    SystemParameter::PowerLimit,
                    "how many mirrors a rebalance moves at once where no statement says it",
                )
            },
            Parameter {
                is_stored: !preferred.is_empty(),
                values: listed(&preferred),
                ..settable(SystemParameter::Preferred, "failure groups that reads prefer")
            },
        ]
    }

    /// Sets a parameter, or gives it its default back, and keeps the comment.
    ///
    /// # Errors
    /// If the value is not allowed; then nothing is changed.
    pub fn set_parameter(
        &self,
        which: SystemParameter,
        value: Option<&str>,
        comment: Option<&str>,
    ) -> Result<()> {
        match which {
            SystemParameter::Diskstring => {
                self.set_diskstring(value.unwrap_or(DEFAULT_DISKSTRING))?;
            }
            SystemParameter::LabelScan => self.set_label_scan(value.unwrap_or_default())?,
            SystemParameter::Preferred => self.set_preferred(value.unwrap_or_default())?,
            SystemParameter::PowerLimit => {
                self.set_power_limit(value.map(power_limit).transpose()?)?;
            }
        }
        lock(&self.changed).insert(which);
        self.remember(|state| {
            state.comments.remove(which.name());
            if let Some(comment) = comment {
                state.comments.insert(which.name().to_owned(), comment.to_owned());
            }
        })
    }

    /// The power of rebalances for which no statement names one.
    #[must_use]
    pub fn power_limit(&self) -> u32 {
        lock(&self.state).power_limit.unwrap_or(POWER_DEFAULT)
    }

    fn set_power_limit(&self, power: Option<u32>) -> Result<()> {
        let _alone = lock(&self.preferring);
        self.remember(|state| state.power_limit = power)?;
        for group in self.groups().into_keys() {
            if let Ok(engine) = Client::connect(&self.paths, &group) {
                self.tell_power(&engine, &group, power.unwrap_or(POWER_DEFAULT));
            }
        }
        Ok(())
    }

    /// Sends the settings of the instance to an engine that was started or adopted.
    pub(super) fn tell_settings(&self, engine: &Client, group: &str) {
        self.tell_preferred(engine, group);
        let _alone = lock(&self.preferring);
        let power = lock(&self.state).power_limit;
        if let Some(power) = power {
            self.tell_power(engine, group, power);
        }
    }

    fn tell_power(&self, engine: &Client, group: &str, power: u32) {
        if let Err(error) = engine.ask(ProcessRequest::PowerDefault(power)) {
            let text = format!("asm_power_limit is not {power} for its rebalances: {error}");
            self.alert.line(Severity::Warning, group, &text);
        }
    }
}

/// A power from a text.
///
/// # Errors
/// If it is none.
pub fn power_limit(text: &str) -> Result<u32> {
    text.trim().parse().ok().filter(|power| *power <= POWER_MAX).ok_or_else(|| {
        let text =
            format!("asm_power_limit cannot be '{text}': it is a number from 0 to {POWER_MAX}");
        AdminError::new(Code::Invalid, text)
            .hint("it is how many mirrors move at once; with 0 a rebalance waits for a statement")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_power_is_a_number_up_to_the_highest() {
        assert_eq!(power_limit("0").expect("a power"), 0);
        assert_eq!(power_limit(" 1024 ").expect("a power"), 1024);
        for nonsense in ["1025", "-1", "4.5", "much", ""] {
            let error = power_limit(nonsense).expect_err(nonsense);
            assert!(error.message.contains("0 to 1024") && error.hint.is_some(), "{error}");
        }
    }

    #[test]
    fn a_list_has_values() {
        let one = Parameter {
            values: listed("/dev/a*, /dev/b ,"),
            default: "/dev/a*, /dev/b".to_owned(),
            ..Parameter::text("x", "", "")
        };
        assert_eq!(one.values, ["/dev/a*", "/dev/b"]);
        assert!(one.is_default() && one.value().as_deref() == Some("/dev/a*, /dev/b"));
        let none = Parameter { values: Vec::new(), ..one };
        assert!(!none.is_default() && none.value().is_none());
    }
}
