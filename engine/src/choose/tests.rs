use super::*;
use plinth_format::{Layout, layout::MIB, membership::CatalogRun};

const SIZE: u64 = 64 * MIB;
const STAMP: u64 = 100;

fn member(number: u16) -> MemberDisk {
    MemberDisk {
        id: DiskId([u8::try_from(number).expect("few disks") + 1; 16]),
        number: DiskNumber(number),
        state: DiskState::Online,
        votes: true,
        quorum: false,
        copy_whole: false,
        by_operator: false,
        size: SIZE,
        stamp: STAMP,
        since: 0,
        joined: 0,
        name: format!("D{number}"),
        failure_group: format!("F{number}"),
    }
}

fn id(number: u64) -> MembershipId {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&number.to_le_bytes());
    MembershipId(id)
}

/// A first membership of disks that all vote.
fn root(disks: u16) -> Membership {
    Membership {
        generation: 1,
        id: id(1),
        created: 0,
        au_size: MIB,
        stamp: STAMP,
        redundancy: Redundancy::Normal,
        mounted: false,
        boot: [0; 16],
        group_name: "DATA".to_owned(),
        ancestors: vec![],
        disks: (0..disks).map(member).collect(),
        catalog: vec![],
    }
}

fn sighting(number: u16, membership: Option<&Membership>) -> Sighting {
    let disk = member(number);
    Sighting {
        path: format!("/dev/{number}"),
        identity: Identity(format!("wwid {number}")),
        header: DiskHeader {
            group: GroupId([7; 16]),
            disk: disk.id,
            sequence: 1,
            created: 0,
            layout: Layout::new(SIZE, MIB).expect("large enough"),
            logical_sector: 512,
            physical_sector: 512,
            number: disk.number,
            status: Status::Member,
            redundancy: Redundancy::Normal,
            quorum: false,
            group_name: "DATA".to_owned(),
            name: disk.name,
            failure_group: disk.failure_group,
        },
        stamps: vec![stamp(STAMP, 1)],
        memberships: membership.into_iter().cloned().collect(),
    }
}

fn stamp(counter: u64, membership: u64) -> Stamp {
    Stamp { counter, written: 0, membership: id(membership), clean: true }
}

fn standings(decision: &Decision) -> Vec<Standing> {
    decision.disks.iter().map(|verdict| verdict.standing).collect()
}

fn drop_disk(parent: &Membership, new: u64, number: u16) -> Membership {
    successor(parent, id(new), |m| {
        m.disks[usize::from(number)].state = DiskState::Offline;
        m.disks[usize::from(number)].votes = false;
    })
}

#[test]
fn all_in_sight_mounts() {
    let first = root(3);
    let sight: Vec<_> = (0..3).map(|disk| sighting(disk, Some(&first))).collect();
    let decision = choose("DATA", &sight, false).expect("nothing is wrong");
    assert_eq!(standings(&decision), [Standing::Current; 3]);
    assert_eq!((decision.membership, decision.stamp), (first, STAMP));
    assert!(decision.complete_on.is_empty() && decision.warnings.is_empty() && decision.strangers.is_empty());
}

/// The issue every mirrored pair has: one half went on alone, the other comes back alone.
#[test]
fn a_stale_half_is_refused_and_the_half_that_went_on_mounts() {
    let first = root(2);
    let went_on = drop_disk(&first, 2, 1);
    let stale = choose("DATA", &[sighting(1, Some(&first))], false).expect_err("it cannot know");
    assert_eq!(
        stale.to_string(),
        "disk group DATA: 1 of 2 voters can be counted on, 2 are needed; missing: D0 (failure group F0: not in sight)"
    );
    assert!(stale.remedy().contains("attach disk D0") && stale.remedy().contains("ALTER DISKGROUP DATA MOUNT FORCE"));
    let alone = choose("DATA", &[sighting(0, Some(&went_on))], false).expect("it is the only voter");
    assert_eq!(standings(&alone), [Standing::Current, Standing::Absent]);
    let both = choose("DATA", &[sighting(0, Some(&went_on)), sighting(1, Some(&first))], false).expect("both");
    assert_eq!(standings(&both), [Standing::Current, Standing::Stale]);
}

