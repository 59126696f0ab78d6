use super::*;
use crate::{
    check::cases::{Table, case, combinations, fact},
    world::Identity,
};
use plinth_format::{Au, Layout, header::DiskHeader, layout::MIB, membership::CatalogRun};

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
        absent: false,
        leaving: false,
        size: SIZE,
        target: None,
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
        wanted: Redundancy::Normal,
        mounted: false,
        boot: [0; 16],
        mount_wait: None,
        group_name: "DATA".to_owned(),
        ancestors: vec![],
        disks: (0..disks).map(member).collect(),
        catalog: vec![],
    }
}

fn probe_result(number: u16, membership: Option<&Membership>) -> ProbeResult {
    let disk = member(number);
    ProbeResult {
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
            middle_area: true,
            group_name: "DATA".to_owned(),
            name: disk.name,
            failure_group: disk.failure_group,
            origin: None,
            label: None,
            has_prefix: true,
        },
        stamps: vec![stamp(STAMP, 1)],
        memberships: membership.into_iter().cloned().collect(),
    }
}

fn stamp(counter: u64, membership: u64) -> Stamp {
    Stamp { counter, written: 0, membership: id(membership), clean: true }
}

fn standings(decision: &Decision) -> Vec<DiskVerdict> {
    decision.disks.iter().map(|verdict| verdict.verdict).collect()
}

fn drop_disk(parent: &Membership, new: u64, number: u16) -> Membership {
    successor(parent, id(new), |m| {
        m.disks[usize::from(number)].state = DiskState::Offline;
        m.disks[usize::from(number)].votes = false;
    })
}

#[test]
fn a_group_with_all_disks_mounts() {
    let first = root(3);
    let discovered: Vec<_> = (0..3).map(|disk| probe_result(disk, Some(&first))).collect();
    let decision = choose("DATA", &discovered, false).expect("nothing is wrong");
    assert_eq!(standings(&decision), [DiskVerdict::Current; 3]);
    assert_eq!((decision.membership, decision.stamp), (first, STAMP));
    assert!(
        decision.complete_on.is_empty()
            && decision.warnings.is_empty()
            && decision.strangers.is_empty()
    );
}

/// The problem of every mirrored pair: one half went on alone, the other comes back alone.
#[test]
fn a_stale_half_is_refused_and_the_half_that_went_on_mounts() {
    let first = root(2);
    let went_on = drop_disk(&first, 2, 1);
    let stale =
        choose("DATA", &[probe_result(1, Some(&first))], false).expect_err("it cannot know");
    assert_eq!(
        stale.to_string(),
        "disk group DATA: 1 of 2 voters can be counted on, 2 are needed; missing: D0 (failure group F0: not found)"
    );
    assert!(
        stale.remedy().contains("attach disk D0")
            && stale.remedy().contains("ALTER DISKGROUP DATA MOUNT FORCE")
    );
    let alone =
        choose("DATA", &[probe_result(0, Some(&went_on))], false).expect("it is the only voter");
    assert_eq!(standings(&alone), [DiskVerdict::Current, DiskVerdict::Absent]);
    let both =
        choose("DATA", &[probe_result(0, Some(&went_on)), probe_result(1, Some(&first))], false)
            .expect("both");
    assert_eq!(standings(&both), [DiskVerdict::Current, DiskVerdict::Stale]);
}

#[test]
fn one_voter_of_three_lost_mounts() {
    let first = root(3);
    for lost in 0..3 {
        let discovered: Vec<_> = (0..3)
            .filter(|disk| *disk != lost)
            .map(|disk| probe_result(disk, Some(&first)))
            .collect();
        let decision = choose("DATA", &discovered, false).expect("two of three");
        assert_eq!(decision.disks[usize::from(lost)].verdict, DiskVerdict::Absent);
        assert!(
            decision.warnings[0]
                .text
                .contains(&format!("disk D{lost} (failure group F{lost}) is missing"))
        );
        let damaged = ProbeResult { memberships: vec![], ..probe_result(lost, None) };
        let decision =
            choose("DATA", &[discovered, vec![damaged]].concat(), false).expect("two of three");
        assert_eq!(standings(&decision), [DiskVerdict::Current; 3]);
    }
}

