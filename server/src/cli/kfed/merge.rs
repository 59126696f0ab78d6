//! `kfed merge`: changes fields of a disk's header from a text such as `kfed read` prints.
//!
//! Fields of which the rest of the disk depends cannot be changed: sizes say where everything else
//! is. The header that comes of it is decoded as a mount would decode it before it is written.

use super::{
    super::{
        Result,
        context::{Context, Run},
        raw_disk::RawDisk,
        record_text::{self, Line},
    },
    before_image::{DiskChanges, apply},
    repair::{header_changes, newest},
};
use crate::sql_error::SqlError;
use clap::Args;
use plinth_engine::admin::{AdminError, Code};
use plinth_format::{
    DiskNumber, Label, Redundancy,
    header::{DiskHeader, Status},
    layout::HEADER_PLACE,
};
use std::{fs::File, io::Read, path::PathBuf};

/// A text of a header is shorter.
const TEXT_MAX: u64 = 64 << 10;

/// Change fields of a header, from a text as kfed read prints it.
///
/// Lines that are left out stay as they are. The former content of the blocks is stored in a file
/// first. Without --yes nothing is written, and the changes are printed.
#[derive(Debug, Args)]
pub(super) struct Merge {
    disk: PathBuf,
    #[arg(long, value_name = "FILE")]
    text: PathBuf,
    /// Write.
    #[arg(long)]
    yes: bool,
    /// Where to store what the blocks hold now.
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
}

impl Run for Merge {
    fn run(&self, context: &mut Context) -> Result<()> {
        let refuse = |text: String| {
            SqlError::from(AdminError::new(
                Code::Invalid,
                format!("{}: {text}", self.text.display()),
            ))
        };
        let mut text = Vec::new();
        File::open(&self.text)
            .and_then(|file| file.take(TEXT_MAX).read_to_end(&mut text))
            .map_err(|error| refuse(error.to_string()))?;
        let fields = parse(&text).map_err(refuse)?;
        let disk = RawDisk::open(&self.disk)?;
        if self.yes {
            disk.claim()?;
        }
        let before = newest(&disk)?;
        let after = changed(&before, &fields).map_err(refuse)?;
        let differences = differences(&before, &after);
        if differences.is_empty() {
            context.say(format!("{}: the header has these values already", disk.path));
            return Ok(());
        }
        differences.iter().for_each(|line| context.say(line));
        if !self.yes {
            context.say("nothing is written; --yes writes it");
            return Ok(());
        }
        let changes = header_changes(&disk, &after)?;
        let all = [DiskChanges { disk, changes }];
        let saved = apply(context, "merge", self.save.as_deref(), &all)?;
        context.say(format!("written; what was there before is in {}", saved.display()));
        Ok(())
    }
}

/// A field of a text: the number of its line, name and value.
pub(super) type Field = (usize, String, String);

/// The fields of a text; any bytes may be in it.
///
/// # Errors
/// Which line is none.
pub(super) fn parse(text: &[u8]) -> std::result::Result<Vec<Field>, String> {
    let text = std::str::from_utf8(text).map_err(|error| format!("this is no text: {error}"))?;
    let mut fields: Vec<Field> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.split("  #").next().unwrap_or_default().trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (name, value) =
            line.split_once('=').ok_or_else(|| format!("line {}: not 'field = value'", at + 1))?;
        let (name, value) = (name.trim().to_owned(), value.trim().to_owned());
        if fields.iter().any(|(_, other, _)| *other == name) {
            return Err(format!("line {}: field '{name}' is there twice", at + 1));
        }
        fields.push((at + 1, name, value));
    }
    Ok(fields)
}

/// The fields of a header as text.
fn fields_of(header: &DiskHeader) -> Vec<(&'static str, String)> {
    let lines = record_text::header(header).0.into_iter();
    lines
        .filter_map(|line| match line {
            Line::Field { name, value, .. } => Some((name, value)),
            Line::Item(_) => None,
        })
        .collect()
}

fn differences(before: &DiskHeader, after: &DiskHeader) -> Vec<String> {
    let pairs = fields_of(before).into_iter().zip(fields_of(after));
    pairs
        .filter(|((_, before), (_, after))| before != after)
        .map(|((name, before), (_, after))| format!("{name}: {before} becomes {after}"))
        .collect()
}