#[test]
fn one_voter_of_three_lost_mounts() {
    let first = root(3);
    for lost in 0..3 {
        let sight: Vec<_> = (0..3).filter(|disk| *disk != lost).map(|disk| sighting(disk, Some(&first))).collect();
        let decision = choose("DATA", &sight, false).expect("two of three");
        assert_eq!(decision.disks[usize::from(lost)].standing, Standing::Absent);
        assert!(decision.warnings[0].contains(&format!("disk D{lost} (failure group F{lost}) is not in sight")));
        let damaged = Sighting { memberships: vec![], ..sighting(lost, None) };
        let decision = choose("DATA", &[sight, vec![damaged]].concat(), false).expect("two of three");
        assert_eq!(standings(&decision), [Standing::Current; 3]);
    }
}

#[test]
fn an_unreadable_slot_is_no_witness() {
    let first = root(3);
    let sight = [sighting(0, Some(&first)), sighting(1, None)];
    let refusal = choose("DATA", &sight, false).expect_err("disk 1 could have seen a newer one");
    assert!(refusal.to_string().contains("D1 (failure group F1: /dev/1 holds no readable membership)"), "{refusal}");
    choose("DATA", &sight, true).expect("the operator answers for it");
}

#[test]
fn an_old_image_is_copied_whole_and_is_no_witness() {
    let first = root(3);
    let mut sight: Vec<_> = (0..3).map(|disk| sighting(disk, Some(&first))).collect();
    sight[0].stamps = vec![stamp(STAMP, 1), stamp(STAMP + 1, 1)];
    sight[1].stamps = vec![stamp(STAMP, 1)];
    sight[2].stamps = vec![stamp(STAMP - 1, 1)];
    let decision = choose("DATA", &sight, false).expect("two witnesses");
    assert_eq!(standings(&decision), [Standing::Current, Standing::Current, Standing::OldImage]);
    assert_eq!(decision.stamp, STAMP + 1);
    sight.remove(1);
    assert!(matches!(choose("DATA", &sight, false), Err(Refusal::NoQuorum { have: 1, need: 2, .. })));
    // All disks older than the membership says: some were put back from a backup.
    let old: Vec<_> =
        (0..3).map(|d| Sighting { stamps: vec![stamp(STAMP - 2, 1)], ..sighting(d, Some(&first)) }).collect();
    assert!(matches!(choose("DATA", &old, true), Err(Refusal::NothingCurrent { .. })));
}

#[test]
fn an_offline_disk_is_measured_by_the_stamp_at_which_it_left() {
    let first = root(3);
    let mut now = drop_disk(&first, 2, 2);
    now.stamp = STAMP + 50;
    let mut sight: Vec<_> = (0..2)
        .map(|disk| Sighting { stamps: vec![stamp(STAMP + 50, 2)], ..sighting(disk, Some(&now)) })
        .chain([sighting(2, Some(&first))])
        .collect();
    for (counter, membership, expected) in [
        (STAMP, 1, Standing::Stale),
        (STAMP - 1, 1, Standing::Stale),
        (STAMP - 2, 1, Standing::OldImage),
        // Stamped just before it would have been recorded as SYNCING.
        (STAMP + 51, 2, Standing::Stale),
        (STAMP + 3, 77, Standing::LosingBranch),
    ] {
        sight[2].stamps = vec![stamp(counter, membership)];
        let decision = choose("DATA", &sight, false).expect("two witnesses");
        assert_eq!(decision.disks[2].standing, expected, "stamp {counter}");
    }
    sight[2].stamps.clear();
    assert_eq!(choose("DATA", &sight, false).expect("two").disks[2].standing, Standing::OldImage);
}

