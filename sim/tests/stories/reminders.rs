//! Warnings that an operator gets before a limit is reached.

use super::*;
use plinth_engine::admin::{Scope, ScrubOrder, ScrubPower};

/// The alert log warns once at each limit when a group fills, and again when there was room
/// meanwhile and the group fills again.
#[test]
fn a_group_that_fills_is_reported() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    block_on(lab.group().set_attribute("space_warning", "50")).expect("it is set");
    assert!(block_on(lab.group().set_attribute("space_critical", "0")).is_err());
    let node = lab.create_file("big");
    let fill = |from: u64, least_left: u64| {
        let mut at = from;
        while block_on(lab.session().space()).expect("space").blocks_free * 4096 > least_left
            && block_on(lab.session().write(node, at, &[1; MIB as usize], false)).is_ok()
        {
            at += MIB;
        }
    };
    let count = |text: &str| lab.events().iter().filter(|event| event.text.contains(text)).count();
    let all = block_on(lab.session().space()).expect("space").blocks_free * 4096;
    fill(0, all * 45 / 100);
    lab.wait_for("the first limit", || count("% full") == 1);
    fill(0, 0);
    fill(MIB * 100, 0);
    lab.wait_for("the last limit", || count("is full: nothing more can be allocated") == 1);
    block_on(lab.session().change(node, Changes { size: Some(MIB), ..Changes::default() }))
        .expect("it is cut");
    lab.wait_for("the space", || {
        block_on(lab.session().space()).expect("space").blocks_free * 4096 > all * 8 / 10
    });
    lab.wait(Duration::from_secs(10));
    let before = count("% full");
    fill(MIB, all * 45 / 100);
    lab.wait_for("the first limit, again", || count("% full") > before);
}

/// A group that is never scrubbed is reported. After a scrub of the whole group it is not, even
/// after the next mount, until the same time has passed again.
#[test]
fn a_group_that_is_never_scrubbed_is_reported() {
    const MONTH: Duration = Duration::from_secs(31 * 24 * 3600);
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    lab.shift_clock(MONTH);
    lab.wait_for("the reminder", || lab.told("was never scrubbed, and was made 31 days ago"));
    let all = ScrubOrder { scope: Scope::All, repair: false, power: ScrubPower::Max, force: true };
    block_on(lab.group().scrub(&all)).expect("it begins");
    lab.wait_for("the scrub", || lab.told("scrub ended"));
    lab.dismount();
    lab.mount();
    lab.shift_clock(MONTH / 2);
    lab.wait(Duration::from_secs(10));
    assert!(!lab.told("was last scrubbed"));
    lab.shift_clock(MONTH / 2);
    lab.wait_for("the next reminder", || lab.told("was last scrubbed 31 days ago"));
}
