//! Disks that are silent for longer than the disk timeout, as when an array fails over: nobody is expelled while none that has the same data answers
//! (R2), whether the I/O is a file's, the catalog's, the activity log's, a membership's, a stamp's or a flush.

use super::*;

/// Three files: one that is overwritten where it is, one that opens regions of the activity log, and new ones, for the catalog.
struct Work {
    old: Node,
    fresh: Node,
}

impl Lab {
    fn at_work(groups: &[&str], redundancy: Redundancy) -> (Self, Work) {
        let lab = Self::new(redundancy, 128 * MIB, groups);
        let [old, fresh] = ["old", "fresh"].map(|name| lab.create_file(name));
        for node in [old, fresh] {
            lab.write(node, 0, &pattern(1, 4_000_000));
            lab.sync(node);
        }
        (lab, Work { old, fresh })
    }

    /// These disks hang, and everything that a group writes is written, each by a thread that waits for its end. `silent` is called while they wait.
    fn work(&self, work: &Work, hang: &[usize], round: u64, silent: impl FnOnce()) {
        self.write(work.old, 2_000_000, &pattern(30 + round, 100_000));
        hang.iter().for_each(|disk| self.disks[*disk].faults(|faults| faults.hang = true));
        std::thread::scope(|scope| {
            let group = self.group();
            scope.spawn(move || self.sync(work.old));
            scope.spawn(move || self.write(work.old, 300_000, &pattern(10 + round, 200_000)));
            scope.spawn(move || {
                // Beyond what the file has: space, marks and a commit.
                self.write(work.fresh, 4_000_000 + round * 3_000_000, &pattern(20 + round, 3_000_000));
                self.sync(work.fresh);
            });
            scope.spawn(move || self.sync(self.create_file(&format!("new {round}"))));
            scope.spawn(move || self.read(work.old, 1_000_000, 500_000));
            scope.spawn(move || block_on(group.voters.restamp(false)));
            scope.spawn(move || block_on(group.voters.change(|_| Ok(true))).expect("it is recorded"));
            silent();
        });
        assert_eq!(self.read(work.old, 300_000, 200_000), pattern(10 + round, 200_000));
        assert_eq!(self.read(work.fresh, 4_000_000 + round * 3_000_000, 3_000_000), pattern(20 + round, 3_000_000));
        self.find(&format!("new {round}"));
    }

    fn states(&self) -> Vec<DiskState> {
        (0..self.disks.len()).map(|disk| self.state(disk)).collect()
    }

    fn is_hung(&self, disk: usize) -> bool {
        self.group().members.values().nth(disk).expect("it is there").is_hung()
    }

    fn alarms(&self) -> usize {
        self.world.events().iter().filter(|event| event.text.starts_with("no disk answers")).count()
    }
}

/// All disks fall silent together for longer than the timeout, and answer again, in any order. None goes offline, nothing is lost, and the operator is
/// told what it was.
#[test]
fn nobody_is_expelled_while_all_disks_are_silent() {
    let cases: [(&[&str], Redundancy); 4] = [
        (&["A", "B"], Redundancy::Normal),
        (&["A", "B", "C"], Redundancy::Normal),
        (&["A", "B", "C"], Redundancy::High),
        (&["A", "A", "B", "B", "Q"], Redundancy::Normal),
    ];
    for (groups, redundancy) in cases {
        let (lab, work) = Lab::at_work(groups, redundancy);
        for round in 0..groups.len() {
            let order = (0..groups.len()).map(|disk| (disk + round) % groups.len());
            let all: Vec<_> = (0..groups.len()).collect();
            lab.work(&work, &all, round as u64, || {
                lab.wait_for("the silence", || lab.alarms() > round);
                order.for_each(|disk| lab.disks[disk].heal());
            });
            assert!(
                lab.states().iter().all(|state| *state == DiskState::Online),
                "{groups:?}, {round}: {:?}",
                lab.states()
            );
        }
        assert!(!lab.told("is offline") && lab.told("disks answer again"), "{groups:?}");
        lab.check();
    }
}

/// All are silent, and then all but one answer: that one is expelled, a whole timeout after the others came back.
#[test]
fn who_stays_silent_when_others_answer_is_expelled() {
    let groups = ["A", "B", "C"];
    let (lab, work) = Lab::at_work(&groups, Redundancy::Normal);
    for silent in 0..3 {
        lab.work(&work, &[0, 1, 2], silent as u64, || {
            lab.wait_for("the silence", || lab.alarms() > silent);
            (0..3).filter(|disk| *disk != silent).for_each(|disk| lab.disks[disk].heal());
        });
        lab.wait_for("its end", || lab.state(silent) == DiskState::Offline);
        let others = (0..3).filter(|disk| *disk != silent);
        assert!(others.into_iter().all(|disk| lab.state(disk) == DiskState::Online), "{silent}: {:?}", lab.states());
        lab.disks[silent].heal();
        lab.online_all();
    }
    lab.check();
}

/// Two of three failure groups are silent together, as on one array, and the third is not: what only those two have waits for them. When they answer
/// both are as they were.
#[test]
fn two_silent_mirrors_do_not_expel_each_other() {
    let (lab, work) = Lab::at_work(&["A", "B", "C"], Redundancy::Normal);
    for round in 0..3_usize {
        let silent = [round, (round + 1) % 3];
        lab.work(&work, &silent, round as u64, || {
            lab.wait_for("the timeouts", || silent.iter().all(|disk| lab.is_hung(*disk)));
            silent.iter().for_each(|disk| lab.disks[*disk].heal());
        });
        assert!(lab.states().iter().all(|state| *state == DiskState::Online), "{round}: {:?}", lab.states());
    }
    lab.check();
}
