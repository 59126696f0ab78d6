//! The cost of a write where nothing was written since the group was mounted: regions of the
//! activity log are opened, and, when all its places are taken, others closed for them.
//!
//! `plinth-regions DISK DISK [-s GIB=64] [-d DEPTH=32] [-r ROUNDS=3]`
//!
//! The disks, which are overwritten, become a group of NORMAL redundancy with a file of GIB. In
//! each AU of it one piece holds data. A round mounts the group, and does as many writes of 8 KiB
//! twice, DEPTH at a time:
//!
//! - first: one to each of these pieces, in random order, so that each meets a region that was not
//!   written since the mount, as long as regions are no larger than that;
//! - active: one to each of them again, in another order. With up to 128 GiB all their regions are
//!   still listed.
//!
//! Whole blocks that hold data are written, to the same places of the disks, so nothing but the
//! first touch makes a difference. The table has the rates, their ratio, the median time of a
//! write, and the 99th percentile.

use futures::stream::{FuturesUnordered, StreamExt};
use plinth_bench::group;
use plinth_engine::{
    api::{Allocate, Caller, NewFile, ROOT},
    files::session::Session,
    group::Group,
    sync::{buffer::Buffer, transfer::Source},
};
use plinth_host::block_on;
use std::{
    cell::{Cell, RefCell},
    env,
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

const AU: u64 = 4 << 20;
const BLOCK: usize = 8192;

const USAGE: &str = "plinth-regions DISK DISK [-s GIB] [-d DEPTH] [-r ROUNDS]";

/// The figures of one pass.
struct Pass {
    rate: f64,
    median: Duration,
    p99: Duration,
}

/// Writes to all of these places, in their order.
fn pass(session: &Session, node: u64, places: &[u64], depth: usize) -> Result<Pass, String> {
    let bytes = Source::Shared(Buffer::copy_of(&[7; BLOCK]).share());
    let (next, waits) = (Cell::new(0), RefCell::new(Vec::with_capacity(places.len())));
    let one = || async {
        while let Some(place) = places.get(next.get()) {
            next.set(next.get() + 1);
            let began = Instant::now();
            let written = session.write_from(node, *place, bytes.clone(), false).await;
            written.map_err(|error| error.to_string())?;
            waits.borrow_mut().push(began.elapsed());
        }
        Ok::<(), String>(())
    };
    let began = Instant::now();
    block_on(async {
        let mut all: FuturesUnordered<_> = (0..depth).map(|_| one()).collect();
        while let Some(ended) = all.next().await {
            ended?;
        }
        Ok::<(), String>(())
    })?;
    let elapsed = began.elapsed();
    let mut waits = waits.into_inner();
    waits.sort_unstable();
    let at = |part: usize| {
        waits
            .get((waits.len() * part / 100).min(waits.len().saturating_sub(1)))
            .copied()
            .unwrap_or_default()
    };
    Ok(Pass { rate: waits.len() as f64 / elapsed.as_secs_f64(), median: at(50), p99: at(99) })
}

/// Another order, the same each time for a seed.
fn shuffle(places: &mut [u64], seed: u64) {
    let mut state = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    for at in (1..places.len()).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        places.swap(at, usize::try_from(state % (at as u64 + 1)).unwrap_or(0));
    }
}

fn closed(session: Session, group: &Arc<Group>) -> Result<(), String> {
    drop(session);
    group::dismount(group)
}

fn run() -> Result<(), String> {
    let (mut disks, mut gib, mut depth, mut rounds) = (Vec::new(), 64, 32, 3);
    let mut words = env::args().skip(1);
    while let Some(word) = words.next() {
        if !word.starts_with('-') {
            disks.push(word);
            continue;
        }
        let value = words.next().ok_or_else(|| format!("{word} needs a value\n{USAGE}"))?;
        let number =
            value.parse::<u64>().map_err(|error| format!("{word} {value}: {error}"))?.max(1);
        match word.as_str() {
            "-s" => gib = number,
            "-d" => depth = usize::try_from(number).unwrap_or(1),
            "-r" => rounds = number,
            _ => return Err(format!("{word} is no option\n{USAGE}")),
        }
    }
    if disks.len() != 2 {
        return Err(USAGE.to_owned());
    }
    let world = group::world(&disks)?;
    group::create(&world, &disks, &[])?;
    let group = group::mount(&world)?;
    let session = Session::new(Arc::clone(&group), None);
    let made =
        block_on(session.create(ROOT, b"file", NewFile::Regular, 0o600, Caller { uid: 0, gid: 0 }));
    let node = made.map_err(|error| error.to_string())?.node;
    let reserved = block_on(session.allocate(
        node,
        0,
        gib << 30,
        Allocate::Reserve { keep_size: false },
        false,
    ));
    reserved.map_err(|error| error.to_string())?;
    let mut places: Vec<u64> = (0..(gib << 30) / AU).map(|au| au * AU).collect();
    eprintln!("{} AUs of {} MiB get their first piece", places.len(), AU >> 20);
    pass(&session, node, &places, depth)?;
    block_on(session.sync(node, false)).map_err(|error| error.to_string())?;
    closed(session, &group)?;

    println!(
        "| round | first, 1/s | active, 1/s | ratio | first: half within, us | 99 % within, us | active: half within, us | 99 % within, us |"
    );
    println!("| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    for round in 1..=rounds {
        let group = group::mount(&world)?;
        let session = Session::new(Arc::clone(&group), None);
        shuffle(&mut places, round);
        let first = pass(&session, node, &places, depth)?;
        shuffle(&mut places, round + rounds);
        let active = pass(&session, node, &places, depth)?;
        let us = |time: Duration| time.as_secs_f64() * 1e6;
        println!(
            "| {round} | {:.0} | {:.0} | {:.2} | {:.0} | {:.0} | {:.0} | {:.0} |",
            first.rate,
            active.rate,
            first.rate / active.rate,
            us(first.median),
            us(first.p99),
            us(active.median),
            us(active.p99),
        );
        closed(session, &group)?;
    }
    Ok(())
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("plinth-regions: {error}");
            ExitCode::FAILURE
        }
    }
}
