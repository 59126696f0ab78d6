//! The records on a disk, field by field, as `dump` and `kfed` print them.
//!
//! Both take the fields from the records that `plinth_format` decodes, so no offset is known here.
//! `kfed merge` takes the fields of a header back.

use crate::alert::rfc3339;
use plinth_engine::admin::HeaderStatus;
use plinth_format::{
    Label, activity::ActivityLog, envelope::Envelope, header::DiskHeader, label::LabelRecord,
    membership::Membership, stamp::Stamp,
};
use std::fmt::Display;

/// Lists that are longer are cut.
const SHOWN: usize = 200;

/// A line of a record.
pub(super) enum Line {
    Field {
        name: &'static str,
        value: String,
        meaning: &'static str,
    },
    /// An entry of the list that the field before it counts.
    Item(String),
}

/// The lines of a record.
#[derive(Default)]
pub(super) struct Lines(pub Vec<Line>);

impl Lines {
    fn add(&mut self, name: &'static str, value: impl Display, meaning: &'static str) {
        self.0.push(Line::Field { name, value: value.to_string(), meaning });
    }

    fn items<T>(&mut self, all: &[T], show: impl Fn(&T) -> String) {
        self.0.extend(all.iter().take(SHOWN).map(|item| Line::Item(show(item))));
        if all.len() > SHOWN {
            self.0.push(Line::Item(format!("and {} more", all.len() - SHOWN)));
        }
    }

