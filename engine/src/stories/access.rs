//! Users, user groups, owners and permissions: statements change the same modes that the kernel
//! enforces.

use super::*;
use crate::{
    admin::{AccessChange, AdminError, Principal},
    api::{Changes, SetXattr},
};
use std::sync::mpsc::{Receiver, Sender, channel};

impl Lab {
    fn change_access(&self, change: &AccessChange) -> Result<(), AdminError> {
        block_on(self.group().change_access(change))
    }

    fn ask(&self, sql: &str) -> String {
        format!("{:?}", block_on(self.group().query(sql)).expect("a query").rows)
    }
}

fn principal(number: u32, name: &str) -> Principal {
    Principal { number: Some(number), name: name.to_owned() }
}

/// A catalog made by an older engine has none of these tables: the mount makes them.
#[test]
fn an_older_catalog_gets_its_tables() {
    let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let back = |connection: &rusqlite::Connection| Ok(connection.execute_batch(FIRST_VERSION)?);
    block_on(lab.group().catalog.write(true, back)).expect("as an earlier version made it");
    lab.dismount();
    lab.mount();
    assert_eq!(lab.ask("SELECT * FROM v$asm_volume"), "[]");
    lab.change_access(&AccessChange::AddUsers(vec![principal(1001, "ann")])).expect("added");
    assert_eq!(lab.ask("SELECT os_name FROM v$asm_user"), r#"[[Text("ann")]]"#);
    lab.check();
}

/// A file's owner changes, which removes its capabilities. A read of its extended attributes while
/// the commit is in flight still shows them, but does not cache them: a read after the commit shows
/// none.
#[test]
fn capabilities_read_during_their_removal_are_not_cached() {
    const CAPABILITY: &[u8] = b"security.capability";
    let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let node = lab.create_file("tool");
    block_on(lab.session().set_xattr(node, CAPABILITY, b"all of them", SetXattr::Any))
        .expect("it is set");
    // After a mount none of the file's attributes is in memory.
    lab.dismount();
    lab.mount();
    let node = lab.find("tool");
    let group = lab.group();
    let waiting = |count: usize| lab.wait_for("the jobs", || group.catalog.jobs_waiting() >= count);
    let standstill = |begun: Sender<()>, go_on: Receiver<()>| {
        move |_: &rusqlite::Connection| {
            begun.send(()).expect("the test waits for it");
            go_on.recv().map_err(|_| FileError::Dismounted)
        }
    };
    let names = || block_on(lab.session().xattrs(node)).expect("they are read");
    let ((begun, is_begun), (go_on, may_go_on)) = (channel(), channel());
    let ((begun_too, is_begun_too), (go_on_too, may_go_on_too)) = (channel(), channel());
    std::thread::scope(|scope| {
        let first =
            scope.spawn(|| block_on(group.catalog.release(false, standstill(begun, may_go_on))));
        is_begun.recv().expect("the job runs");
        let owner = Changes { uid: Some(1001), ..Changes::default() };
        let changing = scope.spawn(|| block_on(lab.session().change(node, owner)));
        waiting(1);
        // This job runs after the change, in the same commit.
        let second = scope
            .spawn(|| block_on(group.catalog.release(false, standstill(begun_too, may_go_on_too))));
        waiting(2);
        go_on.send(()).expect("it waits");
        is_begun_too.recv().expect("the job runs");
        assert_eq!(names(), [CAPABILITY], "the change is not committed yet");
        go_on_too.send(()).expect("it waits");
        first.join().expect("no panic").expect("committed");
        second.join().expect("no panic").expect("committed");
        changing.join().expect("no panic").expect("the owner is changed");
    });
    assert!(names().is_empty(), "{:?}", names());
    lab.check();
}
