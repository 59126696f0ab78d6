//! Requests for space that is about to be freed.

use super::*;
use crate::api::{Allocate, SetXattr};
use futures::future::{Either, select};
use rusqlite::Connection;
use std::{
    pin::{Pin, pin},
    sync::mpsc::{Receiver, Sender, channel},
    task::{Context, Waker},
};

const RESERVE: Allocate = Allocate::Reserve { keep_size: true };

/// A job that reports when it runs, and ends when the returned sender is used. Its parts: the job,
/// the receiver of the report, the sender.
fn standstill()
-> (impl FnOnce(&Connection) -> Result<(), FileError> + Send + 'static, Receiver<()>, Sender<()>) {
    let (begun, is_begun) = channel();
    let (go_on, may_go_on) = channel::<()>();
    let job = move |_: &Connection| {
        begun.send(()).expect("the story waits");
        may_go_on.recv().map_err(|_| FileError::Dismounted)
    };
    (job, is_begun, go_on)
}

/// Polls a future once: it comes as far as it can without waiting.
fn begin(future: Pin<&mut impl Future>) {
    assert!(
        future.poll(&mut Context::from_waker(Waker::noop())).is_pending(),
        "it waits for the catalog"
    );
}

/// A large file is removed job by job, and a request asks for as much space meanwhile: the request
/// waits and succeeds.
#[test]
fn a_request_waits_for_space_that_is_being_freed() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let session = lab.session();
    let (gone, wish) = (lab.create_file("gone"), lab.create_file("wish"));
    let most = (block_on(session.space()).expect("space").blocks_free * 4096 - 2 * MIB) / MIB * MIB;
    block_on(session.allocate(gone, 0, most, RESERVE, false)).expect("it fits");
    session.remember(gone, 1);
    block_on(session.unlink(ROOT, b"gone")).expect("its name goes");
    let (job, is_begun, go_on) = standstill();
    let mut holding = pin!(lab.group().catalog.release(false, job));
    begin(holding.as_mut());
    is_begun.recv().expect("the job runs");
    // No mount references the file any more. The jobs that free its space wait behind the one that
    // runs.
    let mut forgetting = pin!(session.forget(gone, 1));
    begin(forgetting.as_mut());
    let asked = pin!(session.allocate(wish, 0, most, RESERVE, false));
    let asked = match block_on(select(asked, lab.world.sleep(Duration::from_millis(300)))) {
        Either::Left((end, _)) => panic!("answered while the space was being freed: {end:?}"),
        Either::Right(((), asked)) => asked,
    };
    go_on.send(()).expect("it waits");
    block_on(holding).expect("the job ends");
    let (given, ()) = block_on(futures::future::join(asked, forgetting));
    given.expect("what was freed is given");
    lab.check();
}

/// The kernel releases a removed file a little later than it answers `unlink`. A request for space
/// in between waits for that.
#[test]
fn a_request_waits_for_the_space_of_a_file_that_was_just_removed() {
    let lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let session = lab.session();
    let (gone, wish) = (lab.create_file("gone"), lab.create_file("wish"));
    let most = (block_on(session.space()).expect("space").blocks_free * 4096 - 2 * MIB) / MIB * MIB;
    block_on(session.allocate(gone, 0, most, RESERVE, false)).expect("it fits");
    session.remember(gone, 1);
    block_on(session.unlink(ROOT, b"gone")).expect("its name goes");
    let late = async {
        lab.world.sleep(Duration::from_millis(50)).await;
        session.forget(gone, 1).await;
    };
    let (given, ()) =
        block_on(futures::future::join(session.allocate(wish, 0, most, RESERVE, false), late));
    given.expect("what was freed is given");
    // A removed file that stays open is no reason to wait for ever.
    session.remember(wish, 1);
    block_on(session.unlink(ROOT, b"wish")).expect("its name goes");
    let other = lab.create_file("other");
    let refused = block_on(session.allocate(other, 0, most, RESERVE, false));
    assert!(matches!(refused, Err(FileError::NoSpace)), "{refused:?}");
    lab.check();
}

/// The catalog is full, and files that are not in memory are read while a removal is being
/// committed: readers get an error for neither.
#[test]
fn reads_never_fail_for_lack_of_space() {
    let mut lab = Lab::new(Redundancy::Normal, 64 * MIB, &["A", "B"]);
    let (kept, _) = (lab.create_file("kept"), lab.create_file("gone"));
    lab.write(kept, 0, b"here");
    let big = lab.create_file("big");
    let mut at = 0;
    while block_on(lab.session().write(big, at, &[1; MIB as usize], false)).is_ok() {
        at += MIB;
    }
    let add = |lab: &Lab, index: usize| {
        let name = format!("weight{index}");
        let made = block_on(lab.session().create(
            ROOT,
            name.as_bytes(),
            NewFile::Regular,
            0o644,
            ROOT_CALLER,
        ))?;
        block_on(lab.session().set_xattr(
            made.node,
            b"user.weight",
            &pattern(index as u64, 3000),
            SetXattr::Any,
        ))
    };
    let full = (0..).find(|index| add(&lab, *index).is_err()).expect("it is full at last");
    lab.dismount();
    lab.mount();
    assert!(matches!(add(&lab, full + 1), Err(FileError::NoSpace)), "it is full still");
    let (session, catalog) = (lab.session(), &lab.group().catalog);
    // The removal and the second job that waits come into one commit.
    let (first, first_begun, end_first) = standstill();
    let (second, second_begun, end_second) = standstill();
    let mut holding = pin!(catalog.release(false, first));
    begin(holding.as_mut());
    first_begun.recv().expect("the job runs");
    let mut removing = pin!(session.unlink(ROOT, b"gone"));
    begin(removing.as_mut());
    let mut holding_on = pin!(catalog.release(false, second));
    begin(holding_on.as_mut());
    end_first.send(()).expect("it waits");
    second_begun.recv().expect("the removal was carried out, and is not committed");
    let looking = pin!(async {
        let size = session.attributes(kept).await?.size;
        let mut bytes = [0; 4];
        session.read(kept, 0, &mut bytes).await?;
        Ok::<_, FileError>((size, bytes))
    });
    let looking = match block_on(select(looking, lab.world.sleep(Duration::from_millis(300)))) {
        Either::Left((end, _)) => {
            panic!("answered before the removal was committed: {end:?}")
        }
        Either::Right(((), looking)) => looking,
    };
    end_second.send(()).expect("it waits");
    block_on(holding_on).expect("the job ends");
    assert_eq!(block_on(looking).expect("the reader is answered"), (4, *b"here"));
    block_on(removing).expect("it is removed");
    // A hole frees space, and is not refused for lack of it.
    block_on(session.allocate(lab.find("big"), 0, MIB / 2, Allocate::PunchHole, false))
        .expect("a hole is punched");
    lab.check();
}
