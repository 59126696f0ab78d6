//! The engine's records on a disk: header, stamps and memberships; and the disks that discovery
//! shows for groups that are not mounted.
//!
//! Only reads. The disk may contain any bytes.

mod copies;

pub use copies::{Case, Header, Search};

use crate::{
    admin::{AdminError, HeaderStatus, Survey},
    disk::look::{Needs, look},
    sync::buffer::Buffer,
    world::{Disk, Found, Identity, Io, PassedOver, Task, World},
};
use futures::future::Either;
use plinth_format::{
    BLOCK_SIZE, FormatError,
    header::{DiskHeader, HEADER_MAGIC, Status},
    label::LabelRecord,
    layout::{FIRST_AREA, HEADER_PLACE, Layout, MEMBERSHIP_SLOT, likely_header_places},
    membership::Membership,
    stamp::Stamp,
};
use std::{collections::BTreeSet, sync::Arc, time::Duration};

/// The beginning of the path of a disk that was found by its label.
pub const LABEL_PATH: &str = "AFD:";

/// The label in the path of a disk, or the pattern of labels: in upper case, as labels are. `None`
/// if the path is not one by a label.
#[must_use]
pub fn label_in(path: &str) -> Option<String> {
    let (begin, label) = path.split_at_checked(LABEL_PATH.len())?;
    begin.eq_ignore_ascii_case(LABEL_PATH).then(|| label.to_ascii_uppercase())
}

/// A path as discovery shows it: one by a label in upper case.
#[must_use]
pub fn shown_path(path: &str) -> String {
    label_in(path).map_or_else(|| path.to_owned(), |label| format!("{LABEL_PATH}{label}"))
}

/// How long a disk may take to answer before it counts as unreadable: a hung disk must not hang the
/// mount of its group. A discovery of all disks has one limit for all of them (`look.rs`).
const PATIENCE: Duration = Duration::from_secs(10);
/// A tick that comes late counts once: the host may be too busy for the disk's answer, too.
const TICK: Duration = Duration::from_millis(500);

/// The result of `task`, unless it takes too long.
async fn in_time<T>(world: &dyn World, task: impl Future<Output = Option<T>>) -> Option<T> {
    let mut task = std::pin::pin!(task);
    let mut left = PATIENCE;
    while !left.is_zero() {
        match futures::future::select(&mut task, world.sleep(TICK)).await {
            Either::Left((found, _)) => return found,
            Either::Right(_) => left = left.saturating_sub(TICK),
        }
    }
    None
}

/// Reads bytes; `None` if that fails.
async fn read(disk: &dyn Disk, offset: u64, length: usize) -> Option<Buffer> {
    let end = offset.checked_add(length as u64)?;
    if end > disk.size() {
        return None;
    }
    let done = disk.submit(Io::Read { offset, buffer: Buffer::zeroed(length) }).await;
    done.result.ok()?;
    done.buffer
}

/// Reads the header. `None` if no copy is valid, or several are and the right one cannot be told,
/// or the disk does not answer.
pub async fn read_header(world: &dyn World, disk: &dyn Disk) -> Option<Header> {
    examine_header(world, disk).await.1
}

/// The case of a disk's header copies, and the header, if there is one. See `copies.rs`.
pub async fn examine_header(world: &dyn World, disk: &dyn Disk) -> (Case, Option<Header>) {
    let found = in_time(world, async { Some(find_header(disk).await) }).await;
    found.unwrap_or((Case::NoHeader, None))
}

async fn find_header(disk: &dyn Disk) -> (Case, Option<Header>) {
    let first = read_copy(disk, HEADER_PLACE).await;
    let guesses = if first.is_none() { likely_places(disk).await } else { Vec::new() };
    let mut search = Search::new(first, guesses);
    while let Some(place) = search.next() {
        let copy = read_copy(disk, place).await;
        search.found(place, copy);
    }
    search.end(disk.size())
}

