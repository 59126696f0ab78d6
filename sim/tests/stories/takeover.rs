//! FUSE mounts that outlive engines: a request leaves both its effect and its row, or neither,
//! whenever the engine dies.

use super::{lab::cut_short, *};
use plinth_engine::api::{ConnectionId, Invalidation, NewFile, Watcher};

const MOUNT: ConnectionId = ConnectionId(42);

const FILES: u64 = 12;

struct Deaf;

impl Watcher for Deaf {
    fn invalidate(&self, _: &Invalidation) {}
}

fn mounted(lab: &Lab) -> Session {
    Session::of_mount(lab.group(), Arc::new(Deaf), MOUNT)
}

fn resume(lab: &Lab) -> Session {
    lab.world().resume(&[MOUNT]);
    mounted(lab)
}

/// Files are made, and none of the requests is answered. The engine dies, or the power fails,
/// between any two changes of a disk. Each request is sent again to the next engine, which finds
/// that it was done before exactly if its file exists.
#[test]
fn the_effect_and_the_row_of_a_request_survive_together() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    lab.dismount();
    let work = |lab: &Lab| {
        lab.mount();
        let session = mounted(lab);
        let requests: Vec<_> =
            (0..FILES).map(|number| session.begin(number, false).expect("a mount")).collect();
        for (request, number) in requests.iter().zip(0..) {
            let (session, name) = (session.on_behalf_of(request), format!("{number}"));
            let made = session.create(ROOT, name.as_bytes(), NewFile::Regular, 0o600, ROOT_CALLER);
            let Ok(_) = block_on(made) else { return };
        }
        lab.dismount();
    };
    cut_short(&lab, 7, work, |heir, place| {
        let session = resume(heir);
        for number in 0..FILES {
            let found = block_on(session.lookup(ROOT, format!("{number}").as_bytes()))
                .ok()
                .map(|found| found.node);
            let request = session.begin(number, true).expect("a mount");
            let before = request.done_before().map(|done| done.node);
            assert_eq!(before, found.map(Some), "{place}: file {number}");
            if before.is_none() {
                let (session, name) = (session.on_behalf_of(&request), format!("{number}"));
                let made =
                    session.create(ROOT, name.as_bytes(), NewFile::Regular, 0o600, ROOT_CALLER);
                block_on(made).expect("done anew");
            }
        }
        heir.check();
        drop(session);
        heir.dismount();
    });
}

/// A program has a file open that has no name, and writes it. Engine after engine dies. Its bytes
/// are there until the mount is gone.
#[test]
fn a_file_without_a_name_outlives_engines() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let session = mounted(&lab);
    let made = block_on(session.create(ROOT, b"temporary", NewFile::Regular, 0o600, ROOT_CALLER))
        .expect("made");
    session.remember(made.node, 1);
    block_on(session.unlink(ROOT, b"temporary")).expect("unlinked");
    for life in 0..3_u64 {
        let bytes = pattern(life + 1, 100_000);
        lab.write(made.node, life * 100_000, &bytes);
        lab.kill();
        let _session = resume(&lab);
        assert_eq!(lab.read(made.node, life * 100_000, 100_000), bytes);
        lab.check();
    }
    // No engine takes the mount over this time.
    lab.kill();
    lab.mount();
    assert!(block_on(lab.session().attributes(made.node)).is_err());
    lab.check();
    lab.dismount();
}
