//! Disks that were only absent come back by themselves.
//!
//! A disk is *absent* if it went OFFLINE because its device was not visible, and for no other
//! reason; the membership says so (D_FLAGS). That is so
//!
//! - if a mount did not see it, or saw two devices with its id, unless the mount was forced;
//! - if its I/O failed, and a look at all disks soon after finds nothing where it was: a shelf
//!   without power, a path that was taken away.
//!
//! A disk that went OFFLINE because its thin pool is full (`disk/full.rs`) counts as absent too: it
//! comes back when there is room. Only a write can tell, so it is tried again and again.
//!
//! A disk that is there and fails is not absent, nor is one that an operator took OFFLINE, or that
//! MOUNT FORCE took offline: these are brought back by a statement.
//!
//! The caretaker calls [`Movement::tend_absent`] once a second. While a disk is absent, all devices
//! are looked at every few seconds: a disk that is seen again comes ONLINE as by the statement,
//! unless nothing on it counts any more (an old image, another history): it may be a copy that was
//! put there, and it would be overwritten. A disk that comes and goes has to be visible for longer
//! each time before it is taken, so that it is not copied to for ever.
//!
//! At a start an absent disk may only be late: see `arrival.rs`.

use crate::{
    disk::{
        identify,
        look::{Needs, look},
        member::Member,
    },
    event::Severity,
    membership::voters::find,
    movement::{Movement, resync::Return},
    sync::lock::Mutex,
    world::{Disk, Found, Task},
};
use plinth_format::{
    DiskId, DiskNumber,
    header::DiskHeader,
    membership::{DiskState, MemberDisk},
};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    io,
    sync::Arc,
    time::Duration,
};

/// Between two looks.
const LOOK: Duration = Duration::from_secs(3);
/// Looks after a disk's I/O failed, before it counts as present and failing: whatever removes a
/// device may need a moment.
const LOOKS: u32 = 3;
/// How long a disk has to be visible that came back by itself once within [`WINDOW`]; twice as long
/// each time, up to a limit.
const STEADY: Duration = Duration::from_secs(30);
const STEADY_MAX: Duration = Duration::from_secs(3600);
const WINDOW: Duration = Duration::from_secs(24 * 3600);
/// The same for a disk that had no room: a pool that grows by itself, or an operator, needs some
/// time, and each attempt in vain takes the disk OFFLINE again.
const ROOM: Duration = Duration::from_secs(10);
const ROOM_MAX: Duration = Duration::from_secs(120);
/// Between two attempts to bring back a disk that is visible and does not come: at first, and at
/// most.
const RETRY: Duration = Duration::from_secs(5);
const RETRY_MAX: Duration = Duration::from_secs(60);

/// The disks that are away.
#[derive(Debug, Default)]
pub struct Absences(Mutex<Watch>);

#[derive(Debug, Default)]
struct Watch {
    is_looking: bool,
    next_look: Duration,
    disks: BTreeMap<DiskNumber, Absence>,
}

#[derive(Debug, Default)]
struct Absence {
    /// Which of its absences the rest is about.
    losses: u64,
    /// Looks since its I/O failed.
    looks: u32,
    /// It is visible again since then.
    seen: Option<Duration>,
    /// When it came back by itself.
    returns: VecDeque<Duration>,
    not_before: Duration,
    retry: Duration,
    /// Why it does not come: reported once.
    trouble: Option<String>,
}

impl Absence {
    /// How long it has to be visible before it is taken.
    /// `had_no_room`: it went OFFLINE for that.
    fn steady(&mut self, now: Duration, had_no_room: bool) -> Duration {
        while self.returns.front().is_some_and(|at| now.saturating_sub(*at) > WINDOW) {
            self.returns.pop_front();
        }
        match self.returns.len() {
            times if had_no_room => ROOM.saturating_mul(1 << times.min(16)).min(ROOM_MAX),
            0 => Duration::ZERO,
            times => STEADY.saturating_mul(1 << (times - 1).min(16)).min(STEADY_MAX),
        }
    }