/// Places where copies of the header may be: those of the whole device and, since a part of it may
/// be in use, those of every size that a membership in the first area names.
async fn likely_places(disk: &dyn Disk) -> Vec<u64> {
    let mut places = likely_header_places(disk.size());
    for place in FIRST_AREA.memberships {
        if let Some(bytes) = read(disk, place, MEMBERSHIP_SLOT).await
            && let Ok((_, membership)) = Membership::decode(&bytes, place)
        {
            let sizes =
                membership.disks.iter().flat_map(|member| [Some(member.size), member.target]);
            let layouts =
                sizes.flatten().filter_map(|size| Layout::new(size, membership.au_size).ok());
            let more: BTreeSet<u64> = layouts.flat_map(|layout| layout.header_places()).collect();
            let known: BTreeSet<u64> = places.iter().copied().collect();
            places.extend(more.difference(&known));
        }
    }
    places
        .retain(|place| place.checked_add(BLOCK_SIZE as u64).is_some_and(|end| end <= disk.size()));
    places
}

async fn read_copy(disk: &dyn Disk, place: u64) -> Option<DiskHeader> {
    read(disk, place, BLOCK_SIZE).await.and_then(|block| DiskHeader::decode(&block, place).ok())
}

/// Places of header copies that a new layout of the disk does not overwrite: those of the whole
/// device, and of the parts of it that were used before.
pub async fn old_places(disk: &dyn Disk) -> Vec<u64> {
    let mut places = vec![HEADER_PLACE];
    places.extend(likely_header_places(disk.size()));
    let mut old = Vec::new();
    let mut index = 0;
    while index < places.len() {
        if let Some(header) = read_copy(disk, places[index]).await {
            old.push(places[index]);
            let own = header.layout.header_places();
            places.extend(
                own.into_iter().filter(|place| !places.contains(place)).collect::<Vec<_>>(),
            );
        }
        index += 1;
    }
    old
}

/// Why no copy of the header is valid, if the disk looks like one of a group.
pub async fn header_trouble(world: &dyn World, disk: &dyn Disk) -> Option<FormatError> {
    in_time(world, find_trouble(disk)).await
}

async fn find_trouble(disk: &dyn Disk) -> Option<FormatError> {
    for place in [HEADER_PLACE].into_iter().chain(likely_header_places(disk.size())) {
        let Some(block) = read(disk, place, BLOCK_SIZE).await else { continue };
        if block.starts_with(HEADER_MAGIC) {
            return DiskHeader::decode(&block, place).err();
        }
    }
    None
}

/// [`read_header`], without a limit of time.
pub(crate) async fn await_header(disk: &dyn Disk) -> Option<Header> {
    find_header(disk).await.1
}

/// [`probe`], without a limit of time.
pub(crate) async fn await_probe(found: &Found, disk: &dyn Disk, header: DiskHeader) -> ProbeResult {
    let (stamps, memberships) = read_records(disk, &header).await;
    ProbeResult {
        path: found.path.clone(),
        identity: found.identity.clone(),
        header,
        stamps,
        memberships,
    }
}

/// Whether its beginning can be read, in time.
async fn can_be_read(world: &dyn World, disk: &dyn Disk) -> bool {
    disk.size() < BLOCK_SIZE as u64
        || in_time(world, read(disk, HEADER_PLACE, BLOCK_SIZE)).await.is_some()
}

/// The records of a disk with a valid header, for the mount decision.
pub async fn probe(
    world: &dyn World,
    found: &Found,
    disk: &dyn Disk,
    header: DiskHeader,
) -> ProbeResult {
    let records = in_time(world, async { Some(read_records(disk, &header).await) }).await;
    let (stamps, memberships) = records.unwrap_or_default();
    ProbeResult {
        path: found.path.clone(),
        identity: found.identity.clone(),
        header,
        stamps,
        memberships,
    }
}

