//! Which process holds a disk's lock (R1), in words for the operator.
//!
//! The kernel does not name the owner of an open-file-description lock: /proc/locks has no process
//! for it. But /proc/PID/fdinfo/N has a line `lock:` for a lock of the description that descriptor
//! N refers to, with the device and inode that it is on. An engine's threads may have file tables
//! of their own (`apart.rs`), and those of a killed engine may still be there while it is a zombie;
//! so every thread is checked. That takes a while on a busy host: it is done once, when a claim is
//! refused.

use std::{fs, path::Path};

/// What /proc calls a file: `MAJOR:MINOR:INODE`, the first two in hexadecimal.
pub(super) fn name_of(device: u64, inode: u64) -> String {
    format!("{:02x}:{:02x}:{inode}", rustix::fs::major(device), rustix::fs::minor(device))
}

/// The process that holds a lock on a file; `None` if there is none, or we may not see it.
pub(super) fn of(name: &str) -> Option<String> {
    let numbers = |directory: &Path| -> Vec<String> {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        names.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit())).collect()
    };
    let holds = |thread: &Path| {
        let infos = fs::read_dir(thread.join("fdinfo")).into_iter().flatten().flatten();
        let mut texts = infos.filter_map(|info| fs::read_to_string(info.path()).ok());
        texts.any(|text| has_lock(&text, name))
    };
    numbers(Path::new("/proc")).into_iter().find_map(|pid| {
        let process = Path::new("/proc").join(&pid);
        let tasks = process.join("task");
        // Only engines have threads with file tables of their own; other processes are many, and
        // their threads are more.
        let is_ours =
            fs::read_to_string(process.join("comm")).is_ok_and(|name| name.trim() == "plinth");
        let threads = if is_ours { numbers(&tasks) } else { vec![pid.clone()] };
        threads.iter().any(|thread| holds(&tasks.join(thread))).then(|| describe(&pid, &process))
    })
}

/// Whether the fdinfo of a descriptor has a write lock of an open file description on this file.
fn has_lock(text: &str, name: &str) -> bool {
    text.lines().filter_map(|line| line.strip_prefix("lock:")).any(|lock| {
        let words: Vec<&str> = lock.split_whitespace().collect();
        words.contains(&"OFDLCK") && words.contains(&"WRITE") && words.contains(&name)
    })
}

fn describe(pid: &str, process: &Path) -> String {
    let words = fs::read(process.join("cmdline")).unwrap_or_default();
    let words: Vec<String> = words
        .split(|byte| *byte == 0)
        .filter(|word| !word.is_empty())
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect();
    if words.is_empty() {
        return format!("process {pid}, which was ended, and whose I/O is still in flight");
    }
    let after =
        |option: &str| words.iter().skip_while(|word| *word != option).nth(1).map(String::as_str);
    match (words.get(1).map(String::as_str), after("--group"), after("--dir")) {
        (Some("engine"), Some(group), Some(dir)) => {
            format!("process {pid}, the engine of {group} that belongs to the instance of {dir}")
        }
        _ => format!("process {pid}, {}", words[0]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    /// The process that holds a lock is named, and one that has the file open without a lock is
    /// not.
    #[test]
    fn the_holder_of_a_lock_is_named() {
        let file = tempfile::NamedTempFile::new().expect("temporary file");
        let metadata = file.as_file().metadata().expect("stat");
        let name = name_of(metadata.dev(), metadata.ino());
        assert_eq!(of(&name), None);
        crate::sys::lock(file.as_file()).expect("nobody has it");
        let holder = of(&name).expect("we may look at ourselves");
        assert!(holder.starts_with(&format!("process {}, ", std::process::id())), "{holder}");
        assert!(
            crate::sys::is_locked(&fs::File::open(file.path()).expect("open")),
            "another description sees it"
        );
        drop(file);
    }
}
