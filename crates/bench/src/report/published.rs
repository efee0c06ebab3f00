//! The published figures, and their conversion to rows a second.
//!
//! Seconds are the total server time for all rows of a test, as in the runs of this benchmark.

use crate::report::palette::Age;

/// Where figures were published, and what they were measured on.
#[derive(Debug, PartialEq)]
pub(super) struct Source {
    /// What a chart calls it.
    pub(super) label: &'static str,
    pub(super) title: &'static str,
    pub(super) hardware: &'static str,
    pub(super) age: Age,
}

pub(super) const NEWEST: Source = Source {
    label: "2012",
    title: "MobiLink 12 performance whitepaper, 2012",
    hardware: "two servers, one for MobiLink and one for SQL Anywhere 12.0.1 in memory, each a \
               Dell R510 with two 6-core Xeon X5650 at 2.6 GHz (24 threads) and 48 GB; ten \
               client machines; gigabit Ethernet",
    age: Age::Newest,
};

pub(super) const NEWER: Source = Source {
    label: "2009",
    title: "MobiLink 11 performance whitepaper, 2009",
    hardware: "one server for MobiLink and SQL Anywhere 11.0.1 in memory, a Dell PE2950 with two \
               4-core Xeon E5405 at 2.0 GHz and 16 GB; ten client machines; gigabit Ethernet",
    age: Age::Newer,
};

pub(super) const OLDEST: Source = Source {
    label: "version 8",
    title: "MobiLink slides EM419, for versions 7 and 8",
    hardware: "one server for MobiLink and ASA, a Dell PE 6300 with four Pentium III at 550 MHz \
               and 512 MB; ten client machines; 100 Mbit/s Ethernet",
    age: Age::Oldest,
};

pub(super) const MERGE: Source = Source {
    label: "2008",
    title: "SQL Server merge replication scalability report, 2008",
    hardware: "six web servers of 2 cores and 2 GB; publisher and distributor of 8 cores and 16 GB \
               each; 1,200 subscribers on SQL Server Compact; 116 bytes a row",
    age: Age::Newest,
};

pub(super) const SOURCES: [&Source; 4] = [&NEWEST, &NEWER, &OLDEST, &MERGE];

/// The order of the columns in the published tables.
pub(super) const OPERATIONS: [&str; 4] =
    ["download", "upload-update", "upload-delete", "upload-insert"];

/// The headline of 2012: 10,000 clients × 1,000 rows, in seconds.
const HEADLINE_SECONDS: [f64; 4] = [21.3, 88.1, 57.8, 33.2];

/// The best figure of 2012 for an operation, in rows a second.
pub(super) fn headline(operation: &str) -> Option<f64> {
    Some(TEN_MILLION / HEADLINE_SECONDS[column(operation)?])
}

/// A published table about one of our tests.
struct Table {
    test: &'static str,
    source: &'static Source,
    place: &'static str,
    /// None for all four of [`OPERATIONS`].
    operation: Option<&'static str>,
    unit: Unit,
    /// The value of the parameter, then a column for each operation.
    lines: &'static [(f64, [f64; 4])],
}

/// What the columns of a table are.
enum Unit {
    /// Seconds for so many rows.
    SecondsFor(f64),
    /// How many times as fast as with a parameter of 1; the seconds of the last line are known.
    Speedup { rows: f64, last_line_seconds: [f64; 4] },
    /// Rows a second.
    RowsPerSecond,
}

/// A figure that the source does not give.
const ABSENT: f64 = 0.0;
const MILLION: f64 = 1e6;
const TEN_MILLION: f64 = 1e7;

