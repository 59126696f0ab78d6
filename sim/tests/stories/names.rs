//! Disks are renamed.

use super::*;
use plinth_engine::admin::{AdminError, Renaming};

impl Lab {
    pub fn rename(&self, pairs: &[(&str, &str)]) -> Result<(), AdminError> {
        let pairs = pairs.iter().map(|(old, new)| ((*old).to_owned(), (*new).to_owned())).collect();
        block_on(self.group().rename(&Renaming::Disks(pairs)))
    }

    pub fn names(&self) -> Vec<String> {
        self.group().members().into_iter().map(|(name, _)| name).collect()
    }
}

/// Two disks exchange their names in one statement. Membership and headers have the new names, also
/// after the next mount.
#[test]
fn disks_are_renamed() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "C"]);
    let node = lab.create_file("table");
    lab.write(node, 0, &pattern(1, 2 << 20));
    lab.sync(node);
    lab.rename(&[("DATA_0000", "DATA_0001"), ("DATA_0001", "DATA_0000"), ("DATA_0002", "LAST")])
        .expect("it is done");
    let new = ["DATA_0001", "DATA_0000", "LAST"];
    for round in 0..3 {
        assert_eq!(
            (lab.names(), lab.header_names()),
            (new.map(str::to_owned).to_vec(), new.map(str::to_owned).to_vec())
        );
        assert!(lab.read(lab.find("table"), 0, 2 << 20) == pattern(1, 2 << 20));
        lab.check();
        if round == 0 {
            lab.kill()
        } else {
            lab.dismount()
        }
        lab.mount();
    }
    assert!(lab.rename(&[("LAST", "DATA_0001")]).is_err(), "another disk has the name");
    assert!(lab.rename(&[("LAST", "1ST")]).is_err(), "it is not a valid name");
    assert!(lab.rename(&[("LAST", "A"), ("LAST", "B")]).is_err(), "one disk gets two names");
    assert!(lab.rename(&[("FIRST", "A")]).is_err(), "there is no such disk");
    assert_eq!(lab.names(), new);
    block_on(lab.group().rename(&Renaming::All)).expect("it is done");
    assert_eq!(lab.names(), ["DATA_0000", "DATA_0001", "DATA_0002"]);
    assert_eq!(lab.header_names(), lab.names());
}

/// A disk that is offline keeps its name, because its header cannot be rewritten.
#[test]
fn a_disk_that_is_offline_is_not_renamed() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "C"]);
    block_on(lab.group().offline(Selection::Disks(vec!["DATA_0001".to_owned()]), None))
        .expect("it can be spared");
    assert!(
        lab.rename(&[("DATA_0001", "X")])
            .expect_err("it is offline")
            .message
            .contains("is not ONLINE")
    );
    assert!(block_on(lab.group().rename(&Renaming::All)).is_err());
    lab.rename(&[("DATA_0002", "X")]).expect("it is there");
    assert_eq!(lab.names(), ["DATA_0000", "DATA_0001", "X"]);
}