    /// It did not come. Returns whether that is to be reported.
    fn failed(&mut self, now: Duration, trouble: &str) -> bool {
        self.retry = (self.retry * 2).clamp(RETRY, RETRY_MAX);
        self.not_before = now + self.retry;
        self.trouble.replace(trouble.to_owned()).as_deref() != Some(trouble)
    }
}

/// The result of a look at all devices.
struct DisksFound {
    /// The ids that are visible.
    disks: BTreeSet<DiskId>,
    /// Where something is that can be opened, or may be, and is not known to be a disk of the
    /// group.
    others: BTreeSet<String>,
}

impl DisksFound {
    /// Whether a disk, which was at `path`, is gone.
    fn misses(&self, disk: DiskId, path: &str) -> bool {
        !self.disks.contains(&disk) && !self.others.contains(path)
    }
}

/// Whether an open failed because there is no device any more.
fn is_gone(error: &io::Error) -> bool {
    /// `ENXIO`, `ENODEV`, `ENOTCONN`, `ESTALE`, `ENOMEDIUM`.
    const GONE: [i32; 5] = [6, 19, 107, 116, 123];
    error.kind() == io::ErrorKind::NotFound
        || error.raw_os_error().is_some_and(|code| GONE.contains(&code))
}

/// The question that a look is to answer about a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Question {
    /// Its I/O failed: is it gone?
    IsGone,
    /// It was gone: is it back?
    IsBack,
    /// Its resync ended with an error: does it go on?
    GoesOn,
}

impl Movement {
    /// Looks after disks that are away, in a task of its own. Once a second.
    pub(crate) fn tend_absent(self: &Arc<Self>) {
        let asked = self.questions();
        if asked.is_empty() {
            return;
        }
        let group = Arc::clone(self);
        {
            let now = self.world.monotonic();
            let mut watch = self.absences.0.lock();
            if watch.is_looking || now < watch.next_look {
                return;
            }
            watch.is_looking = true;
        }
        let look = async move {
            group.look_for_absent(asked).await;
            let mut watch = group.absences.0.lock();
            watch.is_looking = false;
            watch.next_look = group.world.monotonic() + LOOK;
        };
        self.world.spawn("absent disks", Box::pin(look));
    }

    pub(crate) fn questions(&self) -> Vec<(Arc<Member>, Question)> {
        let membership = self.voters.current();
        let is_idle = membership.disks.iter().all(|disk| disk.state == DiskState::Online);
        if is_idle || self.is_stopping() {
            return Vec::new();
        }
        let now = self.world.monotonic();
        let comes_back = self.attributes().auto_online;
        let mut watch = self.absences.0.lock();
        let mut questions = Vec::new();
        for disk in
            membership.disks.iter().filter(|disk| disk.state != DiskState::Online && !disk.leaving)
        {
            let Some(member) = self.members.get(&disk.number) else { continue };
            let absence = watch.disks.entry(disk.number).or_default();
            if absence.losses != member.losses() {
                let returns = std::mem::take(&mut absence.returns);
                *absence = Absence { losses: member.losses(), returns, ..Absence::default() };
            }
            let question = match disk {
                _ if now < absence.not_before => None,
                MemberDisk { state: DiskState::Syncing, .. } => {
                    self.has_failed_resync(member).then_some(Question::GoesOn)
                }
                MemberDisk { by_operator: true, .. } => None,
                MemberDisk { absent: true, .. } => comes_back.then_some(Question::IsBack),
                // It was ONLINE when the group was mounted, and is not any more.
                _ => (!disk.copy_whole && absence.losses > 0 && absence.looks < LOOKS)
                    .then_some(Question::IsGone),
            };
            questions.extend(question.map(|question| (Arc::clone(member), question)));
        }
        questions
    }