async fn read_records(disk: &dyn Disk, header: &DiskHeader) -> (Vec<Stamp>, Vec<Membership>) {
    let areas = header.record_areas();
    let mut stamps = Vec::new();
    for place in areas.iter().flat_map(|area| area.stamps) {
        if let Some(block) = read(disk, place, BLOCK_SIZE).await
            && let Ok((envelope, stamp)) = Stamp::decode(&block, place)
            && envelope.expect(header.group, header.disk).is_ok()
        {
            stamps.push(stamp);
        }
    }
    let mut memberships = Vec::new();
    for place in areas.iter().flat_map(|area| area.memberships) {
        if let Some(bytes) = read(disk, place, MEMBERSHIP_SLOT).await
            && let Ok((envelope, membership)) = Membership::decode(&bytes, place)
            && envelope.expect(header.group, header.disk).is_ok()
        {
            memberships.push(membership);
        }
    }
    (stamps, memberships)
}

/// The survey of a device of which nothing is known.
fn unknown(path: &str) -> Survey {
    Survey {
        path: path.to_owned(),
        aliases: Vec::new(),
        header: HeaderStatus::Unknown,
        group: None,
        group_id: None,
        name: None,
        failure_group: None,
        number: None,
        quorum: false,
        label: None,
        device: path.to_owned(),
        size: 0,
        logical_sector: 0,
        physical_sector: 0,
        can_discard: false,
        is_held: false,
        remark: None,
    }
}

/// Surveys one match of the discovery string.
pub(crate) async fn survey_one(
    world: &Arc<dyn World>,
    found: &Found,
) -> (Survey, Option<DiskHeader>) {
    let mut survey = unknown(&found.path);
    let disk = match &found.disk {
        Ok(disk) => disk,
        Err(error) => {
            survey.remark = Some(format!("cannot be opened: {error}"));
            return (survey, None);
        }
    };
    survey.device = disk.device();
    survey.size = disk.size();
    survey.logical_sector = disk.sectors().logical;
    survey.physical_sector = disk.sectors().physical;
    survey.can_discard = disk.can_discard();
    survey.is_held = disk.was_held();
    let (case, header) = examine_header(&**world, &**disk).await;
    if let Some(header) = header {
        let header = header.best;
        survey.header = match header.status {
            Status::Member => HeaderStatus::Member,
            Status::Former => HeaderStatus::Former,
        };
        survey.group = Some(header.group_name.clone());
        survey.group_id = Some(header.group.to_string());
        survey.name = Some(header.name.clone());
        survey.failure_group = Some(header.failure_group.clone());
        survey.number = Some(header.number.0);
        survey.quorum = header.quorum;
        survey.label = header.label.as_ref().map(ToString::to_string);
        return (survey, Some(header));
    }
    if case == Case::Contested {
        survey.remark =
            Some("its header copies are of several disks, and nothing says which it is".to_owned());
        return (survey, None);
    }
    let trouble = header_trouble(&**world, &**disk).await;
    // A device that cannot be read does not count as another program's for that, and is not asked
    // for a label: one that hangs would be waited for twice.
    if trouble.is_none() && !can_be_read(&**world, &**disk).await {
        survey.remark = Some("it cannot be read".to_owned());
        return (survey, None);
    }
    let label = in_time(&**world, async { Some(find_label(&**disk).await) }).await.flatten();
    if let Some((record, HEADER_PLACE)) = &label {
        survey.header = HeaderStatus::Provisioned;
        survey.label = Some(record.label.to_string());
        return (survey, None);
    }
    match trouble {
        Some(error @ FormatError::Version { .. }) => {
            survey.header = HeaderStatus::Incompatible;
            survey.remark = Some(error.to_string());
        }
        Some(error) => survey.remark = Some(format!("its header is damaged: {error}")),
        None => match disk.in_use_by() {
            Some(occupant) => {
                survey.header = HeaderStatus::Foreign;
                survey.remark = Some(occupant);
            }
            None => survey.header = HeaderStatus::Candidate,
        },
    }
    if survey.header == HeaderStatus::Candidate
        && let Some((record, _)) = label
    {
        survey.header = HeaderStatus::Provisioned;
        survey.label = Some(record.label.to_string());
        survey.remark = Some("its first block does not have the label any more".to_owned());
    }
    (survey, None)
}

