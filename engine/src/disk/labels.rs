//! Labels of disks of no mounted group: how a disk gets one, another one, and none.
//!
//!   1. Survey the device, and decide: it is in use, foreign, a member, labelled already. A refusal
//!      has written nothing.
//!   2. Claim it (R1), and survey it again: it may have changed meanwhile.
//!   3. Write. A disk that was dropped keeps its header, which gets the label. Any other disk gets
//!      a label record, in three copies. Each copy is flushed before the next.
//!
//! A crash in 3 leaves copies that differ. Of label records the first valid one counts, and the
//! first block is written first and wiped last; of headers the newest counts.
//!
//! A member of a mounted group gets a label from its engine (`movement/label.rs`).

use crate::{
    admin::{AdminError, Code, HeaderStatus, LabelPermission, Survey},
    disk::{
        headers::write_header,
        identify::survey_one,
        look::find_paths,
        member::Member,
        taken::{former_uses, unusable, wipe},
    },
    sync::buffer::Buffer,
    world::{Disk, Io, World, is_held},
};
use plinth_format::{
    BLOCK_SIZE, Label,
    header::DiskHeader,
    label::{LABEL_MAX, LabelRecord},
};
use std::sync::Arc;

type Result<T> = std::result::Result<T, AdminError>;

/// Letters that are shown of a text that cannot be a label.
const SHOWN: usize = 60;

/// The label that a text names.
///
/// # Errors
/// Why it names none. Control characters in it are shown escaped.
pub fn parse(text: &str) -> Result<Label> {
    Label::new(text).ok_or_else(|| {
        let (begin, dots) = match text.char_indices().nth(SHOWN) {
            Some((end, _)) => (&text[..end], " ..."),
            None => (text, ""),
        };
        AdminError::new(Code::Invalid, format!("{begin:?}{dots} cannot be a label")).hint(format!(
            "a label begins with a letter and has up to {LABEL_MAX} letters, digits, _, $ or #: \
             blkid and udev read no more"
        ))
    })
}

/// Refuses another label for a disk that has one.
///
/// # Errors
/// Unless it may be renamed.
pub fn check_present(
    device: &str,
    present: Option<&Label>,
    new: &Label,
    permission: LabelPermission,
) -> Result<()> {
    match present {
        Some(present) if present != new && !permission.rename => {
            let text = format!("disk {device} has the label {present}");
            Err(AdminError::new(Code::Invalid, text)
                .hint("add RENAME (afd_label --rename) to give it another one"))
        }
        _ => Ok(()),
    }
}

/// Gives a disk a label. `by`: the user, for people.
///
/// # Errors
/// Why the disk cannot get it.
pub async fn set(
    world: &Arc<dyn World>,
    path: &str,
    label: &Label,
    permission: LabelPermission,
    by: &str,
) -> Result<()> {
    let (disk, survey, header) = claim(world, path, |survey| decide(survey, label, permission))
        .await
        .map_err(|error| named(error, path))?;
    if survey.label.as_deref() == Some(label.as_str()) {
        return Ok(());
    }
    if let Some(header) = header.filter(|_| survey.header == HeaderStatus::Former) {
        return write_former(world, disk, &header, Some(label)).await;
    }
    let places = LabelRecord::places(disk.size());
    if places.is_empty() {
        let text = format!("disk {path} is too small: {} bytes", disk.size());
        return Err(AdminError::new(Code::DiskTooSmall, text).hint("use a larger one"));
    }
    if !matches!(survey.header, HeaderStatus::Candidate | HeaderStatus::Provisioned) {
        wipe(&*disk, former_uses(&*disk).await).await?;
    }
    let record = LabelRecord { label: label.clone(), when: world.now(), by: by.to_owned() };
    for place in places {
        let data = Buffer::copy_of(&record.encode(place)).share();
        let io = Io::Write { offset: place, data, durably: false };
        for io in [io, Io::Flush] {
            disk.submit(io).await.result.map_err(|error| {
                let text = format!("disk {path}: writing its label at {place}: {error}");
                AdminError::new(Code::Io, text)
                    .hint("give the statement again with RENAME, or replace the disk")
            })?;
        }
    }
    Ok(())
}

/// Takes a disk's label away.
///
/// # Errors
/// If it has none, is a member of a disk group, or cannot be written.
pub async fn clear(world: &Arc<dyn World>, path: &str) -> Result<()> {
    let (disk, survey, header) = claim(world, path, may_be_cleared).await?;
    match header.filter(|_| survey.header == HeaderStatus::Former) {
        Some(header) => write_former(world, disk, &header, None).await,
        None => {
            for place in LabelRecord::places(disk.size()).into_iter().rev() {
                wipe(&*disk, vec![(place, BLOCK_SIZE)]).await?;
            }
            Ok(())
        }
    }
}

