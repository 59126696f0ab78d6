//! The operator of a group: makes it whole, has it checked and repaired, fills it and makes room.

use super::{AT_ONCE, ERRORS_ARRIVE, PATIENCE, SimGroup, words};
use crate::{client::Client, faults::LOOKED, history::Failure};
use plinth_engine::{
    admin::{
        AdminError, Conversion, Operation, OperationPass, OperationState, Report, Resize, Selection,
    },
    api::{Allocate, Caller, NewFile, ROOT, SetXattr},
    error::FileError,
    files::session::Session,
};
use plinth_format::{layout::MIB, membership::DiskState};
use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

/// Reasons for which a rebalance may end with an error although no disk is faulty: there is no room
/// for its work, or a dispute that has not ended.
const NO_ROOM: [&str; 5] =
    ["AUs too few", "no space left", "has room", "no room for it", "until that is ended"];

const FILLER: &[u8] = b"filler";

/// Values of 60 kB that are written to the catalog at once: more than it has space for, if AUs are
/// small.
const SWELLING: u32 = 160;

impl SimGroup {
    /// Ends all faults of the group, and brings all its disks ONLINE.
    pub async fn make_whole(&mut self) -> Result<(), Failure> {
        if self.silent {
            self.repair().await?;
        }
        self.replace_if_stopped().await?;
        let tolerated_errors = self.expectations.tolerates_errors.load(Ordering::Relaxed);
        if !self.faulty.is_empty() || !self.undo.is_empty() {
            self.say(|| "all disks are well again".to_owned());
        }
        self.heal_all().await;
        self.expectations.twice.store(false, Ordering::Relaxed);
        if tolerated_errors {
            // A mount settles uncertain bytes.
            self.lossy = true;
            self.kill(AT_ONCE).await?;
            self.beyond = false;
            self.expectations.restores.store(true, Ordering::Relaxed);
            self.mount().await?;
            self.until_looked().await?;
        }
        self.bring_online().await?;
        self.failure()?;
        if tolerated_errors {
            // A resync has found lost blocks, and marked them.
            self.expectations.expect_all();
        }
        self.faulty.clear();
        self.stops = 0;
        self.beyond = false;
        Ok(())
    }

    /// All disks are healed. An error that is in flight belongs to the faults before.
    pub async fn heal_all(&mut self) {
        let is_slow = self.disks.iter().any(|disk| disk.faults(|faults| !faults.slow.is_zero()));
        self.put_right();
        if is_slow || !self.faulty.is_empty() {
            self.core.sleep(ERRORS_ARRIVE).await;
        }
    }

    /// Brings all disks ONLINE, and waits for it.
    pub async fn bring_online(&mut self) -> Result<(), Failure> {
        let end = self.core.now() + PATIENCE;
        loop {
            self.failure()?;
            self.part_with_former();
            match self.ask_online().await? {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(error) => self.say(|| format!("online: {}", words(&error))),
            }
            if self.core.now() > end {
                return Err(format!(
                    "{}: not all disks are online again: {}",
                    self.name,
                    self.what_is_left()
                ));
            }
            self.core.sleep(Duration::from_millis(500)).await;
        }
    }

    /// Why the group is not whole, in words.
    fn what_is_left(&self) -> String {
        let group = self.group();
        let states = group.members().into_iter().filter(|(_, state)| *state != DiskState::Online);
        let mut all: Vec<String> =
            states.map(|(name, state)| format!("{name} is {state:?}")).collect();
        all.extend(
            group
                .operations()
                .iter()
                .map(|one| format!("{} {} {}/{}", one.pass, one.state, one.so_far, one.work)),
        );
        all.extend(group.lacks_catalog_mirror().then(|| "the catalog lacks a mirror".to_owned()));
        all.join(", ")
    }

    /// Whether a disk is OFFLINE.
    fn is_away(&self) -> bool {
        self.group().members().iter().any(|(_, state)| *state == DiskState::Offline)
    }

