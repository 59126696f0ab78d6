//! The findings of a check: all of them counted, the first sentences kept.
//!
//! A disk that lost much causes as many findings as it has blocks, and the operator needs a
//! verdict: how many there are, how many are left, and some sentences that show their kind. So up
//! to [`KEPT_MAX`] sentences are kept, those of unrepaired findings first; the counts are of all.
//! This also makes an answer fit into a message (`host/src/ipc.rs`).

use crate::admin::Problem;
use serde::{Deserialize, Serialize};
use std::ops::Deref;

/// The most sentences that are kept: more than an operator reads, and below a MiB.
pub const KEPT_MAX: usize = 1000;

/// As a slice: the sentences. An engine of an earlier version sent no counts; then these are the
/// numbers of sentences.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Findings {
    #[serde(rename = "problems")]
    kept: Vec<Problem>,
    #[serde(default, rename = "problems_found")]
    found: u64,
    #[serde(default, rename = "problems_repaired")]
    repaired: u64,
}

impl Findings {
    pub fn push(&mut self, problem: Problem) {
        self.found += 1;
        self.repaired += u64::from(problem.repaired);
        self.keep(problem);
    }

    fn keep(&mut self, problem: Problem) {
        if self.kept.len() >= KEPT_MAX {
            if problem.repaired {
                return;
            }
            // Unrepaired findings come first: if a repaired one is among the sentences, no
            // unrepaired one was dropped.
            let Some(last) = self.kept.iter().rposition(|kept| kept.repaired) else { return };
            self.kept.remove(last);
        }
        self.kept.push(problem);
    }

    /// Adds another check's, with changed sentences.
    pub fn append(&mut self, other: Self, words: impl Fn(Problem) -> Problem) {
        (self.found, self.repaired) =
            (self.found() + other.found(), self.repaired() + other.repaired());
        other.kept.into_iter().for_each(|problem| self.keep(words(problem)));
    }

    /// The number of findings.
    #[must_use]
    pub fn found(&self) -> u64 {
        self.found.max(self.kept.len() as u64)
    }

    /// The number of repaired ones.
    #[must_use]
    pub fn repaired(&self) -> u64 {
        if self.found == 0 {
            self.kept.iter().filter(|problem| problem.repaired).count() as u64
        } else {
            self.repaired
        }
    }

    /// The number of those that are left.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.found().saturating_sub(self.repaired())
    }

    /// Findings for which there are no sentences.
    #[must_use]
    pub fn untold(&self) -> u64 {
        self.found().saturating_sub(self.kept.len() as u64)
    }

    /// Nothing was repaired after all: it was only a trial.
    pub fn take_back_repairs(&mut self) {
        (self.found, self.repaired) = (self.found(), 0);
        self.kept.iter_mut().for_each(|problem| problem.repaired = false);
    }
}

impl Deref for Findings {
    type Target = [Problem];

    fn deref(&self) -> &[Problem] {
        &self.kept
    }
}

impl Extend<Problem> for Findings {
    fn extend<T: IntoIterator<Item = Problem>>(&mut self, problems: T) {
        problems.into_iter().for_each(|problem| self.push(problem));
    }
}

impl IntoIterator for Findings {
    type Item = Problem;
    type IntoIter = std::vec::IntoIter<Problem>;

    fn into_iter(self) -> Self::IntoIter {
        self.kept.into_iter()
    }
}

impl<'a> IntoIterator for &'a Findings {
    type Item = &'a Problem;
    type IntoIter = std::slice::Iter<'a, Problem>;

    fn into_iter(self) -> Self::IntoIter {
        self.kept.iter()
    }
}

impl<const N: usize> PartialEq<[Problem; N]> for Findings {
    fn eq(&self, other: &[Problem; N]) -> bool {
        self.kept == *other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: String, repaired: bool) -> Problem {
        Problem { text, repaired }
    }

    #[test]
    fn all_are_counted_and_what_is_left_is_named_first() {
        let mut findings = Findings::default();
        findings.extend((0..100_000).map(|number| problem(format!("mended {number}"), true)));
        assert_eq!((findings.len(), findings.found(), findings.left()), (KEPT_MAX, 100_000, 0));
        findings.extend((0..3).map(|number| problem(format!("left {number}"), false)));
        assert_eq!(
            (findings.len(), findings.found(), findings.repaired(), findings.left()),
            (KEPT_MAX, 100_003, 100_000, 3)
        );
        assert_eq!(findings.iter().filter(|problem| !problem.repaired).count(), 3);
        assert_eq!(findings.untold(), 100_003 - KEPT_MAX as u64);
        let mut sum = Findings::default();
        sum.push(problem("one".into(), false));
        sum.append(findings, |problem| problem);
        assert_eq!((sum.len(), sum.found(), sum.left()), (KEPT_MAX, 100_004, 4));
        sum.take_back_repairs();
        assert_eq!((sum.found(), sum.left()), (100_004, 100_004));
    }
}
