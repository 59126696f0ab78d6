//! Block devices by name, as a server offers them to its clients.
//!
//! An operator gives names to files of a group ([`OfferedFiles`]). A name stands for the file that
//! is at its path when a client opens it. From then on the client has that file until it
//! disconnects, even if the file is renamed or removed, and sees the size that the file had. If the
//! file is made shorter meanwhile, the bytes behind its new end read as zeros, and a write there
//! makes the file longer again. A write cannot make a volume longer; it fails with "no space".

use crate::{
    Runner,
    block::BlockDevice,
    file_device::{FileDevice, HeldFile},
};
use plinth_engine::{api::Attributes, error::FileError, files::session::Session};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Why a device could not be opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotOpened {
    /// No device has this name.
    Unknown,
    /// There is one, but it cannot be used now; a text for people.
    Refused(String),
}

/// All that one address offers.
pub trait Exports: Send + Sync {
    fn list(&self) -> Vec<String>;

    /// Opens the device of this name.
    ///
    /// # Errors
    /// If there is none, or it cannot be used.
    fn open(&self, name: &str) -> Result<Arc<dyn BlockDevice>, NotOpened>;

    /// Opens the device of exactly this name for a client of an earlier engine: the same file,
    /// wherever it is now, with the size that the client knows.
    ///
    /// # Errors
    /// If it is no longer offered, or the file is gone.
    fn open_again(
        &self,
        name: &str,
        identity: (u64, u64),
        size: u64,
    ) -> Result<Arc<dyn BlockDevice>, NotOpened> {
        let device = self.open(name)?;
        if device.identity() == identity && device.size() == size {
            Ok(device)
        } else {
            Err(NotOpened::Unknown)
        }
    }
}

/// A file that is offered under a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// Behind the group's name, as `db/disk.img`.
    pub path: String,
    pub read_only: bool,
}

/// The name that a client means: the same name; or else the only one that differs in case alone. An
/// empty name means the only name that there is.
fn resolve_name<'a>(name: &str, names: &[&'a str]) -> Option<&'a str> {
    let only = |found: Vec<&'a str>| if let [one] = found[..] { Some(one) } else { None };
    if name.is_empty() {
        return only(names.to_vec());
    }
    let alike =
        || only(names.iter().copied().filter(|other| other.eq_ignore_ascii_case(name)).collect());
    names.iter().copied().find(|other| *other == name).or_else(alike)
}

/// Files of a group, offered under names.
pub struct OfferedFiles {
    session: Session,
    runner: Arc<dyn Runner>,
    offers: Mutex<BTreeMap<String, Offer>>,
}

impl OfferedFiles {
    #[must_use]
    pub fn new(session: Session, runner: Arc<dyn Runner>) -> Self {
        Self { session, runner, offers: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Offer>> {
        self.offers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All offers, by name.
    #[must_use]
    pub fn offers(&self) -> BTreeMap<String, Offer> {
        self.lock().clone()
    }

    /// Offers a file. An earlier offer of the same name is replaced.
    ///
    /// # Errors
    /// If the file does not exist, or is not a regular file.
    pub fn offer(&self, name: &str, offer: Offer) -> Result<(), FileError> {
        self.find(&offer.path)?;
        self.lock().insert(name.to_owned(), offer);
        Ok(())
    }

    /// Ends an offer. `false`: there was none of this name.
    pub fn withdraw(&self, name: &str) -> bool {
        self.lock().remove(name).is_some()
    }

    /// The file at a path, held, and its attributes.
    fn find(&self, path: &str) -> Result<(HeldFile, Attributes), FileError> {
        HeldFile::at(&self.session, &self.runner, path)
    }

    fn refused(&self, name: &str, path: &str, error: &FileError) -> NotOpened {
        let (group, path) = (self.session.group_name(), path.trim_start_matches('/'));
        NotOpened::Refused(format!("export {name}: +{group}/{path}: {error}"))
    }
}

impl Exports for OfferedFiles {
    fn list(&self) -> Vec<String> {
        self.lock().keys().cloned().collect()
    }

    fn open(&self, name: &str) -> Result<Arc<dyn BlockDevice>, NotOpened> {
        let (name, offer) = {
            let offers = self.lock();
            let name = resolve_name(name, &offers.keys().map(String::as_str).collect::<Vec<_>>())
                .map(str::to_owned);
            let name = name.ok_or(NotOpened::Unknown)?;
            let offer = offers.get(&name).ok_or(NotOpened::Unknown)?.clone();
            (name, offer)
        };
        match self.find(&offer.path) {
            Ok((held, Attributes { generation, size, .. })) => {
                Ok(Arc::new(FileDevice::new(held, name, size, generation, offer.read_only)))
            }
            Err(error) => Err(self.refused(&name, &offer.path, &error)),
        }
    }

    fn open_again(
        &self,
        name: &str,
        (node, generation): (u64, u64),
        size: u64,
    ) -> Result<Arc<dyn BlockDevice>, NotOpened> {
        let offer = self.lock().get(name).ok_or(NotOpened::Unknown)?.clone();
        match HeldFile::new(&self.session, &self.runner, node) {
            Ok((held, attributes)) if attributes.generation == generation => {
                let name = name.to_owned();
                Ok(Arc::new(FileDevice::new(held, name, size, generation, offer.read_only)))
            }
            Ok(_) => Err(self.refused(name, &offer.path, &FileError::NotFound)),
            Err(error) => Err(self.refused(name, &offer.path, &error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_in_another_case_is_found_if_it_is_the_only_one() {
        assert_eq!(resolve_name("vol1", &["VOL1", "VOL2"]), Some("VOL1"));
        assert_eq!(resolve_name("vol1", &["VOL1", "vol1"]), Some("vol1"));
        assert_eq!(resolve_name("Vol1", &["VOL1", "vol1"]), None);
        assert_eq!(resolve_name("", &["VOL1"]), Some("VOL1"));
        assert_eq!(resolve_name("", &["VOL1", "VOL2"]), None);
        assert_eq!(resolve_name("vol3", &["VOL1"]), None);
    }
}
