//! What if a failure group were farther away: `what_if.delay.FAILGROUP`, felt by a program that
//! writes a log.

use plinth_tests::{Instance, MIB};
use std::{
    fs::File,
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::Path,
    time::{Duration, Instant},
};

/// The shortest time of several durable writes of 4 KiB.
fn shortest_write(path: &Path) -> Duration {
    let file = File::options()
        .write(true)
        .custom_flags(libc::O_DIRECT | libc::O_DSYNC)
        .open(path)
        .expect("the file");
    let room = vec![0x5a; 8192];
    let start = room.as_ptr().align_offset(4096);
    let one = |number: u64| {
        let began = Instant::now();
        file.write_all_at(&room[start..start + 4096], number * 4096).expect("a write");
        began.elapsed()
    };
    (0..50).map(one).min().unwrap_or_default()
}

/// A log write takes as long as the delay at least; every list says so, also after the engine was
/// killed; and all is as before when the delay is taken away.
#[test]
fn a_log_write_feels_the_distance_and_every_list_says_so() {
    let instance = Instance::new();
    instance.create_group("data", "NORMAL", &[&[256 * MIB], &[256 * MIB]], "");
    let set =
        |value: &str| format!("ALTER DISKGROUP data SET ATTRIBUTE 'what_if.delay.f1' = '{value}'");
    instance.sql(&set("1ms"));
    instance.sql(&set("0"));
    let file = instance.mount("DATA").join("redo");
    std::fs::write(&file, vec![1; MIB as usize]).expect("written");
    let refusal = instance.refused(&set("5ms"));
    assert!(refusal.contains("has files") && refusal.contains("FORCE"), "{refusal}");
    instance.sql(&format!("{} FORCE", set("5ms")));
    assert!(shortest_write(&file) >= Duration::from_millis(5));
    let lists = |instance: &Instance| {
        assert_eq!(
            instance.text("SELECT value FROM v$asm_attribute WHERE name = 'what_if.delay.F1'"),
            "5ms"
        );
        assert_eq!(instance.text("SELECT what_if FROM v$asm_diskgroup"), "F1 by 5ms");
        let delayed =
            "SELECT failgroup FROM v$asm_disk WHERE state = 'DELAYED' AND what_if = '5ms'";
        assert_eq!(instance.text(delayed), "F1");
        for list in [&["lsdg"][..], &["lsdsk"], &["lsdsk", "-p", "-G", "data"]] {
            let listed = instance.plinth(list);
            assert!(!listed.out.contains("5ms"), "a warning, no column: {}", listed.out);
            assert!(listed.err.contains("what if") && listed.err.contains("5ms"), "{}", listed.err);
        }
        let checked = instance.plinth(["check", "data"]);
        assert!(checked.out.contains("failure group F1 is delayed by 5ms"), "{}", checked.out);
    };
    lists(&instance);
    let told = || instance.alert_log().matches("failure group F1 is delayed by 5ms").count();
    assert_eq!(told(), 1);
    instance.kill_engine("DATA");
    let file = instance.mount_again("DATA").join("redo");
    // The mount itself wrote before it knew the attributes.
    let short = || {
        instance.number(
            "SELECT coalesce(sum(h.wait_count), 0) FROM v$asm_disk_histogram h JOIN v$asm_disk d
                ON d.disk_number = h.disk_number AND d.group_number = h.group_number
                WHERE h.io_class = 'WRITE' AND h.wait_time_micro <= 4096 AND d.failgroup = 'F1'",
        )
    };
    let before = short();
    assert!(shortest_write(&file) >= Duration::from_millis(5));
    assert_eq!(short(), before, "no write of the far disk was shorter");
    lists(&instance);
    assert_eq!(told(), 2);
    instance.sql(&set("0"));
    assert_eq!(instance.text("SELECT count(what_if) FROM v$asm_diskgroup"), "0");
    assert!(!instance.plinth(["lsdg"]).err.contains("what if"));
    instance.check("DATA");
}
