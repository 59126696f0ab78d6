//! Templates: what files that are made through them are like.
//!
//! There is one for each type of file, the system's, and those that DBAs add. A change is for files
//! that are made later. The properties that a template may have depend on the group: where there is
//! one redundancy for everything, no template has another.

use super::Result;
use crate::{
    admin::{AdminError, Code, Template},
    api::types::FileType,
    catalog::tables::template::{self, TemplateRow},
    error::FileError,
};
use plinth_format::{Redundancy, is_name};
use rusqlite::Connection;

fn refused(code: Code, text: String) -> FileError {
    FileError::Order(Box::new(AdminError::new(code, text)))
}

/// A template, by its name in upper case.
pub(super) fn find(connection: &Connection, group: &str, name: &str) -> Result<TemplateRow> {
    let found = template::find(connection, name)?;
    found.ok_or_else(|| {
        let error = AdminError::new(
            Code::NoSuchTemplate,
            format!("disk group {group} has no template {name}"),
        );
        FileError::Order(Box::new(error.hint("the templates are in V$ASM_TEMPLATE")))
    })
}

/// The mirrors to be stored, if the group can have them.
fn mirrors_in(group: &str, redundancy: Redundancy, template: &Template) -> Result<u8> {
    let Some(wanted) = template.mirrors else { return Ok(0) };
    let normal = redundancy == Redundancy::Normal;
    if usize::from(wanted) == redundancy.mirrors() {
        return Ok(0);
    }
    if normal && wanted == 3 {
        return Ok(3);
    }
    let word = ["UNPROTECTED", "MIRROR", "HIGH"][usize::from(wanted.clamp(1, 3)) - 1];
    let name = &template.name;
    let (text, hint) = if normal {
        (
            format!("template {name} cannot be {word} in disk group {group}"),
            "no disk may go offline while it holds the only mirror of something, so one such file would keep a failed disk \
             from being done without; put it into a disk group of EXTERNAL redundancy",
        )
    } else {
        (
            format!(
                "template {name} cannot be {word}: in disk group {group}, of {redundancy} redundancy, all files have that"
            ),
            "HIGH besides MIRROR there is in disk groups of NORMAL redundancy",
        )
    };
    Err(FileError::Order(Box::new(AdminError::new(Code::Invalid, text).hint(hint))))
}

/// `ADD TEMPLATE`, inside a job.
pub(super) fn add(
    connection: &Connection,
    group: &str,
    redundancy: Redundancy,
    new: &Template,
) -> Result<()> {
    let name = &new.name;
    if !is_name(name) {
        return Err(refused(Code::Invalid, format!("'{name}' cannot be the name of a template")));
    }
    if template::exists(connection, name)? {
        return Err(refused(
            Code::TemplateExists,
            format!("disk group {group} has a template {name} already"),
        ));
    }
    let mirrors = mirrors_in(group, redundancy, new)?;
    let properties = (new.fine == Some(true), new.preformatted == Some(true));
    Ok(template::insert(connection, name, mirrors, properties)?)
}

/// `MODIFY TEMPLATE`, inside a job: properties that are not given stay.
pub(super) fn modify(
    connection: &Connection,
    group: &str,
    redundancy: Redundancy,
    new: &Template,
) -> Result<()> {
    let before = find(connection, group, &new.name)?;
    let mirrors = match new.mirrors {
        Some(_) => mirrors_in(group, redundancy, new)?,
        None => before.mirrors,
    };
    let fine = new.fine.unwrap_or(before.fine);
    let preformatted = new.preformatted.unwrap_or(before.preformatted);
    Ok(template::update(connection, &new.name, mirrors, (fine, preformatted))?)
}

/// `DROP TEMPLATE`, inside a job.
pub(super) fn drop(connection: &Connection, group: &str, name: &str) -> Result<()> {
    if find(connection, group, name)?.system {
        let error = AdminError::new(
            Code::SystemTemplate,
            format!("template {name} is the system's and cannot be dropped"),
        );
        return Err(FileError::Order(Box::new(error.hint("MODIFY TEMPLATE changes it"))));
    }
    Ok(template::delete(connection, name)?)
}

/// The type of files that a template of the system is for.
pub(super) fn type_of(name: &str) -> Option<FileType> {
    FileType::of_word(name)
}
