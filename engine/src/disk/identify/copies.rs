//! Which header copy counts. Pure: the caller reads the places that [`Search`] names.
//!
//!   1. Where copies may be: a valid first copy names the places of the others. A copy anywhere
//!      else was left by a layout that the disk had before, or is a file's bytes. Without a valid
//!      first copy, the one after the first AU names the places: it is looked for after an AU of
//!      each size, the smallest first, since an AU smaller than the disk's never ends in a file's
//!      bytes. Without both, copies are looked for at places that the caller guesses; each one
//!      found names the others.
//!   2. Which disk it is: the one that most of the valid copies name; in a tie, the one that the
//!      first copy names.
//!   3. Of that disk's copies the one with the highest sequence counts; all others are wrong, and
//!      are rewritten at the next mount.
//!
//! The table of cases is in docs/format.md, section 8; a test compares it with [`decide`].

use plinth_format::{
    DiskId, GroupId,
    header::DiskHeader,
    layout::{HEADER_COPIES, HEADER_PLACE},
};
use std::collections::BTreeMap;

/// The header of a disk, from its copies.
#[derive(Debug, Clone)]
pub struct Header {
    pub case: Case,
    /// The valid copy with the highest sequence.
    pub best: DiskHeader,
    /// Places whose copy is missing, damaged, another disk's or older.
    pub wrong: Vec<u64>,
}

/// A row of the table of header copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Case {
    AllRight,
    FirstHolds,
    MiddleHolds,
    LastHolds,
    SpareHolds,
    /// The device is smaller than the disk was: it is not used.
    Shrunk,
    /// Copies of several disks, and the right one cannot be told: it is not used.
    Contested,
    NoHeader,
}

/// A copy compared with the one that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Copy {
    Newest,
    /// Valid, with a lower sequence.
    Behind,
    /// Valid, of another disk.
    Foreign,
    /// Missing, torn, unreadable, written for another place, or at a place that is not searched.
    Damaged,
}

/// The facts of the table: the copies (first block, middle, end, after the first AU), and whether
/// the device is smaller than they say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Facts {
    pub copies: [Copy; HEADER_COPIES],
    pub shrunk: bool,
}

/// The table.
#[must_use]
pub fn decide(facts: Facts) -> Case {
    match facts.copies {
        [Copy::Damaged, Copy::Damaged, Copy::Damaged, Copy::Damaged] => Case::NoHeader,
        copies if !copies.contains(&Copy::Newest) => Case::Contested,
        _ if facts.shrunk => Case::Shrunk,
        [Copy::Newest, Copy::Newest, Copy::Newest, Copy::Newest] => Case::AllRight,
        [Copy::Newest, ..] => Case::FirstHolds,
        [_, Copy::Newest, ..] => Case::MiddleHolds,
        [_, _, Copy::Newest, _] => Case::LastHolds,
        _ => Case::SpareHolds,
    }
}

/// The search for the copies. See step 1.
#[derive(Debug)]
pub struct Search {
    /// A copy was found that names the places of all.
    is_known: bool,
    places: Vec<u64>,
    copies: Vec<(u64, Option<DiskHeader>)>,
}

impl Search {
    /// Begins with the first copy; `guesses` are for a disk that has no valid first copy.
    #[must_use]
    pub fn new(first: Option<DiskHeader>, guesses: Vec<u64>) -> Self {
        let places =
            first.as_ref().map_or(guesses, |header| header.layout.header_places().to_vec());
        Self { is_known: first.is_some(), places, copies: vec![(HEADER_PLACE, first)] }
    }

    /// The next place to read.
    #[must_use]
    pub fn next(&self) -> Option<u64> {
        let seen = |place: &u64| self.copies.iter().any(|(other, _)| other == place);
        self.places.iter().copied().find(|place| !seen(place))
    }

    /// Records the copy at a place.
    pub fn found(&mut self, place: u64, copy: Option<DiskHeader>) {
        let copy = copy.filter(|copy| copy.layout.header_places().contains(&place));
        if let (Some(header), false) = (&copy, self.is_known) {
            let fellows = header.layout.header_places();
            if place == header.layout.au_size() {
                self.is_known = true;
                self.places = fellows.to_vec();
            } else {
                self.places.extend(fellows);
            }
        }
        self.copies.push((place, copy));
    }

    /// Steps 2 and 3, on a device of this size.
    #[must_use]
    pub fn end(self, device: u64) -> (Case, Option<Header>) {
        let (facts, best) = self.facts(device);
        let case = decide(facts);
        let header = best.map(|best| {
            let is_best = |place: &u64| {
                self.copies.iter().any(|(at, copy)| at == place && copy.as_ref() == Some(&best))
            };
            let wrong =
                best.layout.header_places().into_iter().filter(|place| !is_best(place)).collect();
            Header { case, best, wrong }
        });
        (case, header)
    }

