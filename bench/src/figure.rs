//! A figure: the median of several runs, printed as one line of JSON.

use std::io::Write;

use serde_json::json;

/// The runs of one metric.
#[derive(Debug, Default)]
pub(crate) struct Figure {
    runs: Vec<f64>,
}

impl Figure {
    pub(crate) fn add(&mut self, value: f64) {
        self.runs.push(value);
    }

    /// Prints the median, and between what the runs lie.
    pub(crate) fn print(mut self, metric: &str, unit: &str) {
        self.runs.sort_by(f64::total_cmp);
        let (Some(min), Some(max)) = (self.runs.first(), self.runs.last()) else { return };
        let line = json!({
            "metric": metric,
            "value": rounded(median(&self.runs)),
            "unit": unit,
            "runs": self.runs.len(),
            "min": rounded(*min),
            "max": rounded(*max),
        });
        // A reader that went away needs no figure.
        let _ = writeln!(std::io::stdout(), "{line}");
    }
}

/// The middle of sorted values; 0 of none.
pub(crate) fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => 0.0,
        length if length % 2 == 1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

/// Four digits are more than these figures are good for.
fn rounded(value: f64) -> f64 {
    if value >= 1000.0 { value.round() } else { (value * 1000.0).round() / 1000.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_or_between_the_two_middles() {
        let medians = [median(&[1.0, 2.0, 9.0]), median(&[1.0, 2.0, 4.0, 9.0]), median(&[])];
        assert!(medians.iter().zip([2.0, 3.0, 0.0]).all(|(median, right): (&f64, f64)| (median - right).abs() < 1e-9));
    }
}
