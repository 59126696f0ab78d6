//! Labels of disks, of members and of disks of no group.

use super::{
    kills::{cut_short, each_was_met, met, prepared},
    *,
};
use crate::{
    admin::{HeaderStatus, LabelPermission, Survey},
    disk::{identify, labels},
};
use plinth_format::{
    BLOCK_SIZE, Label,
    envelope::{self, Envelope},
    header::{DiskHeader, HEADER_MAGIC},
    label::PREFIX_SIZE,
};

const MIGRATE: LabelPermission = LabelPermission { rename: false, migrate: true, force: false };
const RENAME: LabelPermission = LabelPermission { rename: true, migrate: false, force: false };
const NONE: LabelPermission = LabelPermission { rename: false, migrate: false, force: false };

impl Lab {
    fn label(&self, disk: &str, label: &str, permission: LabelPermission) -> Result<(), Code> {
        block_on(self.group().label(disk, label, permission)).map_err(|refusal| refusal.code)
    }

    /// The label of a disk's header, if all copies agree.
    fn label_of(&self, disk: usize) -> Option<String> {
        let header = block_on(identify::read_header(&*self.world(), &*self.disks[disk].open()))
            .expect("it has a header");
        assert!(header.wrong.is_empty(), "{:?}", header.wrong);
        header.best.label.map(|label| label.to_string())
    }

    fn survey_of(&self, path: &str) -> Survey {
        let seen = block_on(Group::survey(&self.world())).expect("a survey");
        seen.into_iter().find(|disk| disk.path == path).expect("it is discovered")
    }

    fn label_free(&self, label: &str, permission: LabelPermission) -> Result<(), Code> {
        let label = Label::new(label).expect("a label");
        block_on(labels::set(&self.world(), "/disk2", &label, permission, "root"))
            .map_err(|refusal| refusal.code)
    }
}

/// Zeroes the headers of a disk, so that it belongs to no group any more.
fn free(disk: &MemoryDisk) {
    for place in plinth_format::layout::likely_header_places(64 * MIB).into_iter().chain([0]) {
        disk.corrupt(place, &[0; BLOCK_SIZE]);
    }
}

/// A member gets a label, and another one, while the group is used; it keeps it through kills,
/// dismounts, and its own drop. Nothing is changed without permission.
#[test]
fn a_label_stays_with_its_disk() {
    let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B", "C"]);
    assert_eq!(lab.label("DATA_0001", "one", NONE), Err(Code::DiskInUse));
    assert_eq!(lab.label("DATA_0001", "one", RENAME), Err(Code::DiskInUse));
    assert_eq!(lab.label_of(1), None);
    lab.label("DATA_0001", "one", MIGRATE).expect("it may be");
    assert_eq!(lab.label("DATA_0001", "two", MIGRATE), Err(Code::Invalid));
    assert_eq!(lab.label("DATA_0001", "2nd", RENAME), Err(Code::Invalid));
    lab.label("DATA_0001", "two", RENAME).expect("it may be");
    for round in 0..2 {
        assert_eq!(lab.label_of(1).as_deref(), Some("TWO"));
        lab.check();
        if round == 0 {
            lab.kill()
        } else {
            lab.dismount()
        }
        lab.mount();
    }
    assert_eq!(lab.label_of(0), None);
    block_on(lab.group().offline(Selection::Disks(vec!["DATA_0001".to_owned()]), None))
        .expect("it can be spared");
    assert_eq!(lab.label("DATA_0001", "three", RENAME), Err(Code::Invalid));
    lab.online_all();
    assert_eq!(lab.label_of(1).as_deref(), Some("TWO"));
    lab.check();
}

/// The labelling of a member is interrupted: after the next mount all copies of its header have the
/// label, or none has.
#[test]
fn an_interrupted_label_of_a_member_is_whole_after_the_next_mount() {
    cut_short(
        &prepared(false),
        2,
        |doomed| {
            if doomed.try_mount(false).is_ok() {
                let _ = doomed.label("DATA_0001", "one", MIGRATE);
            }
        },
        |heir, place| {
            heir.mount();
            let label = heir.label_of(1);
            assert!(label.is_none() || label.as_deref() == Some("ONE"), "{place}: {label:?}");
            met(usize::from(label.is_some()));
            heir.check();
            heir.dismount();
        },
    );
    each_was_met(2, 2);
}

