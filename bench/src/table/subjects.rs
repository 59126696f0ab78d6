//! The subjects that are measured, and what Plinth promises in comparison with each.

use super::figures::{Figures, Round, Spread};

/// A subject that is measured.
#[derive(Debug)]
pub struct Subject {
    /// Its name in the script.
    pub key: &'static str,
    pub name: &'static str,
    /// The subject that is 1.00 for it.
    pub reference: &'static str,
    pub ours: bool,
}

const fn peer(key: &'static str, name: &'static str, reference: &'static str) -> Subject {
    Subject { key, name, reference, ours: false }
}

const fn ours(key: &'static str, name: &'static str, reference: &'static str) -> Subject {
    Subject { key, name, reference, ours: true }
}

/// In the order of the tables.
pub const SUBJECTS: [Subject; 21] = [
    peer("raw", "raw device", "raw"),
    peer("ext4", "ext4", "raw"),
    peer("btrfs", "btrfs raid1 of two", "raw"),
    peer("qemu-fuse", "FUSE: qemu", "raw"),
    ours("external-fuse", "FUSE: Plinth EXTERNAL", "raw"),
    ours("normal-fuse", "FUSE: Plinth NORMAL", "raw"),
    ours("polling-fuse", "FUSE: Plinth NORMAL, io_poll_time 50us", "raw"),
    peer("nbdkit", "NBD: nbdkit, cached", "raw"),
    peer("qemu-nbd", "NBD: qemu", "raw"),
    ours("external-nbd", "NBD: Plinth EXTERNAL", "raw"),
    peer("quorum-nbd", "NBD: qemu quorum of two", "raw"),
    ours("normal-nbd", "NBD: Plinth NORMAL", "raw"),
    ours("polling-nbd", "NBD: Plinth NORMAL, io_poll_time 50us", "raw"),
    peer("raw-one", "library: raw device", "raw-one"),
    ours("external", "library: Plinth EXTERNAL", "raw-one"),
    peer("raw-two", "library: two raw devices", "raw-two"),
    ours("normal", "library: Plinth NORMAL", "raw-two"),
    ours("unchecked", "library: NORMAL, checksums not compared", "raw-two"),
    peer("raw-used", "library: two raw devices, bytes used", "raw-used"),
    ours("normal-used", "library: Plinth NORMAL, bytes used", "raw-used"),
    ours("unchecked-used", "library: NORMAL, bytes used, checksums not compared", "raw-used"),
];

/// The subjects that databases ran on.
pub const SYSTEMS: [Subject; 3] = [
    peer("ext4", "ext4, one device", "ext4"),
    peer("btrfs", "btrfs raid1, two devices", "ext4"),
    ours("plinth", "Plinth NORMAL, two devices", "ext4"),
];