    /// Gives ONLINE ALL where a disk is offline. Whether all are ONLINE.
    pub async fn ask_online(&mut self) -> Result<Result<bool, AdminError>, Failure> {
        let group = Arc::clone(self.group());
        let away = self.is_away();
        let is_stuck = move |one: &Operation| {
            !away && one.pass == OperationPass::Rebalance && one.state == OperationState::Errs
        };
        let error =
            group.operations().into_iter().find(is_stuck).map(|one| one.error.unwrap_or_default());
        let gives_up = self.goes_on && error.is_some();
        if let Some(error) = &error {
            self.say(|| format!("the rebalance ended with errors: {error}"));
            let has_no_room = self.full
                || error.ends_with("none can")
                || NO_ROOM.iter().any(|why| error.contains(why));
            // Blocks that are lost for good cannot be moved either.
            if gives_up && !has_no_room && !self.lossy {
                return Err(format!(
                    "{}: all disks are well, and the rebalance ends again with: {error}",
                    self.name
                ));
            }
        }
        if error.is_some() {
            self.goes_on = !gives_up;
        }
        let online = self.inside(async move {
            if gives_up {
                // Mirrors on a disk that is being dropped find no space, or missing mirrors do not:
                // everything stays as it was.
                group.undrop().await?;
                // Nor is a disk shrunk below the mirrors that are on it by now.
                group.resize_disks(&[Resize { which: Selection::All, size: None }], None).await?;
                return group.convert(Conversion(group.redundancy()), None).await.map(|()| false);
            }
            if error.is_some() {
                return group.rebalance(None).await.map(|()| false);
            }
            if away {
                group.online(Selection::All).await.map(|()| false)
            } else {
                // A rebalance that has ended with errors since is started again the next time.
                let goes_on = |one: &Operation| one.state == OperationState::Run || is_stuck(one);
                let busy = group.operations().iter().any(goes_on) || group.lacks_catalog_mirror();
                Ok(!busy && group.members().iter().all(|(_, state)| *state == DiskState::Online))
            }
        });
        let online = online.await?.ok_or("the engine died by itself")?;
        if matches!(online, Ok(true)) {
            self.goes_on = false;
        }
        Ok(online)
    }

    /// The operator has everything checked and repaired.
    pub async fn repair(&mut self) -> Result<(), Failure> {
        self.say(|| "the operator checks and repairs".to_owned());
        for disk in &self.disks {
            // Faults that were to strike an I/O, and have not, are cleared.
            disk.faults(|faults| {
                faults.lost_writes = 0;
                faults.misdirected_writes = 0;
                faults.misdirected_reads = 0;
            });
        }
        if self.disks.iter().filter(|disk| disk.take_astray()).count() > 0 {
            // A check sees committed rows, and there may be one of an extent that is not complete
            // yet.
            self.core.sleep(ERRORS_ARRIVE).await;
        }
        let had_noticed = self.has_noticed();
        let mut report = self.report(true).await?;
        if report.problems.iter().any(|problem| !problem.repaired) && !had_noticed {
            // The check was the first to meet a disk that fails, which is offline now.
            report = self.report(true).await?;
        }
        let left: Vec<_> = report.problems.iter().filter(|problem| !problem.repaired).collect();
        if let Some(problem) = left.first() {
            return Err(format!(
                "{}: check with repair: {} of {} problems stay, such as {}",
                self.name,
                left.len(),
                report.problems.len(),
                problem.text
            ));
        }
        self.failure()?;
        self.silent = false;
        Ok(())
    }

    /// Asserts that every visible disk has everything in order.
    pub async fn check(&self) -> Result<(), Failure> {
        if self.core.one_in(2) {
            // Clients need not stop for that.
            self.allow(60);
        }
        let mut report = self.report(false).await?;
        if !report.is_good() && report.problems.iter().all(|problem| self.lost_copy(&problem.text))
        {
            self.core.sleep(LOOKED).await;
            report = self.report(false).await?;
        }
        let problems: Vec<&str> =
            report.problems.iter().map(|problem| problem.text.as_str()).take(5).collect();
        if problems.is_empty() {
            Ok(())
        } else {
            Err(format!(
                "{}: check: {} problems: {}",
                self.name,
                report.problems.len(),
                problems.join("; ")
            ))
        }
    }

    /// Whether a problem is that of a disk which did not take one copy of a record: when it is well
    /// again, the engine writes the copy at one of its next looks.
    fn lost_copy(&self, problem: &str) -> bool {
        let Some((disk, _)) = problem.split_once("): the ") else { return false };
        let told = format!("{disk}) keeps one copy of its records only");
        problem.contains(" is missing or damaged")
            && self.host.events().iter().any(|event| event.text.starts_with(&told))
    }

    /// Asserts that all unused space was given back to thin devices. Clients must be idle, and no
    /// other operation may run.
    pub async fn check_lent(&mut self) -> Result<(), Failure> {
        if self.group().owes_discards() {
            return Ok(());
        }
        // A disk that has failed too often is expelled later than that.
        let is_done = |sim_group: &Self| sim_group.group().is_all_discarded();
        while !is_done(self) {
            self.until("the discards", |sim_group| is_done(sim_group) || sim_group.is_away())
                .await?;
            if self.is_away() {
                self.bring_online().await?;
            }
        }
        let group = Arc::clone(self.group());
        let unused = self
            .inside(async move { group.unused().await })
            .await?
            .ok_or("the engine died by itself")?;
        let unused = unused.map_err(|error| format!("{}: what is free: {error}", self.name))?;
        for (name, places) in unused {
            let Some(disk) = self.disks.iter().find(|disk| self.name_of(disk) == name) else {
                continue;
            };
            let lent = disk.lends(&places);
            if let Some(first) = lent.first() {
                return Err(format!(
                    "{}: {} still lends {} unused blocks, such as that at {first}",
                    self.name,
                    disk.label(),
                    lent.len()
                ));
            }
        }
        Ok(())
    }