const TABLES: &[Table] = &[
    Table {
        test: "workers",
        source: &NEWEST,
        place: "table 2",
        operation: None,
        unit: Unit::SecondsFor(TEN_MILLION),
        lines: &[
            (5.0, [47.0, 786.5, 547.9, 223.2]),
            (10.0, [31.9, 362.9, 270.4, 145.4]),
            (20.0, [25.1, 215.5, 167.3, 111.0]),
            (50.0, [26.5, 152.7, 109.1, 102.8]),
            (70.0, [26.7, 149.7, 101.1, 103.3]),
            (75.0, [26.3, 148.9, 102.7, 102.6]),
            (80.0, [26.0, 149.1, 102.8, 103.1]),
            (90.0, [25.1, 151.6, 102.4, 103.4]),
            (100.0, [25.4, 153.0, 101.6, 103.6]),
            (200.0, [26.2, 154.4, 105.1, 103.8]),
        ],
    },
    Table {
        test: "workers",
        source: &NEWER,
        place: "table 2",
        operation: None,
        unit: Unit::SecondsFor(TEN_MILLION),
        lines: &[
            (1.0, [116.2, 2818.4, 4078.8, 555.3]),
            (2.0, [68.5, 1738.3, 1359.3, 360.7]),
            (5.0, [52.3, 972.0, 434.2, 210.3]),
            (8.0, [53.4, 810.9, 302.6, 181.8]),
            (10.0, [54.7, 767.7, 294.4, 179.2]),
            (12.0, [55.0, 763.2, 299.2, 171.6]),
            (15.0, [56.1, 779.8, 301.8, 171.9]),
            (20.0, [57.9, 786.8, 296.6, 170.9]),
            (50.0, [53.5, 812.6, 287.7, 172.2]),
            (100.0, [55.3, 854.6, 299.1, 172.8]),
            (200.0, [55.0, 904.7, 313.5, 173.2]),
        ],
    },
    Table {
        test: "clients",
        source: &NEWEST,
        place: "tables 9 and 10",
        operation: None,
        unit: Unit::SecondsFor(TEN_MILLION),
        lines: &[
            (200.0, [39.3, 239.7, 246.7, 193.5]),
            (500.0, [30.6, 177.1, 137.9, 128.7]),
            (1000.0, [26.0, 150.2, 102.7, 103.5]),
            (2000.0, [24.2, 132.2, 82.9, 87.3]),
            (5000.0, [24.7, 113.7, 67.8, 63.5]),
            (10_000.0, [23.1, 92.6, 58.7, 34.9]),
        ],
    },
    Table {
        test: "clients",
        source: &NEWER,
        place: "tables 5 and 6",
        operation: None,
        unit: Unit::SecondsFor(TEN_MILLION),
        lines: &[
            (200.0, [77.2, 856.2, 444.5, 321.9]),
            (500.0, [57.8, 787.6, 326.9, 196.3]),
            (1000.0, [55.6, 762.5, 299.3, 171.8]),
            (2000.0, [51.0, 748.8, 295.1, 156.7]),
            (5000.0, [51.1, 728.1, 285.5, 137.3]),
            (10_000.0, [48.1, 705.5, 269.2, 113.6]),
        ],
    },
    Table {
        test: "rows",
        source: &NEWEST,
        place: "table 11",
        operation: None,
        unit: Unit::SecondsFor(TEN_MILLION),
        lines: &[
            (100.0, [70.7, 360.5, 458.7, 321.8]),
            (200.0, [41.9, 242.2, 259.5, 198.9]),
            (500.0, [31.4, 174.5, 142.4, 128.9]),
            (1000.0, [26.1, 150.8, 101.9, 103.1]),
            (2000.0, [23.0, 135.3, 82.8, 88.2]),
            (5000.0, [17.7, 113.9, 69.2, 66.9]),
            (10_000.0, [13.6, 88.4, 58.3, 36.4]),
        ],
    },
    Table {
        test: "rows",
        source: &NEWER,
        place: "table 7",
        operation: None,
        unit: Unit::SecondsFor(TEN_MILLION),
        lines: &[
            (100.0, [173.4, 1061.9, 697.8, 462.4]),
            (200.0, [105.8, 898.7, 479.6, 300.7]),
            (500.0, [63.3, 800.0, 361.3, 206.5]),
            (1000.0, [55.5, 767.5, 299.1, 171.9]),
            (2000.0, [51.9, 744.9, 270.1, 152.1]),
            (5000.0, [45.1, 717.9, 251.9, 127.3]),
            (10_000.0, [44.7, 682.3, 236.3, 95.4]),
        ],
    },
    Table {
        test: "cpus",
        source: &OLDEST,
        place: "parallel speedup",
        operation: None,
        unit: Unit::Speedup { rows: MILLION, last_line_seconds: [77.0, 1044.0, 570.0, 450.0] },
        lines: &[
            (1.0, [1.0, 1.0, 1.0, 1.0]),
            (2.0, [1.59, 1.50, 1.50, 1.49]),
            (3.0, [2.11, 1.95, 1.90, 1.82]),
            (4.0, [2.34, 2.05, 2.01, 1.93]),
        ],
    },
    // By the bytes a second that each of a thousand clients had: a thousandth of their network, or
    // a modem.
    Table {
        test: "slow-clients",
        source: &OLDEST,
        place: "networks of 10 and 100 Mbit/s",
        operation: None,
        unit: Unit::SecondsFor(MILLION),
        lines: &[(1250.0, [109.0, 1074.0, 649.0, 490.0]), (12_500.0, [77.0, 1044.0, 570.0, 450.0])],
    },
    Table {
        test: "slow-clients",
        source: &OLDEST,
        place: "modems of 4,800 baud",
        operation: None,
        unit: Unit::RowsPerSecond,
        lines: &[(480.0, [ABSENT, 616.0, 1118.0, 1419.0])],
    },
    Table {
        test: "merge-replication",
        source: &MERGE,
        place: "best of four layouts",
        operation: Some("exchange"),
        unit: Unit::RowsPerSecond,
        lines: &[(1200.0, [5826.0, ABSENT, ABSENT, ABSENT])],
    },
];

