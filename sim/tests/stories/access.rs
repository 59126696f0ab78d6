//! Users, user groups, owners and permissions: statements change the same modes that the kernel
//! enforces.

use super::*;
use plinth_engine::{
    admin::{AccessChange, AdminError, Permission, Principal},
    api::{Changes, SetXattr},
};

impl Lab {
    fn change_access(&self, change: &AccessChange) -> Result<(), AdminError> {
        block_on(self.group().change_access(change))
    }

    fn ask(&self, sql: &str) -> String {
        format!("{:?}", block_on(self.group().query(sql)).expect("a query").rows)
    }

    /// Mode, user and group of a file.
    fn owner(&self, name: &str) -> (u32, u32, u32) {
        let file =
            block_on(self.session().lookup(ROOT, name.as_bytes())).expect("the file is there");
        (file.mode, file.uid, file.gid)
    }
}

fn principal(number: u32, name: &str) -> Principal {
    Principal { number: Some(number), name: name.to_owned() }
}

fn names(all: &[&str]) -> Vec<String> {
    all.iter().map(|name| (*name).to_owned()).collect()
}

/// Statements set owners and permissions; `stat` and the views show them at once, and after a
/// crash. A user that owns files cannot be dropped; another one can take its place.
#[test]
fn statements_stat_and_views_agree_on_owners_and_modes() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    lab.create_file("one");
    lab.create_file("two");
    let change = |lab: &Lab, change: AccessChange| lab.change_access(&change);
    let own = |owner: &str, files: &[&str]| AccessChange::SetOwnership {
        owner: Some(owner.to_owned()),
        usergroup: None,
        files: names(files),
    };
    let error = change(&lab, own("ann", &["one"])).expect_err("there is no user ann");
    assert_eq!(error.code, Code::NoSuchUser);
    change(&lab, AccessChange::AddUsers(vec![principal(1001, "ann"), principal(1002, "bob")]))
        .expect("added");
    for again in [principal(1001, "eve"), principal(1009, "bob")] {
        let error = change(&lab, AccessChange::AddUsers(vec![again])).expect_err("taken");
        assert_eq!(error.code, Code::UserExists);
    }
    let dba = AccessChange::AddUserGroup {
        group: principal(2001, "dba"),
        members: names(&["ann", "bob"]),
    };
    change(&lab, dba).expect("added");
    change(&lab, own("ann", &["+DATA/one", "two"])).expect("owned");
    let group = AccessChange::SetOwnership {
        owner: None,
        usergroup: Some("dba".to_owned()),
        files: names(&["one"]),
    };
    change(&lab, group).expect("owned");
    let permission = AccessChange::SetPermission {
        owner: Some(Permission::ReadWrite),
        usergroup: Some(Permission::ReadOnly),
        other: Some(Permission::None),
        files: names(&["one"]),
    };
    change(&lab, permission).expect("permitted");
    assert_eq!(lab.owner("one"), (0o640, 1001, 2001));
    lab.kill();
    lab.mount();
    assert_eq!((lab.owner("one"), lab.owner("two")), ((0o640, 1001, 2001), (0o644, 1001, 0)));
    let owners = "SELECT u.os_name, f.permissions FROM v$asm_file f JOIN v$asm_user u ON u.user_number = f.user_number \
                  WHERE f.usergroup_number = 2001";
    assert_eq!(lab.ask(owners), r#"[[Text("ann"), Text("rw-r-----")]]"#);
    let drop = |cascade| AccessChange::DropUsers { users: names(&["ann"]), cascade };
    assert_eq!(change(&lab, drop(false)).expect_err("ann owns files").code, Code::UserInUse);
    let replace = AccessChange::ReplaceUsers(vec![("ann".to_owned(), principal(1003, "cleo"))]);
    change(&lab, replace).expect("replaced");
    assert_eq!((lab.owner("one").1, lab.owner("two").1), (1003, 1003));
    assert_eq!(
        lab.ask("SELECT member_number FROM v$asm_usergroup_member ORDER BY 1"),
        "[[Integer(1002)], [Integer(1003)]]"
    );
    let gone = AccessChange::DropUserGroup("dba".to_owned());
    assert_eq!(change(&lab, gone.clone()).expect_err("it has a file").code, Code::UserInUse);
    change(&lab, AccessChange::DropUsers { users: names(&["cleo"]), cascade: true })
        .expect("dropped with all files of cleo");
    assert!(block_on(lab.session().lookup(ROOT, b"one")).is_err());
    change(&lab, gone).expect("it has none any more");
    assert_eq!(lab.ask("SELECT os_name FROM v$asm_user"), r#"[[Text("bob")]]"#);
    lab.check();
}

/// A write to a program removes its capabilities, whether or not they were in memory. Its other
/// attributes stay, and so do those of other files.
#[test]
fn a_write_removes_the_capabilities_of_its_file() {
    const CAPABILITY: &[u8] = b"security.capability";
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let nodes = ["tool", "other"].map(|name| lab.create_file(name));
    for node in nodes {
        let program = Changes { mode: Some(0o755), ..Changes::default() };
        block_on(lab.session().change(node, program)).expect("it is one");
    }
    let set = |lab: &Lab, node, name| {
        block_on(lab.session().set_xattr(node, name, b"all of them", SetXattr::Any))
            .expect("it is set");
    };
    let names = |lab: &Lab, node| block_on(lab.session().xattrs(node)).expect("they are read");
    for node in nodes {
        lab.write(node, 0, &pattern(1, 8192));
        set(&lab, node, b"user.a");
        set(&lab, node, CAPABILITY);
    }
    lab.write(nodes[0], 0, &pattern(2, 4096));
    assert_eq!(names(&lab, nodes[0]), [b"user.a"]);
    assert_eq!(names(&lab, nodes[1]), [CAPABILITY, b"user.a"]);
    // Also when the attributes were not read since the mount.
    set(&lab, nodes[0], CAPABILITY);
    lab.kill();
    lab.mount();
    lab.write(nodes[0], 100, b"bytes");
    assert_eq!(names(&lab, nodes[0]), [b"user.a"]);
    lab.dismount();
    lab.mount();
    lab.write(nodes[1], 0, &pattern(2, 4096));
    assert_eq!(names(&lab, nodes[1]), [b"user.a"]);
    lab.check();
}
