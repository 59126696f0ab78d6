use super::*;
use plinth_format::{Layout, layout::MIB};
use proptest::prelude::*;
use std::collections::BTreeSet;

fn disk(number: usize, group: usize, units: u32) -> DataDisk {
    DataDisk {
        number: DiskNumber(u16::try_from(number).expect("few")),
        failure_group: format!("F{group:03}"),
        units,
        state: DiskState::Online,
    }
}

/// Disks of (failure group, AUs), all free.
fn group(redundancy: Redundancy, disks: &[(usize, u32)]) -> (Vec<DataDisk>, Space, Placement) {
    let disks: Vec<DataDisk> =
        disks.iter().enumerate().map(|(n, (group, units))| disk(n, *group, *units)).collect();
    let space = space(&disks);
    let placement = Placement::new(redundancy, &disks);
    (disks, space, placement)
}

/// Each disk has as many AUs free as it has units; the rest of its layout is taken.
fn space(disks: &[DataDisk]) -> Space {
    let mut space = Space::new();
    for disk in disks {
        let layout = Layout::new(u64::from(disk.units + 16) * MIB, MIB).expect("large enough");
        space.add_disk(disk.number, layout);
        while space.free(disk.number) > disk.units {
            space.allocate_on(disk.number).expect("free");
        }
    }
    space
}

fn of(disks: &[DataDisk], number: DiskNumber) -> &DataDisk {
    disks.iter().find(|disk| disk.number == number).expect("known")
}

/// Percent used of a disk.
fn percent(disks: &[DataDisk], space: &Space, number: usize) -> f64 {
    let disk = &disks[number];
    100.0 * (1.0 - f64::from(space.free(disk.number)) / f64::from(disk.units))
}

/// The rules for one extent, written like the theory. `free` as it was before.
fn legal(disks: &[DataDisk], free: &[u32], mirrors: usize, set: &[usize]) -> bool {
    let groups: BTreeSet<&str> = disks.iter().map(|disk| disk.failure_group.as_str()).collect();
    let serves = |group: &str| {
        disks.iter().any(|d| d.failure_group == group && d.state != DiskState::Offline)
    };
    let serving = groups.iter().filter(|group| serves(group)).count();
    let own: BTreeSet<&str> = set.iter().map(|disk| disks[*disk].failure_group.as_str()).collect();
    let offline = set.iter().filter(|disk| disks[**disk].state == DiskState::Offline).count();
    set.len() == mirrors
        && own.len() == mirrors
        && set.iter().all(|disk| free[*disk] > 0)
        && set.iter().any(|disk| disks[*disk].state == DiskState::Online)
        && offline == mirrors.saturating_sub(serving)
        && set.iter().all(|disk| {
            disks[*disk].state != DiskState::Offline || !serves(&disks[*disk].failure_group)
        })
}

fn legal_sets(disks: &[DataDisk], free: &[u32], mirrors: usize) -> Vec<Vec<usize>> {
    let sets = (0_u32..1 << disks.len()).filter(|bits| bits.count_ones() as usize == mirrors);
    sets.map(|bits| (0..disks.len()).filter(|disk| bits & (1 << disk) != 0).collect::<Vec<_>>())
        .filter(|set| legal(disks, free, mirrors, set))
        .collect()
}

/// The most extents that fit, by exhaustive search.
fn most(
    disks: &[DataDisk],
    free: &[u32],
    mirrors: usize,
    known: &mut BTreeMap<Vec<u32>, u64>,
) -> u64 {
    if let Some(most) = known.get(free) {
        return *most;
    }
    let mut best = 0;
    for set in legal_sets(disks, free, mirrors) {
        let mut left = free.to_vec();
        set.iter().for_each(|disk| left[*disk] -= 1);
        best = best.max(1 + most(disks, &left, mirrors, known));
    }
    known.insert(free.to_vec(), best);
    best
}

fn state() -> impl Strategy<Value = DiskState> {
    prop_oneof![6 => Just(DiskState::Online), 2 => Just(DiskState::Offline), 1 => Just(DiskState::Syncing)]
}

