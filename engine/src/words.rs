//! Words that depend on numbers.

use std::fmt::Display;

/// So many of something that has a regular plural: `1 disk`, `2 disks`.
#[must_use]
pub fn counted<N: Display + PartialEq + From<u8>>(count: N, noun: &str) -> String {
    let plural = if count == N::from(1) { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_no_plural() {
        assert_eq!(
            [0_u64, 1, 2].map(|count| counted(count, "disk")),
            ["0 disks", "1 disk", "2 disks"]
        );
    }
}