/// The header with the values of a text, and the sequence after its own.
///
/// # Errors
/// Which line cannot be taken.
pub(super) fn changed(
    before: &DiskHeader,
    fields: &[Field],
) -> std::result::Result<DiskHeader, String> {
    let mut after = before.clone();
    let present = fields_of(before);
    for (line, name, value) in fields {
        let Some((_, now)) = present.iter().find(|(known, _)| known == name) else {
            return Err(format!("line {line}: a header has no field '{name}'"));
        };
        if now != value {
            set(&mut after, name, value).map_err(|why| format!("line {line}: {name}: {why}"))?;
        }
    }
    if after != *before {
        after.sequence = before
            .sequence
            .checked_add(1)
            .ok_or_else(|| "the sequence cannot grow any more".to_owned())?;
    }
    match DiskHeader::decode(&after.encode(HEADER_PLACE), HEADER_PLACE) {
        Ok(decoded) if decoded == after => Ok(after),
        Ok(_) => Err("a value does not fit into its field".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

fn set(header: &mut DiskHeader, name: &str, value: &str) -> std::result::Result<(), String> {
    let no = |expected: &str| Err(format!("'{value}' is not {expected}"));
    let is_name = || plinth_format::is_name(value);
    const NAME: &str = "a name: a letter, then letters, digits, _, $, #; upper case, 30 in all";
    match name {
        "group" | "disk" | "failure group" if !is_name() => return no(NAME),
        "group" => value.clone_into(&mut header.group_name),
        "disk" => value.clone_into(&mut header.name),
        "failure group" => value.clone_into(&mut header.failure_group),
        "group id" => header.group = value.parse().map_err(str::to_owned)?,
        "disk id" => header.disk = value.parse().map_err(str::to_owned)?,
        "disk number" => match value.parse() {
            Ok(number) => header.number = DiskNumber(number),
            Err(_) => return no("a number"),
        },
        "quorum" => match value {
            "true" => header.quorum = true,
            "false" => header.quorum = false,
            _ => return no("true or false"),
        },
        "status" => match value {
            "MEMBER" => header.status = Status::Member,
            "FORMER" => header.status = Status::Former,
            _ => return no("MEMBER or FORMER"),
        },
        "label" => match Label::new(value) {
            Some(label) => header.label = Some(label),
            None if value == "none" => header.label = None,
            None => return no("a label: a letter, then letters, digits, _, $, #; 24 in all"),
        },
        "redundancy" => match value {
            "EXTERN" => header.redundancy = Redundancy::External,
            "NORMAL" => header.redundancy = Redundancy::Normal,
            "HIGH" => header.redundancy = Redundancy::High,
            _ => return no("EXTERN, NORMAL or HIGH"),
        },
        _ => return Err("it cannot be changed: the rest of the disk depends on it".to_owned()),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{super::fuzz::header, *};
    use proptest::prelude::*;

    fn merged(text: &str) -> std::result::Result<DiskHeader, String> {
        changed(&header(), &parse(text.as_bytes())?)
    }

    /// The text that `kfed read` prints changes nothing; with one line changed, only that field and
    /// the sequence change.
    #[test]
    fn what_is_read_is_merged_back() {
        let text: String = fields_of(&header())
            .iter()
            .map(|(name, value)| format!("{name:<16} = {value:<34}  # what it means\n"))
            .collect();
        assert_eq!(merged(&text), Ok(header()));
        let member = merged(&text.replace("FORMER", "MEMBER")).expect("it can be changed");
        assert_eq!(member, DiskHeader { status: Status::Member, sequence: 5, ..header() });
    }

    #[test]
    fn fields_are_checked() {
        for (text, why) in [
            ("group = data", "line 1: group: 'data' is not a name"),
            ("# a\n\nsize = 1 bytes", "line 3: size: it cannot be changed"),
            ("disk number = 65536", "is not a number"),
            ("status = GONE", "is not MEMBER or FORMER"),
            ("disk = A\ndisk = B", "line 2: field 'disk' is there twice"),
            ("color = red", "no field 'color'"),
            ("disk id = 12", "disk id"),
            ("disk", "not 'field = value'"),
        ] {
            let error = merged(text).expect_err(text);
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    proptest! {
        /// Any text gives a header that can be decoded, or an error.
        #[test]
        fn any_text_is_refused_or_right(
            name in "(group|disk|failure group|status|quorum|disk number|group id|redundancy|.*)",
            value in ".*",
        ) {
            if let Ok(after) = merged(&format!("{name} = {value}")) {
                DiskHeader::decode(&after.encode(0), 0).expect("it is right");
            }
        }
    }
}
