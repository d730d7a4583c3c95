//! Classes that only say something: `record!` declares one.

use std::collections::BTreeMap;

use duly::worker::WorkerReport;

/// A final class of PHP with properties that can be read and not written.
macro_rules! record {
    ($(#[$about:meta])* $class:ident = $name:tt { $($(#[$doc:meta])* $property:ident: $type:ty,)* }) => {
        $(#[$about])*
        #[php_class]
        #[php(name = $name)]
        #[php(flags = ClassFlags::Final)]
        #[derive(Debug, Clone)]
        pub struct $class {
            $(pub $property: $type,)*
        }

        #[php_impl]
        impl $class {
            $(
                $(#[$doc])*
                #[php(getter)]
                pub fn $property(&self) -> $type {
                    self.$property.clone()
                }
            )*
        }
    };
}
pub(crate) use record;

/// PHP has no unsigned numbers.
pub fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The work of a worker or consumer as PHP gets it.
pub fn of_report(report: WorkerReport) -> BTreeMap<&'static str, i64> {
    let counts = [
        ("acked", report.acked),
        ("failed", report.failed),
        ("released", report.released),
        ("lost", report.lost),
        ("expired", report.expired),
    ];
    counts.into_iter().map(|(name, count)| (name, signed(count))).collect()
}
