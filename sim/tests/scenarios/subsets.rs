//! Every subset of the disks at a mount, for each shape of a group and at several moments of its
//! life.
//!
//! It must mount if all ONLINE disks of the newest membership are there, or more than half of its
//! voters and as many disks with data as the redundancy needs. A mounted group reads back all
//! acknowledged contents. A refusal names the missing disks.

use super::*;
use plinth_format::membership::{DiskState, MemberDisk, Membership};
use sim::scenario::pattern;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moment {
    /// Dismounted in good order.
    Dismounted,
    Killed,
    /// A failure group is lost under writes, then the engine is killed.
    LostOne,
    /// It is back, and another is lost.
    LostAnother,
}

const MOMENTS: [Moment; 4] =
    [Moment::Dismounted, Moment::Killed, Moment::LostOne, Moment::LostAnother];

fn must_mount(newest: &Membership, present: &[usize]) -> bool {
    let is_there = |number: u16| present.contains(&usize::from(number));
    let online = || newest.disks.iter().filter(|disk| disk.state == DiskState::Online);
    let voters = newest.voters().count();
    let seen = newest.voters().filter(|disk| is_there(disk.number.0)).count();
    let all = online().all(|disk| is_there(disk.number.0));
    let serves = |disk: &&MemberDisk| disk.state == DiskState::Online && is_there(disk.number.0);
    // Shapes here have one disk in each failure group.
    let data = || newest.disks.iter().filter(|disk| !disk.quorum);
    let away = data().count() - data().filter(serves).count();
    all || (seen * 2 > voters
        && data().any(|disk| serves(&disk))
        && away < newest.redundancy.mirrors())
}

fn every_subset(seed: u64, redundancy: Redundancy, failure_groups: &[&str]) {
    for moment in MOMENTS {
        let mut world = World::new(seed).disks(failure_groups).group(redundancy);
        world.store("table", &pattern(1, 700_000));
        world.store("small", &pattern(2, 7_000));
        match moment {
            Moment::Dismounted => world.dismount(),
            Moment::Killed => world.kill(),
            Moment::LostOne | Moment::LostAnother => {
                world.fail(1);
                world.write("table", 0, &pattern(3, 700_000));
                world.sync("table");
                if moment == Moment::LostAnother {
                    world.heal(1);
                    world.online();
                    world.fail(0);
                    world.write("table", 100_000, &pattern(4, 300_000));
                    world.sync("table");
                    world.store("made late", &pattern(5, 100_000));
                }
                world.kill();
            }
        }
        let images = world.images();
        let newest = world.newest_membership();
        for subset in 0..1_usize << failure_groups.len() {
            let present: Vec<usize> =
                (0..failure_groups.len()).filter(|disk| subset & (1 << disk) != 0).collect();
            let what = format!(
                "seed {seed}, {redundancy:?} of {failure_groups:?}, {moment:?}, {present:?} visible"
            );
            world.restore(&images);
            world.present(&present);
            if must_mount(&newest, &present) {
                world.mount();
            } else if world.is_refused(&what) {
                continue;
            }
            world.verify();
            world.recover();
            world.check();
            world.kill();
        }
        // And all of them, for good.
        world.restore(&images);
        world.present(&(0..failure_groups.len()).collect::<Vec<_>>());
        world.mount();
        world.ends_well();
    }
}

/// A refusal has a remedy, and names what is missing.
trait Refused {
    fn is_refused(&mut self, what: &str) -> bool;
}

impl Refused for World {
    fn is_refused(&mut self, what: &str) -> bool {
        let Err(error) = self.try_mount(false) else { return false };
        let says_why = [
            "more disks are missing than its redundancy covers",
            ": not found",
            "none of the visible disks holds",
            "no visible current disk holds",
            "no member disk was found",
            "no visible ONLINE disk",
        ];
        assert!(says_why.iter().any(|why| error.message.contains(why)), "{what}: {error}");
        assert!(
            error.hint.is_some_and(|hint| hint.contains("attach")),
            "{what}: {}",
            error.message
        );
        true
    }
}

#[test]
fn normal_of_two() {
    (0..4).for_each(|seed| every_subset(seed, Redundancy::Normal, &["A", "B"]));
}

#[test]
fn normal_of_three() {
    (0..3).for_each(|seed| every_subset(seed, Redundancy::Normal, &["A", "B", "C"]));
}

#[test]
fn normal_with_a_quorum_disk() {
    (0..3).for_each(|seed| every_subset(seed, Redundancy::Normal, &["A", "B", "Q"]));
}

#[test]
fn high_of_three() {
    (0..3).for_each(|seed| every_subset(seed, Redundancy::High, &["A", "B", "C"]));
}

#[test]
fn high_of_five() {
    (0..2).for_each(|seed| every_subset(seed, Redundancy::High, &["A", "B", "C", "D", "E"]));
}
