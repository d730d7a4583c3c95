//! The text form of `OpenMetrics` 1.0, as far as gauges, counters and histograms need it: parsers of Prometheus' own older form read it, too.

use std::fmt::{Display, Write};

/// How a metric behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Gauge,
    /// It only grows, until the queue is deleted.
    Counter,
    /// How many of all were at most so long.
    Histogram,
}

/// A text that is being written.
#[derive(Debug, Default)]
pub(super) struct Text(String);

impl Text {
    /// Begins a metric, whose samples follow.
    pub(super) fn metric(&mut self, name: &str, kind: Kind, help: &str) {
        let word = match kind {
            Kind::Gauge => "gauge",
            Kind::Counter => "counter",
            Kind::Histogram => "histogram",
        };
        self.line(format_args!("# TYPE {name} {word}"));
        if let Some(unit) = ["seconds", "bytes"].into_iter().find(|unit| name.ends_with(&format!("_{unit}"))) {
            self.line(format_args!("# UNIT {name} {unit}"));
        }
        self.line(format_args!("# HELP {name} {}", escaped(help)));
    }

    /// `labels` without a value are left out, which means the same.
    pub(super) fn sample(&mut self, name: &str, kind: Kind, labels: &[(&str, &str)], value: impl Display) {
        self.row(name, if kind == Kind::Counter { "_total" } else { "" }, labels, value);
    }

    /// `up_to`: for each bound in seconds, and behind them for all, how many were not longer.
    pub(super) fn histogram(
        &mut self,
        name: &str,
        labels: &[(&str, &str)],
        up_to: impl Iterator<Item = (String, u64)>,
        sum: f64,
    ) {
        let mut all = 0;
        for (bound, count) in up_to {
            self.row(name, "_bucket", &[labels, &[("le", bound.as_str())]].concat(), count);
            all = count;
        }
        self.row(name, "_count", labels, all);
        self.row(name, "_sum", labels, sum);
    }

    fn row(&mut self, name: &str, suffix: &str, labels: &[(&str, &str)], value: impl Display) {
        let label = |(name, value): &(&str, &str)| format!("{name}=\"{}\"", escaped(value));
        let labels: Vec<_> = labels.iter().filter(|(_, value)| !value.is_empty()).map(label).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        self.line(format_args!("{name}{suffix}{labels} {value}"));
    }

    pub(super) fn end(mut self) -> String {
        self.0.push_str("# EOF\n");
        self.0
    }

    fn line(&mut self, line: impl Display) {
        _ = writeln!(self.0, "{line}");
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped_and_a_counter_is_a_total() {
        let mut text = Text::default();
        text.metric("duly_jobs_pushed", Kind::Counter, "Jobs \"in\"\n");
        text.sample("duly_jobs_pushed", Kind::Counter, &[("queue", "a\"b\\c\nd"), ("partitioned", "")], 7);
        text.metric("duly_late_seconds", Kind::Gauge, "Late");
        text.sample("duly_late_seconds", Kind::Gauge, &[], 0.25);
        let expected = "\
# TYPE duly_jobs_pushed counter
# HELP duly_jobs_pushed Jobs \\\"in\\\"\\n
duly_jobs_pushed_total{queue=\"a\\\"b\\\\c\\nd\"} 7
# TYPE duly_late_seconds gauge
# UNIT duly_late_seconds seconds
# HELP duly_late_seconds Late
duly_late_seconds 0.25
# EOF
";
        assert_eq!(text.end(), expected);
    }
}