/// The subject of a comparison.
#[derive(Debug, Clone, Copy)]
pub enum Measure {
    /// The rate is at least this many times that of the fastest of these.
    Ratio { to: &'static [&'static str], at_least: f64 },
    /// Each I/O takes at most this many microseconds longer than that of another subject.
    Added { to: &'static str, at_most: f64 },
    /// Many jobs have as many times the rate of one as there are processors for them.
    Scaling { from: &'static str, jobs: usize },
    /// The same of another subject, of which nothing is promised.
    TheirScaling { from: &'static str },
}

#[derive(Debug, Clone, Copy)]
pub struct Comparison {
    pub what: &'static str,
    pub case: &'static str,
    pub subject: &'static str,
    pub measure: Measure,
}

/// The result of a comparison.
#[derive(Debug)]
pub struct Verdict {
    pub against: String,
    pub target: String,
    pub measured: Spread,
    pub unit: &'static str,
    /// None if nothing is promised.
    pub met: Option<bool>,
}

impl Comparison {
    /// None if it was not measured.
    pub fn judge(&self, figures: &Figures, processors: usize) -> Option<Verdict> {
        let own = (self.case, self.subject);
        match self.measure {
            Measure::Ratio { to, at_least } => {
                let best = figures.best(self.case, to)?;
                let measured = figures.ratio(own, (self.case, best))?;
                let (against, target) = (name(best).to_owned(), format!("at least {at_least:.2}"));
                Some(Verdict {
                    against,
                    target,
                    measured,
                    unit: "",
                    met: Some(measured.median >= at_least),
                })
            }
            Measure::Added { to, at_most } => {
                let latency = |round: &Round| round.latency;
                let measured =
                    figures.pairs(own, (self.case, to), latency, |own, other| own - other)?;
                let (against, target) =
                    (name(to).to_owned(), format!("at most {at_most:.0} us more"));
                Some(Verdict {
                    against,
                    target,
                    measured,
                    unit: " us",
                    met: Some(measured.median <= at_most),
                })
            }
            Measure::Scaling { from, jobs } => {
                let measured = figures.ratio(own, (from, self.subject))?;
                let enough = jobs.min(processors);
                let (against, target) =
                    ("one job of its own".to_owned(), format!("{enough} cores"));
                Some(Verdict {
                    against,
                    target,
                    measured,
                    unit: "",
                    met: Some(measured.median >= enough as f64),
                })
            }
            Measure::TheirScaling { from } => {
                let measured = figures.ratio(own, (from, self.subject))?;
                let against = "one job of its own".to_owned();
                Some(Verdict { against, target: String::new(), measured, unit: "", met: None })
            }
        }
    }
}

pub fn name(key: &str) -> &str {
    let known = SUBJECTS.iter().chain(&SYSTEMS).find(|subject| subject.key == key);
    known.map_or(key, |subject| subject.name)
}

const fn ratio(
    what: &'static str,
    case: &'static str,
    subject: &'static str,
    to: &'static [&'static str],
    at_least: f64,
) -> Comparison {
    Comparison { what, case, subject, measure: Measure::Ratio { to, at_least } }
}

const fn added(
    what: &'static str,
    case: &'static str,
    subject: &'static str,
    to: &'static str,
) -> Comparison {
    Comparison { what, case, subject, measure: Measure::Added { to, at_most: 15.0 } }
}

const fn scaling(what: &'static str, subject: &'static str) -> Comparison {
    let measure = Measure::Scaling { from: "randread:8192:1", jobs: 8 };
    Comparison { what, case: "randread:8192:1:8", subject, measure }
}

const fn their_scaling(what: &'static str, subject: &'static str) -> Comparison {
    let measure = Measure::TheirScaling { from: "randread:8192:1" };
    Comparison { what, case: "randread:8192:1:8", subject, measure }
}

/// Servers of one image.
const ONE_IMAGE: &[&str] = &["nbdkit", "qemu-nbd"];

pub const COMPARISONS: [Comparison; 35] = [
    ratio(
        "Library, NORMAL: 8 KiB random reads, one at a time",
        "randread:8192:1",
        "normal",
        &["raw-two"],
        0.95,
    ),
    ratio(
        "Library, NORMAL: 8 KiB random reads, 32 at a time",
        "randread:8192:32",
        "normal",
        &["raw-two"],
        0.95,
    ),
    ratio(
        "Checksums compared: 8 KiB random reads, one at a time",
        "randread:8192:1",
        "normal",
        &["unchecked"],
        0.95,
    ),
    ratio(
        "Checksums compared: 8 KiB random reads, 32 at a time",
        "randread:8192:32",
        "normal",
        &["unchecked"],
        0.95,
    ),
    ratio(
        "Library, NORMAL, bytes used: 8 KiB random reads, one at a time",
        "randread:8192:1",
        "normal-used",
        &["raw-used"],
        0.95,
    ),
    ratio(
        "Library, NORMAL, bytes used: 8 KiB random reads, 32 at a time",
        "randread:8192:32",
        "normal-used",
        &["raw-used"],
        0.95,
    ),
    ratio(
        "Checksums compared, bytes used: 8 KiB random reads, one at a time",
        "randread:8192:1",
        "normal-used",
        &["unchecked-used"],
        0.95,
    ),
    ratio(
        "Checksums compared, bytes used: 8 KiB random reads, 32 at a time",
        "randread:8192:32",
        "normal-used",
        &["unchecked-used"],
        0.95,
    ),
    ratio(
        "Library, NORMAL: 8 KiB random writes, one at a time",
        "randwrite:8192:1",
        "normal",
        &["raw-two"],
        0.90,
    ),
    ratio(
        "Library, NORMAL: 8 KiB random writes, 32 at a time",
        "randwrite:8192:32",
        "normal",
        &["raw-two"],
        0.90,
    ),
    ratio(
        "NBD, EXTERNAL: 8 KiB random reads, 32 at a time",
        "randread:8192:32",
        "external-nbd",
        ONE_IMAGE,
        1.3,
    ),
    ratio(
        "NBD, NORMAL: 8 KiB random reads, 32 at a time",
        "randread:8192:32",
        "normal-nbd",
        ONE_IMAGE,
        1.3,
    ),
    ratio(
        "NBD, NORMAL: 8 KiB random writes, 32 at a time",
        "randwrite:8192:32",
        "normal-nbd",
        &["quorum-nbd"],
        2.0,
    ),
    ratio("NBD, EXTERNAL: 1 MiB reads", "read:1048576:4", "external-nbd", ONE_IMAGE, 1.2),
    ratio("NBD, NORMAL: 1 MiB reads", "read:1048576:4", "normal-nbd", ONE_IMAGE, 1.2),
    ratio("NBD, EXTERNAL: 1 MiB writes", "write:1048576:4", "external-nbd", ONE_IMAGE, 0.8),
    ratio("NBD, NORMAL: 1 MiB writes", "write:1048576:4", "normal-nbd", ONE_IMAGE, 0.8),
    ratio(
        "FUSE, EXTERNAL: 8 KiB random reads, one at a time",
        "randread:8192:1",
        "external-fuse",
        &["qemu-fuse"],
        1.2,
    ),
    ratio(
        "FUSE, NORMAL: 8 KiB random reads, one at a time",
        "randread:8192:1",
        "normal-fuse",
        &["qemu-fuse"],
        1.2,
    ),
    ratio(
        "FUSE, EXTERNAL: 8 KiB random writes, one at a time",
        "randwrite:8192:1",
        "external-fuse",
        &["qemu-fuse"],
        1.2,
    ),
    ratio(
        "FUSE, NORMAL: 8 KiB random writes, one at a time",
        "randwrite:8192:1",
        "normal-fuse",
        &["qemu-fuse"],
        1.2,
    ),
    ratio(
        "FUSE, io_poll_time: 8 KiB random reads, one at a time",
        "randread:8192:1",
        "polling-fuse",
        &["qemu-fuse"],
        1.2,
    ),
    ratio(
        "FUSE, io_poll_time: 8 KiB random writes, one at a time",
        "randwrite:8192:1",
        "polling-fuse",
        &["qemu-fuse"],
        1.2,
    ),
    scaling("FUSE, EXTERNAL: 8 KiB random reads, 8 jobs", "external-fuse"),
    scaling("FUSE, NORMAL: 8 KiB random reads, 8 jobs", "normal-fuse"),
    added("Library, NORMAL: 2 KiB synchronous writes", "sync:2048:1", "normal", "raw-two"),
    added("FUSE, NORMAL: 2 KiB synchronous writes", "sync:2048:1", "normal-fuse", "raw"),
    added("NBD, NORMAL: 2 KiB synchronous writes", "sync:2048:1", "normal-nbd", "raw"),
    added("FUSE, NORMAL: 2 KiB writes with O_DSYNC", "dsync:2048:1", "normal-fuse", "raw"),
    ratio("pgbench TPC-B, NORMAL", "tpcb", "plinth", &["btrfs"], 1.5),
    ratio("pgbench TPC-B, NORMAL", "tpcb", "plinth", &["ext4"], 0.8),
    ratio("pgbench select-only, NORMAL", "select", "plinth", &["ext4"], 0.95),
    their_scaling("FUSE, qemu: 8 KiB random reads, 8 jobs", "qemu-fuse"),
    their_scaling("ext4: 8 KiB random reads, 8 jobs", "ext4"),
    their_scaling("raw device: 8 KiB random reads, 8 jobs", "raw"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(index: usize, lines: &[&str]) -> Option<Verdict> {
        let figures = Figures::parse(&lines.join("\n").replace(' ', "\t")).expect("lines");
        COMPARISONS[index].judge(&figures, 2)
    }

    fn index_of(what: &str) -> usize {
        COMPARISONS.iter().position(|comparison| comparison.what == what).expect(what)
    }

    #[test]
    fn every_comparison_is_of_subjects_that_exist() {
        for comparison in &COMPARISONS {
            let known =
                |key: &str| SUBJECTS.iter().chain(&SYSTEMS).any(|subject| subject.key == key);
            let others = match comparison.measure {
                Measure::Ratio { to, .. } => to.to_vec(),
                Measure::Added { to, .. } => vec![to],
                Measure::Scaling { .. } | Measure::TheirScaling { .. } => Vec::new(),
            };
            assert!(known(comparison.subject) && others.into_iter().all(known), "{comparison:?}");
        }
        assert!(SUBJECTS.iter().all(|one| SUBJECTS.iter().any(|other| other.key == one.reference)));
    }

    #[test]
    fn a_ratio_is_to_the_better_peer() {
        let lines = [
            "randread:8192:32 external-nbd 1 120 - -",
            "randread:8192:32 nbdkit 1 100 - -",
            "randread:8192:32 qemu-nbd 1 80 - -",
        ];
        let index = index_of("NBD, EXTERNAL: 8 KiB random reads, 32 at a time");
        let verdict = judged(index, &lines).expect("measured");
        assert_eq!(
            (verdict.against.as_str(), verdict.measured.median, verdict.met),
            (name("nbdkit"), 1.2, Some(false))
        );
        assert!(judged(index, &lines[..1]).is_none(), "no peer was measured");
    }

    #[test]
    fn added_latency_is_a_difference_and_less_is_better() {
        let index = index_of("Library, NORMAL: 2 KiB synchronous writes");
        let verdict =
            judged(index, &["sync:2048:1 normal 1 1 - 50", "sync:2048:1 raw-two 1 1 - 40"]);
        let verdict = verdict.expect("measured");
        assert_eq!((verdict.measured.median, verdict.met), (10.0, Some(true)));
        let verdict =
            judged(index, &["sync:2048:1 normal 1 1 - 60", "sync:2048:1 raw-two 1 1 - 40"]);
        assert_eq!(verdict.expect("measured").met, Some(false));
    }

    #[test]
    fn eight_jobs_need_not_do_more_than_the_processors_allow() {
        let index = index_of("FUSE, NORMAL: 8 KiB random reads, 8 jobs");
        let verdict = judged(
            index,
            &["randread:8192:1:8 normal-fuse 1 20 - -", "randread:8192:1 normal-fuse 1 10 - -"],
        );
        let verdict = verdict.expect("measured");
        assert_eq!((verdict.target.as_str(), verdict.met), ("2 cores", Some(true)));
    }
}