/// The first copy of the label record, and its place.
async fn find_label(disk: &dyn Disk) -> Option<(LabelRecord, u64)> {
    for place in LabelRecord::places(disk.size()) {
        if let Some(block) = read(disk, place, BLOCK_SIZE).await
            && let Ok(record) = LabelRecord::decode(&block, place)
        {
            return Some((record, place));
        }
    }
    None
}

/// Surveys every disk that discovery shows, without mounting a group.
///
/// # Errors
/// If the process that looks for disks has ended: a disk that it did not report may be there.
pub(crate) async fn survey(world: &Arc<dyn World>) -> Result<Vec<Survey>, AdminError> {
    let examine =
        |found: Found, _: Arc<dyn Disk>| -> Task<'_, Option<(Survey, Option<DiskHeader>)>> {
            Box::pin(async move { Some(survey_one(world, &found).await) })
        };
    let looked = look(&**world, examine, |_| Needs::Something).await.whole()?;
    let passed_over = looked.passed_over.into_iter().map(|PassedOver { path, why }| Survey {
        header: HeaderStatus::Ignored,
        remark: Some(why),
        ..unknown(&path)
    });
    let failed = looked.failed.into_iter().map(|found| {
        let survey = match &found.disk {
            Err(error) => Survey {
                remark: Some(format!("cannot be opened: {error}")),
                ..unknown(&found.path)
            },
            Ok(_) => unknown(&found.path),
        };
        (found, (survey, None))
    });
    let mut all: Vec<_> =
        looked.seen.into_iter().map(|one| (one.found, one.what)).chain(failed).collect();
    // A path by the label is preferred.
    let order = |found: &Found| (!found.path.starts_with(LABEL_PATH), found.path.clone());
    all.sort_by_key(|(one, _)| order(one));
    let (mut found, mut seen) = (Vec::<Found>::new(), Vec::<Surveyed>::new());
    for (one, what) in all {
        // A device with two paths is one.
        match found.iter().position(|other| other.identity == one.identity) {
            Some(at) => seen[at].0.aliases.push(one.path),
            None => {
                found.push(one);
                seen.push(what);
            }
        }
    }
    mark_twins(&found, &mut seen);
    let mut surveys: Vec<Survey> = seen.into_iter().map(|(survey, _)| survey).collect();
    surveys.extend(passed_over);
    surveys.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(surveys)
}

/// A survey, and the header that it is of.
type Surveyed = (Survey, Option<DiskHeader>);

/// Two devices with one disk id, or with one label: neither is used until one is gone.
fn mark_twins(found: &[Found], seen: &mut [Surveyed]) {
    let twins = |index: usize, same: &dyn Fn(&Surveyed) -> bool| {
        let others = (0..seen.len())
            .filter(|other| found[*other].identity != found[index].identity && same(&seen[*other]));
        others.map(|other| seen[other].0.device.clone()).collect::<Vec<_>>().join(", ")
    };
    let mut remarks = Vec::new();
    for (index, (survey, header)) in seen.iter().enumerate() {
        let member = header.as_ref().filter(|header| header.status == Status::Member);
        if let Some(header) = member {
            let same_id = twins(index, &|(_, twin)| {
                twin.as_ref().is_some_and(|twin| twin.disk == header.disk)
            });
            if !same_id.is_empty() {
                remarks.push((index, true, format!("{same_id} carries the same disk id")));
                continue;
            }
        }
        let same_label = twins(index, &|(twin, _)| twin.label == survey.label);
        if survey.label.is_some() && !same_label.is_empty() {
            // A member is found by its disk id.
            let text = format!("{same_label} carries the same label");
            remarks.push((index, member.is_none(), text));
        }
    }
    for (index, is_conflict, remark) in remarks {
        if is_conflict {
            seen[index].0.header = HeaderStatus::Conflict;
        }
        seen[index].0.remark = Some(remark);
    }
}

/// The records on one device.
#[derive(Debug, Clone)]
pub struct ProbeResult {
    pub path: String,
    pub identity: Identity,
    /// The best of the copies.
    pub header: DiskHeader,
    /// The valid ones of all slots, in any order.
    pub stamps: Vec<Stamp>,
    /// The valid ones of all slots, in any order.
    pub memberships: Vec<Membership>,
}
