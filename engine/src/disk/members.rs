//! The members of a mounted group, by number.
//!
//! Disks come and go while all tasks work with members, and a task keeps a plain reference to a
//! member that it has found: each number has a slot that is filled once and never emptied. A member
//! that leaves stays in its slot, marked, and is not found any more. Its number is given to another
//! disk only after the next mount.

use crate::{
    disk::{member::Member, read_policy::Preference},
    sync::lock::{Mutex, MutexGuard},
};
use plinth_format::DiskNumber;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

/// The most mirrors that an extent has.
pub const MIRRORS_MAX: usize = 3;

/// Slots that are allocated at once.
const SHELF: usize = 64;
const SHELVES: usize = (u16::MAX as usize + 1) / SHELF;

type Shelf = Box<[OnceLock<Arc<Member>>; SHELF]>;

/// The members of a group. See the module's description.
#[derive(Debug)]
pub struct Members {
    shelves: Box<[OnceLock<Shelf>]>,
    /// All shelves from here on are empty.
    used: AtomicUsize,
    /// The failure groups that reads prefer. Held while a member joins, so that a new member gets
    /// its preference.
    preferred: Mutex<BTreeSet<String>>,
    /// The failure groups that are as if they were farther away, and by how much. Held while a
    /// member joins, too.
    delays: Mutex<Delays>,
}

/// A delay of I/O for failure groups, by their names.
pub type Delays = BTreeMap<String, Duration>;

impl Default for Members {
    fn default() -> Self {
        Self {
            shelves: std::iter::repeat_with(OnceLock::new).take(SHELVES).collect(),
            used: AtomicUsize::new(0),
            preferred: Mutex::default(),
            delays: Mutex::default(),
        }
    }
}

impl Members {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn place(number: DiskNumber) -> (usize, usize) {
        (usize::from(number.0) / SHELF, usize::from(number.0) % SHELF)
    }

    /// Adds a member. False: its number is or was another member's.
    pub fn join(&self, member: Arc<Member>) -> bool {
        let preferred = self.preferred();
        member.gauge.prefer(preference(&preferred, &member));
        let delays = self.delays.lock();
        member.set_delay(delay(&delays, &member));
        let (index, place) = Self::place(member.number);
        let shelf =
            self.shelves[index].get_or_init(|| Box::new([const { OnceLock::new() }; SHELF]));
        self.used.fetch_max(index + 1, Ordering::AcqRel);
        shelf[place].set(member).is_ok()
    }

    fn preferred(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.preferred.lock()
    }

    /// From now on reads prefer these failure groups, and no others.
    pub fn prefer(&self, failure_groups: BTreeSet<String>) {
        let mut preferred = self.preferred();
        *preferred = failure_groups;
        self.values().for_each(|member| member.gauge.prefer(preference(&preferred, member)));
    }

    /// From now on I/O of these failure groups is delayed, and of no others.
    pub fn delay(&self, delays_by_failure_group: Delays) {
        let mut delays = self.delays.lock();
        *delays = delays_by_failure_group;
        self.values().for_each(|member| member.set_delay(delay(&delays, member)));
    }

    /// The failure groups whose I/O is delayed.
    pub fn delays(&self) -> Delays {
        self.delays.lock().clone()
    }

    /// Numbers that no disk has or had since the mount, lowest first.
    pub fn unused(&self) -> impl Iterator<Item = DiskNumber> {
        (0..=u16::MAX).map(DiskNumber).filter(|number| self.find(*number).is_none())
    }

    fn find(&self, number: DiskNumber) -> Option<&Arc<Member>> {
        let (shelf, place) = Self::place(number);
        self.shelves[shelf].get()?[place].get()
    }

    #[must_use]
    pub fn get(&self, number: &DiskNumber) -> Option<&Arc<Member>> {
        self.find(*number).filter(|member| !member.has_left())
    }

    /// Ascending by number.
    pub fn values(&self) -> impl Iterator<Item = &Arc<Member>> {
        self.with_former().filter(|member| !member.has_left())
    }