#[test]
fn one_device_by_two_paths_counts_once_and_two_devices_not_at_all() {
    let first = root(3);
    let mut sight: Vec<_> = (0..3).map(|disk| sighting(disk, Some(&first))).collect();
    sight.push(Sighting { path: "/dev/second-path".to_owned(), ..sighting(2, Some(&first)) });
    let decision = choose("DATA", &sight, false).expect("all there");
    assert_eq!(decision.disks[2].sighting, Some(2));
    sight[3].identity = Identity("a clone".to_owned());
    let decision = choose("DATA", &sight, false).expect("two of three");
    assert_eq!((decision.disks[2].standing, decision.disks[2].sighting), (Standing::Duplicate, None));
    assert!(decision.warnings[0].contains("/dev/2 and /dev/second-path"));
    sight.remove(1);
    let refusal = choose("DATA", &sight, false).expect_err("one of three");
    assert!(refusal.remedy().contains("/dev/2 and /dev/second-path are copies of one disk"), "{}", refusal.remedy());
}

/// Both halves went on, each by FORCE. Whoever is newer, an operator has to say which one counts.
#[test]
fn two_histories_are_never_mixed() {
    let first = root(2);
    let left = drop_disk(&first, 2, 1);
    let right = drop_disk(&first, 3, 0);
    let equal = choose("DATA", &[sighting(0, Some(&left)), sighting(1, Some(&right))], true).expect_err("equal");
    assert!(matches!(equal, Refusal::TwoHistories { force_helps: false, .. }));
    assert!(
        equal.to_string().contains("/dev/0")
            && equal.to_string().contains("/dev/1")
            && !equal.remedy().contains("FORCE")
    );

    let left = successor(&left, id(4), |_| ());
    let sight = [sighting(0, Some(&left)), sighting(1, Some(&right))];
    let newer = choose("DATA", &sight, false).expect_err("the other stands alone");
    assert!(matches!(newer, Refusal::TwoHistories { force_helps: true, .. }));
    assert!(newer.remedy().contains("MOUNT FORCE goes on with generation 3"));
    let forced = choose("DATA", &sight, true).expect("the operator chose");
    assert_eq!(standings(&forced), [Standing::Current, Standing::LosingBranch]);

    // Once that is recorded, the next mount is not refused again.
    let decided = successor(&left, id(5), |m| m.disks[1].copy_whole = true);
    let again = choose("DATA", &[sighting(0, Some(&decided)), sighting(1, Some(&right))], false).expect("decided");
    assert_eq!(standings(&again), [Standing::Current, Standing::CopyWhole]);
}

/// A record that was begun on one voter and never came in force, beside the one the others made.
#[test]
fn what_never_came_in_force_loses() {
    let first = root(3);
    let begun = drop_disk(&first, 2, 2);
    let made = drop_disk(&first, 3, 0);
    let sight = [sighting(0, Some(&begun)), sighting(1, Some(&made)), sighting(2, Some(&made))];
    let decision = choose("DATA", &sight, false).expect("the other stands alone");
    assert_eq!(decision.membership.id, made.id);
    assert_eq!(standings(&decision), [Standing::LosingBranch, Standing::Current, Standing::Current]);
    // Begun, and nobody went on: taken up and completed.
    let decision = choose("DATA", &[sighting(0, Some(&begun)), sighting(1, Some(&first))], false).expect("two of two");
    assert_eq!((decision.membership.id, decision.complete_on), (begun.id, vec![DiskNumber(1)]));
}

#[test]
fn other_refusals() {
    let first = root(2);
    assert!(matches!(choose("DATA", &[], true), Err(Refusal::NoDisks { .. })));
    assert!(matches!(choose("FRA", &[sighting(0, Some(&first))], true), Err(Refusal::NoDisks { .. })));
    let mut former = sighting(0, Some(&first));
    former.header.status = Status::Former;
    assert!(matches!(choose("DATA", &[former], true), Err(Refusal::NoDisks { .. })));
    let refusal = choose("DATA", &[sighting(0, None), sighting(1, None)], true).expect_err("no membership");
    assert!(refusal.to_string().contains("(/dev/0, /dev/1)"));
    let mut other = sighting(1, Some(&first));
    other.header.group = GroupId([8; 16]);
    assert!(matches!(choose("DATA", &[sighting(0, Some(&first)), other], true), Err(Refusal::TwoGroups { .. })));
}

