//! What if a failure group were farther away: `what_if.delay.FAILGROUP`. `group/what_if.rs`.

use super::*;
use crate::admin::{AdminError, Command};

impl Lab {
    fn delay(&self, name: &str, value: &str, force: bool) -> Result<(), AdminError> {
        let (name, value) = (format!("what_if.delay.{name}"), value.to_owned());
        let command = Command::SetAttribute { name, value, force };
        block_on(self.group().carry_out(command)).map(|_| ())
    }

    /// The shortest time that a synced write of 4 KiB takes of several: the others may have met a
    /// busy host.
    fn shortest_write(&self, node: Node) -> Duration {
        let one = |number: u64| {
            let began = self.world.monotonic();
            self.write(node, number * 4096, &[7; 4096]);
            self.sync(node);
            self.world.monotonic() - began
        };
        (0..20).map(one).min().unwrap_or_default()
    }

    fn micros_of(&self, column: &str, disk: u32) -> f64 {
        let sql = format!("SELECT {column} * 1e6 FROM v$asm_disk WHERE disk_number = {disk}");
        self.rows(&sql)[0][0].parse().expect("a number")
    }
}

const DELAY: Duration = Duration::from_millis(20);

/// A mirrored write waits for the far mirror, and only the far disk's statistics have the delay.
/// Reads go to the near one.
#[test]
fn a_mirrored_write_is_as_slow_as_the_delay_of_its_far_mirror() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["NEAR", "FAR"]);
    let node = lab.create_file("redo");
    lab.write(node, 0, &vec![7; MIB as usize]);
    lab.sync(node);
    lab.delay("far", "20ms", true).expect("it is set");
    let after = lab.shortest_write(node);
    assert!(after >= DELAY, "{after:?}");
    let delay = DELAY.as_micros() as f64;
    assert!(lab.micros_of("write_time", 1) > 20.0 * delay, "twenty writes and more");
    let reads = || lab.rows("SELECT reads FROM v$asm_disk ORDER BY disk_number");
    lab.wait_for("reads to go to the near mirror", || {
        let before = reads();
        (0..100).for_each(|block| assert_eq!(lab.read(node, block * 8192, 8192)[0], 7));
        let went = |disk: usize| {
            let number = |rows: &[Vec<String>]| rows[disk][0].parse::<u64>().expect("a count");
            number(&reads()) - number(&before)
        };
        went(0) > 10 * went(1)
    });
    lab.delay("FAR", "0", false).expect("it is taken away");
    assert_eq!(lab.rows("SELECT count(what_if) FROM v$asm_disk"), [["0"]]);
    lab.check();
}

/// A delay is no silence: with one that is as long as the shortest deadline and more, no disk goes
/// OFFLINE and nothing is reported as overdue.
#[test]
fn a_delay_is_not_taken_for_a_disk_that_hangs() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    // Longer than any that a statement takes.
    let delays = ["A", "B"].map(|name| (name.to_owned(), Duration::from_millis(1500)));
    block_on(lab.group().set_attribute("disk_timeout", "1")).expect("it is set");
    let node = lab.create_file("redo");
    lab.group().members.delay(delays.into_iter().collect());
    lab.write(node, 0, &[7; 4096]);
    lab.sync(node);
    assert_eq!(lab.rows("SELECT DISTINCT state FROM v$asm_disk"), [["DELAYED"]]);
    let timeouts = "SELECT sum(write_timeout) + sum(read_timeout) FROM v$asm_disk";
    assert_eq!(lab.rows(timeouts), [["0"]]);
    lab.group().members.delay(Default::default());
    lab.check();
}

#[test]
fn a_delay_is_listed_and_survives_a_mount() {
    let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["NEAR", "FAR"]);
    lab.delay("far", "500us", false).expect("the group has no files");
    for round in 0..2 {
        let attribute = "SELECT name, value FROM v$asm_attribute WHERE name LIKE 'what_if%'";
        assert_eq!(lab.rows(attribute), [["what_if.delay.FAR", "0.5ms"]]);
        assert_eq!(lab.rows("SELECT what_if FROM v$asm_diskgroup"), [["FAR by 0.5ms"]]);
        let disks = "SELECT state, coalesce(what_if, '-') FROM v$asm_disk ORDER BY disk_number";
        assert_eq!(lab.rows(disks), [["NORMAL", "-"], ["DELAYED", "0.5ms"]]);
        let told = |lab: &Lab| {
            let is_it = |event: &crate::event::Event| event.text.contains("failure group FAR");
            lab.world.events().iter().filter(|event| is_it(event)).count()
        };
        assert_eq!(told(&lab), round + 1, "one at the statement, one at the mount");
        let remarks = lab.group().delay_sentences();
        assert!(remarks[0].contains("FAR is delayed by 0.5ms"), "{remarks:?}");
        if round == 0 {
            lab.dismount();
            lab.mount();
        }
    }
    // A disk that joins the failure group is as far away.
    let path = lab.spare(64 * MIB);
    lab.exchange(&[(&path, "FAR")], &[], false).expect("it is added");
    assert_eq!(lab.rows("SELECT what_if FROM v$asm_disk WHERE disk_number = 2"), [["0.5ms"]]);
}

#[test]
fn a_delay_of_a_group_with_files_needs_force() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["NEAR", "FAR"]);
    let refused = |name: &str, value: &str| lab.delay(name, value, false).expect_err("refused");
    for value in ["1", "101ms", "none", "-1ms"] {
        assert!(refused("far", value).hint.is_some(), "{value}");
    }
    let unknown = refused("nowhere", "1ms");
    assert!(unknown.hint.is_some_and(|hint| hint.contains("FAR, NEAR")), "{}", unknown.message);
    lab.create_file("data");
    let held = refused("far", "1ms");
    assert!(held.hint.is_some_and(|hint| hint.contains("FORCE")), "{}", held.message);
    assert_eq!(lab.rows("SELECT count(what_if) FROM v$asm_disk"), [["0"]]);
    lab.delay("far", "1ms", true).expect("it is forced");
    lab.delay("far", "0", false).expect("it may always be taken away");
    assert_eq!(lab.rows("SELECT count(what_if) FROM v$asm_disk"), [["0"]]);
    let attribute = "SELECT count(*) FROM v$asm_attribute WHERE name LIKE 'what_if%'";
    assert_eq!(lab.rows(attribute), [["0"]]);
}
