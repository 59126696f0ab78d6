//! Copies of all disks of a group: which devices a mount uses, and how copies become a group of
//! their own.

use super::*;
use crate::{
    disk::identify, group::rename_group::RenamingPlan, membership::mount_decision, testing::Fuse,
};
use plinth_format::DiskNumber;

impl Lab {
    /// Copies of all disks, at paths of their own.
    fn copies(&self) -> Vec<MemoryDisk> {
        (0..).zip(&self.disks).map(|(index, disk)| disk.twin_at(&format!("/copy{index}"))).collect()
    }
}

/// The first MiB of each disk.
fn images(disks: &[MemoryDisk]) -> Vec<Vec<u8>> {
    // Records and header copies lie there: all that a mount or a renaming writes.
    disks.iter().map(|disk| disk.peek(0, MIB as usize)).collect()
}

fn plan(
    world: &Arc<TestWorld>,
    from: &str,
    to: &str,
) -> Result<RenamingPlan, crate::admin::AdminError> {
    let world: Arc<dyn World> = Arc::clone(world) as _;
    block_on(Group::plan_renaming(&world, from, to))
}

fn carry_out(
    world: &Arc<TestWorld>,
    plan: &RenamingPlan,
) -> Result<usize, crate::admin::AdminError> {
    let world: Arc<dyn World> = Arc::clone(world) as _;
    block_on(Group::carry_out_renaming(&world, plan, |_| {}))
}

/// Before another engine takes over the mount, a rehearsal says whether that engine could mount. It
/// could although copies are discovered, as the host has noted which devices are used. Without the
/// note the rehearsal is refused, and the group stays mounted.
#[test]
fn a_rehearsal_answers_as_the_next_mount_would() {
    let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 300_000));
    lab.copies().iter().for_each(|copy| lab.world.attach(copy));
    block_on(Group::rehearse(&lab.world(), "DATA")).expect("it could");
    lab.world.forget_notes();
    let refusal = block_on(Group::rehearse(&lab.world(), "DATA"))
        .expect_err("no note says which are the disks");
    let text = refusal.to_string();
    assert!(text.contains("/copy0 and /disk0; ") || text.contains("/copy1 and /disk1; "), "{text}");
    assert_eq!(lab.read(node, 0, 300_000), pattern(1, 300_000));
    // The note is written again when the group changes.
    block_on(lab.group().set_attribute("mount_wait", "7")).expect("it is set");
    lab.wait_for("the note", || block_on(Group::rehearse(&lab.world(), "DATA")).is_ok());
    lab.kill();
    lab.mount();
    assert!(lab.told("/copy0 is a copy of disk DATA_0000 and is not used: this host uses /disk0"));
    assert_eq!(lab.read(lab.find("table"), 0, 300_000), pattern(1, 300_000));
    lab.check();
}

/// Copies of the disks of a mounted group get their own group name, and are mounted beside it.
/// Writes to the one group do not appear in the other.
#[test]
fn renamed_copies_are_mounted_beside_the_original_group() {
    let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "C"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 300_000));
    lab.sync(node);
    // The copies are made as an engine's death would leave the disks.
    let copies = lab.copies();
    let elsewhere = TestWorld::new();
    copies.iter().for_each(|copy| elsewhere.attach(copy));

    // Refused: disks that are in use, the same name again, and an incomplete set of disks.
    let before = images(&lab.disks);
    assert_eq!(
        plan(&lab.world, "DATA", "COPY").expect_err("they are used").code,
        Code::HeldElsewhere
    );
    assert!(images(&lab.disks) == before);
    assert_eq!(plan(&elsewhere, "DATA", "DATA").expect_err("the same name").code, Code::Invalid);
    elsewhere.detach("/copy2");
    plan(&elsewhere, "DATA", "COPY").expect_err("one is missing");
    elsewhere.attach(&copies[2]);

    let marks = lab.group().lost_block(&lab.group().members[&DiskNumber(1)], 40 * MIB);
    let planned = plan(&elsewhere, "DATA", "COPY").expect("a plan");
    assert_eq!(carry_out(&elsewhere, &planned).expect("renamed"), 3);
    // The same plan again changes nothing.
    let done = images(&copies);
    assert_eq!(carry_out(&elsewhere, &planned).expect("renamed"), 3);
    assert!(images(&copies).iter().zip(&done).all(|(now, then)| now[..4096] == then[..4096]));

    copies.iter().for_each(|copy| lab.world.attach(copy));
    assert_eq!(plan(&lab.world, "COPY", "DATA").expect_err("there is one").code, Code::GroupExists);
    let copy = block_on(Group::mount(lab.world(), "COPY", false)).expect("mounted beside it");
    let session = Session::new(Arc::clone(&copy), None);
    let table = block_on(session.lookup(ROOT, b"table")).expect("it is there").node;
    let mut bytes = vec![0; 300_000];
    assert_eq!(block_on(session.read(table, 0, &mut bytes)).expect("read"), 300_000);
    assert!(bytes == pattern(1, 300_000));
    block_on(session.write(table, 0, &pattern(2, 300_000), false)).expect("written");
    lab.write(node, 0, &pattern(3, 300_000));
    assert_eq!(block_on(session.read(table, 0, &mut bytes)).expect("read"), 300_000);
    assert!(bytes == pattern(2, 300_000) && lab.read(node, 0, 300_000) == pattern(3, 300_000));
    let report = block_on(copy.check(false)).expect("the check runs");
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    // A block that was lost before is lost in the copy, too.
    assert!(copy.lost_block(&copy.members[&DiskNumber(1)], 40 * MIB)[..] == marks[..]);
    assert_ne!(
        (copy.id, copy.members[&DiskNumber(1)].id()),
        (lab.group().id, lab.group().members[&DiskNumber(1)].id())
    );
    block_on(copy.dismount(false)).expect("it dismounts");
    lab.kill();
    lab.mount();
    assert_eq!(lab.read(lab.find("table"), 0, 300_000), pattern(3, 300_000));
    lab.check();
}

