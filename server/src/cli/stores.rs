//! `spget` and the like, `pwget` and the like, `lspwusr`: where the instance keeps its settings,
//! and the users who may log in.
//!
//! Both are in one file, `instance.json` in the state directory, which the instance reads when it
//! starts and replaces with each change. It is the parameter file and the password file of
//! `asmcmd`. It can be copied at any time. Its place is that of the state directory: only
//! `plinth serve --state` changes it, so commands that would are refused, and say so.

use super::{
    Result,
    context::{Context, Headings, Run},
    cp,
    settings::{setting, tell},
};
use crate::{
    paths::Paths,
    sql_error::{SqlError, state},
};
use clap::Args;
use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

/// The instance's file.
fn instance_file(context: &Context) -> Result<PathBuf> {
    let state = PathBuf::from(setting(context, "plinth.state")?);
    Ok(Paths::new(context.paths.dir(), Some(&state)).instance())
}

fn tell_path(context: &Context, path: &Path) {
    let path = path.display().to_string();
    if context.json {
        tell(context, &[("Path", path)], "");
    } else {
        context.say(path);
    }
}

/// The refusal of what would move the file.
fn stays(file: &Path, what: &str) -> SqlError {
    SqlError::new(state::NOT_SUPPORTED, format!("{what} stays at {}", file.display())).hint(
        "plinth shutdown, move the state directory, and start the instance with plinth serve --state DIR",
    )
}

/// Say where the parameter file is: what the instance remembers.
#[derive(Debug, Args)]
pub(super) struct Spget {}

impl Run for Spget {
    fn run(&self, context: &mut Context) -> Result<()> {
        let file = instance_file(context)?;
        tell_path(context, &file);
        Ok(())
    }
}

/// Say that the parameter file is at a path: only where it is already.
#[derive(Debug, Args)]
pub(super) struct Spset {
    path: PathBuf,
}

impl Run for Spset {
    fn run(&self, context: &mut Context) -> Result<()> {
        let file = instance_file(context)?;
        if self.path == file { Ok(()) } else { Err(stays(&file, "the parameter file")) }
    }
}

/// Copy the parameter file, with the passwords' verifiers that are in it.
#[derive(Debug, Args)]
pub(super) struct Spcopy {
    /// Use the copy from now on: refused, the file stays where it is.
    #[arg(short)]
    update: bool,
    /// The file that spget names.
    source: PathBuf,
    /// +GROUP/path, or a file of the host that does not exist.
    destination: String,
}

impl Run for Spcopy {
    fn run(&self, context: &mut Context) -> Result<()> {
        if self.update {
            return Err(stays(&instance_file(context)?, "the parameter file"));
        }
        copy(context, &self.source, &self.destination)
    }
}

/// Copy the parameter file, with the passwords' verifiers that are in it, for a time of need.
#[derive(Debug, Args)]
pub(super) struct Spbackup {
    /// The file that spget names.
    source: PathBuf,
    /// +GROUP/path, or a file of the host that does not exist.
    destination: String,
}

impl Run for Spbackup {
    fn run(&self, context: &mut Context) -> Result<()> {
        copy(context, &self.source, &self.destination)
    }
}

/// Move the parameter file: refused, it stays where it is.
#[derive(Debug, Args)]
pub(super) struct Spmove {
    source: PathBuf,
    destination: String,
}

impl Run for Spmove {
    fn run(&self, context: &mut Context) -> Result<()> {
        Err(stays(&instance_file(context)?, "the parameter file"))
    }
}

fn copy(context: &mut Context, source: &Path, destination: &str) -> Result<()> {
    let file = instance_file(context)?;
    if source != file {
        let text =
            format!("{} is not the parameter file: that is {}", source.display(), file.display());
        return Err(SqlError::new("22023", text).hint("cp copies other files"));
    }
    if destination.starts_with('+') {
        return cp::copy(context, &file, destination);
    }
    context.say(format!("copying {} -> {destination}", file.display()));
    copy_on_host(&file, Path::new(destination))
        .map_err(|(place, error)| SqlError::new("58030", format!("{}: {error}", place.display())))
}

/// Copies to a new file that only its owner reads, durably.
fn copy_on_host(from: &Path, to: &Path) -> std::result::Result<(), (PathBuf, io::Error)> {
    let at = |place: &Path| {
        let place = place.to_owned();
        move |error: io::Error| (place, error)
    };
    let mut source = File::open(from).map_err(at(from))?;
    let mut target =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(to).map_err(at(to))?;
    io::copy(&mut source, &mut target).and_then(|_| target.sync_all()).map_err(at(to))
}

/// Say where passwords are.
#[derive(Debug, Args)]
pub(super) struct Pwget {
    /// Those of the instance, as without a flag.
    #[arg(long, conflicts_with = "dbuniquename")]
    asm: bool,
    /// Those of a database: refused, a database keeps its own.
    #[arg(long, value_name = "DB")]
    dbuniquename: Option<String>,
}

impl Run for Pwget {
    fn run(&self, context: &mut Context) -> Result<()> {
        let file = instance_file(context)?;
        if let Some(database) = &self.dbuniquename {
            return Err(of_database(database));
        }
        tell_path(context, &file);
        Ok(())
    }
}

/// The refusal of what is a database's own affair.
fn of_database(name: &str) -> SqlError {
    let text = format!(
        "Password file location has not been set for DB instance {name}: Plinth keeps none"
    );
    SqlError::new(state::NOT_SUPPORTED, text).hint("pwget --asm names the file of the instance")
}

/// Say that passwords are at a path: only where they are already.
#[derive(Debug, Args)]
pub(super) struct Pwset {
    #[arg(long, conflicts_with = "dbuniquename")]
    asm: bool,
    #[arg(long, value_name = "DB")]
    dbuniquename: Option<String>,
    path: PathBuf,
}

impl Run for Pwset {
    fn run(&self, context: &mut Context) -> Result<()> {
        let file = instance_file(context)?;
        match &self.dbuniquename {
            Some(database) => Err(of_database(database)),
            None if self.path == file => Ok(()),
            None => Err(stays(&file, "the file with the passwords")),
        }
    }
}

/// List users with a password.
#[derive(Debug, Args)]
pub(super) struct Lspwusr {
    #[command(flatten)]
    headings: Headings,
}

impl Run for Lspwusr {
    fn run(&self, context: &mut Context) -> Result<()> {
        context.show_query(
            "SELECT username AS Username, sysdba AS sysdba, sysoper AS sysoper, sysasm AS sysasm
             FROM v$pwfile_users ORDER BY username",
            self.headings,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::PermissionsExt};

    #[test]
    fn a_copy_is_private_and_replaces_nothing() {
        let dir = tempfile::tempdir().expect("a directory");
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        fs::write(&from, "settings").expect("written");
        copy_on_host(&from, &to).expect("copied");
        assert_eq!(fs::read_to_string(&to).expect("read"), "settings");
        let mode = fs::metadata(&to).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let (place, error) = copy_on_host(&from, &to).expect_err("it is there already");
        assert_eq!((place, error.kind()), (to, io::ErrorKind::AlreadyExists));
    }
}
