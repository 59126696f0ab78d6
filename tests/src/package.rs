//! Packages of the program under test, of any version.

use crate::{binary, shell};
use std::path::{Path, PathBuf};

/// Makes a package, `deb` or `rpm`, in a directory. Returns the path of the file.
///
/// # Panics
/// If it cannot be made.
#[must_use]
pub fn build_package(kind: &str, version: &str, output: &Path) -> PathBuf {
    let script =
        r#""$1/../packaging/build" --fast --program "$2" --version "$3" --output "$4" "$5""#;
    let made = shell(script)
        .arg(env!("CARGO_MANIFEST_DIR"))
        .arg(binary())
        .arg(version)
        .arg(output)
        .arg(kind)
        .ok();
    PathBuf::from(made.trim())
}
