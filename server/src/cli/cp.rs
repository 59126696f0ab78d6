//! `cp`: one file into a disk group, or out of it, in one stream.
//!
//! A local copy is written beside its place and renamed when it is complete and durable. A copy in a group is written
//! in place; it is durable when the command ends.

use super::{Result, files::split};
use crate::{engine::client::Client, paths::Paths, refusal::Refusal};
use indicatif::{ProgressBar, ProgressStyle};
use plinth_engine::api::Kind;
use std::{
    fs::{self, File, OpenOptions},
    io::{self, IsTerminal, Read, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

/// Bytes in one request.
const CHUNK: usize = 1 << 20;

fn local(path: &Path, error: &io::Error) -> Refusal {
    Refusal::new("58030", format!("{}: {error}", path.display()))
}

fn progress(bytes: u64) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:40} {bytes}/{total_bytes} {bytes_per_sec} {eta}");
    ProgressBar::new(bytes).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// A directory as the target means: into it, under the same name.
fn name_of(path: &str) -> &str {
    path.trim_end_matches('/').rsplit('/').next().unwrap_or_default()
}

pub(super) fn copy(paths: &Paths, from: &str, to: &str) -> Result<()> {
    match (from.starts_with('+'), to.starts_with('+')) {
        (false, true) => put(paths, Path::new(from), to),
        (true, false) => get(paths, from, Path::new(to)),
        (true, true) => between(paths, from, to),
        (false, false) => {
            Err(Refusal::new("22023", "neither side is in a disk group").hint("write +GROUP/path for one"))
        }
    }
}

/// Where a file named `name` goes when `to` is the target.
fn target(engine: &Client, to: &str, name: &str) -> String {
    let is_directory = engine.look(to).is_ok_and(|info| info.kind == Kind::Directory);
    if is_directory { format!("{}/{name}", to.trim_end_matches('/')) } else { to.to_owned() }
}

fn put(paths: &Paths, from: &Path, to: &str) -> Result<()> {
    let (group, to) = split(to)?;
    let engine = Client::connect(paths, &group)?;
    let mut source = File::open(from).map_err(|error| local(from, &error))?;
    let found = source.metadata().map_err(|error| local(from, &error))?;
    if found.is_dir() {
        return Err(Refusal::new("22023", format!("{} is a directory", from.display()))
            .hint("mount the group and use cp -r for trees"));
    }
    let to = target(&engine, &to, name_of(&from.to_string_lossy()));
    let uid = rustix::process::geteuid().as_raw();
    let gid = rustix::process::getegid().as_raw();
    let made = engine.make(&to, found.mode() & 0o777, uid, gid)?;
    let bar = progress(found.len());
    let mut buffer = vec![0; CHUNK];
    let mut offset = 0;
    loop {
        let count = source.read(&mut buffer).map_err(|error| local(from, &error))?;
        if count == 0 {
            break;
        }
        engine.write(made.node, offset, buffer.get(..count).unwrap_or_default())?;
        offset += count as u64;
        bar.set_position(offset);
    }
    engine.ask(&crate::engine::protocol::Request::Sync { node: made.node })?;
    bar.finish();
    Ok(())
}

fn regular(engine: &Client, group: &str, path: &str) -> Result<crate::engine::protocol::FileInfo> {
    let info = engine.look(path)?;
    if info.kind == Kind::Regular {
        return Ok(info);
    }
    Err(Refusal::new("22023", format!("+{group}/{path} is no regular file"))
        .hint("mount the group and use cp -r for trees"))
}

fn get(paths: &Paths, from: &str, to: &Path) -> Result<()> {
    let (group, from) = split(from)?;
    let engine = Client::connect(paths, &group)?;
    let info = regular(&engine, &group, &from)?;
    let to = if to.is_dir() { to.join(name_of(&from)) } else { to.to_owned() };
    let mut beside = to.clone().into_os_string();
    beside.push(format!(".{}.part", std::process::id()));
    let beside = PathBuf::from(beside);
    let result = fetch(&engine, info.node, info.size, info.mode, &beside)
        .and_then(|()| fs::rename(&beside, &to).map_err(|error| local(&to, &error)));
    if result.is_err() {
        let _ = fs::remove_file(&beside);
    }
    result
}

fn fetch(engine: &Client, node: u64, size: u64, mode: u32, to: &Path) -> Result<()> {
    let mut file = OpenOptions::new()
        .create_new(true)
        .write(true)
        .mode(mode & 0o777)
        .open(to)
        .map_err(|error| local(to, &error))?;
    let bar = progress(size);
    let mut offset = 0;
    loop {
        let bytes = engine.read(node, offset, CHUNK)?;
        file.write_all(&bytes).map_err(|error| local(to, &error))?;
        offset += bytes.len() as u64;
        bar.set_position(offset);
        if bytes.len() < CHUNK {
            break;
        }
    }
    bar.finish();
    file.sync_all().map_err(|error| local(to, &error))
}

fn between(paths: &Paths, from: &str, to: &str) -> Result<()> {
    let (source_group, from) = split(from)?;
    let (target_group, to) = split(to)?;
    let source = Client::connect(paths, &source_group)?;
    let engine = Client::connect(paths, &target_group)?;
    let info = regular(&source, &source_group, &from)?;
    let to = target(&engine, &to, name_of(&from));
    if source_group == target_group && engine.look(&to).is_ok_and(|there| there.node == info.node) {
        return Err(Refusal::new("22023", "both names are the same file"));
    }
    let made = engine.make(&to, info.mode & 0o777, info.uid, info.gid)?;
    let bar = progress(info.size);
    let mut offset = 0;
    loop {
        let bytes = source.read(info.node, offset, CHUNK)?;
        engine.write(made.node, offset, &bytes)?;
        offset += bytes.len() as u64;
        bar.set_position(offset);
        if bytes.len() < CHUNK {
            break;
        }
    }
    engine.ask(&crate::engine::protocol::Request::Sync { node: made.node })?;
    bar.finish();
    Ok(())
}