#[test]
fn a_current_disk_must_hold_the_catalog() {
    let mut first = root(3);
    let run = |mirror, at, count, disk| CatalogRun {
        file: CatalogFile::Database,
        mirror,
        at,
        count,
        disk: DiskNumber(disk),
        first: 10,
    };
    first.catalog = vec![run(0, 0, 4, 0), run(1, 0, 2, 1), run(1, 2, 2, 2)];
    let sight: Vec<_> = (0..3).map(|disk| sighting(disk, Some(&first))).collect();
    choose("DATA", &sight[1..], false).expect("disks 1 and 2 hold it together");
    choose("DATA", &sight[..2], false).expect("disk 0 holds it alone");
    first.catalog[2].disk = DiskNumber(0);
    let sight: Vec<_> = (1..3).map(|disk| sighting(disk, Some(&first))).collect();
    let refusal = choose("DATA", &sight, true).expect_err("AUs 2 and 3 are on disk 0 only");
    assert!(matches!(refusal, Refusal::CatalogMissing { at: 2, .. }), "{refusal}");
}

#[test]
fn a_disk_the_group_does_not_name_is_a_stranger() {
    let first = root(2);
    let sight: Vec<_> = (0..3).map(|disk| sighting(disk, (disk < 2).then_some(&first))).collect();
    assert_eq!(choose("DATA", &sight, false).expect("two of two").strangers, [2]);
}

#[test]
fn one_voter_in_each_of_up_to_five_failure_groups() {
    let disks = |groups: &[(&str, bool)]| -> Vec<MemberDisk> {
        let disk = |(number, (group, quorum)): (usize, &(&str, bool))| MemberDisk {
            failure_group: (*group).to_owned(),
            quorum: *quorum,
            votes: false,
            ..member(u16::try_from(number).expect("few"))
        };
        groups.iter().enumerate().map(disk).collect()
    };
    let numbers = |set: BTreeSet<DiskNumber>| set.into_iter().map(|number| number.0).collect::<Vec<_>>();
    let mut four = disks(&[("A", false), ("A", false), ("B", false), ("B", false)]);
    assert_eq!(numbers(voters(&four, Redundancy::Normal)), [0, 2]);
    four[1].votes = true;
    assert_eq!(numbers(voters(&four, Redundancy::Normal)), [1, 2], "who votes goes on");
    four[1].state = DiskState::Syncing;
    four[2].state = DiskState::Offline;
    assert_eq!(numbers(voters(&four, Redundancy::Normal)), [0, 3], "only ONLINE disks");
    let mut many =
        disks(&[("A", false), ("B", false), ("C", false), ("D", false), ("E", false), ("F", false), ("Z", true)]);
    assert_eq!(numbers(voters(&many, Redundancy::High)), [0, 1, 2, 3, 6], "quorum failure groups first");
    many[5].votes = true;
    assert_eq!(numbers(voters(&many, Redundancy::High)), [0, 1, 2, 5, 6]);
}

#[test]
fn votes_change_one_at_a_time() {
    let set = |list: &[u16]| list.iter().copied().map(DiskNumber).collect::<BTreeSet<_>>();
    let steps = voter_steps(&set(&[0, 1, 2, 3, 4]), &set(&[0, 5, 6, 3]), &set(&[1, 2, 6]));
    let expected = [&[0, 2, 3, 4][..], &[0, 3, 4], &[0, 3, 4, 5], &[0, 3, 5]];
    assert_eq!(steps, expected.map(set));
    let mut first = root(3);
    first.ancestors = vec![id(9); ANCESTORS_MAX];
    let child = successor(&first, id(2), |_| ());
    assert_eq!((child.generation, child.ancestors.len(), child.ancestors[0]), (2, ANCESTORS_MAX, first.id));
    // Whose membership is older than all ancestors listed is judged by its stamp.
    let sight = [sighting(0, Some(&first)), sighting(1, Some(&first)), sighting(2, Some(&first))];
    assert!(choose("DATA", &sight, false).is_ok());
}