    /// The facts for the table, and the copy that counts.
    fn facts(&self, device: u64) -> (Facts, Option<DiskHeader>) {
        let mut owners: BTreeMap<(GroupId, DiskId), Vec<&DiskHeader>> = BTreeMap::new();
        for copy in self.copies.iter().filter_map(|(_, copy)| copy.as_ref()) {
            owners.entry((copy.group, copy.disk)).or_default().push(copy);
        }
        let most = owners.values().map(Vec::len).max().unwrap_or(0);
        let leading: Vec<_> = owners.values().filter(|copies| copies.len() == most).collect();
        let of_first = self.copies[0].1.as_ref();
        let owner = match leading[..] {
            [] => return (Facts { copies: [Copy::Damaged; HEADER_COPIES], shrunk: false }, None),
            [owner] => owner,
            _ => match of_first
                .and_then(|first| leading.into_iter().find(|copies| copies.contains(&first)))
            {
                Some(owner) => owner,
                // The first copy is lost, and the others are of several disks.
                None => {
                    let copies = [Copy::Damaged, Copy::Foreign, Copy::Foreign, Copy::Foreign];
                    return (Facts { copies, shrunk: false }, None);
                }
            },
        };
        let best =
            owner.iter().copied().max_by_key(|copy| copy.sequence).expect("an owner has a copy");
        let copy_at = |place: u64| match self.copies.iter().find(|(at, _)| *at == place) {
            Some((_, Some(copy))) if copy == best => Copy::Newest,
            Some((_, Some(copy))) if (copy.group, copy.disk) == (best.group, best.disk) => {
                Copy::Behind
            }
            Some((_, Some(_))) => Copy::Foreign,
            _ => Copy::Damaged,
        };
        let copies = best.layout.header_places().map(copy_at);
        (Facts { copies, shrunk: device < best.layout.size() }, Some(best.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::cases::{Table, case, combinations, fact};
    use plinth_format::{
        DiskNumber, Layout, Redundancy,
        header::Status,
        layout::{MIB, likely_header_places},
    };

    const SIZE: u64 = 64 * MIB;

    fn header(disk: u8, sequence: u64, size: u64) -> DiskHeader {
        DiskHeader {
            group: GroupId([7; 16]),
            disk: DiskId([disk; 16]),
            sequence,
            created: 0,
            layout: Layout::new(size, MIB).expect("large enough"),
            logical_sector: 512,
            physical_sector: 512,
            number: DiskNumber(disk.into()),
            status: Status::Member,
            redundancy: Redundancy::Normal,
            quorum: false,
            middle_area: true,
            group_name: "DATA".to_owned(),
            name: format!("D{disk}"),
            failure_group: format!("F{disk}"),
            origin: None,
            label: None,
            has_prefix: true,
        }
    }

    /// For any combination of copies, on a device of the disk's size, a larger or a smaller one,
    /// with and without a membership that names the disk's size: exactly one row of the table
    /// matches, and its case is right; the copy that counts is the newest of the disk that most
    /// copies name.
    #[test]
    fn every_combination_of_copies_is_one_case() {
        let mut table = Table::read("header case");
        let values = [
            None,
            Some(header(1, 1, SIZE)),
            Some(header(1, 2, SIZE)),
            Some(header(2, 1, SIZE)),
            Some(header(2, 2, SIZE)),
            Some(header(3, 9, SIZE)),
            Some(header(4, 1, SIZE / 2)),
        ];
        let own = header(1, 1, SIZE).layout.header_places();
        for copies in combinations(&values, HEADER_COPIES) {
            for device in [SIZE, SIZE / 4 * 3, SIZE * 2] {
                for is_named in [false, true] {
                    let stands = |place: u64| {
                        let index = own.iter().position(|other| *other == place)?;
                        copies[index].clone().filter(|_| place < device)
                    };
                    let mut guesses = likely_header_places(device);
                    guesses.extend(own.into_iter().filter(|place| is_named && *place < device));
                    let mut search = Search::new(stands(0), guesses.clone());
                    let mut looked = vec![0];
                    while let Some(place) = search.next() {
                        looked.push(place);
                        search.found(place, stands(place));
                    }
                    let facts = search.facts(device).0;
                    let what = format!("{copies:?} on {device} bytes, {is_named}: {facts:?}");
                    let (found, header) = search.end(device);
                    let row = table.case(&[
                        fact(facts.copies[0]),
                        fact(facts.copies[1]),
                        fact(facts.copies[2]),
                        fact(facts.copies[3]),
                        fact(facts.shrunk),
                    ]);
                    assert_eq!(case(found), row, "{what}");
                    // The theory again, written differently from the code.
                    let seen: Vec<DiskHeader> = looked
                        .iter()
                        .filter_map(|place| {
                            stands(*place)
                                .filter(|copy| copy.layout.header_places().contains(place))
                        })
                        .collect();
                    let votes = |disk: DiskId| seen.iter().filter(|copy| copy.disk == disk).count();
                    let most = seen.iter().map(|copy| votes(copy.disk)).max().unwrap_or(0);
                    let mut owners: Vec<DiskId> = seen
                        .iter()
                        .map(|copy| copy.disk)
                        .filter(|disk| votes(*disk) == most)
                        .collect();
                    owners.dedup();
                    let owner = match owners[..] {
                        [owner] => Some(owner),
                        _ => {
                            stands(0).map(|first| first.disk).filter(|first| owners.contains(first))
                        }
                    };
                    let newest = seen
                        .iter()
                        .filter(|copy| Some(copy.disk) == owner)
                        .map(|copy| copy.sequence)
                        .max();
                    let held =
                        header.as_ref().map(|header| (header.best.disk, header.best.sequence));
                    assert_eq!(held, owner.zip(newest), "{what}");
                    assert_eq!(found == Case::NoHeader, seen.is_empty(), "{what}");
                    assert_eq!(
                        header.is_some_and(|header| header.wrong.is_empty()),
                        found == Case::AllRight,
                        "{what}"
                    );
                }
            }
        }
        table.end();
    }
}