#[test]
fn an_unreadable_slot_is_no_witness() {
    let first = root(3);
    let discovered = [probe_result(0, Some(&first)), probe_result(1, None)];
    let refusal =
        choose("DATA", &discovered, false).expect_err("disk 1 could have seen a newer one");
    assert!(
        refusal.to_string().contains("D1 (failure group F1: /dev/1 holds no readable membership)"),
        "{refusal}"
    );
    choose("DATA", &discovered, true).expect("the operator answers for it");
}

#[test]
fn an_old_image_is_copied_whole_and_is_no_witness() {
    let first = root(3);
    let mut discovered: Vec<_> = (0..3).map(|disk| probe_result(disk, Some(&first))).collect();
    discovered[0].stamps = vec![stamp(STAMP, 1), stamp(STAMP + 1, 1)];
    discovered[1].stamps = vec![stamp(STAMP, 1)];
    discovered[2].stamps = vec![stamp(STAMP - 1, 1)];
    let decision = choose("DATA", &discovered, false).expect("two witnesses");
    assert_eq!(
        standings(&decision),
        [DiskVerdict::Current, DiskVerdict::Current, DiskVerdict::OldImage]
    );
    assert_eq!((decision.stamp, decision.stamped), (STAMP + 1, false));
    discovered.remove(1);
    assert!(matches!(
        choose("DATA", &discovered, false),
        Err(Refusal::NoQuorum { have: 1, need: 2, .. })
    ));
    // The disks that are used hold the newest: the next one may be written.
    discovered[0].stamps = vec![stamp(STAMP + 1, 1)];
    discovered
        .push(ProbeResult { stamps: vec![stamp(STAMP + 1, 1)], ..probe_result(1, Some(&first)) });
    assert!(choose("DATA", &discovered, false).expect("two witnesses").stamped);
    // All disks are older than the membership says: some were restored from a backup.
    let old: Vec<_> = (0..3)
        .map(|d| ProbeResult { stamps: vec![stamp(STAMP - 2, 1)], ..probe_result(d, Some(&first)) })
        .collect();
    assert!(matches!(choose("DATA", &old, true), Err(Refusal::NothingCurrent { .. })));
}

#[test]
fn an_offline_disk_is_measured_by_the_stamp_at_which_it_left() {
    let first = root(3);
    let mut now = drop_disk(&first, 2, 2);
    now.stamp = STAMP + 50;
    let mut discovered: Vec<_> = (0..2)
        .map(|disk| ProbeResult {
            stamps: vec![stamp(STAMP + 50, 2)],
            ..probe_result(disk, Some(&now))
        })
        .chain([probe_result(2, Some(&first))])
        .collect();
    for (counter, membership, expected) in [
        (STAMP, 1, DiskVerdict::Stale),
        (STAMP - 1, 1, DiskVerdict::Stale),
        (STAMP - 2, 1, DiskVerdict::OldImage),
        // Stamped just before it would have been recorded as SYNCING.
        (STAMP + 51, 2, DiskVerdict::Stale),
        (STAMP + 3, 77, DiskVerdict::LosingBranch),
    ] {
        discovered[2].stamps = vec![stamp(counter, membership)];
        let decision = choose("DATA", &discovered, false).expect("two witnesses");
        assert_eq!(decision.disks[2].verdict, expected, "stamp {counter}");
    }
    discovered[2].stamps.clear();
    assert_eq!(
        choose("DATA", &discovered, false).expect("two").disks[2].verdict,
        DiskVerdict::OldImage
    );
}

#[test]
fn one_device_by_two_paths_counts_once_and_two_devices_not_at_all() {
    let first = root(3);
    let mut discovered: Vec<_> = (0..3).map(|disk| probe_result(disk, Some(&first))).collect();
    discovered
        .push(ProbeResult { path: "/dev/second-path".to_owned(), ..probe_result(2, Some(&first)) });
    let decision = choose("DATA", &discovered, false).expect("all there");
    assert_eq!(decision.disks[2].probe_result, Some(2));
    discovered[3].identity = Identity("a clone".to_owned());
    let decision = choose("DATA", &discovered, false).expect("two of three");
    assert_eq!(
        (decision.disks[2].verdict, decision.disks[2].probe_result),
        (DiskVerdict::Duplicate, None)
    );
    assert!(decision.warnings[0].text.contains("/dev/2 and /dev/second-path"));
    discovered.remove(1);
    let refusal = choose("DATA", &discovered, false).expect_err("one of three");
    assert!(
        refusal.remedy().contains("/dev/2 and /dev/second-path are copies of one disk"),
        "{}",
        refusal.remedy()
    );
}

