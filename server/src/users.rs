//! Names of users and groups, from `/etc/passwd` and `/etc/group`.

use std::fs;

fn field(file: &str, wanted: (usize, &str), told: usize) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    text.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        (fields.get(wanted.0) == Some(&wanted.1)).then(|| fields.get(told).map(ToString::to_string)).flatten()
    })
}

/// The user's name, or a word with the number.
#[must_use]
pub fn name(uid: u32) -> String {
    field("/etc/passwd", (2, &uid.to_string()), 0).unwrap_or_else(|| format!("uid {uid}"))
}

/// The number of a group, given its name or number.
#[must_use]
pub fn group(name: &str) -> Option<u32> {
    name.parse().ok().or_else(|| field("/etc/group", (0, name), 2)?.parse().ok())
}