/// Every combination of what three voters can say meets exactly one row of the table, and `choose` takes that one.
#[test]
fn every_combination_of_facts_meets_one_case() {
    #[derive(Clone, Copy, PartialEq, Debug)]
    enum Fact {
        Absent,
        Clones,
        /// Holds: nothing, the parent, the newest, or another of the newest's generation; and is an old image or not.
        Seen(Option<u64>, bool),
    }
    let parent = root(3);
    let newest = successor(&parent, id(2), |_| ());
    let fork = successor(&parent, id(3), |_| ());
    let by_id = |number: u64| [&parent, &newest, &fork][usize::try_from(number).expect("small") - 1];
    let mut facts = vec![Fact::Absent, Fact::Clones];
    for old in [false, true] {
        facts.extend([None, Some(1), Some(2), Some(3)].map(|held| Fact::Seen(held, old)));
    }
    let mut met = BTreeMap::<&str, u32>::new();
    for combination in 0..facts.len().pow(3) {
        let fact =
            |disk: usize| facts[combination / facts.len().pow(u32::try_from(disk).expect("small")) % facts.len()];
        let facts = [fact(0), fact(1), fact(2)];
        let mut sight = Vec::new();
        for (number, fact) in (0..).zip(facts) {
            match fact {
                Fact::Absent => (),
                Fact::Clones => {
                    sight.push(sighting(number, Some(&newest)));
                    sight.push(Sighting { identity: Identity("clone".to_owned()), ..sighting(number, Some(&newest)) });
                }
                Fact::Seen(held, old) => {
                    let counter = if old { STAMP - 2 } else { STAMP };
                    let stamps = vec![stamp(counter, 1)];
                    sight.push(Sighting { stamps, ..sighting(number, held.map(by_id)) });
                }
            }
        }
        // The table, in other words than the code's.
        let count = |wanted: &dyn Fn(Fact) -> bool| facts.iter().filter(|fact| wanted(**fact)).count();
        let holders = |held: u64| count(&|fact| matches!(fact, Fact::Seen(Some(is), _) if is == held));
        let none_seen = count(&|fact| matches!(fact, Fact::Seen(..))) == 0 && !facts.contains(&Fact::Clones);
        let no_membership = holders(1) + holders(2) + holders(3) == 0;
        let undecided = holders(2) == 1 && holders(3) == 1;
        let winner = if holders(2) > holders(3) {
            2
        } else if holders(3) > 0 {
            3
        } else {
            1
        };
        let witness = |fact| matches!(fact, Fact::Seen(Some(held), false) if held == winner || held == 1);
        let current = |fact| witness(fact) || fact == Fact::Seen(None, false);
        let rows = [
            ("NoDisks", none_seen),
            ("NoMembership", !none_seen && no_membership),
            ("TwoHistories", undecided),
            ("NoQuorum", !no_membership && !undecided && count(&witness) < 2),
            ("mounted", !no_membership && !undecided && count(&witness) >= 2),
        ];
        let fitting: Vec<&str> = rows.iter().filter(|(_, fits)| *fits).map(|(name, _)| *name).collect();
        assert_eq!(fitting.len(), 1, "{facts:?}: {fitting:?}");
        let outcome = choose("DATA", &sight, false);
        let name = match &outcome {
            Err(Refusal::NoDisks { .. }) => "NoDisks",
            Err(Refusal::NoMembership { .. }) => "NoMembership",
            Err(Refusal::TwoHistories { .. }) => "TwoHistories",
            Err(Refusal::NoQuorum { force_helps, .. }) => {
                assert_eq!(*force_helps, count(&current) > 0, "{facts:?}");
                assert_eq!(choose("DATA", &sight, true).is_ok(), *force_helps, "{facts:?}");
                "NoQuorum"
            }
            Err(other) => panic!("{facts:?}: {other}"),
            Ok(decision) => {
                for (fact, verdict) in facts.iter().zip(&decision.disks) {
                    let expected = match *fact {
                        Fact::Absent => Standing::Absent,
                        Fact::Clones => Standing::Duplicate,
                        Fact::Seen(Some(held), _) if held != 1 && held != winner => Standing::LosingBranch,
                        Fact::Seen(_, true) => Standing::OldImage,
                        Fact::Seen(_, false) => Standing::Current,
                    };
                    assert_eq!(verdict.standing, expected, "{facts:?}");
                }
                assert_eq!(decision.membership.id, id(winner));
                "mounted"
            }
        };
        assert_eq!(name, fitting[0], "{facts:?}");
        *met.entry(name).or_default() += 1;
    }
    assert_eq!(met.len(), 5, "every row is met: {met:?}");
}

