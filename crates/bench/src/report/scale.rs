//! The scale of an axis: linear or logarithmic, its ends, and the values that are marked on it.

/// From how much of a range on, proportions say more than differences: largest by smallest value.
const LOGARITHMIC_FROM: f64 = 20.0;
/// A bound above all measurements, so that the ends of an axis are sensible.
const DRAWABLE: std::ops::RangeInclusive<f64> = 1e-9..=1e15;
/// Marks on an axis, at most.
const TICKS_MAX: usize = 7;

/// How values become places on an axis.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Scale {
    logarithmic: bool,
    least: f64,
    most: f64,
    ticks: Vec<f64>,
}

impl Scale {
    /// For quantities, which begin at zero unless they span orders of magnitude; then at round
    /// values around all of them.
    pub(super) fn of_quantities(values: &[f64]) -> Scale {
        let (least, most) = ends(values);
        if most / least < LOGARITHMIC_FROM {
            let ticks = multiples(most * 1.04);
            let end = ticks.last().copied().unwrap_or(1.0);
            return Scale { logarithmic: false, least: 0.0, most: end, ticks };
        }
        let (least, most) = (round_below(least), round_above(most));
        Scale { logarithmic: true, least, most, ticks: round_values(least, most) }
    }

    /// For the values of a parameter, with a little room at both sides.
    pub(super) fn of_parameter(values: &[f64]) -> Scale {
        let (least, most) = ends(values);
        if most / least < LOGARITHMIC_FROM {
            let room = (most - least).max(most * 0.1) * 0.08;
            let (least, most) = (least - room, most + room);
            let mut ticks = multiples(most);
            ticks.retain(|tick| (least..=most).contains(tick));
            return Scale { logarithmic: false, least, most, ticks };
        }
        let room = (most / least).powf(0.06);
        let (least, most) = (least / room, most * room);
        Scale { logarithmic: true, least, most, ticks: round_values(least, most) }
    }

    pub(super) fn is_logarithmic(&self) -> bool {
        self.logarithmic
    }

    pub(super) fn least(&self) -> f64 {
        self.least
    }

    pub(super) fn most(&self) -> f64 {
        self.most
    }

    /// The values that are marked.
    pub(super) fn ticks(&self) -> &[f64] {
        &self.ticks
    }

    /// Where a value is: 0 at the least, 1 at the most.
    pub(super) fn share(&self, value: f64) -> f64 {
        let value = value.clamp(self.least, self.most);
        match self.logarithmic {
            true => (value / self.least).ln() / (self.most / self.least).ln(),
            false => (value - self.least) / (self.most - self.least),
        }
    }
}

/// The smallest and largest of the values that an axis can show.
fn ends(values: &[f64]) -> (f64, f64) {
    let positive = values.iter().copied().filter(|value| DRAWABLE.contains(value));
    let (least, most) = positive
        .fold((f64::INFINITY, 0.0), |(least, most), value| (value.min(least), value.max(most)));
    if most > 0.0 { (least, most) } else { (1.0, 1.0) }
}

/// 0, 1, 2, … times a round number, up to the first that is not below `most`.
fn multiples(most: f64) -> Vec<f64> {
    let mut step = round_above(most / (TICKS_MAX - 1) as f64);
    if most >= 2.0 {
        // Clients, processors and rows are whole.
        step = step.max(1.0);
    }
    let count = (most / step - 1e-9).ceil() as usize;
    (0..=count).map(|at| at as f64 * step).collect()
}

/// 1, 2 and 5 times powers of ten in a range, or fewer of them if there would be too many.
fn round_values(least: f64, most: f64) -> Vec<f64> {
    let exponents = least.log10().floor() as i32..=most.log10().ceil() as i32;
    let all = |digits: &[f64], stride: usize| -> Vec<f64> {
        let decades = exponents.clone().step_by(stride);
        decades
            .flat_map(|exponent| digits.iter().map(move |digit| digit * 10f64.powi(exponent)))
            .filter(|value| (least * 0.999..=most * 1.001).contains(value))
            .collect()
    };
    let finer = [all(&[1.0, 2.0, 5.0], 1), all(&[1.0, 3.0], 1), all(&[1.0], 1)];
    let fitting = finer.into_iter().find(|ticks| ticks.len() <= TICKS_MAX + 1);
    fitting.unwrap_or_else(|| all(&[1.0], exponents.clone().count().div_ceil(TICKS_MAX)))
}

fn round_below(value: f64) -> f64 {
    let decade = 10f64.powf(value.log10().floor());
    [5.0, 2.0]
        .into_iter()
        .map(|digit| digit * decade)
        .find(|round| *round <= value * 1.000_001)
        .unwrap_or(decade)
}

fn round_above(value: f64) -> f64 {
    let decade = 10f64.powf(value.log10().floor());
    [1.0, 2.0, 5.0]
        .into_iter()
        .map(|digit| digit * decade)
        .find(|round| *round >= value * 0.999_999)
        .unwrap_or(10.0 * decade)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(scale: &Scale) -> Vec<f64> {
        scale.ticks().iter().map(|tick| (tick * 1e6).round() / 1e6).collect()
    }

    #[test]
    fn quantities_of_one_magnitude_begin_at_zero() {
        let scale = Scale::of_quantities(&[120_000.0, 469_000.0]);
        assert!(!scale.is_logarithmic());
        assert_eq!(marked(&scale), [0.0, 1e5, 2e5, 3e5, 4e5, 5e5]);
        assert_eq!((scale.share(0.0), scale.share(125_000.0), scale.share(5e5)), (0.0, 0.25, 1.0));
    }

    #[test]
    fn quantities_of_several_magnitudes_are_logarithmic_between_round_values() {
        let scale = Scale::of_quantities(&[2_452.0, 870_000.0]);
        assert!(scale.is_logarithmic());
        assert_eq!(marked(&scale), [3e3, 1e4, 3e4, 1e5, 3e5, 1e6]);
        assert!(scale.least() <= 2_452.0 && scale.most() >= 870_000.0, "{scale:?}");
        let step = scale.share(1e5) - scale.share(1e4);
        assert!((step - (scale.share(1e6) - scale.share(1e5))).abs() < 1e-9, "{scale:?}");
    }

    #[test]
    fn parameters_are_marked_where_they_are() {
        let clients = Scale::of_parameter(&[200.0, 500.0, 1000.0, 2000.0, 5000.0, 10_000.0]);
        assert_eq!(marked(&clients), [200.0, 500.0, 1000.0, 2000.0, 5000.0, 10_000.0]);
        let processors = Scale::of_parameter(&[1.0, 2.0, 3.0, 4.0]);
        assert_eq!(marked(&processors), [1.0, 2.0, 3.0, 4.0]);
        assert!(!processors.is_logarithmic());
    }

    #[test]
    fn no_values_however_strange_make_a_scale_without_room() {
        let strange: [&[f64]; 7] = [
            &[],
            &[0.0],
            &[f64::NAN, f64::INFINITY, -1.0],
            &[7.0],
            &[1e-300, 1e300],
            &[5e-324],
            &[f64::MAX],
        ];
        for values in strange {
            for scale in [Scale::of_quantities(values), Scale::of_parameter(values)] {
                assert!(scale.least() < scale.most(), "{values:?}: {scale:?}");
                for value in [0.0, 1.0, 1e300] {
                    let share = scale.share(value);
                    assert!((0.0..=1.0).contains(&share), "{values:?}: {scale:?}");
                }
                assert!(scale.ticks().len() <= TICKS_MAX + 2, "{values:?}: {scale:?}");
            }
        }
    }
}
