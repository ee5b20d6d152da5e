//! Figures of repeated runs.

use std::time::Duration;

use crate::measure::Usage;

/// Least, median and greatest of several runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Spread<T> {
    pub(super) least: T,
    pub(super) median: T,
    pub(super) greatest: T,
}

/// The costs of the runs of a command.
#[derive(Clone, Copy, Debug)]
pub(super) struct Figures {
    pub(super) cpu: Spread<Duration>,
    pub(super) wall: Spread<Duration>,
    pub(super) peak_bytes: Spread<u64>,
}

impl Figures {
    pub(super) fn of(runs: &[Usage]) -> Self {
        Self {
            cpu: Spread::of(runs.iter().map(|run| run.cpu)),
            wall: Spread::of(runs.iter().map(|run| run.wall)),
            peak_bytes: Spread::of(runs.iter().map(|run| run.peak_bytes)),
        }
    }
}

impl<T: Copy + Default + Ord> Spread<T> {
    fn of(values: impl Iterator<Item = T>) -> Self {
        let mut values: Vec<T> = values.collect();
        values.sort_unstable();
        let at = |place: usize| values.get(place).copied().unwrap_or_default();
        Self {
            least: at(0),
            median: at(values.len() / 2),
            greatest: at(values.len().saturating_sub(1)),
        }
    }
}

/// `0.7 ms`, `83 ms`, `1.24 s`.
pub(super) fn time(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1e3;
    if ms < 10.0 {
        format!("{ms:.1} ms")
    } else if ms < 1e3 {
        format!("{ms:.0} ms")
    } else {
        format!("{:.2} s", ms / 1e3)
    }
}

/// The median, and how far the runs lay apart.
pub(super) fn times(spread: Spread<Duration>) -> String {
    let [least, median, greatest] = [spread.least, spread.median, spread.greatest].map(time);
    if least == greatest {
        median
    } else {
        format!("{median} ({least} – {greatest})")
    }
}

/// `8.4 MB`.
pub(super) fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

/// `10,000`.
pub(super) fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (digit, left) in digits.chars().zip((0..digits.len()).rev()) {
        text.push(digit);
        if left > 0 && left % 3 == 0 {
            text.push(',');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Spread, grouped, megabytes, time, times};

    #[test]
    fn a_spread_is_least_median_and_greatest() {
        let of = |values: &[u64]| {
            let spread = Spread::of(values.iter().copied());
            [spread.least, spread.median, spread.greatest]
        };
        assert_eq!(of(&[5, 1, 3]), [1, 3, 5]);
        assert_eq!(of(&[4, 1, 3, 2]), [1, 3, 4]);
        assert_eq!(of(&[7]), [7, 7, 7]);
    }

    #[test]
    fn figures_read_well() {
        assert_eq!(time(Duration::from_micros(740)), "0.7 ms");
        assert_eq!(time(Duration::from_micros(83_400)), "83 ms");
        assert_eq!(time(Duration::from_millis(1_236)), "1.24 s");
        assert_eq!(megabytes(8_389_000), "8.4 MB");
        assert_eq!([1, 1_000, 10_000_000].map(grouped), ["1", "1,000", "10,000,000"]);
        let spread = |least, median, greatest| Spread {
            least: Duration::from_millis(least),
            median: Duration::from_millis(median),
            greatest: Duration::from_millis(greatest),
        };
        assert_eq!(times(spread(80, 83, 91)), "83 ms (80 ms – 91 ms)");
        assert_eq!(times(spread(83, 83, 83)), "83 ms");
    }
}