/// What a transport took in a published test.
pub(super) struct Transport {
    /// The test of ours with this point.
    pub(super) test: &'static str,
    label: &'static str,
    seconds: [f64; 4],
}

const fn transport(label: &'static str, seconds: [f64; 4]) -> Transport {
    Transport { test: "transports", label, seconds }
}

/// Tables 12 to 15 of 2012. Its compression is zlib, beside which ours with the fewest bytes is
/// put.
pub(super) const TRANSPORTS: &[Transport] = &[
    transport("tcp", [26.1, 150.8, 100.4, 103.2]),
    transport("http", [30.5, 152.9, 108.3, 108.6]),
    transport("tls ecdsa full", [36.2, 152.6, 110.4, 109.9]),
    transport("tls rsa full", [56.4, 159.9, 117.4, 131.0]),
    transport("https ecdsa full", [38.4, 160.2, 112.2, 116.0]),
    transport("https rsa full", [60.1, 180.8, 121.4, 133.4]),
    transport("tcp zstd", [34.3, 156.9, 108.3, 106.2]),
    transport("http zstd", [36.9, 167.2, 112.1, 110.7]),
    transport("tls ecdsa full zstd", [36.7, 146.9, 103.6, 107.0]),
    transport("tls rsa full zstd", [56.8, 142.2, 104.2, 112.8]),
    transport("https ecdsa full zstd", [38.5, 148.4, 104.2, 106.9]),
    transport("https rsa full zstd", [60.0, 169.3, 110.5, 116.9]),
];

/// How much longer than with plain TCP it took, in percent.
pub(super) fn increase(test: &str, label: &str, operation: &str) -> Option<f64> {
    let column = column(operation)?;
    let seconds = |label: &str| {
        let line = TRANSPORTS.iter().find(|line| line.test == test && line.label == label)?;
        Some(line.seconds[column])
    };
    Some((seconds(label)? / seconds("tcp")? - 1.0) * 100.0)
}

/// Published figures in rows a second, for a chart.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) source: &'static Source,
    /// The tables that they are from.
    pub(super) places: Vec<&'static str>,
    pub(super) points: Vec<(f64, f64)>,
}

impl Line {
    /// The figure for this value of the parameter.
    pub(super) fn at(&self, value: f64) -> Option<f64> {
        self.points.iter().find(|(at, _)| *at == value).map(|(_, figure)| *figure)
    }
}

