//! A stream of I/O of one kind on one file or device.

use crate::random::Random;
use std::{fmt, time::Duration};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Read,
    Write,
}

/// Where one I/O goes after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Behind the one before, and from the beginning again at the end.
    Sequential,
    /// To any multiple of its size.
    Random,
}

/// Bytes of an I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sizes {
    Fixed(u64),
    /// Any size from the first to the second, all as likely.
    Between(u64, u64),
}

impl Sizes {
    pub fn largest(self) -> u64 {
        match self {
            Self::Fixed(size) | Self::Between(_, size) => size,
        }
    }

    /// The size of an I/O. A fixed one draws no number.
    pub fn draw(self, random: &mut Random) -> u64 {
        match self {
            Self::Fixed(size) => size,
            Self::Between(least, most) => least + random.number() % (most - least + 1),
        }
    }
}

/// Which writes are made durable before the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sync {
    Never,
    Each,
    /// One of N, drawn.
    OneIn(u64),
}

impl Sync {
    /// Whether a write is made durable. `below` draws a number below a limit, where that decides.
    pub fn is_due(self, below: impl FnOnce(u64) -> u64) -> bool {
        match self {
            Self::Never => false,
            Self::Each => true,
            Self::OneIn(count) => below(count) == 0,
        }
    }
}

/// When I/Os begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rate {
    /// As soon as one of `depth` has ended.
    Closed,
    /// At fixed times, this many a second, however long they take.
    PerSecond(u64),
}

/// A stream of I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Class {
    pub kind: Kind,
    pub order: Order,
    pub sizes: Sizes,
    pub sync: Sync,
    pub rate: Rate,
    /// I/Os in flight at most.
    pub depth: usize,
}

/// Classes with a name: what `parse` takes and `Display` writes.
const NAMES: [(&str, Kind, Order, Sync); 5] = [
    ("randread", Kind::Read, Order::Random, Sync::Never),
    ("randwrite", Kind::Write, Order::Random, Sync::Never),
    ("read", Kind::Read, Order::Sequential, Sync::Never),
    ("write", Kind::Write, Order::Sequential, Sync::Never),
    // A log that begins again at its end: each record is durable before the next.
    ("sync", Kind::Write, Order::Sequential, Sync::Each),
];

impl Class {
    /// Reads `KIND:BYTES:DEPTH`, such as `randread:8192:32`.
    ///
    /// # Errors
    /// If the text is no such class.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text} is no case: KIND:BYTES:DEPTH");
        let words: Vec<&str> = text.split(':').collect();
        let [kind, block, depth] = words[..] else { return Err(wrong()) };
        let named = NAMES.iter().find(|(name, ..)| *name == kind);
        let (_, kind, order, sync) = *named.ok_or_else(wrong)?;
        let block: u64 = block.parse().map_err(|_| wrong())?;
        let depth: usize = depth.parse().map_err(|_| wrong())?;
        if block == 0 || depth == 0 {
            return Err(wrong());
        }
        Ok(Self { kind, order, sizes: Sizes::Fixed(block), sync, rate: Rate::Closed, depth })
    }

    pub fn reads(&self) -> bool {
        self.kind == Kind::Read
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_it = |(_, kind, order, sync): &&(&str, Kind, Order, Sync)| {
            (*kind, *order, *sync) == (self.kind, self.order, self.sync)
        };
        let name = NAMES.iter().find(is_it).map_or("mixed", |(name, ..)| name);
        write!(f, "{name} {} depth {}", self.sizes.largest(), self.depth)
    }
}

/// One I/O of a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Io {
    /// Counts from 0.
    pub number: u64,
    pub offset: u64,
    pub length: u64,
    /// It is made durable before the next.
    pub sync: bool,
    /// When it is to begin, after the first one; zero in a closed loop.
    pub due: Duration,
}

/// The I/Os of a class on `size` bytes, without an end.
#[derive(Debug)]
pub struct Generator {
    class: Class,
    size: u64,
    random: Random,
    next: u64,
    /// Where the I/O before ended.
    end: u64,
}