    /// With those that have left since the mount: some of their I/O may be in flight.
    pub fn with_former(&self) -> impl Iterator<Item = &Arc<Member>> {
        let used = self.used.load(Ordering::Acquire);
        let shelves = self.shelves[..used].iter().filter_map(OnceLock::get);
        shelves.flat_map(|shelf| shelf.iter().filter_map(OnceLock::get))
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.values().count()
    }
}

fn delay(delays: &Delays, member: &Member) -> Duration {
    delays.get(&member.failure_group).copied().unwrap_or_default()
}

fn preference(preferred: &BTreeSet<String>, member: &Member) -> Preference {
    match preferred.is_empty() {
        true => Preference::Unknown,
        false if preferred.contains(&member.failure_group) => Preference::Yes,
        false => Preference::No,
    }
}

impl FromIterator<Arc<Member>> for Members {
    fn from_iter<I: IntoIterator<Item = Arc<Member>>>(members: I) -> Self {
        let all = Self::new();
        for member in members {
            let number = member.number;
            assert!(all.join(member), "two members with number {number}");
        }
        all
    }
}

impl std::ops::Index<&DiskNumber> for Members {
    type Output = Arc<Member>;

    /// # Panics
    /// If there is no such member.
    fn index(&self, number: &DiskNumber) -> &Arc<Member> {
        self.get(number).expect("a member's number")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plinth_format::{
        DiskId, Layout,
        layout::MIB,
        membership::{DiskState, MemberDisk},
    };

    fn member(number: u16) -> Arc<Member> {
        let entry = MemberDisk {
            id: DiskId([u8::try_from(number % 251).expect("small"); 16]),
            number: DiskNumber(number),
            state: DiskState::Online,
            votes: false,
            quorum: false,
            copy_whole: false,
            by_operator: false,
            absent: false,
            leaving: false,
            size: 64 * MIB,
            target: None,
            stamp: 0,
            since: 0,
            joined: 0,
            name: format!("D{number}"),
            failure_group: "A".to_owned(),
        };
        let clock: Arc<dyn crate::world::World> = crate::testing::TestWorld::new();
        Arc::new(Member::new(
            &entry,
            Layout::new(64 * MIB, MIB).expect("large enough"),
            None,
            &clock,
        ))
    }

    fn numbers(members: &Members) -> Vec<u16> {
        members.values().map(|member| member.number.0).collect()
    }

    #[test]
    fn members_are_found_by_number_and_listed_in_order() {
        let members: Members = [member(70), member(0), member(u16::MAX)].into_iter().collect();
        assert_eq!((numbers(&members), members.len()), (vec![0, 70, u16::MAX], 3));
        assert_eq!(&*members[&DiskNumber(70)].name(), "D70");
        assert!(members.get(&DiskNumber(1)).is_none() && members.get(&DiskNumber(4000)).is_none());
    }

    /// A member that joins later gets its preference, too.
    #[test]
    fn reads_prefer_the_failure_groups_that_were_set_last() {
        let members: Members = [member(0)].into_iter().collect();
        let said = |members: &Members| {
            members.values().map(|one| one.gauge.preference()).collect::<Vec<_>>()
        };
        assert_eq!(said(&members), [Preference::Unknown]);
        members.prefer(BTreeSet::from(["B".to_owned()]));
        assert_eq!(said(&members), [Preference::No]);
        members.prefer(BTreeSet::from(["A".to_owned(), "B".to_owned()]));
        assert!(members.join(member(1)));
        assert_eq!(said(&members), [Preference::Yes; 2]);
        members.prefer(BTreeSet::new());
        assert_eq!(said(&members), [Preference::Unknown; 2]);
    }

    #[test]
    fn a_member_that_left_is_not_found_and_its_number_not_reused() {
        let members: Members = [member(0), member(1)].into_iter().collect();
        let kept = Arc::clone(&members[&DiskNumber(1)]);
        kept.leave();
        assert!(members.get(&DiskNumber(1)).is_none());
        assert_eq!(numbers(&members), [0]);
        assert!(!members.join(member(1)));
        assert_eq!(members.unused().next(), Some(DiskNumber(2)));
        assert!(members.join(member(2)));
        assert_eq!(numbers(&members), [0, 2]);
    }
}