/// A renaming is interrupted after each of its changes in turn. The same plan completes it, and the
/// group has all its data.
#[test]
fn an_interrupted_renaming_is_completed_by_the_same_plan() {
    let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 300_000));
    lab.sync(node);
    lab.dismount();
    let whole = lab.copies();
    let mut places = 0;
    for changes in 0.. {
        let copies: Vec<MemoryDisk> = whole.iter().map(MemoryDisk::twin).collect();
        let world = TestWorld::new();
        copies.iter().for_each(|copy| world.attach(copy));
        let planned = plan(&world, "DATA", "COPY").expect("a plan");
        let fuse = Fuse::new(changes);
        copies.iter().for_each(|copy| copy.put_fuse(&fuse));
        let (doomed, its) = (Arc::clone(&world), planned.clone());
        let worker = std::thread::spawn(move || carry_out(&doomed, &its).map(drop));
        while !fuse.is_blown() && !worker.is_finished() {
            std::thread::sleep(Duration::from_millis(1));
        }
        if !fuse.is_blown() {
            worker.join().expect("no panic").expect("renamed");
            break;
        }
        places += 1;
        // The last I/O stays unanswered, and unflushed bytes may be lost or torn.
        world.stop_time();
        let after: Vec<MemoryDisk> = copies.iter().map(MemoryDisk::twin).collect();
        for (disk, index) in after.iter().zip(0..) {
            if changes % 2 == 1 {
                disk.tear_and_cut_power(changes * 10 + index);
            }
        }
        let world = TestWorld::new();
        after.iter().for_each(|copy| world.attach(copy));
        assert_eq!(carry_out(&world, &planned).expect("it goes on"), 2, "after {changes} changes");
        let mounting: Arc<dyn World> = Arc::clone(&world) as _;
        let copy = block_on(Group::mount(mounting, "COPY", false)).expect("mounted");
        let session = Session::new(Arc::clone(&copy), None);
        let table = block_on(session.lookup(ROOT, b"table")).expect("it is there").node;
        let mut bytes = vec![0; 300_000];
        assert_eq!(block_on(session.read(table, 0, &mut bytes)).expect("read"), 300_000);
        assert!(bytes == pattern(1, 300_000), "after {changes} changes");
        assert!(
            copy.members().iter().all(|(_, state)| *state == DiskState::Online),
            "after {changes} changes"
        );
        block_on(copy.dismount(false)).expect("it dismounts");
        copies.iter().chain(&after).for_each(MemoryDisk::scrap);
    }
    assert!(places > 20, "only {places} places were tried");
}

/// A plan does not rename copies that were used after it was made.
#[test]
fn a_renaming_plan_is_refused_when_its_disks_were_used_since() {
    let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    lab.create_file("table");
    lab.dismount();
    let planned = plan(&lab.world, "DATA", "COPY").expect("they are not in use");
    lab.mount();
    lab.dismount();
    let before = images(&lab.disks);
    assert!(
        carry_out(&lab.world, &planned)
            .expect_err("they were used")
            .to_string()
            .contains("was used since")
    );
    assert!(images(&lab.disks) == before);
    lab.mount();
    let probe_results = block_on(async {
        let mut probe_results = Vec::new();
        for one in lab.world().discover().await {
            let disk = one.disk.clone().expect("open");
            let header = identify::read_header(&*lab.world(), &*disk).await.expect("a header").best;
            probe_results.push(identify::probe(&*lab.world(), &one, &*disk, header).await);
        }
        probe_results
    });
    mount_decision::choose("DATA", &probe_results, false).expect("it is what it was");
}