/// The labelling of a free disk is interrupted: the disk is free, or has the label; and it can get
/// another one.
#[test]
fn an_interrupted_label_of_a_free_disk_is_there_or_not() {
    let lab = prepared(false);
    free(&lab.disks[2]);
    cut_short(
        &lab,
        1,
        |doomed| _ = doomed.label_free("one", NONE),
        |heir, place| {
            let survey = heir.survey_of("/disk2");
            let is_labelled = survey.header == HeaderStatus::Provisioned;
            assert!(is_labelled || survey.header == HeaderStatus::Candidate, "{place}: {survey:?}");
            assert_eq!(survey.label.is_some(), is_labelled, "{place}");
            heir.label_free("two", RENAME).expect("it may be");
            assert_eq!(heir.survey_of("/disk2").label.as_deref(), Some("TWO"), "{place}");
            block_on(labels::clear(&heir.world(), "/disk2")).expect("it has one");
            assert_eq!(heir.survey_of("/disk2").header, HeaderStatus::Candidate, "{place}");
        },
    );
}

/// The creation of a group is interrupted: a disk that had a label before has it afterwards, as a
/// free disk, or as a member.
#[test]
fn an_interrupted_creation_of_a_group_keeps_labels() {
    for was_dropped in [false, true] {
        let mut lab = prepared(false);
        if was_dropped {
            lab.mount();
            block_on(lab.group.take().expect("mounted").drop_group(true)).expect("it is dropped");
        } else {
            lab.disks.iter().for_each(free);
        }
        lab.label_free("one", NONE).expect("it may be");
        cut_short(
            &lab,
            3,
            |doomed| _ = doomed.create(MIB),
            |heir, place| {
                let survey = heir.survey_of("/disk2");
                assert_eq!(survey.label.as_deref(), Some("ONE"), "{place}: {survey:?}");
                met(usize::from(survey.header == HeaderStatus::Member));
            },
        );
    }
    each_was_met(2, 2);
}

/// A disk that was dropped keeps its header, whichever label it gets; a member of a group that is
/// not mounted keeps every byte.
#[test]
fn a_former_disk_gets_a_label_and_a_member_does_not() {
    let mut lab = prepared(false);
    let before = lab.disks[2].peek(0, MIB as usize);
    for permission in [NONE, RENAME, MIGRATE] {
        assert_eq!(lab.label_free("one", permission), Err(Code::DiskInUse));
    }
    assert!(lab.disks[2].peek(0, MIB as usize) == before);
    lab.mount();
    block_on(lab.group.take().expect("mounted").drop_group(true)).expect("it is dropped");
    lab.label_free("one", NONE).expect("it may be");
    let survey = lab.survey_of("/disk2");
    assert_eq!((survey.header, survey.label.as_deref()), (HeaderStatus::Former, Some("ONE")));
    assert_eq!(lab.label_free("two", NONE), Err(Code::Invalid));
    lab.create(MIB).expect("the group is made again");
    lab.mount();
    assert_eq!(lab.label_of(2).as_deref(), Some("ONE"));
    lab.check();
}

/// Headers of version 1, without the prefix and a label, are renewed at the next mount.
#[test]
fn headers_of_version_1_are_renewed_at_the_mount() {
    let mut lab = prepared(false);
    for disk in &lab.disks {
        let header = DiskHeader::decode(&disk.peek(0, BLOCK_SIZE), 0).expect("a header");
        for place in header.layout.header_places() {
            let mut block = vec![0; BLOCK_SIZE];
            block[..216].copy_from_slice(&header.encode(place)[PREFIX_SIZE..][..216]);
            let envelope = Envelope { group: header.group, disk: header.disk, place };
            envelope::seal(&mut block[..216], HEADER_MAGIC, envelope);
            let found = DiskHeader::decode(&block, place).expect("a header");
            assert!(!found.has_prefix && found.sequence == header.sequence);
            disk.corrupt(place, &block);
        }
    }
    lab.mount();
    for disk in 0..lab.disks.len() {
        assert_eq!(lab.label_of(disk), None);
        let block = lab.disks[disk].peek(0, BLOCK_SIZE);
        assert!(DiskHeader::decode(&block, 0).is_ok_and(|header| header.has_prefix));
        assert_eq!(&block[32..40], b"ORCLDISK");
    }
    lab.check();
    lab.dismount();
}
