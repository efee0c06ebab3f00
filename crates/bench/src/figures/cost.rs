//! What a run has cost, for comparisons of one with another.

/// Processor time of a run in microseconds per row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Cost {
    pub(crate) server: f64,
    /// Of database, server and clients together.
    pub(crate) all: f64,
}

/// How much more one run costs than another, in percent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Increase {
    pub(crate) server: f64,
    pub(crate) all: f64,
}

impl Cost {
    /// From the numbers of a result: `/cpu_us_per_row/server`. None if it has no processor time, as
    /// of a run that was too short.
    pub(crate) fn of(number: impl Fn(&str) -> Option<f64>) -> Option<Cost> {
        let server = number("/cpu_us_per_row/server").filter(|cost| *cost > 0.0)?;
        let clients = number("/cpu_us_per_row/clients")?;
        // A database within the server has none of its own.
        let database = number("/cpu_us_per_row/consolidated").unwrap_or(0.0);
        Some(Cost { server, all: server + clients + database })
    }

    pub(crate) fn increase_over(self, less: Cost) -> Increase {
        let percent = |more: f64, less: f64| (more / less - 1.0) * 100.0;
        Increase { server: percent(self.server, less.server), all: percent(self.all, less.all) }
    }
}

/// `+12 %`
pub(crate) fn signed(percent: f64) -> String {
    // Nothing is neither more nor less.
    match percent.round() {
        0.0 => "0 %".to_owned(),
        rounded => format!("{rounded:+.0} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_known_is_added_up() {
        let cost = |server, clients, database: Option<f64>| {
            Cost::of(|pointer| match pointer {
                "/cpu_us_per_row/server" => Some(server),
                "/cpu_us_per_row/clients" => Some(clients),
                _ => database,
            })
        };
        let [with, without] = [cost(2.0, 1.0, Some(5.0)).unwrap(), cost(2.5, 0.5, None).unwrap()];
        assert_eq!((with.all, without.all), (8.0, 3.0));
        assert_eq!(cost(0.0, 1.0, None), None);
        let increase = without.increase_over(with);
        assert_eq!(
            (signed(increase.server), signed(increase.all)),
            ("+25 %".into(), "-63 %".into())
        );
        assert_eq!(signed(-0.2), "0 %");
    }
}