    fn envelope(envelope: &Envelope) -> Self {
        let mut lines = Self::default();
        lines.add("group id", envelope.group, "the group that the record is of");
        lines.add("disk id", envelope.disk, "the disk that it was written to");
        lines
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(super) fn header(header: &DiskHeader) -> Lines {
    let mut lines = Lines::default();
    let layout = &header.layout;
    lines.add("group", &header.group_name, "name of the disk group");
    lines.add("group id", header.group, "what tells it from another group of this name");
    lines.add("disk", &header.name, "name of the disk");
    lines.add("disk id", header.disk, "what tells it from every other disk");
    lines.add("disk number", header.number, "its number in extents");
    lines.add("failure group", &header.failure_group, "disks that fail together");
    lines.add("quorum", header.quorum, "true: it votes, and holds no data");
    let label = header.label.as_ref().map_or("none", Label::as_str);
    lines.add("label", label, "its operator's name for the disk");
    lines.add("status", header.status, "MEMBER, or FORMER: it was dropped");
    lines.add("redundancy", header.redundancy, "EXTERN, NORMAL or HIGH");
    lines.add("sequence", header.sequence, "of several valid copies the highest counts");
    lines.add("created", rfc3339(header.created), "when the disk became a member");
    lines.add(
        "sectors",
        format_args!("{} logical, {} physical", header.logical_sector, header.physical_sector),
        "bytes",
    );
    lines.add("size", format_args!("{} bytes", layout.size()), "what the group uses of the device");
    lines.add("AU size", format_args!("{} bytes", layout.au_size()), "allocation unit");
    lines.add("AUs", layout.au_count(), "of the disk, usable or not");
    lines.add("record areas", header.record_areas().len(), "2: records are in the middle, too");
    lines
}

pub(super) fn label(record: &LabelRecord) -> Lines {
    let mut lines = Lines::default();
    lines.add("label", &record.label, "its operator's name for the disk");
    lines.add("status", HeaderStatus::Provisioned, "of no disk group, and labelled");
    lines.add("labelled", rfc3339(record.when), "when it got the label");
    lines.add("by", &record.by, "the user who gave it");
    lines
}

pub(super) fn stamp((envelope, stamp): &(Envelope, Stamp)) -> Lines {
    let mut lines = Lines::envelope(envelope);
    lines.add("counter", stamp.counter, "a disk more than one behind the newest is an old image");
    lines.add("written", rfc3339(stamp.written), "when");
    lines.add("membership", stamp.membership, "id of the membership then in force");
    lines.add("clean", stamp.clean, "true: written by a dismount");
    lines
}

pub(super) fn activity((envelope, log): &(Envelope, ActivityLog)) -> Lines {
    let mut lines = Lines::envelope(envelope);
    lines.add("sequence", log.sequence, "of all logs of the group the highest counts");
    lines.add("membership", log.membership, "id of the membership then in force");
    lines.add("boot", hexadecimal(&log.boot), "the host's boot id when it was written");
    lines.add("regions", log.regions.len(), "where writes may be in flight");
    lines.items(&log.regions, |region| {
        let last = region.first.saturating_add(u64::from(region.count).saturating_sub(1));
        format!("extents {} to {last}", region.first)
    });
    lines
}

pub(super) fn membership((envelope, members): &(Envelope, Membership)) -> Lines {
    let mut lines = Lines::envelope(envelope);
    lines.add("group", &members.group_name, "name of the disk group");
    lines.add("generation", members.generation, "grows with every change");
    lines.add("id", members.id, "equal generations with other ids are other histories");
    lines.add(
        "parent",
        members.ancestors.first().map_or_else(|| "none".into(), ToString::to_string),
        "the membership before",
    );
    lines.add("created", rfc3339(members.created), "when the group was created");
    lines.add("redundancy", members.redundancy, "EXTERN, NORMAL or HIGH");
    if members.wanted != members.redundancy {
        lines.add("converted to", members.wanted, "the redundancy that it is to have");
    }
    lines.add("AU size", format_args!("{} bytes", members.au_size), "allocation unit");
    lines.add("stamp", members.stamp, "the stamp when it was recorded");
    lines.add("in use", members.mounted, "true: mounted, or not dismounted in good order");
    lines.add("boot", hexadecimal(&members.boot), "the host's boot id when it was mounted");
    lines.add("disks", members.disks.len(), "members");
    lines.items(&members.disks, |member| {
        let flags = [
            (member.votes, "votes"),
            (member.quorum, "quorum"),
            (member.copy_whole, "copy whole"),
            (member.by_operator, "by operator"),
            (member.absent, "absent"),
            (member.leaving, "being dropped"),
        ];
        let flags: Vec<&str> =
            flags.iter().filter(|(set, _)| *set).map(|(_, word)| *word).collect();
        format!(
            "{:>4} {:<10} {} in {}, {} bytes, id {} {}",
            member.number.0,
            format!("{:?}", member.state).to_uppercase(),
            member.name,
            member.failure_group,
            member.size,
            member.id,
            flags.join(", ")
        )
    });
    lines.add("catalog runs", members.catalog.len(), "where the catalog's two files are");
    lines.items(&members.catalog, |run| {
        format!(
            "{:?} mirror {}: AUs {} to {} on disk {} from its AU {}",
            run.file,
            run.mirror,
            run.at,
            run.at.saturating_add(run.count).saturating_sub(1),
            run.disk,
            run.first
        )
    });
    lines
}

/// Bytes as hexadecimal rows with their offsets; equal rows are counted, not repeated.
pub(super) fn rows(start: u64, bytes: &[u8]) -> String {
    let mut out = String::new();
    let mut last: Option<&[u8]> = None;
    let mut repeated = 0;
    let same = |repeated: u32| format!("  the same {repeated} more times\n");
    for (at, row) in bytes.chunks(16).enumerate() {
        if last == Some(row) {
            repeated += 1;
            continue;
        }
        if repeated > 0 {
            out += &same(repeated);
            repeated = 0;
        }
        let hex: Vec<String> = row.iter().map(|byte| format!("{byte:02x}")).collect();
        let is_shown = |byte: &u8| byte.is_ascii_graphic() || *byte == b' ';
        let text: String =
            row.iter().map(|byte| if is_shown(byte) { char::from(*byte) } else { '.' }).collect();
        out += &format!("{:>14}  {:<47}  {text}\n", start + at as u64 * 16, hex.join(" "));
        last = Some(row);
    }
    if repeated > 0 {
        out += &same(repeated);
    }
    out
}