    pub async fn report(&self, repair: bool) -> Result<Report, Failure> {
        let mut tries = 0;
        let ended = loop {
            let group = Arc::clone(self.group());
            let ended = self
                .inside(async move { group.check(repair).await })
                .await?
                .ok_or("the engine died by itself")?;
            tries += 1;
            // Clients may change too much meanwhile for a catalog with little room for its log;
            // they rest after some operations.
            let is_overtaken =
                ended.as_ref().is_err_and(|error| error.message.contains("snapshot too old"));
            if !is_overtaken || tries == 5 {
                break ended;
            }
            self.core.sleep(Duration::from_secs(5)).await;
        };
        ended.map_err(|error| format!("{}: check: {}", self.name, words(&error)))
    }

    /// A client writes a block anew; see [`Client::rewrite`].
    pub async fn rewrite(
        &self,
        client: &Arc<Client>,
        name: &str,
        block: u64,
    ) -> Result<Option<Vec<u8>>, Failure> {
        let session = Session::new(Arc::clone(self.group()), None);
        let (client, name) = (Arc::clone(client), name.to_owned());
        let written =
            self.inside(async move { client.rewrite(&session, &name, block).await }).await?;
        written
            .ok_or("the engine died by itself")?
            .map_err(|failure| format!("{}: {failure}", self.name))
    }

    /// Asserts that all files of the clients are there, as they left them. Clients must be idle.
    pub async fn verify(&self) -> Result<(), Failure> {
        for client in self.clients.clone() {
            let session = Session::new(Arc::clone(self.group()), None);
            let verified = self.inside(async move { client.verify(&session).await }).await?;
            let verified = verified.ok_or("the engine died by itself")?;
            verified.map_err(|failure| format!("{}: {failure}", self.name))?;
        }
        Ok(())
    }

    /// A file takes all the space that is left.
    pub async fn fill(&mut self) -> Result<(), Failure> {
        let session = Session::new(Arc::clone(self.group()), None);
        let au_size = self.shape.au_size;
        self.full = true;
        let filled = self.inside(async move {
            let made = session
                .create(ROOT, FILLER, NewFile::Regular, 0o644, Caller { uid: 0, gid: 0 })
                .await;
            let node = match made {
                Ok(attributes) => attributes.node,
                // It was filled before.
                Err(FileError::NoSpace | FileError::Exists) => return Ok(()),
                Err(error) => return Err(error),
            };
            let (mut at, mut step) = (0, 64 * au_size.max(MIB));
            while step >= au_size {
                match session
                    .allocate(node, at, step, Allocate::Reserve { keep_size: false }, false)
                    .await
                {
                    Ok(()) => at += step,
                    Err(FileError::NoSpace) => step /= 2,
                    Err(error) => return Err(error),
                }
            }
            Ok(())
        });
        match filled.await?.ok_or("the engine died by itself")? {
            Ok(()) => Ok(()),
            Err(error) => self.forgive_if_ill("filling", &error),
        }
    }

    /// An error that is allowed while disks are faulty.
    fn forgive_if_ill(&self, doing: &str, error: &FileError) -> Result<(), Failure> {
        if self.faulty.is_empty() {
            return Err(format!("{}: {doing}: {error}", self.name));
        }
        self.say(|| format!("{doing}: {error}"));
        Ok(())
    }

    /// The catalog takes all the space that it has, and would take more.
    pub async fn swell(&mut self) -> Result<(), Failure> {
        let session = Session::new(Arc::clone(self.group()), None);
        let swollen = self.inside(async move {
            let node = session.lookup(ROOT, FILLER).await?.node;
            for number in 0..SWELLING {
                let name = format!("user.{number}");
                session.set_xattr(node, name.as_bytes(), &[0x5a; 60_000], SetXattr::Any).await?;
            }
            Ok::<_, FileError>(())
        });
        match swollen.await?.ok_or("the engine died by itself")? {
            Ok(()) | Err(FileError::NoSpace | FileError::NotFound) => Ok(()),
            Err(error) => self.forgive_if_ill("swelling", &error),
        }
    }

    /// The file that took all space is removed.
    pub async fn make_room(&mut self) -> Result<(), Failure> {
        let session = Session::new(Arc::clone(self.group()), None);
        let removed = self.inside(async move { session.unlink(ROOT, FILLER).await }).await?;
        match removed.ok_or("the engine died by itself")? {
            Ok(()) | Err(FileError::NotFound) => {
                self.full = false;
                Ok(())
            }
            Err(error) => Err(format!("{}: making room: {error}", self.name)),
        }
    }
}
