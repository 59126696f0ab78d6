//! From totals to classes of I/O.
//!
//! A report has, of reads and of writes, requests and bytes, and how many of the requests were
//! large. The classes are found so that requests and bytes both come out:
//!
//!   1. Small requests are of one database block, large ones share the rest of the bytes. That is
//!      believed if it makes large ones of 128 KiB to 1 MiB, for a report counts as "multi block"
//!      nothing below.
//!   2. If it makes them larger, large ones are 1 MiB, and the rest makes the size of small ones
//!      (16 KiB: the control file). If it makes them smaller, they are 128 KiB, and the same.
//!   3. If neither works, or no large ones were counted, all are one class of the mean size.
//!   4. Writes: redo comes off before. Redo whose mean is 512 KiB or more was counted among the
//!      large ones, and comes off there.
//!
//! Invariants:
//!
//! 1. Requests and bytes of the classes add up to the totals, but where no sizes from 512 bytes to
//!    1 MiB do: then requests add up, or bytes if the mean is above 1 MiB, and it is said so.
//! 2. All that is taken for granted is said.

use crate::model::{Class, SIZE_MAX, SIZE_MIN, Stream};

const LARGE_MIN: f64 = 128.0 * 1024.0;
const LARGE_MAX: f64 = SIZE_MAX as f64;
/// From this mean on, redo is counted among the large writes.
const REDO_LARGE: f64 = 512.0 * 1024.0;
/// Of a redo write whose size is not known, as far as the bytes reach.
const REDO_SIZE: f64 = 65_536.0;

/// Requests and bytes a second of one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Flow {
    pub requests: f64,
    /// Those that the report counts as large; None if it does not say.
    pub large: Option<f64>,
    pub bytes: f64,
}

/// Redo a second.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Redo {
    pub requests: f64,
    /// None: not known.
    pub bytes: Option<f64>,
}

/// A class as it was found: requests a second and bytes of each.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Part {
    pub class: Class,
    pub rate: f64,
    pub size: f64,
}

impl Part {
    /// As a stream of a model. None if it is nothing.
    pub fn stream(self) -> Option<Stream> {
        let is_something = self.rate > 0.0 && self.rate.is_finite() && self.size.is_finite();
        is_something.then(|| Stream::of_mean(self.class, self.rate, self.size))
    }
}

/// Splits reads.
pub(crate) fn reads(flow: Flow, block: f64, assumed: &mut Vec<String>) -> Vec<Part> {
    let classes = (Class::RandomRead, Class::LargeRead);
    split(flow, block, classes, assumed)
}

/// Splits writes.
pub(crate) fn writes(
    flow: Flow,
    redo: Option<Redo>,
    block: f64,
    assumed: &mut Vec<String>,
) -> Vec<Part> {
    let classes = (Class::RandomWrite, Class::LargeWrite);
    let mean = flow.bytes / flow.requests.max(f64::MIN_POSITIVE);
    // Of a mean that no request can have, nothing can be told apart.
    let is_possible = (SIZE_MIN as f64..=LARGE_MAX).contains(&mean);
    let Some(redo) = redo.filter(|redo| redo.requests > 0.0 && is_possible) else {
        return split(flow, block, classes, assumed);
    };
    let redo = fitted(redo, flow, assumed);
    let size = redo.bytes / redo.requests;
    let mut rest = flow;
    rest.requests = (flow.requests - redo.requests).max(0.0);
    rest.bytes = (flow.bytes - redo.bytes).max(0.0);
    if let Some(large) = flow.large {
        let large = if size >= REDO_LARGE { large - redo.requests } else { large };
        // Redo that is more than what is not large is partly large.
        rest.large = Some(large.clamp(0.0, rest.requests));
    }
    let mut parts = split(rest, block, classes, assumed);
    parts.push(Part { class: Class::LogWrite, rate: redo.requests, size });
    parts
}

struct Fitted {
    requests: f64,
    bytes: f64,
}

/// Redo that is possible: its requests are some of all writes, a request is 512 bytes to 1 MiB, and
/// what is left for the others is that too.
fn fitted(redo: Redo, flow: Flow, assumed: &mut Vec<String>) -> Fitted {
    let mut requests = redo.requests;
    let bytes = redo.bytes.unwrap_or_else(|| {
        assumed.push("redo writes of 64 KiB: the report has no size of them".to_owned());
        requests * REDO_SIZE
    });
    if bytes / requests > LARGE_MAX {
        requests = bytes / LARGE_MAX;
        assumed.push("redo writes of more than 1 MiB are split into requests of 1 MiB".to_owned());
    }
    if requests > flow.requests {
        assumed.push("redo writes are all writes: the report counts more of them".to_owned());
        requests = flow.requests;
    }
    let others = flow.requests - requests;
    let bytes_max = (flow.bytes - others * SIZE_MIN as f64).max(0.0).min(requests * LARGE_MAX);
    let bytes_min = (flow.bytes - others * LARGE_MAX).max(requests * SIZE_MIN as f64);
    let possible = bytes.max(bytes_min).min(bytes_max);
    if (possible - bytes).abs() > bytes * 0.005 {
        assumed.push(format!(
            "redo writes of {:.0} bytes: with the {:.0} bytes of the report the other writes would \
             not fit",
            possible / requests.max(f64::MIN_POSITIVE),
            bytes / redo.requests
        ));
    }
    Fitted { requests, bytes: possible }
}