fn redundancy() -> impl Strategy<Value = Redundancy> {
    prop_oneof![Just(Redundancy::External), Just(Redundancy::Normal), Just(Redundancy::High)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// Exactly `allocatable` extents can be written, and no other arrangement would fit more.
    #[test]
    fn exactly_as_many_extents_fit_as_allocatable_says(
        redundancy in redundancy(),
        shape in prop::collection::vec((0_usize..5, 0_u32..4, state()), 1..7),
        seed in any::<u64>(),
    ) {
        let disks: Vec<DataDisk> = shape.iter().enumerate()
            .map(|(n, (group, units, state))| DataDisk { state: *state, ..disk(n, *group, *units) }).collect();
        let mut space = space(&disks);
        let placement = Placement::new(redundancy, &disks);
        let mirrors = redundancy.mirrors();
        let free: Vec<u32> = disks.iter().map(|disk| disk.units).collect();
        let expected = most(&disks, &free, mirrors, &mut BTreeMap::new());
        prop_assert_eq!(placement.allocatable(&space), expected);
        for left in (0..expected).rev() {
            let free: Vec<u32> = disks.iter().map(|disk| space.free(disk.number)).collect();
            let chosen = placement.choose(seed, left, &mut space).expect("it fits");
            let set: Vec<usize> = chosen.iter().map(|mirror| usize::from(mirror.disk.0)).collect();
            prop_assert!(legal(&disks, &free, mirrors, &set), "{:?}", set);
            prop_assert!(disks[set[0]].state != DiskState::Offline);
            prop_assert_eq!(placement.allocatable(&space), left);
        }
        prop_assert_eq!(placement.choose(seed, 99, &mut space), Err(NoSpace));
        let free: Vec<u32> = disks.iter().map(|disk| space.free(disk.number)).collect();
        prop_assert!(legal_sets(&disks, &free, mirrors).is_empty());
    }

    #[test]
    fn partners_are_mutual_few_and_in_other_failure_groups(
        shape in prop::collection::vec((0_usize..8, 1_u32..2000), 1..60),
    ) {
        let (disks, _, placement) = group(Redundancy::Normal, &shape);
        let outside = |disk: &DataDisk| disks.iter().filter(|other| other.failure_group != disk.failure_group).count();
        let small = disks.iter().all(|disk| outside(disk) <= PARTNERS_MAX);
        let groups: BTreeSet<_> = disks.iter().map(|disk| &disk.failure_group).collect();
        for disk in &disks {
            let partners: Vec<DiskNumber> = placement.partners(disk.number).collect();
            for partner in &partners {
                prop_assert!(of(&disks, *partner).failure_group != disk.failure_group);
                prop_assert!(placement.partners(*partner).any(|back| back == disk.number));
            }
            if small {
                prop_assert_eq!(partners.len(), outside(disk));
            } else {
                let reached: BTreeSet<_> = partners.iter().map(|partner| &of(&disks, *partner).failure_group).collect();
                prop_assert!(reached.len() >= 2.min(groups.len() - 1));
            }
        }
        prop_assert_eq!(format!("{placement:?}"), format!("{:?}", Placement::new(Redundancy::Normal, &disks)));
    }
}

#[test]
fn partners_of_like_disks_are_eight_and_spread() {
    for groups in [2, 3, 4, 5, 8, 16] {
        let shape: Vec<_> = (0..48).map(|n| (n % groups, 100)).collect();
        let (disks, _, placement) = group(Redundancy::Normal, &shape);
        for disk in &disks {
            let partners: Vec<_> = placement.partners(disk.number).collect();
            assert!(
                (7..=PARTNERS_MAX).contains(&partners.len()),
                "{groups} groups: {}",
                partners.len()
            );
            let mut each = BTreeMap::new();
            partners.iter().for_each(|partner| {
                *each.entry(&of(&disks, *partner).failure_group).or_insert(0) += 1
            });
            assert!(each.len() >= 4.min(groups - 1), "{groups} groups: {each:?}");
        }
    }
}

/// Fills a group to a fraction of its capacity with files of many lengths, then computes each
/// disk's percent used.
fn fill(redundancy: Redundancy, shape: &[(usize, u32)], part: f64, one_file: bool) -> Vec<f64> {
    let (disks, mut space, placement) = group(redundancy, shape);
    let extents = (placement.allocatable(&space) as f64 * part) as u64;
    let (mut file, mut number) = (1, 0);
    for _ in 0..extents {
        placement.choose(file, number, &mut space).expect("it fits");
        number += 1;
        if !one_file && number > file * 7 % 23 {
            (file, number) = (file + 1, 0);
        }
    }
    (0..disks.len()).map(|disk| percent(&disks, &space, disk)).collect()
}

#[test]
fn disks_of_a_failure_group_fill_evenly_in_percent() {
    let shapes: [(Redundancy, &[(usize, u32)]); 9] = [
        (Redundancy::External, &[(0, 4000), (1, 1000), (2, 1000)]),
        (Redundancy::Normal, &[(0, 4000), (0, 1000), (1, 4000), (1, 1000)]),
        (Redundancy::Normal, &[(0, 400), (0, 100), (1, 400), (1, 100)]),
        (Redundancy::Normal, &[(0, 1000), (0, 1000), (1, 1000), (1, 1000), (2, 1000), (2, 1000)]),
        (Redundancy::Normal, &[(0, 4000), (1, 1000), (1, 1000), (2, 2500), (2, 500)]),
        (Redundancy::Normal, &[(0, 4000), (0, 4000), (1, 4000), (1, 1000), (2, 1000), (2, 250)]),
        (Redundancy::High, &[(0, 4000), (0, 1000), (1, 4000), (1, 1000), (2, 1000), (2, 4000)]),
        (
            Redundancy::High,
            &[
                (0, 4000),
                (0, 1000),
                (1, 3000),
                (1, 1000),
                (2, 1000),
                (2, 1000),
                (3, 1000),
                (4, 500),
            ],
        ),
        (Redundancy::High, &[(0, 1000), (1, 1000), (2, 1000), (3, 1000), (4, 1000)]),
    ];
    for (redundancy, shape) in shapes {
        for part in [0.2, 0.5, 0.9] {
            for one_file in [true, false] {
                let used = fill(redundancy, shape, part, one_file);
                for (a, (group, _)) in shape.iter().enumerate() {
                    for (b, _) in shape.iter().enumerate().filter(|(_, other)| other.0 == *group) {
                        assert!(
                            (used[a] - used[b]).abs() < 3.0,
                            "{redundancy} {shape:?} at {part}: {used:.1?}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn failure_groups_fill_in_proportion_but_one_takes_at_most_its_share() {
    // No group is capped: all are equal in percent.
    let used = fill(Redundancy::Normal, &[(0, 2000), (1, 1500), (2, 1000)], 0.5, false);
    assert!(used.iter().all(|percent| (percent - used[0]).abs() < 3.0), "{used:.1?}");
    // The first would take 2/3: it takes half of the mirrors, as many as the others together.
    let used = fill(Redundancy::Normal, &[(0, 4000), (1, 1500), (2, 500)], 0.5, false);
    assert!(
        (used[0] - 25.0).abs() < 0.1
            && (used[1] - 50.0).abs() < 3.0
            && (used[2] - 50.0).abs() < 3.0,
        "{used:.1?}"
    );
}

#[test]
fn many_disks_fill_evenly_too() {
    for (redundancy, groups) in
        [(Redundancy::Normal, 2), (Redundancy::Normal, 5), (Redundancy::High, 4)]
    {
        let shape: Vec<_> =
            (0..40).map(|n| (n % groups, if n / groups % 3 == 0 { 400 } else { 200 })).collect();
        let used = fill(redundancy, &shape, 0.7, false);
        let (low, high) = used
            .iter()
            .fold((100.0_f64, 0.0_f64), |(low, high), used| (low.min(*used), high.max(*used)));
        assert!(high - low < 6.0, "{groups} groups: {used:.1?}");
    }
}

#[test]
fn a_new_disk_catches_up_without_taking_everything() {
    let (disks, mut space, placement) =
        group(Redundancy::External, &[(0, 1000), (1, 1000), (2, 1000), (3, 1000)]);
    for disk in &disks[..3] {
        (0..500).for_each(|_| _ = space.allocate_on(disk.number));
    }
    for extent in 0..400 {
        placement.choose(1, extent, &mut space).expect("it fits");
    }
    let used = percent(&disks, &space, 3);
    assert!((20.0..32.0).contains(&used), "{used}");
}

#[test]
fn consecutive_extents_lie_on_different_disks() {
    for (redundancy, shape) in [
        (Redundancy::External, vec![(0, 500), (1, 500)]),
        (Redundancy::External, vec![(0, 500), (1, 400), (2, 300), (3, 500)]),
        (Redundancy::Normal, vec![(0, 500), (0, 500), (1, 500), (1, 500)]),
        (Redundancy::Normal, (0..12).map(|n| (n % 3, 500)).collect()),
        (Redundancy::High, (0..10).map(|n| (n % 5, 500)).collect()),
    ] {
        let (disks, mut space, placement) = group(redundancy, &shape);
        let mut starts = BTreeSet::new();
        for file in 0..40 {
            let firsts: Vec<DiskNumber> = (0..24)
                .map(|extent| placement.choose(file, extent, &mut space).expect("it fits")[0].disk)
                .collect();
            starts.insert(firsts[0]);
            let repeats = firsts.windows(2).filter(|two| two[0] == two[1]).count();
            assert!(repeats <= 2, "{redundancy} {shape:?}: {firsts:?}");
            let mut each = BTreeMap::new();
            firsts.iter().for_each(|disk| *each.entry(*disk).or_insert(0) += 1);
            assert_eq!(each.len(), disks.len(), "a file is spread over all disks");
        }
        assert_eq!(starts.len(), disks.len(), "files begin everywhere");
    }
}

/// One failure group of two is offline: its disks get their mirrors all the same, to be resynced
/// when they return.
#[test]
fn with_too_few_failure_groups_online_the_rest_goes_to_offline_disks() {
    let (mut disks, mut space, _) =
        group(Redundancy::Normal, &[(0, 50), (0, 50), (1, 50), (1, 50)]);
    disks[2].state = DiskState::Offline;
    disks[3].state = DiskState::Offline;
    let placement = Placement::new(Redundancy::Normal, &disks);
    assert_eq!(placement.allocatable(&space), 100);
    for extent in 0..100 {
        let set = placement.choose(3, extent, &mut space).expect("it fits");
        assert!(set[0].disk.0 < 2 && set[1].disk.0 >= 2, "ONLINE first: {set:?}");
    }
    // One disk of it returns: from now on only that one takes its mirrors, though the other had
    // more free.
    let (_, mut space, _) = group(Redundancy::Normal, &[(0, 50), (0, 50), (1, 50), (1, 50)]);
    disks[2].state = DiskState::Syncing;
    let placement = Placement::new(Redundancy::Normal, &disks);
    assert_eq!(placement.allocatable(&space), 50);
    assert_eq!(
        placement
            .choose(3, 0, &mut space)
            .expect("it fits")
            .iter()
            .filter(|m| m.disk.0 == 2)
            .count(),
        1
    );
    // No disk could be read: refused.
    disks[0].state = DiskState::Offline;
    disks[1].state = DiskState::Offline;
    assert_eq!(Placement::new(Redundancy::Normal, &disks).choose(3, 0, &mut space), Err(NoSpace));
}

#[test]
fn usable_space_tells_the_truth() {
    let usable = |redundancy, shape: &[(usize, u32)]| {
        let (_, space, placement) = group(redundancy, shape);
        let usable = placement.usable(&space);
        assert_eq!(usable.total, usable.free);
        (usable.required_mirror_free, usable.usable_file(1))
    };
    assert_eq!(usable(Redundancy::External, &[(0, 100), (1, 50)]), (0, 150));
    assert_eq!(
        usable(Redundancy::Normal, &[(0, 100), (1, 100)]),
        (0, 100),
        "two failure groups: no reserve helps"
    );
    assert_eq!(usable(Redundancy::Normal, &[(0, 100), (1, 50)]), (0, 50), "and not (100 + 50) / 2");
    assert_eq!(usable(Redundancy::Normal, &[(0, 100), (1, 100), (2, 100)]), (100, 100));
    assert_eq!(usable(Redundancy::High, &[(0, 90), (1, 90), (2, 90)]), (0, 90));
    assert_eq!(usable(Redundancy::High, &[(0, 90), (1, 90), (2, 90), (3, 90)]), (90, 90));
    assert_eq!(usable(Redundancy::High, &[(0, 90), (1, 90), (2, 90), (3, 90), (4, 90)]), (180, 90));
    let (_, mut space, placement) = group(Redundancy::Normal, &[(0, 30), (1, 30), (2, 30)]);
    while placement.choose(1, 0, &mut space).is_ok() {}
    assert_eq!(placement.usable(&space).usable_file(1), -15, "a failure could not be healed");
    // Not rounded to AUs: (30 * 3 - 1 - 30) / 2 AUs of 4 MiB are 118 MiB.
    let (_, mut space, placement) = group(Redundancy::Normal, &[(0, 30), (1, 30), (2, 30)]);
    space.allocate_on(DiskNumber(0)).expect("room");
    assert_eq!(placement.usable(&space).usable_file(4), 118);
}

#[test]
fn a_group_without_disks_has_no_space() {
    let placement = Placement::new(Redundancy::High, &[]);
    assert_eq!(placement.choose(1, 1, &mut Space::new()), Err(NoSpace));
    assert_eq!(placement.usable(&Space::new()).usable_file(1), 0);
}