impl Generator {
    /// # Panics
    /// If the largest I/O has more bytes than there are.
    pub fn new(class: Class, size: u64, seed: u64) -> Self {
        assert!((1..=size).contains(&class.sizes.largest()), "{class} in {size} bytes");
        Self { class, size, random: Random::new(seed), next: 0, end: 0 }
    }
}

impl Iterator for Generator {
    type Item = Io;

    fn next(&mut self) -> Option<Io> {
        let Self { class, size, random, .. } = self;
        let length = class.sizes.draw(random);
        let offset = match class.order {
            Order::Random => random.number() % (*size / length) * length,
            Order::Sequential if self.end + length > *size => 0,
            Order::Sequential => self.end,
        };
        let sync = !class.reads() && class.sync.is_due(|limit| random.number() % limit);
        let number = self.next;
        let due = match class.rate {
            Rate::Closed => Duration::ZERO,
            Rate::PerSecond(rate) => Duration::from_nanos(
                u64::try_from(u128::from(number) * 1_000_000_000 / u128::from(rate))
                    .unwrap_or(u64::MAX),
            ),
        };
        (self.next, self.end) = (number + 1, offset + length);
        Some(Io { number, offset, length, sync, due })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ios(class: Class, size: u64, count: usize) -> Vec<Io> {
        Generator::new(class, size, 7).take(count).collect()
    }

    #[test]
    fn a_class_is_written_as_it_is_read() {
        for (name, ..) in NAMES {
            let class = Class::parse(&format!("{name}:8192:32")).expect("a class");
            assert_eq!(class.to_string(), format!("{name} 8192 depth 32"));
        }
        for wrong in
            ["", "read:8192", "read:0:1", "read:1:0", "read:x:1", "dance:8192:1", "read:1:1:1"]
        {
            assert!(Class::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sequential_ios_follow_each_other_and_begin_again() {
        let class = Class::parse("write:400:1").expect("a class");
        let offsets: Vec<u64> = ios(class, 1000, 5).iter().map(|io| io.offset).collect();
        assert_eq!(offsets, [0, 400, 0, 400, 0]);
    }

    #[test]
    fn random_ios_are_aligned_and_inside_and_follow_from_the_seed() {
        let class = Class::parse("randread:4096:1").expect("a class");
        let all = ios(class, 1 << 20, 1000);
        assert!(all.iter().all(|io| io.offset % 4096 == 0 && io.offset + io.length <= 1 << 20));
        assert!(all.iter().any(|io| io.offset != all[0].offset));
        assert_eq!(all, ios(class, 1 << 20, 1000));
        assert_ne!(all, Generator::new(class, 1 << 20, 8).take(1000).collect::<Vec<_>>());
        assert!(all.iter().all(|io| !io.sync), "reads are not made durable");
    }

    #[test]
    fn sizes_are_drawn_between_their_bounds() {
        let class =
            Class { sizes: Sizes::Between(1, 3), ..Class::parse("sync:3:1").expect("a class") };
        let all = ios(class, 1000, 1000);
        for size in 1..=3 {
            assert!(all.iter().any(|io| io.length == size), "{size}");
        }
        assert!(all.iter().all(|io| (1..=3).contains(&io.length) && io.sync));
        assert!(
            all.windows(2).all(|two| {
                two[1].offset == two[0].offset + two[0].length || two[1].offset == 0
            })
        );
    }

    #[test]
    fn one_write_in_n_is_made_durable() {
        let class = Class { sync: Sync::OneIn(4), ..Class::parse("write:8:1").expect("a class") };
        let count = ios(class, 1 << 20, 4000).iter().filter(|io| io.sync).count();
        assert!((800..1200).contains(&count), "{count} of 4000");
    }

    #[test]
    fn an_open_loop_says_when_each_io_begins() {
        let class =
            Class { rate: Rate::PerSecond(4), ..Class::parse("read:8:1").expect("a class") };
        let due: Vec<u128> = ios(class, 80, 4).iter().map(|io| io.due.as_millis()).collect();
        assert_eq!(due, [0, 250, 500, 750]);
        assert!(
            ios(Class { rate: Rate::Closed, ..class }, 80, 4).iter().all(|io| io.due.is_zero())
        );
    }
}