/// Both halves went on, each by FORCE. Whichever is newer, an operator has to say which one counts.
#[test]
fn two_histories_are_never_mixed() {
    let first = root(2);
    let left = drop_disk(&first, 2, 1);
    let right = drop_disk(&first, 3, 0);
    let equal =
        choose("DATA", &[probe_result(0, Some(&left)), probe_result(1, Some(&right))], true)
            .expect_err("equal");
    assert!(matches!(equal, Refusal::TwoHistories { force_helps: false, .. }));
    assert!(
        equal.to_string().contains("/dev/0")
            && equal.to_string().contains("/dev/1")
            && !equal.remedy().contains("FORCE")
    );

    let left = successor(&left, id(4), |_| ());
    let discovered = [probe_result(0, Some(&left)), probe_result(1, Some(&right))];
    let newer = choose("DATA", &discovered, false).expect_err("the other stands alone");
    assert!(matches!(newer, Refusal::TwoHistories { force_helps: true, .. }));
    assert!(newer.remedy().contains("MOUNT FORCE goes on with generation 3"));
    let forced = choose("DATA", &discovered, true).expect("the operator chose");
    assert_eq!(standings(&forced), [DiskVerdict::Current, DiskVerdict::LosingBranch]);

    // Once that is recorded, the next mount is not refused again.
    let decided = successor(&left, id(5), |m| m.disks[1].copy_whole = true);
    let again =
        choose("DATA", &[probe_result(0, Some(&decided)), probe_result(1, Some(&right))], false)
            .expect("decided");
    assert_eq!(standings(&again), [DiskVerdict::Current, DiskVerdict::CopyWhole]);
}

/// A record that was begun on one voter and never came in force, beside the one that the others
/// hold.
#[test]
fn a_membership_that_never_came_in_force_loses() {
    let first = root(3);
    let begun = drop_disk(&first, 2, 2);
    let made = drop_disk(&first, 3, 0);
    let discovered =
        [probe_result(0, Some(&begun)), probe_result(1, Some(&made)), probe_result(2, Some(&made))];
    let decision = choose("DATA", &discovered, false).expect("the other stands alone");
    assert_eq!(decision.membership.id, made.id);
    assert_eq!(
        standings(&decision),
        [DiskVerdict::LosingBranch, DiskVerdict::Current, DiskVerdict::Current]
    );
    // It was begun, and no other was: it is taken up and completed.
    let decision =
        choose("DATA", &[probe_result(0, Some(&begun)), probe_result(1, Some(&first))], false)
            .expect("two of two");
    assert_eq!((decision.membership.id, decision.complete_on), (begun.id, vec![DiskNumber(1)]));
}

#[test]
fn other_refusals() {
    let first = root(2);
    assert!(matches!(choose("DATA", &[], true), Err(Refusal::NoDisks { .. })));
    assert!(matches!(
        choose("FRA", &[probe_result(0, Some(&first))], true),
        Err(Refusal::NoDisks { .. })
    ));
    let mut former = probe_result(0, Some(&first));
    former.header.status = Status::Former;
    assert!(matches!(choose("DATA", &[former], true), Err(Refusal::NoDisks { .. })));
    let refusal = choose("DATA", &[probe_result(0, None), probe_result(1, None)], true)
        .expect_err("no membership");
    assert!(refusal.to_string().contains("(/dev/0, /dev/1)"));
    let mut other = probe_result(1, Some(&first));
    other.header.group = GroupId([8; 16]);
    let two =
        choose("DATA", &[probe_result(0, Some(&first)), other], true).expect_err("two groups");
    assert_eq!(two.case(), Case::TwoGroups);
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
        first: Au(10),
    };
    first.catalog = vec![run(0, 0, 4, 0), run(1, 0, 2, 1), run(1, 2, 2, 2)];
    let discovered: Vec<_> = (0..3).map(|disk| probe_result(disk, Some(&first))).collect();
    choose("DATA", &discovered[1..], false).expect("disks 1 and 2 hold it together");
    choose("DATA", &discovered[..2], false).expect("disk 0 holds it alone");
    first.catalog[2].disk = DiskNumber(0);
    let discovered: Vec<_> = (1..3).map(|disk| probe_result(disk, Some(&first))).collect();
    let refusal = choose("DATA", &discovered, true).expect_err("AUs 2 and 3 are on disk 0 only");
    assert!(matches!(refusal, Refusal::CatalogMissing { at: 2, .. }), "{refusal}");
}