    async fn look_for_absent(self: &Arc<Self>, questions: Vec<(Arc<Member>, Question)>) {
        let found = match questions.iter().any(|(_, question)| *question != Question::GoesOn) {
            true => self.look_at_all().await,
            false => Some(DisksFound { disks: BTreeSet::new(), others: BTreeSet::new() }),
        };
        // It is looked again.
        let Some(found) = found else { return };
        for (member, question) in questions {
            match question {
                Question::GoesOn => self.go_on_with_resync(&member),
                Question::IsGone => self.judge_failed(&member, &found).await,
                Question::IsBack => self.take_back(&member, &found).await,
            }
        }
    }

    /// `None`: the look failed.
    async fn look_at_all(&self) -> Option<DisksFound> {
        let known: BTreeSet<String> = self.members.values().map(|member| member.path()).collect();
        let examine = |one: Found, disk: Arc<dyn Disk>| -> Task<'_, Option<Option<DiskHeader>>> {
            let is_known = known.contains(&one.path);
            Box::pin(async move {
                if is_known {
                    return None;
                }
                Some(identify::await_header(&*disk).await.map(|header| header.best))
            })
        };
        let looked = look(&*self.world, examine, |_| Needs::Something).await.whole().ok()?;
        let mut found = DisksFound { disks: BTreeSet::new(), others: BTreeSet::new() };
        for one in looked.seen {
            match one.what {
                Some(header) if header.group == self.id => drop(found.disks.insert(header.disk)),
                Some(_) => {}
                None => drop(found.others.insert(one.found.path)),
            }
        }
        let is_there = |one: &Found| {
            !known.contains(&one.path) && !one.disk.as_ref().is_err_and(|error| is_gone(error))
        };
        found.others.extend(looked.failed.into_iter().filter(is_there).map(|one| one.path));
        Some(found)
    }

    /// Changes what is known of a disk that is away.
    fn note_absence<T>(&self, member: &Member, change: impl FnOnce(&mut Absence) -> T) -> T {
        change(self.absences.0.lock().disks.entry(member.number).or_default())
    }

    fn go_on_with_resync(self: &Arc<Self>, member: &Arc<Member>) {
        let now = self.world.monotonic();
        self.note_absence(member, |absence| absence.failed(now, "its resync ended with an error"));
        self.resume_failed_resync(member);
    }

    /// A disk's I/O has failed. If nothing is where it was, it is absent from now on.
    async fn judge_failed(&self, member: &Arc<Member>, found: &DisksFound) {
        let (number, id) = (member.number, member.id());
        let path = member.was_at();
        if !found.misses(id, &path) {
            self.note_absence(member, |absence| {
                absence.looks = if found.disks.contains(&id) { LOOKS } else { absence.looks + 1 };
            });
            return;
        }
        let losses = member.losses();
        let member_now = Arc::clone(member);
        let marked = self.voters.change(move |next| {
            let Some(entry) = find(next, number) else { return Ok(false) };
            let is_same = entry.state == DiskState::Offline
                && !entry.by_operator
                && member_now.losses() == losses;
            entry.absent |= is_same;
            Ok(is_same)
        });
        if marked.await.is_ok()
            && self.voters.current().disk(number).is_some_and(|disk| disk.absent)
        {
            let back = if self.attributes().auto_online {
                "it comes ONLINE by itself"
            } else {
                "bring it ONLINE"
            };
            let text =
                format!("disk {} is gone from {path}; {back} when it is seen again", member.name());
            self.tell(Severity::Note, Some(number), text);
        }
    }

    /// Brings a disk back that is visible again.
    async fn take_back(self: &Arc<Self>, member: &Arc<Member>, found: &DisksFound) {
        let (name, now) = (member.name(), self.world.monotonic());
        if !found.disks.contains(&member.id()) {
            self.note_absence(member, |absence| absence.seen = None);
            return;
        }
        let had_no_room = member.room.was_reason();
        let (waits, is_new, times) = self.note_absence(member, |absence| {
            let steady = absence.steady(now, had_no_room);
            let is_new = absence.seen.is_none();
            let seen = *absence.seen.get_or_insert(now);
            ((now.saturating_sub(seen) < steady).then_some(steady), is_new, absence.returns.len())
        });
        if let Some(steady) = waits {
            if is_new && !had_no_room {
                let times = if times == 1 { "once".to_owned() } else { format!("{times} times") };
                let text = format!(
                    "disk {name} is visible again, and has come and gone {times} within a day: it comes ONLINE when it has stayed for {} s",
                    steady.as_secs()
                );
                self.tell(Severity::Warning, Some(member.number), text);
            }
            return;
        }
        match self.start_resync(member, Return::ByItself).await {
            Ok(()) => self.note_absence(member, |absence| absence.returns.push_back(now)),
            Err(error) => {
                let text = format!(
                    "disk {name} is visible again, but does not come ONLINE by itself: {error}"
                );
                if self.note_absence(member, |absence| absence.failed(now, &text)) {
                    let hint = error.hint.map_or_else(String::new, |hint| format!(". {hint}"));
                    self.tell(Severity::Warning, Some(member.number), text + &hint);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each return within a day makes the next one wait longer, up to an hour; a day later all is
    /// forgotten.
    #[test]
    fn a_disk_that_comes_and_goes_has_to_stay_longer_each_time() {
        let mut absence = Absence::default();
        let mut now = Duration::from_secs(1);
        let mut waited = Vec::new();
        for _ in 0..10 {
            waited.push(absence.steady(now, false).as_secs());
            absence.returns.push_back(now);
            now += Duration::from_secs(5);
        }
        assert_eq!(waited, [0, 30, 60, 120, 240, 480, 960, 1920, 3600, 3600]);
        assert_eq!(absence.steady(now + WINDOW, false), Duration::ZERO);
    }

    /// A disk without room is tried soon, and every two minutes at least: room is made at some
    /// time.
    #[test]
    fn a_disk_that_had_no_room_is_tried_every_two_minutes() {
        let mut absence = Absence::default();
        let now = Duration::from_secs(1);
        let mut waited = Vec::new();
        for _ in 0..6 {
            waited.push(absence.steady(now, true).as_secs());
            absence.returns.push_back(now);
        }
        assert_eq!(waited, [10, 20, 40, 80, 120, 120]);
    }

    /// The reason why a disk does not come is reported once, and each attempt comes later than the
    /// one before.
    #[test]
    fn a_disk_that_does_not_come_is_tried_less_and_less() {
        let mut absence = Absence::default();
        let mut now = Duration::ZERO;
        let mut said = Vec::new();
        let mut waits = Vec::new();
        for trouble in ["held", "held", "held", "shrunk", "shrunk", "shrunk"] {
            said.push(absence.failed(now, trouble));
            waits.push((absence.not_before - now).as_secs());
            now = absence.not_before;
        }
        assert_eq!(said, [true, false, false, true, false, false]);
        assert_eq!(waits, [5, 10, 20, 40, 60, 60]);
    }

    #[test]
    fn a_disk_that_is_there_and_fails_is_not_absent() {
        let disk = DiskId([1; 16]);
        let found = |disks: &[DiskId], others: &[&str]| DisksFound {
            disks: disks.iter().copied().collect(),
            others: others.iter().map(|path| (*path).to_owned()).collect(),
        };
        assert!(found(&[], &[]).misses(disk, "/dev/sdb"));
        assert!(
            found(&[DiskId([2; 16])], &["/dev/sdc"]).misses(disk, "/dev/sdb"),
            "another took its place"
        );
        assert!(!found(&[disk], &[]).misses(disk, "/dev/sdb"), "it is elsewhere");
        assert!(
            !found(&[], &["/dev/sdb"]).misses(disk, "/dev/sdb"),
            "it is there, and its header cannot be read"
        );
        assert!(
            is_gone(&io::Error::from_raw_os_error(6)) && is_gone(&io::ErrorKind::NotFound.into())
        );
        assert!(
            !is_gone(&io::Error::from_raw_os_error(5)) && !is_gone(&io::ErrorKind::TimedOut.into())
        );
    }
}
