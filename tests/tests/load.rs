//! Loads on a disk group, with the group's own figures beside them.

use plinth_tests::{Instance, MIB};

/// The number of events in a histogram that was printed.
fn events(said: &str, event: &str) -> u64 {
    let name = format!("{event:<30} ");
    let count = |line: &str| {
        let count = line.strip_prefix(&name)?.split_whitespace().nth(1)?;
        count.parse::<u64>().ok()
    };
    said.lines().filter_map(count).sum()
}

/// The group counts the requests of the run, and those only: the data is written before.
#[test]
fn slob_on_a_group_prints_the_groups_own_histograms() {
    let instance = Instance::new();
    instance.add_disk("f0d0", 512 * MIB);
    instance.add_disk("f1d0", 512 * MIB);
    instance.create_group("data", "NORMAL", &[&[512 * MIB], &[512 * MIB]], "'au_size' = '1M'");
    let mount = instance.mount("DATA");
    let target = mount.to_str().expect("a path in words");
    let options = "--schemas 1 --threads 2 --scale 80M --update-pct 25 --run-time 3 --group data";
    let words = ["load", "slob", target].into_iter().chain(options.split(' '));
    let said = instance.plinth(words).ok();
    let reads = events(&said, "db file sequential read");
    let seen = events(&said, "requests: SMALL READ");
    assert!(reads > 0 && (reads..=reads + 2).contains(&seen), "{reads} of {seen}: {said}");
    let written = ["db file parallel write", "log file parallel write"];
    let written: u64 = written.iter().map(|event| events(&said, event)).sum();
    let seen = ["requests: SMALL WRITE", "requests: LARGE WRITE"];
    let seen: u64 = seen.iter().map(|event| events(&said, event)).sum();
    assert!(written > 0 && seen >= written, "{written} of {seen}: {said}");
    assert!(seen < written + 64, "the writes of the data are not of the run: {said}");
    assert!(said.contains("disks of ") && said.contains("Disk group DATA, by its own views:"));
    let refused = instance.plinth(["load", "slob", target, "--group", "nosuch"]).refused();
    assert!(refused.contains("NOSUCH"), "{refused}");
}
