//! Models as files of other load generators, and back.
//!
//! The way back is in `import`: [`crate::import::read_model`] knows both kinds of files.

mod fio;
mod vdbench;

pub use fio::print as fio;
pub use vdbench::print as vdbench;

use crate::model::Stream;

/// A line that is a remark in a file of either program, whatever a report has put in a name.
fn remark(mark: char, text: &str) -> String {
    let plain: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    format!("{mark} {plain}\n")
}

/// The sizes of a stream in bytes, with shares in whole per cent that make 100.
fn sizes(stream: &Stream) -> Vec<(u64, u64)> {
    match stream.sizes().as_slice() {
        [(low, share), (high, _)] => {
            let share = (share * 100.0).round().clamp(0.0, 100.0) as u64;
            let both = [(*low, share), (*high, 100 - share)];
            both.into_iter().filter(|(_, share)| *share > 0).collect()
        }
        other => other.iter().take(1).map(|(size, _)| (*size, 100)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        export::{fio, vdbench},
        import::read_model,
        model::{Class, Model, Stream},
    };
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_exported_is_read_back_within_2_per_cent(
            rates in proptest::collection::vec((0.5..2e5_f64, 512.0..1_048_576.0_f64), 5),
            used in 1_usize..32,
        ) {
            let streams: Vec<Stream> = Class::ALL.iter().zip(&rates).enumerate()
                .filter(|(at, _)| used >> at & 1 == 1)
                .map(|(_, (class, (rate, size)))| Stream::of_mean(*class, *rate, *size)).collect();
            let model = Model { name: "x\ny".to_owned(), streams, ..Model::default() };
            for text in [vdbench(&model, 60), fio(&model, 60)] {
                let back = read_model(text.as_bytes(), "").expect("what is exported can be read");
                prop_assert_eq!(back.streams.len(), model.streams.len());
                for (a, b) in model.streams.iter().zip(&back.streams) {
                    prop_assert_eq!(a.class, b.class);
                    prop_assert!((b.rate / a.rate - 1.0).abs() < 0.02, "{:?} {:?}", a, b);
                    let bytes = (b.rate * b.mean()) / (a.rate * a.mean());
                    prop_assert!((bytes - 1.0).abs() < 0.02, "{:?} {:?}\n{}", a, b, text);
                }
            }
        }
    }
}
