//! Which mirror of a block is right: from what can be read of it and what is known of its checksum.
//! Pure.
//!
//! Only mirrors on ONLINE disks are asked: those on others, and what is stale, may be old. The
//! table is in docs/format.md, section 8; a test compares it with [`decide`].

use crate::planted::{self, Bug};
use plinth_format::checksum::{UNKNOWN, of_block};
use smallvec::SmallVec;

/// Why blocks are being compared across mirrors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// A read found something wrong, in a region that was not active at a crash.
    Repair,
    /// The region was active at a crash: the zone may be older than the data, and mirrors may
    /// differ.
    Crash,
}

/// How mirrors on ONLINE disks can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Readable {
    None,
    One,
    /// Two or more, which are equal.
    Equal,
    Differ,
}

/// The checksum in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Memory {
    /// Some mirror has it.
    Matches,
    /// No mirror has it.
    Refutes,
    Unknown,
}

/// The checksums that the zones store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Zones {
    /// Some mirror has what some zone stores.
    Match,
    NoMatch,
    /// The checksum in memory was made by a write since: the zones do not count.
    Older,
    /// Two mirrors differ, and each has what its own zone stores (`disputes.rs`).
    Rivals,
}

/// The facts of the table of mirrors, for one block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Facts {
    pub reason: Reason,
    pub readable: Readable,
    pub memory: Memory,
    pub zones: Zones,
}

/// A row of the table of mirrors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Case {
    Unreadable,
    /// After a crash, and nothing is to be done.
    Equal,
    ByMemory,
    ByZone,
    /// The mirrors prove the checksum wrong.
    BadChecksum,
    /// There is no checksum, and nothing speaks against the bytes.
    Unchecked,
    /// Either is legal: the lowest mirror.
    Lowest,
    /// Each is right by its own checksum: nothing is overwritten.
    Rivals,
    Lost,
}

/// The table.
pub fn decide(facts: Facts) -> Case {
    use Memory::{Matches, Refutes, Unknown};
    use Readable::{Differ, Equal, One};
    use Reason::{Crash, Repair};
    match (facts.reason, facts.readable, facts.memory, facts.zones) {
        (_, Readable::None, ..) => Case::Unreadable,
        (Crash, One | Equal, ..) => Case::Equal,
        (_, Readable::Differ, _, Zones::Rivals) => Case::Rivals,
        (_, _, Matches, _) => Case::ByMemory,
        (_, _, Refutes | Unknown, Zones::Match) => Case::ByZone,
        (Crash, Differ, ..) | (Repair, Differ, Unknown, _) => Case::Lowest,
        (Repair, Equal, Refutes, Zones::NoMatch) => Case::BadChecksum,
        (Repair, One | Equal, Unknown, _) => Case::Unchecked,
        (Repair, _, Refutes, _) => Case::Lost,
    }
}

/// The evidence for one block.
#[derive(Debug)]
pub struct Evidence<'a> {
    pub reason: Reason,
    /// The bytes of each mirror on an ONLINE disk, in order; `None` where it cannot be read.
    pub mirrors: Vec<Option<&'a [u8]>>,
    /// The checksum in memory.
    pub known: u32,
    /// That checksum was made by a write since the zones were.
    pub fresh: bool,
    /// The checksum in the zone of each of them; `UNKNOWN` where it cannot be read.
    pub stored: Vec<u32>,
}

impl<'a> Evidence<'a> {
    /// The facts, and the mirrors that memory and zones speak for.
    fn weigh(&self) -> (Facts, [Option<&'a [u8]>; 3]) {
        let mirrors: Vec<(&[u8], u32)> =
            self.mirrors.iter().flatten().map(|image| (*image, of_block(image))).collect();
        let readable = match &mirrors[..] {
            [] => Readable::None,
            [_] => Readable::One,
            [first, others @ ..] if others.iter().all(|other| other.0 == first.0) => {
                Readable::Equal
            }
            _ => Readable::Differ,
        };
        let with_sum = |wanted: u32| {
            let found = mirrors.iter().find(|(_, sum)| wanted != UNKNOWN && *sum == wanted);
            found.map(|(image, _)| *image)
        };
        let by_memory = with_sum(self.known);
        let memory = match by_memory {
            Some(_) => Memory::Matches,
            None if self.known == UNKNOWN => Memory::Unknown,
            None => Memory::Refutes,
        };
        let first_rival = self.first_rival();
        let by_zone = self.stored.iter().find_map(|sum| with_sum(*sum));
        let zones = match by_zone {
            _ if self.fresh && self.reason == Reason::Repair => Zones::Older,
            _ if first_rival.is_some() && !planted::has(Bug::RightPairOverwritten) => Zones::Rivals,
            Some(_) => Zones::Match,
            None => Zones::NoMatch,
        };
        (Facts { reason: self.reason, readable, memory, zones }, [by_memory, by_zone, first_rival])
    }

    /// Of mirrors that differ and match their own zones, the bytes of the most; of equally many
    /// those that memory has, or the lowest. `None`: none of them differ.
    fn first_rival(&self) -> Option<&'a [u8]> {
        let mut rivals: SmallVec<[(&[u8], usize); 3]> = SmallVec::new();
        for (image, stored) in self.mirrors.iter().zip(&self.stored) {
            let Some(image) =
                image.filter(|image| *stored != UNKNOWN && of_block(image) == *stored)
            else {
                continue;
            };
            match rivals.iter_mut().find(|(other, _)| *other == image) {
                Some((_, count)) => *count += 1,
                None => rivals.push((image, 1)),
            }
        }
        let most = rivals.iter().map(|(_, count)| *count).max()?;
        rivals.sort_by_key(|(image, count)| (*count != most, of_block(image) != self.known));
        let first = rivals.first()?;
        (rivals.len() > 1).then_some(first.0)
    }