#[test]
fn a_disk_that_the_membership_does_not_name_is_a_stranger() {
    let first = root(2);
    let discovered: Vec<_> =
        (0..3).map(|disk| probe_result(disk, (disk < 2).then_some(&first))).collect();
    assert_eq!(choose("DATA", &discovered, false).expect("two of two").strangers, [2]);
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
    let numbers =
        |set: BTreeSet<DiskNumber>| set.into_iter().map(|number| number.0).collect::<Vec<_>>();
    let mut four = disks(&[("A", false), ("A", false), ("B", false), ("B", false)]);
    assert_eq!(numbers(voters(&four, Redundancy::Normal)), [0, 2]);
    four[1].votes = true;
    assert_eq!(numbers(voters(&four, Redundancy::Normal)), [1, 2], "who votes goes on");
    four[1].state = DiskState::Syncing;
    four[2].state = DiskState::Offline;
    assert_eq!(numbers(voters(&four, Redundancy::Normal)), [0, 3], "only ONLINE disks");
    four[0].leaving = true;
    assert_eq!(numbers(voters(&four, Redundancy::Normal)), [3], "none that leaves");
    four[3].leaving = true;
    assert_eq!(
        numbers(voters(&four, Redundancy::Normal)),
        [0, 3],
        "they do while there is no other"
    );
    let mut many = disks(&[
        ("A", false),
        ("B", false),
        ("C", false),
        ("D", false),
        ("E", false),
        ("F", false),
        ("Z", true),
    ]);
    assert_eq!(
        numbers(voters(&many, Redundancy::High)),
        [0, 1, 2, 3, 6],
        "quorum failure groups first"
    );
    many[5].votes = true;
    assert_eq!(numbers(voters(&many, Redundancy::High)), [0, 1, 2, 5, 6]);
}

#[test]
fn votes_change_one_at_a_time() {
    let set = |list: &[u16]| list.iter().copied().map(DiskNumber).collect::<BTreeSet<_>>();
    let steps = voter_steps(&set(&[0, 1, 2, 3, 4]), &set(&[0, 5, 6, 3]), &set(&[1, 2, 6]));
    let expected = [&[0, 2, 3, 4][..], &[0, 3, 4], &[0, 3, 4, 5], &[0, 3, 5]];
    assert_eq!(steps, expected.map(set));
    // The last voter stays until another has joined, and for ever if none can.
    assert_eq!(voter_steps(&set(&[2]), &set(&[3]), &set(&[2])), [set(&[2, 3]), set(&[3])]);
    assert_eq!(
        voter_steps(&set(&[1, 2]), &set(&[3, 4]), &set(&[1, 2])),
        [&[2][..], &[2, 3], &[2, 3, 4], &[3, 4]].map(set)
    );
    assert_eq!(voter_steps(&set(&[1, 2]), &set(&[]), &set(&[1, 2])), [set(&[2])]);
    assert_eq!(voter_steps(&set(&[1, 2]), &set(&[]), &set(&[])), [set(&[2])]);
    let mut first = root(3);
    first.ancestors = vec![id(9); ANCESTORS_MAX];
    let child = successor(&first, id(2), |_| ());
    assert_eq!(
        (child.generation, child.ancestors.len(), child.ancestors[0]),
        (2, ANCESTORS_MAX, first.id)
    );
    // A disk whose membership is older than all listed ancestors is judged by its stamp.
    let discovered = [
        probe_result(0, Some(&first)),
        probe_result(1, Some(&first)),
        probe_result(2, Some(&first)),
    ];
    assert!(choose("DATA", &discovered, false).is_ok());
}

