//! The catalog gets the mirrors that it should have: when disks change, and later, as soon as a
//! missing one can be built.
//!
//! A mirror may be impossible when a disk goes: no other has room for it, or what is to be copied
//! cannot be read. It often becomes possible later without a change of disks (a file is removed, a
//! disk that was being dropped stays, extents move), so the caretaker tries again every second.
//! Until it is built the disks of the remaining mirrors cannot be spared.

use crate::{
    event::Severity,
    extent::data::Data,
    planted::{self, Bug},
    sync::lock::Mutex,
};
use std::{sync::Arc, time::Duration};

/// Between two attempts of the caretaker: at first, and at most.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(64);

/// How the last attempts ended.
#[derive(Debug, Default)]
pub struct CatalogMirrors(Mutex<Attempts>);

#[derive(Debug, Default)]
struct Attempts {
    /// A task of the caretaker's tries.
    is_running: bool,
    /// In time of the world's: when the caretaker may try again, and how long it waited for that.
    not_before: Duration,
    pause: Duration,
    /// Why the last attempt failed: reported once.
    trouble: Option<String>,
}

impl Data {
    /// Gives the catalog the mirrors that it should have and for which there are disks now.
    pub(crate) async fn rebuild_catalog(&self) {
        // The log is mended before it is copied.
        if self.lacks_catalog_mirror() || self.store.in_the_way().is_some() {
            self.mend_log().await;
        }
        let store = Arc::clone(&self.store);
        let built = self.catalog.release(false, move |_| Ok(store.rebuild().err())).await;
        // A stopped catalog is reported elsewhere.
        let Ok((trouble, _)) = built else { return };
        let trouble = trouble.map(|error| error.to_string());
        let before = std::mem::replace(&mut self.catalog_mirrors.0.lock().trouble, trouble.clone());
        match trouble {
            Some(error) if before.as_ref() != Some(&error) => {
                // Its other mirrors serve.
                self.tell(
                    Severity::Warning,
                    None,
                    format!("the catalog has a mirror less for now: {error}"),
                );
            }
            None if before.is_some() && !self.lacks_catalog_mirror() => {
                self.tell(Severity::Note, None, "the catalog has all its mirrors again".to_owned());
            }
            _ => {}
        }
    }

    /// Writes again what has rotted of the catalog's log: a new mirror is copied from those that
    /// there are, and nothing on them says which of two blocks of the log is right. Memory has all
    /// of it.
    pub(crate) async fn mend_log(&self) {
        if planted::has(Bug::RottenLogCopied) {
            return;
        }
        for problem in self.catalog.compare_log(true).await.unwrap_or_default() {
            let end =
                if problem.repaired { "written again" } else { "it could not be written again" };
            self.tell(Severity::Warning, None, format!("{}; {end}", problem.text));
        }
    }

    /// Whether the catalog has fewer mirrors than it should, and there are disks with room for one
    /// more.
    #[must_use]
    pub fn lacks_catalog_mirror(&self) -> bool {
        self.store.lacks_mirror()
    }

    /// Builds mirrors that are missing, in a task of its own. Once a second.
    pub(crate) fn tend_catalog_mirrors(self: &Arc<Self>) {
        let now = self.world.monotonic();
        if !self.lacks_catalog_mirror() {
            let mut attempts = self.catalog_mirrors.0.lock();
            (attempts.pause, attempts.not_before) = (Duration::ZERO, Duration::ZERO);
            return;
        }
        let group = Arc::clone(self);
        {
            let mut attempts = self.catalog_mirrors.0.lock();
            if attempts.is_running || now < attempts.not_before {
                return;
            }
            attempts.is_running = true;
        }
        let build = async move {
            group.rebuild_catalog().await;
            let mut attempts = group.catalog_mirrors.0.lock();
            attempts.is_running = false;
            attempts.pause = (attempts.pause * 2).clamp(PAUSE, PAUSE_MAX);
            attempts.not_before = group.world.monotonic() + attempts.pause;
        };
        self.world.spawn("catalog mirror", Box::pin(build));
    }
}
