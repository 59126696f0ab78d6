//! `asm_preferred_read_failure_groups`: the failure groups that reads prefer, because they are near
//! this host.
//!
//! It is a list of GROUP.FAILGROUP, of any disk groups. The instance keeps it in `instance.json`,
//! and sends each engine its part: when the engine has been started or adopted, and when the list
//! changes. A thread that sends it holds [`Instance::preferring`], so that no engine gets an old
//! list after a new one.
//!
//! A list that names a failure group which a mounted disk group does not have is refused. Its
//! entries for disk groups that are not mounted cannot be checked, and are kept.

use super::{Instance, Result};
use crate::engine::{client::Client, protocol::ProcessRequest};
use plinth_engine::{
    admin::{AdminError, Code},
    event::Severity,
};
use plinth_format::is_name;
use plinth_host::lock;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, fmt, str::FromStr};

/// The list, in the order in which it was written.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Preferred(Vec<(String, String)>);

impl Preferred {
    /// All disk groups and failure groups, in the order in which they were written.
    pub fn all(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(group, name)| (group.as_str(), name.as_str()))
    }

    /// The failure groups of one disk group.
    #[must_use]
    pub fn of(&self, group: &str) -> BTreeSet<String> {
        self.0.iter().filter(|(of, _)| of == group).map(|(_, name)| name.clone()).collect()
    }
}

impl FromStr for Preferred {
    type Err = AdminError;

    fn from_str(text: &str) -> Result<Self> {
        let mut all = Vec::new();
        for part in text.split(',').map(str::trim).filter(|_| !text.trim().is_empty()) {
            let names = part.to_uppercase();
            let names = names
                .split_once('.')
                .map(|(group, name)| (group.trim().to_owned(), name.trim().to_owned()));
            let Some(names) = names.filter(|(group, name)| is_name(group) && is_name(name)) else {
                let text =
                    format!("asm_preferred_read_failure_groups: '{part}' is not GROUP.FAILGROUP");
                return Err(AdminError::new(Code::Invalid, text)
                    .hint("write 'DATA.SITE1, FRA.SITE1', a failure group of a disk group each; '' prefers none"));
            };
            if !all.contains(&names) {
                all.push(names);
            }
        }
        Ok(Self(all))
    }
}

impl TryFrom<String> for Preferred {
    type Error = AdminError;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<Preferred> for String {
    fn from(preferred: Preferred) -> Self {
        preferred.to_string()
    }
}

impl fmt::Display for Preferred {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (group, name)) in self.0.iter().enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            write!(f, "{comma}{group}.{name}")?;
        }
        Ok(())
    }
}

impl Instance {
    #[must_use]
    pub fn preferred(&self) -> Preferred {
        lock(&self.state).preferred.clone()
    }

    /// As [`Self::preferred`], for callers that must not wait for a disk: `None` while what is
    /// remembered is being written.
    #[must_use]
    pub fn preferred_now(&self) -> Option<Preferred> {
        self.state.try_lock().ok().map(|state| state.preferred.clone())
    }

    /// Sets the list, here and in every engine.
    ///
    /// # Errors
    /// If the text is no such list, or names a failure group that a mounted disk group does not
    /// have; then nothing is changed.
    pub fn set_preferred(&self, text: &str) -> Result<()> {
        let preferred: Preferred = text.parse()?;
        let _alone = lock(&self.preferring);
        let engines = || {
            self.groups()
                .into_keys()
                .filter_map(|group| Some((Client::connect(&self.paths, &group).ok()?, group)))
        };
        for (engine, group) in engines() {
            match engine.ask(ProcessRequest::CheckFailureGroups(preferred.of(&group))) {
                Err(error) if error.code == Code::NoSuchDisk => return Err(error),
                // The engine has not mounted its group at the moment, or ends: this part cannot be
                // checked.
                _ => {}
            }
        }
        self.remember(|state| state.preferred = preferred)?;
        engines().for_each(|(engine, group)| self.tell(&engine, &group));
        Ok(())
    }

    /// Sends the list to an engine that was started or adopted.
    pub(super) fn tell_preferred(&self, engine: &Client, group: &str) {
        let _alone = lock(&self.preferring);
        self.tell(engine, group);
    }

    fn tell(&self, engine: &Client, group: &str) {
        if let Err(error) = engine.ask(ProcessRequest::PreferReads(self.preferred().of(group))) {
            let text = format!("reads prefer the failure groups that they did before: {error}");
            self.alert.line(Severity::Warning, group, &text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_what_was_written_and_nonsense_is_refused() {
        let list: Preferred = " data.fg1,FRA.sitea , DATA.FG2,data.FG1".parse().expect("a list");
        assert_eq!(list.to_string(), "DATA.FG1, FRA.SITEA, DATA.FG2");
        assert_eq!(list.of("DATA"), BTreeSet::from(["FG1".to_owned(), "FG2".to_owned()]));
        assert_eq!(list.of("OTHER"), BTreeSet::new());
        assert_eq!(list.to_string().parse::<Preferred>().expect("its own words"), list);
        assert_eq!("  ".parse::<Preferred>().expect("none"), Preferred::default());
        for nonsense in [
            "DATA",
            "DATA.",
            ".FG1",
            "DATA.FG1,",
            ",",
            "DATA.FG1.X",
            "DATA.FG1 FRA.FG1",
            "1.2",
            "é.é",
        ] {
            let error = nonsense.parse::<Preferred>().expect_err(nonsense);
            assert!(
                error.message.contains("asm_preferred_read_failure_groups") && error.hint.is_some(),
                "{error}"
            );
        }
    }

    #[test]
    fn what_is_stored_is_read_again() {
        let list: Preferred = "DATA.FG1, FRA.SITEA".parse().expect("a list");
        let stored = serde_json::to_string(&list).expect("text");
        assert_eq!(stored, "\"DATA.FG1, FRA.SITEA\"");
        assert_eq!(serde_json::from_str::<Preferred>(&stored).expect("a list"), list);
        assert!(serde_json::from_str::<Preferred>("\"nonsense\"").is_err());
    }
}