fn split(
    flow: Flow,
    block: f64,
    (small_class, large_class): (Class, Class),
    assumed: &mut Vec<String>,
) -> Vec<Part> {
    if flow.requests <= 0.0 {
        return Vec::new();
    }
    let what = if small_class.reads() { "reads" } else { "writes" };
    let mean = flow.bytes / flow.requests;
    if flow.large.is_none() {
        assumed.push(format!(
            "{what} are one class of {mean:.0} bytes: the report does not count the large ones"
        ));
    }
    if flow.large.is_some_and(|large| large > flow.requests * 1.001) {
        assumed.push(format!("{what} are all large: the report counts more large ones than all"));
    }
    let large = flow.large.unwrap_or(0.0).clamp(0.0, flow.requests);
    let small = flow.requests - large;
    let parts = |small_size: f64, large_size: f64| {
        vec![
            Part { class: small_class, rate: small, size: small_size },
            Part { class: large_class, rate: large, size: large_size },
        ]
    };
    let is_size = |size: f64| (SIZE_MIN as f64..=LARGE_MAX).contains(&size);
    if large > 0.0 {
        let size = (flow.bytes - small * block) / large;
        // A few requests of a rate that the report has rounded are no small ones.
        let has_small = small > flow.requests * 1e-9;
        if (LARGE_MIN..=LARGE_MAX).contains(&size) {
            if has_small {
                assumed.push(format!("small {what} are of one block of {block} bytes"));
            }
            return parts(block, size);
        }
        let bound = if size > LARGE_MAX { LARGE_MAX } else { LARGE_MIN };
        let small_size = (flow.bytes - large * bound) / small;
        if has_small && is_size(small_size) {
            assumed.push(format!(
                "large {what} are of {} KiB, so small ones of {small_size:.0} bytes: with small \
                 ones of one block of {block} bytes they would be of {size:.0} bytes",
                bound / 1024.0
            ));
            return parts(small_size, bound);
        }
        assumed.push(format!(
            "{what} are one class of {mean:.0} bytes: {large:.2}/s large ones do not fit the bytes"
        ));
    }
    let class = if large > small { large_class } else { small_class };
    vec![one(class, flow.requests, flow.bytes, what, assumed)]
}

/// One class of the mean size, or of the nearest that is possible.
pub(crate) fn one(
    class: Class,
    requests: f64,
    bytes: f64,
    what: &str,
    assumed: &mut Vec<String>,
) -> Part {
    let mean = bytes / requests;
    if mean > LARGE_MAX {
        assumed.push(format!(
            "{what} are split into requests of 1 MiB: the report's are of {mean:.0} bytes, so \
             there are more requests than it has"
        ));
        return Part { class, rate: bytes / LARGE_MAX, size: LARGE_MAX };
    }
    if mean < SIZE_MIN as f64 {
        assumed.push(format!(
            "{what} are of {SIZE_MIN} bytes: the report's are of {mean:.0}, so there are more \
             bytes than it has"
        ));
        return Part { class, rate: requests, size: SIZE_MIN as f64 };
    }
    Part { class, rate: requests, size: mean }
}

#[cfg(test)]
mod tests {
    use super::{Flow, Part, Redo, reads, writes};
    use crate::model::Class;
    use proptest::prelude::*;

    fn part(parts: &[Part], class: Class) -> Part {
        *parts.iter().find(|part| part.class == class).expect("the class is there")
    }

    /// The example of the article on thin provisioning, whose own file issues 3,250 reads of a
    /// block and 2,500 large ones, and 6,600 writes.
    #[test]
    fn the_example_of_the_article_matches_in_requests_and_in_bytes() {
        let mut assumed = Vec::new();
        let read = Flow { requests: 7707.3, large: Some(2716.3), bytes: 2.69327251e9 };
        let parts = reads(read, 16384.0, &mut assumed);
        assert!((part(&parts, Class::RandomRead).rate - 4991.0).abs() < 0.1);
        assert!((part(&parts, Class::LargeRead).size - 961_418.0).abs() < 961_418.0 * 0.001);
        let write = Flow { requests: 5204.0, large: Some(765.7), bytes: 681_894_777.9 };
        let redo = Redo { requests: 47.4, bytes: None };
        let parts = writes(write, Some(redo), 16384.0, &mut assumed);
        assert!((part(&parts, Class::RandomWrite).rate - 4390.9).abs() < 0.1);
        assert!((part(&parts, Class::LargeWrite).size - 792_540.0).abs() < 792_540.0 * 0.001);
        assert!((part(&parts, Class::LogWrite).size - 65_536.0).abs() < 1.0);
        let share = |own: f64, report: f64| ((own / report - 1.0) * 100.0).round();
        assert_eq!(share(3250.0 + 2500.0, read.requests), -25.0);
        assert_eq!(share(5800.0 + 750.0 + 50.0, write.requests), 27.0);
    }