/// The tables, fact by fact.
#[test]
fn every_combination_of_facts_is_one_case() {
    use cases::Groups;
    let mut table = Table::read("disk case");
    for devices in [Devices::None, Devices::One, Devices::Several] {
        for membership in [Held::Newest, Held::Ancestor, Held::Other, Held::Nothing] {
            for stamp in [Stamped::InStep, Stamped::Behind, Stamped::Other, Stamped::Nothing] {
                for state in [DiskState::Online, DiskState::Offline, DiskState::Syncing] {
                    for flags in combinations(&[false, true], 2) {
                        let (marked, needed) = (flags[0], flags[1]);
                        let facts = DiskFacts { devices, marked, membership, stamp, state, needed };
                        let row = table.case(&[
                            fact(devices),
                            fact(marked),
                            fact(membership),
                            fact(stamp),
                            fact(state),
                            fact(needed),
                        ]);
                        assert_eq!(case(cases::verdict(facts)), row, "{facts:?}");
                    }
                }
            }
        }
    }
    table.end();
    let mut table = Table::read("mount case");
    for groups in [Groups::None, Groups::One, Groups::Several] {
        for newest in [Newest::None, Newest::One, Newest::Split] {
            for current in
                [Current::Nothing, Current::WithoutCatalog, Current::TooFew, Current::Enough]
            {
                for flags in combinations(&[false, true], 3) {
                    let [another, majority, force] = flags[..] else { unreachable!("three") };
                    let facts = Facts { groups, newest, another, majority, current, force };
                    let row = table.case(&[
                        fact(groups),
                        fact(newest),
                        fact(another),
                        fact(majority),
                        fact(current),
                        fact(force),
                    ]);
                    assert_eq!(case(cases::decide(facts)), row, "{facts:?}");
                }
            }
        }
    }
    table.end();
}

/// For any records on a third disk beside two that are current, the verdict is that of the table.
#[test]
fn every_probe_result_of_a_disk_is_one_case() {
    let mut table = Table::read("disk case");
    let parent = root(3);
    for state in [DiskState::Online, DiskState::Offline, DiskState::Syncing] {
        for marked in [false, true] {
            let newest = successor(&parent, id(2), |m| {
                (m.disks[2].state, m.disks[2].copy_whole, m.disks[2].votes) =
                    (state, marked, state == DiskState::Online);
            });
            let fork = successor(&parent, id(3), |_| ());
            let held = [
                ("newest", Some(&newest)),
                ("ancestor", Some(&parent)),
                ("other", Some(&fork)),
                ("nothing", None),
            ];
            let steps = [
                ("in step", Some((STAMP, 2))),
                ("in step", Some((STAMP - 1, 1))),
                ("in step", Some((STAMP + 1, 2))),
                ("behind", Some((STAMP - 2, 1))),
                ("nothing", None),
                ("other", Some((STAMP, 77))),
                ("other", Some((STAMP - 2, 77))),
            ];
            for (membership, record) in held {
                for (step, stamped) in steps {
                    for devices in ["none", "one", "several"] {
                        let mut discovered: Vec<_> =
                            (0..2).map(|disk| probe_result(disk, Some(&newest))).collect();
                        let stamps =
                            stamped.map(|(counter, of)| stamp(counter, of)).into_iter().collect();
                        let third = ProbeResult { stamps, ..probe_result(2, record) };
                        if devices != "none" {
                            // By two paths; they are one device.
                            discovered.push(ProbeResult {
                                path: "/dev/other-path".to_owned(),
                                ..third.clone()
                            });
                            discovered.push(third.clone());
                        }
                        if devices == "several" {
                            discovered.push(ProbeResult {
                                identity: Identity("clone".to_owned()),
                                ..third
                            });
                        }
                        // A stamp that is ahead makes the others a step behind, no more.
                        let facts = [devices, &fact(marked), membership, step, &fact(state), "no"]
                            .map(str::to_owned);
                        let row = table.case(&facts);
                        let decision = choose("DATA", &discovered, false).expect("two of three");
                        assert_eq!(decision.membership.id, newest.id, "{facts:?}");
                        assert_eq!(case(decision.disks[2].verdict), row, "{facts:?}");
                        if devices == "one" && state == DiskState::Offline {
                            let back = returning(&discovered[2], &newest.disks[2], &newest);
                            assert_eq!(case(back), row, "{facts:?}");
                        }
                    }
                }
            }
        }
    }
    // Alone, and by FORCE, a disk without a stamp is better than none.
    for record in [&parent, &successor(&parent, id(2), |_| ())] {
        let alone = ProbeResult { stamps: Vec::new(), ..probe_result(2, Some(record)) };
        let row =
            table.case(&["one", "no", "newest", "nothing", "online", "yes"].map(str::to_owned));
        let refusal =
            choose("DATA", std::slice::from_ref(&alone), false).expect_err("one of three");
        assert!(matches!(refusal, Refusal::NoQuorum { force_helps: true, .. }), "{refusal}");
        let decision = choose("DATA", &[alone], true).expect("by force");
        assert_eq!(case(decision.disks[2].verdict), row);
        assert_eq!(decision.case, Case::Forced);
        assert!(
            decision
                .warnings
                .iter()
                .any(|warning| warning.text.contains("whose stamp cannot be read"))
        );
    }
    table.end();
}