/// The device in a refusal that does not name it.
fn named(error: AdminError, path: &str) -> AdminError {
    if error.message.contains(path) {
        return error;
    }
    AdminError { message: format!("disk {path}: {}", error.message), ..error }
}

/// Steps 1 and 2: the claimed disk, its survey, and its header.
async fn claim(
    world: &Arc<dyn World>,
    path: &str,
    decide: impl Fn(&Survey) -> Result<()>,
) -> Result<(Arc<dyn Disk>, Survey, Option<DiskHeader>)> {
    let found = find_paths(&**world).await?;
    let Some(one) = found.into_iter().find(|one| one.path == path) else {
        return Err(AdminError::new(Code::UnknownDisk, format!("there is no disk {path:?}"))
            .hint("name a block device, or a regular file"));
    };
    let disk = one.disk.clone().map_err(|error| {
        AdminError::new(Code::CannotOpen, format!("disk {path} cannot be opened: {error}"))
            .hint("check the device and its permissions")
    })?;
    let (before, _) = survey_one(world, &one).await;
    decide(&before)?;
    let in_use = |user: String| {
        AdminError::new(Code::DiskInUse, format!("disk {path} is in use: {user}"))
            .hint("end what uses it, or use another disk; FORCE does not help")
    };
    if let Some(user) = disk.user() {
        return Err(in_use(user));
    }
    disk.claim().map_err(|error| match is_held(&error) {
        true => in_use(disk.holder().unwrap_or_else(|| error.to_string())),
        false => unusable(&format!("disk {path}"), &error),
    })?;
    let (after, header) = survey_one(world, &one).await;
    // Of a claimed disk nothing but Plinth's own records is looked at.
    let is_foreign = |survey: &Survey| survey.header == HeaderStatus::Foreign;
    let is_same = after.header == before.header || is_foreign(&before);
    if !is_same || after.label != before.label {
        let text = format!("disk {path} has just been changed by another program");
        return Err(AdminError::new(Code::Busy, text).hint("look at it, and try again"));
    }
    Ok((disk, before, header))
}

/// Whether a disk may get a label.
fn decide(survey: &Survey, label: &Label, permission: LabelPermission) -> Result<()> {
    let path = &survey.path;
    let remark = survey.remark.clone().unwrap_or_default();
    let refuse = |text: String, hint: &str| Err(AdminError::new(Code::DiskInUse, text).hint(hint));
    let present = survey.label.as_deref().and_then(Label::new);
    match survey.header {
        HeaderStatus::Candidate => Ok(()),
        HeaderStatus::Provisioned | HeaderStatus::Former => {
            check_present(path, present.as_ref(), label, permission)
        }
        _ if permission.force => Ok(()),
        HeaderStatus::Member => {
            let group = survey.group.as_deref().unwrap_or("?");
            refuse(
                format!("disk {path} belongs to disk group {group}, which is not mounted here"),
                "mount it, and add MIGRATE; or add FORCE (afd_label --init) to take the disk and \
                 lose what is on it",
            )
        }
        HeaderStatus::Foreign => refuse(
            format!("disk {path} is in use: {remark}"),
            "wipe it (wipefs -a), or add FORCE (afd_label --init) to take the disk and lose what is \
             on it",
        ),
        _ => refuse(
            format!("disk {path}: {remark}"),
            "add FORCE (afd_label --init) to take the disk and lose what is on it",
        ),
    }
}

fn may_be_cleared(survey: &Survey) -> Result<()> {
    let path = &survey.path;
    match (survey.header, &survey.label) {
        (HeaderStatus::Provisioned | HeaderStatus::Former, Some(_)) => Ok(()),
        (HeaderStatus::Member, Some(label)) => {
            let group = survey.group.as_deref().unwrap_or("?");
            let text = format!("disk {path}, labelled {label}, belongs to disk group {group}");
            Err(AdminError::new(Code::DiskInUse, text)
                .hint("drop the disk first; or give it another label, with RENAME"))
        }
        _ => Err(AdminError::new(Code::Invalid, format!("disk {path} has no label"))
            .hint("V$ASM_DISK and afd_lsdsk show the labels that there are")),
    }
}

/// Writes the header of a disk that was dropped, with this label.
async fn write_former(
    world: &Arc<dyn World>,
    disk: Arc<dyn Disk>,
    header: &DiskHeader,
    label: Option<&Label>,
) -> Result<()> {
    let path = disk.path().to_owned();
    let member = Member::stranger(header, disk, world);
    let next =
        DiskHeader { label: label.cloned(), sequence: header.sequence + 1, ..header.clone() };
    write_header(&member, &next, &next.layout.header_places()).await.map_err(|reason| {
        AdminError::new(Code::Io, format!("disk {path}: writing its header: {reason}"))
            .hint("give the statement again, or replace the disk")
    })
}