/// What recording keeps to; each can be broken to see that the search below would notice.
#[derive(Clone, Copy)]
struct Rules {
    one_vote_at_a_time: bool,
    wait_until_in_force: bool,
    first_on_more_than_half: bool,
}

const KEPT: Rules = Rules { one_vote_at_a_time: true, wait_until_in_force: true, first_on_more_than_half: true };

/// One random history of failures, records and mounts on the disks of a group; `Err` tells how a mount missed
/// what had been in force.
struct Search {
    rules: Rules,
    random: u64,
    quorum: usize,
    /// The two slots of each disk.
    slots: Vec<Vec<Membership>>,
    next_id: u64,
    in_force: MembershipId,
}

impl Search {
    fn new(seed: u64, disks: u16, quorum: usize, rules: Rules) -> Self {
        let mut first = root(disks);
        for disk in first.disks.iter_mut().rev().take(quorum) {
            disk.quorum = true;
        }
        let slots = vec![vec![first.clone()]; first.disks.len()];
        let random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        Self { rules, random, quorum, slots, next_id: 2, in_force: first.id }
    }

    fn random(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % below
    }

    fn subset(&mut self) -> u64 {
        self.random(1 << self.slots.len())
    }

    fn look(&self, subset: u64) -> Result<Decision, Refusal> {
        let seen = (0_u16..).zip(&self.slots).filter(|(disk, _)| subset & (1 << disk) != 0);
        let sight: Vec<_> =
            seen.map(|(disk, slots)| Sighting { memberships: slots.clone(), ..sighting(disk, None) }).collect();
        choose("DATA", &sight, false)
    }

    /// Every subset of the disks, at this moment.
    fn check(&self) -> Result<(), String> {
        for subset in 0..1 << self.slots.len() {
            if let Ok(decision) = self.look(subset) {
                let line = Line::new(&decision.membership);
                if !line.has(self.in_force) {
                    let found = decision.membership.generation;
                    return Err(format!("disks {subset:b} mount generation {found} and miss what was in force"));
                }
            }
        }
        Ok(())
    }

    /// Writes to the voters that can be reached; a write that fails makes its disk unreachable.
    fn write(&mut self, membership: &Membership, reachable: &mut u64, on: u64) -> Result<(), String> {
        for disk in 0..self.slots.len() {
            if on & *reachable & (1 << disk) == 0 {
                continue;
            }
            let outcome = self.random(8);
            // 0: fails, and nothing was written; 1: fails, and it was written all the same.
            if outcome > 0 {
                let slots = &mut self.slots[disk];
                slots.insert(0, membership.clone());
                slots.truncate(2);
                self.check()?;
            }
            if outcome < 2 {
                *reachable &= !(1 << disk);
            }
        }
        Ok(())
    }

