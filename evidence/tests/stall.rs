//! A target that stops for a second, at 1,000 requests a second: an open loop counts all requests
//! that were due meanwhile, a closed one counts the one that it had in flight.

mod nbd_server;

use nbd_server::Server;
use plinth_evidence::{
    issue::{Closed, Length, Outcome, Plan, Silent, measure, text},
    model::{Class, Stream},
    run::Loop,
};
use std::{thread, time::Duration};

const RATE: f64 = 1_000.0;
const SECOND: u64 = 1_000_000_000;

/// Reads for three seconds; the target stops in the second one. And for how many seconds it did.
fn with_a_stall(closed: Option<Closed>) -> (Outcome, f64) {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::start(&directory.path().join("socket"), 16 << 20);
    let plan = Plan {
        streams: vec![Stream::of_mean(Class::RandomRead, RATE, 4096.0)],
        length: Length::Seconds(3.0),
        closed,
        ..Plan::default()
    };
    let targets = [server.address.clone()];
    let stopper = thread::spawn(move || {
        thread::sleep(Duration::from_millis(1_200));
        server.stop_for(Duration::from_secs(1))
    });
    let outcome = measure(&plan, &targets, &mut Silent).expect("it runs");
    (outcome, stopper.join().expect("no panic").as_secs_f64())
}

/// Requests with a latency above that.
fn above(outcome: &Outcome, nanoseconds: u64) -> u64 {
    let counts = outcome.run.classes[0].latency.counts().iter();
    counts.filter(|(border, _)| *border > nanoseconds).map(|(_, count)| count).sum()
}

#[test]
fn an_open_loop_counts_every_request_that_was_due_while_the_target_stopped() {
    let mut found = Vec::new();
    // Other programs on this host may delay requests, too; they do not do so three times.
    for _ in 0..3 {
        let (outcome, stopped) = with_a_stall(None);
        assert_eq!(outcome.run.issued, Loop::Open);
        assert_eq!(outcome.run.classes[0].requests, 3 * RATE as u64);
        let report = text::report(&outcome);
        assert!(report.contains("open loop"), "{report}");
        let part = |twentieths: u64| above(&outcome, (stopped * 5e7) as u64 * twentieths);
        // Of those up to 50 ms there is no telling whether they came after the stop.
        let all = part(1);
        let tenths: Vec<u64> = (1..10).map(|tenth| part(2 * tenth) - part(2 * tenth + 2)).collect();
        let are_even = tenths.iter().all(|count| (80..=125).contains(count));
        if are_even && (950..=1_050).contains(&all) {
            return;
        }
        found.push((all, tenths));
    }
    panic!("requests above 50 ms, and by tenths of a second from 100 ms on: {found:?}");
}

#[test]
fn a_closed_loop_counts_one_and_says_so() {
    let (outcome, _) = with_a_stall(Some(Closed { depth: 1, is_paced: true }));
    assert_eq!(outcome.run.issued, Loop::Closed);
    let report = text::report(&outcome);
    assert!(report.contains("closed loop: a stall of a target hides"), "{report}");
    assert_eq!(above(&outcome, SECOND / 2), 1);
}
