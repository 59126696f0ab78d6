//! Packs the dashboard into the program: the files that `npm run build` has left in
//! `dashboard/dist`, each with its compressed form if there is one.
//!
//! Without them the program is built all the same, and its page says what is missing.

use std::{
    env, fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

fn main() -> io::Result<()> {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let built = root.join("../dashboard/dist");
    println!("cargo::rerun-if-changed=build.rs");
    // A path that does not exist would make every build begin anew. The directory is in the
    // repository, empty.
    if built.is_dir() {
        println!("cargo::rerun-if-changed={}", built.display());
    }
    let mut files = Vec::new();
    // Without the page, the other files are leftovers.
    if built.join("index.html").is_file() {
        find(&built, &mut files)?;
    }
    files.sort();
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default()).join("dashboard.rs");
    let mut list = fs::File::create(out)?;
    writeln!(list, "pub static FILES: &[Packed] = &[")?;
    for file in &files {
        let path = file.strip_prefix(&built).unwrap_or(file).display().to_string();
        let compressed = PathBuf::from(format!("{}.gz", file.display()));
        let bytes = |file: &Path| format!("include_bytes!({:?})", file.display().to_string());
        let plain = bytes(file);
        let gzip = if compressed.is_file() {
            format!("Some({})", bytes(&compressed))
        } else {
            "None".to_owned()
        };
        let path = format!("/{path}");
        writeln!(list, "    Packed {{ path: {path:?}, plain: {plain}, gzip: {gzip} }},")?;
    }
    writeln!(list, "];")
}

/// The files below a directory that are to be packed.
fn find(directory: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            find(&path, files)?;
            continue;
        }
        let ends = |end: &str| path.extension().is_some_and(|found| found == end);
        if ["html", "js", "css", "svg"].into_iter().any(ends) {
            files.push(path);
        }
    }
    Ok(())
}
