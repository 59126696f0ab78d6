//! Two halves of a group are lost and come back, in every order.
//!
//! Each round: some disks are visible when the group is mounted, it is written, one half may be
//! lost under the writes, and the engine dies. In every order, a mount shows the last acknowledged
//! contents, or is refused because the half that went on is missing.

use super::*;
use sim::scenario::pattern;

/// The halves that are visible, and the half that is lost.
type Round = (&'static [usize], Option<usize>);

const ROUNDS: [Round; 7] = [
    (&[0, 1], None),
    (&[0, 1], Some(0)),
    (&[0, 1], Some(1)),
    (&[0], None),
    (&[1], None),
    // It is back while the group is mounted, then the other one is lost.
    (&[0], Some(0)),
    (&[1], Some(1)),
];

fn tell(seed: u64, failure_groups: &[&str], rounds: &[Round]) {
    let mut world = World::new(seed).disks(failure_groups).group(Redundancy::Normal);
    let others: Vec<usize> = (2..failure_groups.len()).collect();
    world.store("table", &pattern(0, 20_000));
    world.dismount();
    for (round, (present, lost)) in (1..).zip(rounds) {
        world.present(&[present, &others[..]].concat());
        if world.try_mount(false).is_err() {
            // Then the other half, and nothing else, must have been missing.
            assert!(present.len() == 1, "seed {seed}: {rounds:?}");
            continue;
        }
        world.verify();
        world.write("table", 0, &pattern(round, 10_000));
        if let Some(lost) = lost {
            // One is lost only when the other has everything.
            world.give_back(0);
            world.give_back(1);
            world.online();
            world.fail(*lost);
            world.write("table", 5_000, &pattern(round + 100, 10_000));
            world.sync("table");
        }
        world.verify();
        if round % 2 == 0 { world.kill() } else { world.dismount() }
    }
    world.present(&(0..failure_groups.len()).collect::<Vec<_>>());
    world.mount();
    world.ends_well();
}

/// Every pair of rounds, of two disks and with a quorum disk beside them.
#[test]
fn every_order_of_two_rounds() {
    for (seed, failure_groups) in (0..).zip([&["A", "B"][..], &["A", "B", "Q"]]) {
        for first in ROUNDS {
            for second in ROUNDS {
                tell(seed, failure_groups, &[first, second]);
            }
        }
    }
}

/// Longer stories, drawn by the seed.
#[test]
fn many_rounds() {
    for seed in seeds() {
        let mut numbers = plinth_engine::testing::Numbers::new(seed);
        let rounds: Vec<Round> =
            (0..8).map(|_| ROUNDS[usize::try_from(numbers.below(7)).expect("small")]).collect();
        tell(seed, if seed % 2 == 0 { &["A", "B"] } else { &["A", "B", "Q"] }, &rounds);
    }
}