/// For any records on three voters, the mount is the case of the table, with FORCE and without.
#[test]
fn every_set_of_disks_of_a_group_is_one_case() {
    #[derive(Clone, Copy, PartialEq, Debug)]
    enum Seen {
        Absent,
        Clones,
        /// It holds: nothing, the parent, the newest, another of the newest's generation, or an
        /// older one of another history; and is an old image or not.
        Holds(Option<u64>, bool),
    }
    let parent = root(3);
    let newest = successor(&parent, id(2), |_| ());
    let fork = successor(&parent, id(3), |_| ());
    // A membership that two of the disks can carry alone.
    let aside =
        Membership { generation: 1, id: id(4), disks: (1..3).map(member).collect(), ..root(3) };
    let by_id = |number: u64| {
        [&parent, &newest, &fork, &aside][usize::try_from(number).expect("small") - 1]
    };
    let mut values = vec![Seen::Absent, Seen::Clones];
    for old in [false, true] {
        values
            .extend([None, Some(1), Some(2), Some(3), Some(4)].map(|held| Seen::Holds(held, old)));
    }
    let mut met = BTreeSet::new();
    let mut table = Table::read("mount case");
    for facts in combinations(&values, 3) {
        let mut discovered = Vec::new();
        for (number, seen) in (0..).zip(&facts) {
            match *seen {
                Seen::Absent => (),
                Seen::Clones => {
                    discovered.push(probe_result(number, Some(&newest)));
                    discovered.push(ProbeResult {
                        identity: Identity("clone".to_owned()),
                        ..probe_result(number, Some(&newest))
                    });
                }
                Seen::Holds(held, old) => {
                    let counter = if old { STAMP - 2 } else { STAMP };
                    // Each disk's stamp names the membership that it holds, or the common ancestor.
                    let of = held.filter(|held| *held == 4).unwrap_or(1);
                    let stamps = vec![stamp(counter, of)];
                    discovered
                        .push(ProbeResult { stamps, ..probe_result(number, held.map(by_id)) });
                }
            }
        }
        // The facts of the table again, written differently from the code.
        let holders = |held: u64| {
            facts
                .iter()
                .filter(|seen| matches!(seen, Seen::Holds(Some(is), _) if *is == held))
                .count()
        };
        let aside_alone = facts[1..].iter().all(|seen| matches!(seen, Seen::Holds(Some(4), _)));
        let (groups, winner) = match (discovered.is_empty(), holders(2), holders(3)) {
            (true, ..) => ("none", None),
            (_, 0, 0) if holders(1) > 0 && holders(4) > 0 => match (holders(1) > 1, aside_alone) {
                (true, false) => ("one", Some(1)),
                (false, true) => ("one", Some(4)),
                _ => ("one", None),
            },
            (_, 0, 0) if holders(1) > 0 => ("one", Some(1)),
            (_, 0, 0) if holders(4) > 0 => ("one", Some(4)),
            (_, 0, 0) => ("one", None),
            (_, newest, fork) if newest > fork && (fork == 0 || newest > 1) => ("one", Some(2)),
            (_, newest, fork) if fork > newest && (newest == 0 || fork > 1) => ("one", Some(3)),
            _ => ("one", None),
        };
        let some = (1..=4).any(|held| holders(held) > 0);
        let in_line = |held: Option<u64>| match (held, winner) {
            (None, _) => true,
            (Some(held), Some(winner)) => held == winner || (held == 1 && winner != 4),
            (_, None) => false,
        };
        // A stamp of the first membership is off the lineage of the other one, and the other way
        // round.
        let stamped = |held: Option<u64>| (held == Some(4)) == (winner == Some(4));
        let names = |disk: usize| winner != Some(4) || disk > 0;
        let is_current = |(disk, seen): &(usize, &Seen)| {
            names(*disk)
                && matches!(**seen, Seen::Holds(held, false) if in_line(held) && stamped(held))
        };
        let current = facts.iter().enumerate().filter(is_current).count();
        let testifies =
            |one: &(usize, &Seen)| is_current(one) && !matches!(one.1, Seen::Holds(None, _));
        let witnesses = facts.iter().enumerate().filter(testifies).count();
        let another = winner.is_some_and(|winner| winner != 4) && aside_alone;
        let named = (0..3).filter(|disk| names(*disk)).count();
        let in_reach = match current {
            0 => "nothing",
            _ if named - current >= parent.redundancy.mirrors() => "too few",
            _ => "enough",
        };
        for force in [false, true] {
            let newest = match (some, winner) {
                (_, Some(_)) => "one",
                (true, None) => "split",
                (false, None) => "none",
            };
            let words = [
                groups.to_owned(),
                newest.to_owned(),
                fact(another),
                fact(witnesses > 1),
                in_reach.to_owned(),
                fact(force),
            ];
            let row = table.case(&words);
            let outcome = choose("DATA", &discovered, force);
            let found = outcome.as_ref().map_or_else(Refusal::case, |decision| decision.case);
            assert_eq!(case(found), row, "{facts:?}: {words:?}");
            if let Ok(decision) = outcome {
                assert_eq!(Some(decision.membership.id), winner.map(id), "{facts:?}");
            } else if let Err(Refusal::NoQuorum { force_helps, .. }) = outcome {
                assert_eq!(force_helps, current > 0, "{facts:?}");
            }
            met.insert(found);
        }
    }
    // One group, with its catalog on all disks; other tests cover the rest.
    assert_eq!(met.len(), 8, "{met:?}");
}