    #[test]
    fn reads_of_64_kib_that_no_statistic_counts_are_one_class() {
        let flow = Flow { requests: 8051.28, large: Some(0.0), bytes: 8051.28 * 65_206.0 };
        let parts = reads(flow, 8192.0, &mut Vec::new());
        assert_eq!(parts.len(), 1);
        assert!((parts[0].size - 65_206.0).abs() < 1.0);
    }

    #[test]
    fn control_file_reads_are_no_database_blocks() {
        let flow = Flow { requests: 4.53, large: Some(0.01), bytes: 0.08 * 1_048_576.0 };
        let parts = reads(flow, 8192.0, &mut Vec::new());
        assert!((part(&parts, Class::LargeRead).size - 1_048_576.0).abs() < 1.0);
        assert!((15_500.0..17_000.0).contains(&part(&parts, Class::RandomRead).size));
    }

    proptest! {
        /// Shares near none and near all, rates from a request a day on, and figures that
        /// contradict each other.
        #[test]
        fn extreme_figures_add_up_too(
            power in -5.0..9.0_f64, size in 9.0..20.0_f64, large_power in -9.0..0.3_f64,
            is_rest in proptest::bool::ANY, redo_power in -9.0..0.3_f64,
            redo_size in proptest::option::of(0.0..25.0_f64), block in 11_u32..16,
            has_large in proptest::bool::ANY,
        ) {
            let (requests, mean) = (10_f64.powf(power), size.exp2());
            let share = 10_f64.powf(large_power);
            let share = if is_rest { (1.0 - share).max(0.0) } else { share };
            let large = has_large.then_some(requests * share);
            let flow = Flow { requests, large, bytes: requests * mean };
            let redo_requests = requests * 10_f64.powf(redo_power);
            let bytes = redo_size.map(|size| redo_requests * size.exp2());
            let redo = Redo { requests: redo_requests, bytes };
            let block = 2_f64.powi(i32::try_from(block).expect("small"));
            let mut assumed = Vec::new();
            for parts in [
                reads(flow, block, &mut assumed),
                writes(flow, Some(redo), block, &mut assumed),
            ] {
                let streams: Vec<_> = parts.iter().filter_map(|part| part.stream()).collect();
                let rate: f64 = streams.iter().map(|stream| stream.rate).sum();
                let bytes: f64 = streams.iter().map(|stream| stream.rate * stream.mean()).sum();
                prop_assert!((rate / flow.requests - 1.0).abs() < 0.005, "{parts:?}");
                prop_assert!((bytes / flow.bytes - 1.0).abs() < 0.005, "{parts:?}");
                for stream in streams {
                    prop_assert!((512..=1 << 20).contains(&stream.size), "{parts:?}");
                    let issued: f64 =
                        stream.sizes().iter().map(|(size, share)| *size as f64 * share).sum();
                    prop_assert!((issued / stream.mean() - 1.0).abs() < 1e-6, "{stream:?}");
                }
            }
        }

        #[test]
        fn requests_and_bytes_add_up_whenever_sizes_allow_it(
            requests in 0.01..1e6_f64, mean in 512.0..1_048_576.0_f64, large in 0.0..1.0_f64,
            redo in 0.0..1.0_f64, redo_size in 1.0..1e7_f64, block in 2048.0..32768.0_f64,
        ) {
            let flow = Flow { requests, large: Some(requests * large), bytes: requests * mean };
            let redo = Redo { requests: requests * redo, bytes: Some(requests * redo * redo_size) };
            for parts in [
                reads(flow, block, &mut Vec::new()),
                writes(flow, Some(redo), block, &mut Vec::new()),
            ] {
                let rate: f64 = parts.iter().map(|part| part.rate).sum();
                let bytes: f64 = parts.iter().map(|part| part.rate * part.size).sum();
                prop_assert!((rate / flow.requests - 1.0).abs() < 0.001, "{parts:?}");
                prop_assert!((bytes / flow.bytes - 1.0).abs() < 0.001, "{parts:?}");
                for part in parts.iter().filter(|part| part.rate > requests * 1e-6) {
                    prop_assert!((511.9..1_048_576.1).contains(&part.size), "{parts:?}");
                }
            }
        }
    }
}