    /// Whether nothing that a silent mirror may say yet would change it.
    pub fn suffices(&self) -> bool {
        let is_proved = match self.judge() {
            (Case::ByMemory, _) => true,
            (Case::Equal, Some(right)) => self.known != UNKNOWN && of_block(right) == self.known,
            _ => false,
        };
        is_proved || planted::has(Bug::SilentMirrorTakenForBad)
    }

    /// The case, and the right bytes if there are any.
    pub fn judge(&self) -> (Case, Option<&'a [u8]>) {
        let (facts, [by_memory, by_zone, first_rival]) = self.weigh();
        let case = decide(facts);
        let right = match case {
            Case::ByMemory => by_memory,
            Case::ByZone => by_zone,
            Case::Rivals => first_rival,
            Case::Equal | Case::BadChecksum | Case::Unchecked | Case::Lowest => {
                self.mirrors.iter().flatten().next().copied()
            }
            Case::Unreadable | Case::Lost => None,
        };
        (case, right)
    }

    /// The facts that the table asks for.
    #[cfg(test)]
    pub fn facts(&self) -> Facts {
        self.weigh().0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::cases::{Table, case, combinations, fact};
    use plinth_format::BLOCK_SIZE;

    /// Whatever up to three mirrors, the memory and the zones say: one row of the table, its case,
    /// and the mirror that it names.
    #[test]
    fn every_combination_of_mirrors_is_one_case() {
        let mut table = Table::read("mirror case");
        let images: Vec<Vec<u8>> = (0..3).map(|byte| vec![byte; BLOCK_SIZE]).collect();
        let sums: Vec<u32> = images.iter().map(|image| of_block(image)).collect();
        let nobodys = of_block(&[9; BLOCK_SIZE]);
        for count in 0..=3 {
            for mirrors in combinations(&[None, Some(0), Some(1), Some(2)], count) {
                for stored in combinations(&[UNKNOWN, sums[0], sums[1], nobodys], count) {
                    for known in [UNKNOWN, sums[0], nobodys] {
                        for (fresh, reason) in [false, true]
                            .into_iter()
                            .flat_map(|fresh| [(fresh, Reason::Repair), (fresh, Reason::Crash)])
                        {
                            let bytes =
                                |image: &Option<usize>| image.map(|image| &images[image][..]);
                            let evidence = Evidence {
                                reason,
                                mirrors: mirrors.iter().map(bytes).collect(),
                                known,
                                fresh,
                                stored: stored.clone(),
                            };
                            let facts = evidence.facts();
                            let what = format!(
                                "{mirrors:?}, known {known}, fresh {fresh}, stored {stored:?}: {facts:?}"
                            );
                            // The facts, in other words than the code's.
                            let readable: Vec<usize> = mirrors.iter().flatten().copied().collect();
                            let has = |sum: u32| {
                                readable.iter().copied().find(|image| sums[*image] == sum)
                            };
                            let in_zone = stored.iter().find_map(|sum| has(*sum));
                            let own = mirrors.iter().zip(&stored).filter_map(|(image, sum)| {
                                image.filter(|image| sums[*image] == *sum)
                            });
                            let own: Vec<usize> = own.collect();
                            let count =
                                |image: &usize| own.iter().filter(|other| *other == image).count();
                            let most = own.iter().map(count).max();
                            let ours =
                                own.iter().copied().filter(|image| Some(count(image)) == most);
                            let first = ours
                                .clone()
                                .find(|image| sums[*image] == known)
                                .or(ours.clone().next());
                            let expected = [
                                fact(reason),
                                match readable.len() {
                                    0 => "none",
                                    1 => "one",
                                    _ if readable.windows(2).all(|pair| pair[0] == pair[1]) => {
                                        "equal"
                                    }
                                    _ => "differ",
                                }
                                .to_owned(),
                                match has(known) {
                                    Some(_) => "matches",
                                    None if known == UNKNOWN => "unknown",
                                    None => "refutes",
                                }
                                .to_owned(),
                                match in_zone {
                                    _ if fresh && reason == Reason::Repair => "older",
                                    _ if own.iter().any(|image| *image != own[0]) => "rivals",
                                    Some(_) => "match",
                                    None => "no match",
                                }
                                .to_owned(),
                            ];
                            assert_eq!(
                                [
                                    fact(facts.reason),
                                    fact(facts.readable),
                                    fact(facts.memory),
                                    fact(facts.zones)
                                ],
                                expected,
                                "{what}"
                            );
                            let (found, right) = evidence.judge();
                            let row = table.case(&expected);
                            assert_eq!(case(found), row, "{what}");
                            let wanted = match row.as_str() {
                                "UNREADABLE" | "LOST" => None,
                                "BY-MEMORY" => has(known),
                                "BY-ZONE" => in_zone,
                                "RIVALS" => first,
                                _ => readable.first().copied(),
                            };
                            assert_eq!(right.map(|bytes| usize::from(bytes[0])), wanted, "{what}");
                        }
                    }
                }
            }
        }
        table.end();
    }

    fn block(byte: u8) -> Vec<u8> {
        vec![byte; BLOCK_SIZE]
    }

    #[test]
    fn every_case_of_the_table() {
        let (good, bad, worse) = (block(1), block(2), block(3));
        let sum = of_block(&good);
        let pick = |choices: &[Option<&[u8]>], known, trusted, stored: &[u32], reason| {
            let (mirrors, stored) = (choices.to_vec(), stored.to_vec());
            Evidence { reason, mirrors, known, fresh: trusted, stored }
                .judge()
                .1
                .map(|bytes| bytes[0])
        };
        use Reason::{Crash, Repair};
        // Known in memory.
        assert_eq!(pick(&[Some(&bad), Some(&good)], sum, true, &[], Repair), Some(1));
        assert_eq!(pick(&[None, Some(&good)], sum, true, &[], Repair), Some(1));
        // One zone was bad, the other is right.
        assert_eq!(pick(&[Some(&bad), Some(&good)], 77, false, &[77, sum], Repair), Some(1));
        // A zone says nothing against memory that is newer.
        assert_eq!(pick(&[Some(&bad), Some(&good)], 77, true, &[77, sum], Repair), None);
        // Both zones bad, mirrors equal.
        assert_eq!(pick(&[Some(&good), Some(&good)], 77, false, &[77, 78], Repair), Some(1));
        // One mirror and a wrong sum: lost, not guessed.
        assert_eq!(pick(&[Some(&bad)], sum, false, &[sum], Repair), None);
        assert_eq!(pick(&[Some(&bad), Some(&worse)], sum, false, &[sum], Repair), None);
        assert_eq!(pick(&[None, None], sum, false, &[sum], Repair), None);
        // After a crash: equal first, then the stored sum, then the lowest.
        assert_eq!(pick(&[Some(&bad), Some(&bad)], sum, false, &[sum], Crash), Some(2));
        assert_eq!(pick(&[Some(&bad), Some(&good)], sum, false, &[sum], Crash), Some(1));
        assert_eq!(pick(&[Some(&bad), Some(&worse)], sum, false, &[sum], Crash), Some(2));
        assert_eq!(pick(&[None, Some(&worse)], sum, false, &[sum], Crash), Some(3));
        // Two that differ, each right by its own zone: the bytes of most mirrors; of equally many
        // those that memory has, or the lowest.
        for (reason, known) in
            [(Crash, sum), (Repair, sum), (Repair, UNKNOWN), (Repair, of_block(&bad))]
        {
            let (one, other) = (of_block(&good), of_block(&bad));
            let first = if known == sum { Some(1) } else { Some(2) };
            assert_eq!(
                pick(&[Some(&bad), Some(&good)], known, false, &[other, one], reason),
                first
            );
            assert_eq!(
                pick(
                    &[Some(&bad), Some(&good), Some(&good)],
                    known,
                    false,
                    &[other, one, one],
                    reason
                ),
                Some(1)
            );
        }
    }
}
