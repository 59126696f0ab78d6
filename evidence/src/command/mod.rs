//! The commands of `plinth load`.
//!
//! Each writes its results to `out`, and what is said beside them to standard error. The exit code
//! is 0, 1 if something was found or failed midway, 2 if the arguments or a file are wrong.

mod compare;
mod distance;
mod export;
mod model;
mod run;
mod signals;
mod slob;

use clap::Subcommand;
use std::{
    fmt, fs, io,
    io::Write,
    os::unix::fs::FileTypeExt,
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Measure, model and compare the load on storage.
#[derive(Debug, Clone, Subcommand)]
pub enum Load {
    Model(model::Model),
    Export(export::Export),
    Run(run::Run),
    Slob(slob::Slob),
    Compare(compare::Compare),
    Distance(Box<distance::Distance>),
}

impl Load {
    /// Runs the command and says on standard error why it failed.
    pub fn run(&self, out: &mut dyn Write) -> ExitCode {
        ExitCode::from(self.code(out, &mut || ()))
    }

    /// The disk group whose own histograms are to be printed beside the run.
    #[must_use]
    pub fn group(&self) -> Option<&str> {
        match self {
            Self::Slob(command) => command.group.as_deref(),
            _ => None,
        }
    }

    /// The same; returns the exit code as a number. `begins` is called when the first request of a
    /// load with a [`Self::group`] is next.
    pub fn code(&self, out: &mut dyn Write, begins: &mut dyn FnMut()) -> u8 {
        let ended = match self {
            Self::Model(command) => command.run(out),
            Self::Export(command) => command.run(out),
            Self::Run(command) => command.run(out),
            Self::Slob(command) => command.run(out, begins),
            Self::Compare(command) => command.run(out),
            Self::Distance(command) => command.run(out),
        };
        let ended = ended.and_then(|()| out.flush().map_err(Failure::from));
        match ended {
            Ok(()) => 0,
            Err(failure) => {
                if !failure.text.is_empty() {
                    eprintln!("plinth load: {failure}");
                }
                failure.code
            }
        }
    }
}

/// Why a command failed, in one sentence that names the remedy.
#[derive(Debug)]
pub struct Failure {
    pub code: u8,
    pub text: String,
}

impl Failure {
    /// The arguments or a file are wrong.
    pub fn usage(text: impl Into<String>) -> Self {
        Self { code: 2, text: text.into() }
    }

    /// It failed midway.
    pub fn midway(text: impl Into<String>) -> Self {
        Self { code: 1, text: text.into() }
    }
}

impl From<io::Error> for Failure {
    /// Of the output: a reader that has gone, such as `head`, is no failure to speak of.
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            Self { code: 0, text: String::new() }
        } else {
            Self::midway(format!("standard output: {error}"))
        }
    }
}

/// Whether a result may go to that file, before hours of measuring are lost.
///
/// # Errors
/// In one sentence, with the file.
fn check_output(path: &Path) -> Result<(), Failure> {
    let failed = |text: &str| Err(Failure::usage(format!("{}: {text}", path.display())));
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    match fs::metadata(path) {
        Ok(found) if found.file_type().is_block_device() || found.is_dir() => {
            failed("results go to a file, not to a device or a directory")
        }
        Err(_) if parent.is_some_and(|parent| !parent.is_dir()) => {
            failed("its directory is not there: make it first")
        }
        _ => Ok(()),
    }
}

/// Writes a result. Never to a block device, nor over a file that it was made of.
///
/// # Errors
/// In one sentence, with the file.
fn write_file(path: &Path, inputs: &[&PathBuf], text: &str) -> Result<(), Failure> {
    check_output(path)?;
    let failed = |text: String| Failure::usage(format!("{}: {text}", path.display()));
    let place = fs::canonicalize(path).ok();
    if place.is_some() && inputs.iter().any(|input| fs::canonicalize(input).ok() == place) {
        return Err(failed("it is read for this result: give another name".to_owned()));
    }
    fs::write(path, text).map_err(|error| failed(error.to_string()))
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_not_written_over_what_it_is_made_of() {
        let directory = tempfile::tempdir().expect("a directory");
        let (report, model) = (directory.path().join("awr.html"), directory.path().join("model"));
        fs::write(&report, "a report").expect("written");
        let same = directory.path().join(".").join("awr.html");
        let failure = write_file(&same, &[&report], "a model").expect_err("it is the report");
        assert!(failure.code == 2 && failure.text.contains("give another name"), "{failure}");
        assert_eq!(fs::read(&report).expect("read"), b"a report");
        assert!(check_output(directory.path()).is_err());
        assert!(check_output(&directory.path().join("none").join("model")).is_err());
        for text in ["a model", "another"] {
            write_file(&model, &[&report], text).expect("written");
            assert_eq!(fs::read_to_string(&model).expect("read"), text);
        }
    }
}
