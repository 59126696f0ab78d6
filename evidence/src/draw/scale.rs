//! From a value to its place on an axis, and the values that an axis names.

/// An axis: the values at its ends and where these ends lie.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale {
    pub is_log: bool,
    /// Of a logarithmic one above 0.
    pub from: f64,
    /// Above `from`.
    pub to: f64,
    /// Where `from` lies, in units of the chart.
    pub low: f64,
    /// Where `to` lies.
    pub high: f64,
}

/// Decades of a logarithmic axis at most.
const DECADES_MAX: f64 = 18.0;

impl Scale {
    /// From 0, up to a round value at or above `largest`.
    #[must_use]
    pub fn linear(largest: f64, low: f64, high: f64) -> Self {
        let largest = if largest.is_finite() && largest > 0.0 { largest.min(1e300) } else { 1.0 };
        let step = round_step(largest, 4.0);
        Self { is_log: false, from: 0.0, to: (largest / step).ceil() * step, low, high }
    }

    /// Exactly from and to, linear.
    #[must_use]
    pub fn exact(from: f64, to: f64, low: f64, high: f64) -> Self {
        let to = if to.is_finite() && to > from { to } else { from + 1.0 };
        Self { is_log: false, from, to, low, high }
    }

    /// Logarithmic, exactly from and to.
    #[must_use]
    pub fn log(from: f64, to: f64, low: f64, high: f64) -> Self {
        let from = if from.is_finite() && from > 0.0 { from.min(1e100) } else { 1.0 };
        let to = if to.is_finite() { to } else { from * 10.0 };
        let to = to.clamp(from * 2.0, from * 10_f64.powf(DECADES_MAX));
        Self { is_log: true, from, to, low, high }
    }

    /// Outside values lie at the ends.
    #[must_use]
    pub fn place(&self, value: f64) -> f64 {
        let share = if self.is_log {
            (value.max(f64::MIN_POSITIVE) / self.from).ln() / (self.to / self.from).ln()
        } else {
            (value - self.from) / (self.to - self.from)
        };
        let share = if share.is_nan() { 0.0 } else { share.clamp(0.0, 1.0) };
        self.low + share * (self.high - self.low)
    }

    /// Values to name: powers of ten, or three to six round ones.
    #[must_use]
    pub fn ticks(&self) -> Vec<f64> {
        if self.is_log {
            let first = (self.from.log10() - 1e-9).ceil() as i32;
            let last = (self.to.log10() + 1e-9).floor() as i32;
            let every = ((last - first) / 8 + 1) as usize;
            (first..=last).step_by(every).map(|power| 10_f64.powi(power)).collect()
        } else {
            let step = round_step(self.to - self.from, 4.0);
            let first = (self.from / step).ceil();
            let count = ((self.to / step + 1e-9).floor() - first).clamp(0.0, 12.0) as u32;
            (0..=count).map(|index| (first + f64::from(index)) * step).collect()
        }
    }

    /// Of seconds: steps that people count time in.
    #[must_use]
    pub fn time_ticks(&self) -> Vec<f64> {
        const STEPS: [f64; 15] = [
            1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0,
            7200.0, 21_600.0,
        ];
        let span = self.to - self.from;
        match STEPS.iter().find(|step| span / **step <= 6.0) {
            Some(step) if span >= 3.0 => {
                let count = (span / step + 1e-9).floor() as u32;
                (0..=count).map(|index| self.from + f64::from(index) * step).collect()
            }
            _ => self.ticks(),
        }
    }
}

/// 1, 2, 2.5 or 5 times a power of ten, so that about `count` of them make up the span.
fn round_step(span: f64, count: f64) -> f64 {
    let raw = (span / count).max(1e-300);
    let power = 10_f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().find(|step| step * power >= raw * 0.999);
    step.unwrap_or(10.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_linear_axis_ends_at_a_round_value() {
        let scale = Scale::linear(232_431.0, 0.0, 100.0);
        assert_eq!(scale.to, 300_000.0);
        assert_eq!(scale.ticks(), [0.0, 100_000.0, 200_000.0, 300_000.0]);
        assert_eq!(scale.place(150_000.0), 50.0);
    }

    #[test]
    fn a_logarithmic_axis_names_powers_of_ten() {
        let scale = Scale::log(1e3, 1e6, 0.0, 90.0);
        let ticks: Vec<i64> = scale.ticks().iter().map(|tick| tick.round() as i64).collect();
        assert_eq!(ticks, [1_000, 10_000, 100_000, 1_000_000]);
        assert!((scale.place(1e4) - 30.0).abs() < 1e-9);
    }

    #[test]
    fn no_value_leaves_the_axis() {
        for scale in [
            Scale::log(f64::NAN, f64::INFINITY, 0.0, 10.0),
            Scale::linear(f64::INFINITY, 0.0, 10.0),
            Scale::linear(f64::MAX, 0.0, 10.0),
            Scale::exact(0.0, f64::NAN, 0.0, 10.0),
            Scale::log(1.0, f64::MAX, 0.0, 10.0),
        ] {
            for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 0.0, 1e308] {
                let place = scale.place(value);
                assert!((0.0..=10.0).contains(&place), "{scale:?} {value}: {place}");
            }
            assert!((1..30).contains(&scale.ticks().len()), "{scale:?}: {:?}", scale.ticks());
            assert!((1..30).contains(&scale.time_ticks().len()), "{scale:?}");
        }
    }

    #[test]
    fn eight_hours_are_cut_into_hours() {
        let scale = Scale::exact(0.0, 28_800.0, 0.0, 1.0);
        assert_eq!(scale.time_ticks(), [0.0, 7200.0, 14_400.0, 21_600.0, 28_800.0]);
    }
}
