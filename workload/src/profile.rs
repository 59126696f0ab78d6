//! Programs that use files, as data: their operations and how often each is done.
//!
//! The simulator's clients are made of these. A profile says what is done; where, and how much, its
//! user draws.

use crate::{class::Sync, random::weighted};

/// One operation of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    Create,
    Unlink,
    Rename,
    Truncate,
    Punch,
    Reserve,
    Extend,
    Append,
    Page,
    Sparse,
    Sync,
    Checkpoint,
    Read,
    Together,
    /// Two files change names.
    Exchange,
    /// Another name for a file.
    Link,
    /// Zeros are written without bytes.
    Zero,
    /// The file ends in the middle of a sector.
    Cut,
    /// A write that begins or ends in the middle of a sector.
    Odd,
    /// A range is written while it is punched, zeroed, or written by another request.
    Race,
    /// A file is written while it is cut or removed.
    WriteGone,
    /// A directory gets another name, or goes.
    Directory,
}

/// A program.
#[derive(Debug, PartialEq, Eq)]
pub struct Profile {
    /// In plans of histories.
    pub name: &'static str,
    /// Files at a time.
    pub files: u64,
    /// The largest file, in sectors of 512 bytes.
    pub sectors: u64,
    /// Which appends are made durable.
    pub sync: Sync,
    /// Its files are striped, have several names, and each name is looked at by itself.
    pub is_wild: bool,
    /// Operations and their weights.
    acts: &'static [(Act, u64)],
}

impl Profile {
    /// The next operation. `below` draws a number below a limit, once.
    pub fn act(&self, below: impl FnOnce(u64) -> u64) -> Act {
        let weights = self.acts.iter().map(|(_, weight)| *weight);
        self.acts[weighted(weights, below)].0
    }
}

/// Sectors of a large file: 5 MiB.
const LARGE: u64 = 5 << 11;

/// Some of everything.
pub static MIXED: Profile = Profile {
    name: "mixed",
    files: 6,
    sectors: LARGE,
    sync: Sync::OneIn(2),
    is_wild: false,
    acts: &[
        (Act::Create, 8),
        (Act::Unlink, 5),
        (Act::Rename, 4),
        (Act::Truncate, 4),
        (Act::Punch, 3),
        (Act::Reserve, 4),
        (Act::Extend, 5),
        (Act::Append, 21),
        (Act::Page, 20),
        (Act::Sparse, 4),
        (Act::Sync, 8),
        (Act::Checkpoint, 2),
        (Act::Read, 14),
        (Act::Together, 6),
    ],
};

/// Appends and syncs.
pub static LOG: Profile = Profile {
    name: "log",
    files: 3,
    sectors: LARGE,
    sync: Sync::OneIn(2),
    is_wild: false,
    acts: &[
        (Act::Create, 3),
        (Act::Unlink, 2),
        (Act::Rename, 2),
        (Act::Truncate, 2),
        (Act::Reserve, 3),
        (Act::Extend, 2),
        (Act::Append, 60),
        (Act::Page, 5),
        (Act::Sync, 10),
        (Act::Read, 11),
        (Act::Together, 2),
    ],
};

/// Pages here and there, checkpoints.
pub static PAGES: Profile = Profile {
    name: "pages",
    files: 6,
    sectors: LARGE,
    sync: Sync::OneIn(2),
    is_wild: false,
    acts: &[
        (Act::Create, 2),
        (Act::Unlink, 1),
        (Act::Rename, 1),
        (Act::Truncate, 2),
        (Act::Punch, 2),
        (Act::Reserve, 2),
        (Act::Extend, 3),
        (Act::Append, 5),
        (Act::Page, 50),
        (Act::Sparse, 6),
        (Act::Sync, 8),
        (Act::Checkpoint, 6),
        (Act::Read, 12),
        (Act::Together, 12),
    ],
};

/// Many small files that come and go.
pub static SMALL: Profile = Profile {
    name: "small",
    files: 30,
    sectors: 200,
    sync: Sync::OneIn(2),
    is_wild: false,
    acts: &[
        (Act::Create, 28),
        (Act::Unlink, 20),
        (Act::Rename, 8),
        (Act::Truncate, 4),
        (Act::Punch, 2),
        (Act::Reserve, 1),
        (Act::Append, 15),
        (Act::Page, 8),
        (Act::Sparse, 2),
        (Act::Sync, 4),
        (Act::Read, 8),
        (Act::Together, 2),
    ],
};

/// Some of everything, and hardly ever a sync.
pub static LAZY: Profile = Profile {
    name: "lazy",
    files: 6,
    sectors: LARGE,
    sync: Sync::Never,
    is_wild: false,
    acts: &[
        (Act::Create, 8),
        (Act::Unlink, 6),
        (Act::Rename, 4),
        (Act::Truncate, 5),
        (Act::Punch, 4),
        (Act::Reserve, 6),
        (Act::Extend, 5),
        (Act::Append, 21),
        (Act::Page, 24),
        (Act::Sparse, 5),
        (Act::Sync, 1),
        (Act::Read, 14),
        (Act::Together, 8),
    ],
};

/// Operations that few programs use, and several at once.
pub static WILD: Profile = Profile {
    name: "wild",
    files: 8,
    sectors: LARGE,
    sync: Sync::OneIn(2),
    is_wild: true,
    acts: &[
        (Act::Create, 6),
        (Act::Unlink, 4),
        (Act::Rename, 4),
        (Act::Truncate, 3),
        (Act::Punch, 3),
        (Act::Reserve, 3),
        (Act::Extend, 4),
        (Act::Append, 6),
        (Act::Page, 8),
        (Act::Sparse, 4),
        (Act::Sync, 6),
        (Act::Checkpoint, 2),
        (Act::Read, 8),
        (Act::Together, 4),
        (Act::Exchange, 6),
        (Act::Link, 6),
        (Act::Zero, 6),
        (Act::Cut, 8),
        (Act::Odd, 8),
        (Act::Race, 10),
        (Act::WriteGone, 6),
        (Act::Directory, 5),
    ],
};

pub static ALL: [&Profile; 6] = [&MIXED, &LOG, &PAGES, &SMALL, &LAZY, &WILD];

/// Programs whose syncs keep the caches of disks empty.
pub static BUSY: [&Profile; 4] = [&MIXED, &LOG, &PAGES, &SMALL];

/// The profile of this name.
pub fn named(name: &str) -> Option<&'static Profile> {
    ALL.into_iter().find(|profile| profile.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_have_names() {
        for profile in ALL {
            assert_eq!(named(profile.name), Some(profile));
        }
        assert_eq!(named("dance"), None);
    }

    /// The sums are part of every history: another sum draws other numbers.
    #[test]
    fn weights_add_up_to_what_they_did() {
        let sums = ALL.map(|profile| {
            let mut sum = 0;
            profile.act(|limit| {
                sum = limit;
                0
            });
            sum
        });
        assert_eq!(sums, [108, 102, 112, 102, 111, 120]);
    }

    #[test]
    fn an_act_is_drawn_as_often_as_its_weight_says() {
        let drawn = |act| (0..102).filter(|drawn| LOG.act(|_| *drawn) == act).count();
        assert_eq!(LOG.act(|limit| limit - 1), Act::Together);
        assert_eq!([drawn(Act::Append), drawn(Act::Sync), drawn(Act::Punch)], [60, 10, 0]);
    }
}