/// What was published about an operation in a test, the most recent first.
pub(super) fn lines(test: &str, operation: &str) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for table in TABLES.iter().filter(|table| table.test == test) {
        let Some(points) = table.rows_per_second(operation) else {
            continue;
        };
        match lines.iter_mut().find(|line| line.source == table.source) {
            Some(line) => {
                line.places.push(table.place);
                line.points.extend(points);
                line.points.sort_by(|one, other| one.0.total_cmp(&other.0));
            }
            None => lines.push(Line { source: table.source, places: vec![table.place], points }),
        }
    }
    lines
}

impl Table {
    fn rows_per_second(&self, operation: &str) -> Option<Vec<(f64, f64)>> {
        let column = match self.operation {
            Some(only) => (only == operation).then_some(0)?,
            None => column(operation)?,
        };
        let last = self.lines.last().map_or(1.0, |(_, figures)| figures[column]);
        let convert = |figure: f64| match &self.unit {
            Unit::SecondsFor(rows) => rows / figure,
            Unit::Speedup { rows, last_line_seconds } => {
                rows / last_line_seconds[column] * figure / last
            }
            Unit::RowsPerSecond => figure,
        };
        let figures = self.lines.iter().map(|(value, figures)| (*value, figures[column]));
        let known = figures.filter(|(_, figure)| *figure != ABSENT);
        Some(known.map(|(value, figure)| (value, convert(figure))).collect())
    }
}

fn column(operation: &str) -> Option<usize> {
    OPERATIONS.iter().position(|known| *known == operation)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headlines_are_what_was_claimed() {
        let claimed = [469_000.0, 114_000.0, 173_000.0, 301_000.0];
        for (operation, claimed) in OPERATIONS.iter().zip(claimed) {
            let figure = headline(operation).unwrap();
            assert!((figure / claimed - 1.0).abs() < 0.01, "{operation}: {figure}");
        }
        assert_eq!(headline("something-else"), None);
    }

    #[test]
    fn tables_are_in_order_and_their_figures_are_sensible() {
        for table in TABLES {
            assert!(table.lines.windows(2).all(|pair| pair[0].0 < pair[1].0), "{}", table.test);
            for operation in OPERATIONS {
                let points = table.rows_per_second(operation).unwrap_or_default();
                assert!(points.iter().all(|(_, rows)| (400.0..1e6).contains(rows)), "{points:?}");
            }
        }
    }

    #[test]
    fn transports_cost_what_was_published() {
        let increases = |label| {
            OPERATIONS.map(|operation| increase("transports", label, operation).unwrap().round())
        };
        assert_eq!(increases("tls ecdsa full"), [39.0, 1.0, 10.0, 6.0]);
        assert_eq!(increases("https rsa full"), [130.0, 20.0, 21.0, 29.0]);
        assert_eq!(increases("tcp zstd"), [31.0, 4.0, 8.0, 3.0]);
        assert_eq!(increase("transports", "wss", "download"), None);
        assert_eq!(increase("notes", "tcp", "download"), None);
    }

    #[test]
    fn seconds_and_speedups_become_rows_a_second() {
        let newest = &lines("clients", "download")[0];
        assert_eq!(newest.at(2000.0).map(f64::round), Some(413_223.0));
        assert_eq!(newest.at(3.0), None);
        let processors = &lines("cpus", "download")[0];
        assert_eq!(processors.at(4.0).map(f64::round), Some(12_987.0));
        let ratio = processors.at(2.0).unwrap() / processors.at(1.0).unwrap();
        assert!((ratio - 1.59).abs() < 1e-9);
        assert_eq!(lines("merge-replication", "exchange")[0].at(1200.0), Some(5826.0));
        assert_eq!(lines("slow-clients", "download")[0].at(480.0), None);
        let slow = lines("slow-clients", "upload-insert");
        let places: Vec<f64> = slow[0].points.iter().map(|(value, _)| *value).collect();
        assert_eq!((slow.len(), places), (1, vec![480.0, 1250.0, 12_500.0]));
        assert!(lines("conflicts", "download").is_empty());
    }
}