/// The rules of recording; each can be broken to see that the search below notices it.
#[derive(Clone, Copy)]
struct Rules {
    one_vote_at_a_time: bool,
    wait_until_in_force: bool,
    first_on_more_than_half: bool,
}

const KEPT: Rules =
    Rules { one_vote_at_a_time: true, wait_until_in_force: true, first_on_more_than_half: true };

/// One random history of failures, records and mounts on the disks of a group; `Err` describes a
/// mount that missed a membership in force.
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
        let discovered: Vec<_> = seen
            .map(|(disk, slots)| ProbeResult {
                memberships: slots.clone(),
                ..probe_result(disk, None)
            })
            .collect();
        choose("DATA", &discovered, false)
    }

    /// Every subset of the disks, at this moment.
    fn check(&self) -> Result<(), String> {
        for subset in 0..1 << self.slots.len() {
            if let Ok(decision) = self.look(subset) {
                let line = Lineage::new(&decision.membership);
                if !line.has(self.in_force) {
                    let found = decision.membership.generation;
                    return Err(format!(
                        "disks {subset:b} mount generation {found} and miss what was in force"
                    ));
                }
            }
        }
        Ok(())
    }

    /// Writes to the voters that can be reached; a write that fails makes its disk unreachable.
    fn write(
        &mut self,
        membership: &Membership,
        reachable: &mut u64,
        on: u64,
    ) -> Result<(), String> {
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

    /// Records a membership with these voters. Returns whether the engine goes on.
    fn record(
        &mut self,
        now: &mut Membership,
        votes: u64,
        first: bool,
        reachable: &mut u64,
    ) -> Result<bool, String> {
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
                let mut history = Search::new(
                    seed * 64 + u64::from(disks) * 4 + quorum as u64,
                    disks,
                    quorum,
                    rules,
                );
                for mount in 0..8 {
                    let quorum = history.quorum;
                    history.run().map_err(|e| {
                        format!("seed {seed}, {disks} disks ({quorum} quorum), mount {mount}: {e}")
                    })?;
                }
            }
        }
    }
    Ok(())
}

/// R3: for any failures and crashes, no subset of the disks mounts a membership that misses one in
/// force.
#[test]
fn no_mount_misses_a_membership_in_force() {
    search(KEPT, 400).expect("R3");
}

/// Each of the rules is needed.
#[test]
fn each_rule_of_recording_is_needed() {
    let broken = [
        Rules { one_vote_at_a_time: false, ..KEPT },
        Rules { wait_until_in_force: false, ..KEPT },
        Rules { first_on_more_than_half: false, ..KEPT },
    ];
    for (rule, rules) in broken.into_iter().enumerate() {
        search(rules, 1000)
            .expect_err(&format!("without rule {} a mount misses something", rule + 1));
    }
}