    fn holders(&self, voters: &Membership, holding: &Membership, reachable: u64) -> usize {
        let holds = |disk: &&MemberDisk| {
            let slot = usize::from(disk.number.0);
            reachable & (1 << slot) != 0 && self.slots[slot][0].id == holding.id
        };
        voters.voters().filter(holds).count()
    }

    fn bits<'m>(disks: impl Iterator<Item = &'m MemberDisk>) -> u64 {
        disks.map(|disk| 1 << disk.number.0).sum()
    }

    /// Records a membership with these voters. Whether the engine goes on.
    fn record(&mut self, now: &mut Membership, votes: u64, first: bool, reachable: &mut u64) -> Result<bool, String> {
        if votes == 0 {
            return Ok(false);
        }
        let mut child = now.clone();
        child.generation += 1;
        child.ancestors.insert(0, now.id);
        child.id = id(self.next_id);
        self.next_id += 1;
        for disk in &mut child.disks {
            disk.votes = votes & (1 << disk.number.0) != 0;
            disk.state = if disk.votes { DiskState::Online } else { DiskState::Offline };
        }
        let both = Self::bits(now.voters()) | votes;
        self.write(&child, reachable, both)?;
        let (voters, holders) = (now.voters().count(), self.holders(now, &child, *reachable));
        let in_force = if first { may_mount(voters, holders) } else { may_record(voters, holders) };
        if in_force {
            self.in_force = child.id;
            self.check()?;
        }
        *now = child;
        Ok(in_force || (!self.rules.wait_until_in_force && self.random(2) == 0))
    }

    /// One mount, some changes, and a crash.
    fn run(&mut self) -> Result<(), String> {
        let mut reachable = self.subset();
        let Ok(decision) = self.look(reachable) else { return Ok(()) };
        let mut now = decision.membership;
        for step in 0..self.random(6) {
            let votes = Self::bits(now.voters());
            let failed = votes & !reachable;
            let away = reachable & !votes;
            let wanted = if failed != 0 {
                let one = 1 << failed.trailing_zeros();
                votes & !if self.rules.one_vote_at_a_time { one } else { failed }
            } else if away != 0 && self.random(2) == 0 {
                votes | 1 << away.trailing_zeros()
            } else {
                let fails = self.subset() & self.subset();
                reachable &= !fails;
                votes
            };
            let first = step == 0 && self.rules.first_on_more_than_half;
            let wanted = if first { votes } else { wanted };
            if !self.record(&mut now, wanted, first, &mut reachable)? {
                return Ok(());
            }
            if self.random(4) == 0 {
                reachable |= self.subset();
            }
        }
        Ok(())
    }
}

fn search(rules: Rules, seeds: u64) -> Result<(), String> {
    for seed in 0..seeds {
        for disks in 2_u16..=5 {
            for quorum in [0, 1, 2] {
                if quorum + 1 > usize::from(disks) {
                    continue;
                }
                let mut history = Search::new(seed * 64 + u64::from(disks) * 4 + quorum as u64, disks, quorum, rules);
                for mount in 0..8 {
                    let quorum = history.quorum;
                    history
                        .run()
                        .map_err(|e| format!("seed {seed}, {disks} disks ({quorum} quorum), mount {mount}: {e}"))?;
                }
            }
        }
    }
    Ok(())
}

/// R3: whatever fails, whenever the engine dies, no subset of the disks mounts a membership that misses one in force.
#[test]
fn no_mount_misses_what_was_in_force() {
    search(KEPT, 400).expect("R3");
}

/// And each of the rules is needed.
#[test]
fn each_rule_of_recording_is_needed() {
    let broken = [
        Rules { one_vote_at_a_time: false, ..KEPT },
        Rules { wait_until_in_force: false, ..KEPT },
        Rules { first_on_more_than_half: false, ..KEPT },
    ];
    for (rule, rules) in broken.into_iter().enumerate() {
        search(rules, 1000).expect_err(&format!("without rule {} a mount misses something", rule + 1));
    }
}
