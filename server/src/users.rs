//! Names of users and groups, from `/etc/passwd` and `/etc/group`.

use std::fs;

fn field(file: &str, wanted: (usize, &str), told: usize) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    text.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        (fields.get(wanted.0) == Some(&wanted.1))
            .then(|| fields.get(told).map(ToString::to_string))
            .flatten()
    })
}

/// The user's name, or a word with its number if it has none.
#[must_use]
pub fn name(uid: u32) -> String {
    field("/etc/passwd", (2, &uid.to_string()), 0).unwrap_or_else(|| format!("uid {uid}"))
}

/// The group's name, or a word with its number if it has none.
#[must_use]
pub fn group_name(gid: u32) -> String {
    field("/etc/group", (2, &gid.to_string()), 0).unwrap_or_else(|| format!("gid {gid}"))
}

/// The number of a group, given its name or number.
#[must_use]
pub fn group(name: &str) -> Option<u32> {
    name.parse().ok().or_else(|| field("/etc/group", (0, name), 2)?.parse().ok())
}

/// The number of a user, given its name or number.
#[must_use]
pub fn user(name: &str) -> Option<u32> {
    name.parse().ok().or_else(|| field("/etc/passwd", (0, name), 2)?.parse().ok())
}

/// Whether a user is in a group, as the kernel will have it: by the group's list, or because it is
/// the user's own.
#[must_use]
pub fn is_member(user: &str, group: &str) -> bool {
    let listed = field("/etc/group", (0, group), 3)
        .is_some_and(|list| list.split(',').any(|member| member == user));
    let number = field("/etc/group", (0, group), 2);
    listed || (number.is_some() && field("/etc/passwd", (0, user), 3) == number)
}
