//! The tests of the suite: the parameter of each, and the published values of the others.
//!
//! Published sizes are 1,000 clients, 1,000 rows per synchronization and ten million rows per run.
//! The scale is a factor on the number of clients only, so that the size of a synchronization stays
//! the same. Only with slow networks the number of rows is reduced too.

mod wires;

use crate::options::{BenchRunOptions, BenchSuiteOptions, Operation, TestName};
use clap::{Args, FromArgMatches};
use std::borrow::Cow;

/// The usual sizes.
const CLIENTS: u32 = 1000;
const ROWS: u32 = 1000;
const SETS: u32 = 10;

/// In the order of the published runs.
const OPERATIONS: [Operation; 4] = [
    Operation::Download,
    Operation::UploadUpdate,
    Operation::UploadDelete,
    Operation::UploadInsert,
];

/// What the machine and the database allow.
#[derive(Debug, Clone)]
pub(super) struct Limits {
    /// Connections that a server may have to the database; none without a limit.
    pub(super) connections_max: Option<u32>,
    pub(super) cpus_max: u32,
    /// Why there can be no links of limited speed; none if there can.
    pub(super) no_link: Option<String>,
}

/// A test: one parameter, some of its values.
#[derive(Debug)]
pub(super) struct Test {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    /// The name of the parameter, and its unit.
    pub(super) parameter: (&'static str, &'static str),
    pub(super) points: Vec<Point>,
    /// Why there is nothing to run, or why some values are left out.
    pub(super) missing: Option<Cow<'static, str>>,
    /// What the others cost is compared with the first point.
    pub(super) is_compared: bool,
}

/// One value of the parameter.
#[derive(Debug)]
pub(super) struct Point {
    pub(super) label: String,
    /// None if the values are not numbers.
    pub(super) value: Option<u32>,
    /// The value of the published point that corresponds to this one.
    pub(super) published: Option<u32>,
    pub(super) runs: Vec<Run>,
}

/// One `syncline bench run`.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) operation: Operation,
    label: String,
    /// Where its result goes, from the folder of the suite.
    pub(super) file: String,
    /// The arguments after `syncline bench run`.
    pub(super) arguments: Vec<String>,
    /// The options that these arguments give.
    pub(super) options: BenchRunOptions,
}

impl Test {
    pub(super) fn runs(&self) -> impl Iterator<Item = &Run> {
        self.points.iter().flat_map(|point| &point.runs)
    }

    /// Whether some machine can make its runs.
    pub(super) fn is_of_this_version(&self) -> bool {
        MISSING.iter().all(|(name, ..)| *name != self.name)
    }

    /// Whether it is one of those that were asked for.
    pub(super) fn is_chosen(&self, options: &BenchSuiteOptions) -> bool {
        let is_this = |name: &TestName| name.name() == self.name;
        options.only.is_empty() || options.only.iter().any(is_this)
    }
}

impl Run {
    /// The name of the run in messages.
    pub(super) fn title(&self) -> String {
        format!("{} {}", self.label, self.operation.name())
    }
}

/// All tests, with those that cannot be run yet.
pub(super) fn tests(options: &BenchSuiteOptions, limits: &Limits) -> Vec<Test> {
    let plan = Plan { options, limits };
    let mut tests = vec![
        plan.workers(),
        plan.clients(),
        plan.rows(),
        plan.cpus(),
        plan.slow_clients(),
        plan.merge_replication(),
        plan.small(),
        plan.conflicts(),
        plan.parent(),
        plan.overlapping(),
        plan.tables(),
        plan.transports(),
        plan.notes(),
        plan.link_1000(),
        plan.link_10(),
    ];
    tests.extend(MISSING.map(|(name, title, parameter, why)| Test {
        name,
        title,
        parameter,
        points: Vec::new(),
        missing: Some(why.into()),
        is_compared: false,
    }));
    tests
}

type Missing = (&'static str, &'static str, (&'static str, &'static str), &'static str);

const MISSING: [Missing; 3] = [
    (
        "auto-workers",
        "Number of workers chosen by the server",
        ("range of workers", ""),
        "the server of this version has a fixed number of workers",
    ),
    (
        "retry-delay",
        "Retry delay of clients that a full server refused",
        ("retry delay", "s"),
        "this version's server limits the synchronizations that wait, not the connections",
    ),
    (
        "upload-limit",
        "Number of workers that upload at the same time",
        ("upload appliers", ""),
        "the benchmark of this version sets one number for all workers",
    ),
];

/// The sizes of a run.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    clients: u32,
    rows: u32,
    sets: u32,
}

struct Plan<'a> {
    options: &'a BenchSuiteOptions,
    limits: &'a Limits,
}

impl Plan<'_> {
    fn workers(&self) -> Test {
        let clients = self.scaled(CLIENTS);
        let useful = [1, 2, 5, 10, 20, 50, 75, 100, 200].into_iter().filter(|it| *it <= clients);
        let connections_max = self.limits.connections_max.unwrap_or(u32::MAX);
        let (values, too_many): (Vec<u32>, Vec<u32>) = useful
            .partition(|workers| *workers == 1 || connections_of(*workers) <= connections_max);
        let point = |workers: u32| {
            let extra = ["--workers", &workers.to_string()].map(str::to_owned);
            self.numbered(TestName::Workers, workers, workers, self.sizes(), &extra)
        };
        let missing = too_many.first().map(|fewest| {
            let left_out: Vec<String> = too_many.iter().map(u32::to_string).collect();
            let needed = connections_of(*fewest);
            format!(
                "{} workers are left out: {fewest} need {needed} connections, and max_connections \
                 of the database leaves {connections_max}",
                left_out.join(", ")
            )
            .into()
        });
        let points = values.into_iter().map(point);
        let test = test(TestName::Workers, "Fixed number of workers", "workers", points);
        Test { missing, ..test }
    }

    fn clients(&self) -> Test {
        let mut values: Vec<(u32, u32)> = [200, 500, 1000, 2000, 5000, 10_000]
            .map(|published| (published, self.scaled(published)))
            .to_vec();
        // With a small scale several values become equal.
        values.dedup_by_key(|(_, clients)| *clients);
        let point = |(published, clients): (u32, u32)| {
            let sets = SETS * CLIENTS / published;
            let sizes = Sizes { clients, rows: ROWS, sets };
            self.numbered(TestName::Clients, clients, published, sizes, &[])
        };
        test(TestName::Clients, "Number of clients", "clients", values.into_iter().map(point))
    }

    fn rows(&self) -> Test {
        let point = |rows: u32| {
            let sizes = Sizes { rows, sets: SETS * ROWS / rows, ..self.sizes() };
            self.numbered(TestName::Rows, rows, rows, sizes, &[])
        };
        let values = [100, 200, 500, 1000, 2000, 5000, 10_000].into_iter();
        test(TestName::Rows, "Rows of a synchronization", "rows", values.map(point))
    }

    fn cpus(&self) -> Test {
        let most = self.limits.cpus_max;
        let values = [1, 2, 3, 4, 8, 16, 32, 64, 128].into_iter().filter(|it| *it <= most);
        let point = |cpus: u32| {
            let extra = ["--cpus", &cpus.to_string()].map(str::to_owned);
            self.numbered(TestName::Cpus, cpus, cpus, self.sizes(), &extra)
        };
        test(TestName::Cpus, "Number of processors", "processors", values.map(point))
    }

    /// The published clients shared a network of 100 or of 10 Mbit/s, or had a modem each.
    fn slow_clients(&self) -> Test {
        let rows = self.scaled(ROWS).max(10);
        let sizes = Sizes { clients: self.scaled(CLIENTS), rows, sets: 1 };
        let points = [
            ("no limit", None),
            ("12,500 bytes/s", Some(12_500)),
            ("1,250 bytes/s", Some(1_250)),
            ("480 bytes/s", Some(480)),
        ];
        let point = |(label, bandwidth): (&str, Option<u32>)| {
            let extra = match bandwidth {
                Some(bytes) => vec!["--client-bandwidth".to_owned(), bytes.to_string()],
                None => Vec::new(),
            };
            let point = self.labeled(TestName::SlowClients, label, &OPERATIONS, sizes, &extra);
            Point { published: bandwidth, ..point }
        };
        let points = points.into_iter().map(point);
        Test {
            parameter: ("network of each client", "bytes/s"),
            ..test(TestName::SlowClients, "Slow and very slow clients", "", points)
        }
    }

    fn merge_replication(&self) -> Test {
        let sizes = Sizes { clients: self.scaled(1200), ..self.sizes() };
        let extra = ["--model", "merge"].map(str::to_owned);
        let operations = [Operation::Exchange];
        let point = self.labeled(TestName::MergeReplication, "1,200", &operations, sizes, &extra);
        let clients = Some(sizes.clients);
        let label = sizes.clients.to_string();
        let point = Point { value: clients, published: Some(1200), label, ..point };
        let title = "Rows of 116 bytes that change at both sides";
        test(TestName::MergeReplication, title, "subscribers", [point].into_iter())
    }

    fn small(&self) -> Test {
        let sizes = |rows| Sizes { rows, ..self.sizes() };
        let points = [
            self.labeled(TestName::Small, "1 row", &OPERATIONS, sizes(1), &[]),
            self.labeled(TestName::Small, "no row", &[Operation::Download], sizes(0), &[]),
        ];
        let title = "Synchronizations of one row and of none";
        test(TestName::Small, title, "rows", points.into_iter())
    }

    fn conflicts(&self) -> Test {
        let point = |percent: u32| {
            let extra = ["--conflicts", &percent.to_string()].map(str::to_owned);
            let label = format!("{percent} %");
            let operations = [Operation::UploadUpdate];
            let point =
                self.labeled(TestName::Conflicts, &label, &operations, self.sizes(), &extra);
            Point { value: Some(percent), ..point }
        };
        Test {
            parameter: ("conflicts", "%"),
            ..test(TestName::Conflicts, "Conflicts", "", [0, 1, 100].into_iter().map(point))
        }
    }

    fn parent(&self) -> Test {
        let models = [("one table", "purchase"), ("purchases and lines", "order-lines")];
        self.models(TestName::Parent, "A table with a parent: lines of purchases", &models)
    }

    fn overlapping(&self) -> Test {
        let models = [("one remote", "purchase"), ("two remotes", "overlapping")];
        self.models(TestName::Overlapping, "Rows that two remotes receive", &models)
    }

    /// Few rows, so that the cost of each table is visible.
    fn tables(&self) -> Test {
        let sizes = Sizes { clients: self.scaled(CLIENTS / 10), rows: 10, sets: SETS };
        let point = |tables: u32| {
            let label = tables.to_string();
            let extra = ["--tables", &label].map(str::to_owned);
            let operations = [Operation::Download];
            let point = self.labeled(TestName::Tables, &label, &operations, sizes, &extra);
            Point { value: Some(tables), ..point }
        };
        let points = [1, 10, 100, 1000].into_iter().map(point);
        test(TestName::Tables, "Tables of a download, all but one empty", "tables", points)
    }

    fn models(&self, name: TestName, title: &'static str, models: &[(&str, &str)]) -> Test {
        let sizes = self.sizes();
        // Two remotes share each row, so there must be two.
        let sizes = Sizes { clients: sizes.clients.max(2), ..sizes };
        let point = |(label, model): &(&str, &str)| {
            let extra = ["--model", model].map(str::to_owned);
            self.labeled(name, label, &OPERATIONS, sizes, &extra)
        };
        test(name, title, "model", models.iter().map(point))
    }

    fn scaled(&self, published: u32) -> u32 {
        ((f64::from(published) * self.options.scale).round() as u32).max(1)
    }

    fn sizes(&self) -> Sizes {
        Sizes { clients: self.scaled(CLIENTS), rows: ROWS, sets: SETS }
    }

    fn numbered(
        &self,
        test: TestName,
        value: u32,
        published: u32,
        sizes: Sizes,
        extra: &[String],
    ) -> Point {
        let point = self.labeled(test, &value.to_string(), &OPERATIONS, sizes, extra);
        Point { value: Some(value), published: Some(published), ..point }
    }

    fn labeled(
        &self,
        test: TestName,
        label: &str,
        operations: &[Operation],
        sizes: Sizes,
        extra: &[String],
    ) -> Point {
        let run = |operation: &Operation| {
            let mut arguments = self.arguments(*operation, sizes);
            arguments.extend_from_slice(extra);
            let file = format!("{}/{}-{}.json", test.name(), plain(label), operation.name());
            let options = meaning(&arguments);
            options.map(|options| Run {
                operation: *operation,
                label: label.to_owned(),
                file,
                arguments,
                options,
            })
        };
        let runs = operations.iter().filter_map(run).collect();
        Point { label: label.to_owned(), value: None, published: None, runs }
    }

    fn arguments(&self, operation: Operation, sizes: Sizes) -> Vec<String> {
        let sets = self.options.sets.unwrap_or(sizes.sets);
        let pairs = [
            ("--operation", operation.name().to_owned()),
            ("--clients", sizes.clients.to_string()),
            ("--rows", sizes.rows.to_string()),
            ("--sets", sets.to_string()),
            ("--clients-on", self.options.clients_on.name().to_owned()),
            ("--consolidated", self.options.consolidated.clone()),
        ];
        pairs.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect()
    }
}

/// Connections of a server with so many workers: each reads over one and writes over another, and
/// admissions have some of their own.
fn connections_of(workers: u32) -> u32 {
    2 * workers + workers.div_ceil(server::READERS_PER_ADMITTER as u32)
}

/// A test of a parameter whose unit is its name.
fn test(
    name: TestName,
    title: &'static str,
    parameter: &'static str,
    points: impl Iterator<Item = Point>,
) -> Test {
    let points = points.collect();
    Test {
        name: name.name(),
        title,
        parameter: (parameter, ""),
        points,
        missing: None,
        is_compared: false,
    }
}

/// A label as a part of a file's name.
fn plain(label: &str) -> String {
    let label = label.replace('%', "percent").replace([',', '/'], "");
    label.split_whitespace().collect::<Vec<_>>().join("-")
}

/// What the program would understand, so that a suite and a run cannot disagree.
fn meaning(arguments: &[String]) -> Option<BenchRunOptions> {
    let command = BenchRunOptions::augment_args(clap::Command::new("run"));
    let words = std::iter::once("run").chain(arguments.iter().map(String::as_str));
    BenchRunOptions::from_arg_matches(&command.try_get_matches_from(words).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::ClientsOn;
    use std::collections::BTreeSet;

    fn options(scale: f64) -> BenchSuiteOptions {
        BenchSuiteOptions {
            consolidated: "sqlite:x.db".to_owned(),
            dir: "suite".into(),
            scale,
            only: Vec::new(),
            sets: None,
            clients_on: ClientsOn::Wire,
        }
    }

    fn plan(scale: f64) -> Vec<Test> {
        let options = options(scale);
        tests(&options, &Limits { connections_max: Some(170), cpus_max: 2, no_link: None })
    }

    fn test_named<'a>(tests: &'a [Test], name: &str) -> &'a Test {
        tests.iter().find(|test| test.name == name).unwrap()
    }

    #[test]
    fn scale_1_is_what_was_published() {
        let tests = plan(1.0);
        for name in ["workers", "clients", "rows"] {
            for run in test_named(&tests, name).runs() {
                let options = &run.options;
                let rows = u64::from(options.clients * options.rows) * u64::from(options.sets);
                assert_eq!(rows, 10_000_000, "{name} {}", run.title());
            }
        }
        let values = |name: &str| -> Vec<Option<u32>> {
            test_named(&tests, name).points.iter().map(|point| point.value).collect()
        };
        assert_eq!(values("workers"), [1, 2, 5, 10, 20, 50, 75].map(Some));
        let left_out = test_named(&tests, "workers").missing.as_deref().unwrap();
        assert!(left_out.starts_with("100, 200 workers are left out: 100 need 225"), "{left_out}");
        assert_eq!(values("clients"), [200, 500, 1000, 2000, 5000, 10_000].map(Some));
        assert_eq!(values("cpus"), [1, 2].map(Some));
        assert_eq!(test_named(&tests, "merge-replication").points[0].value, Some(1200));
    }

    #[test]
    fn every_run_is_understood_and_has_a_file_of_its_own() {
        for scale in [0.001, 0.05, 1.0, 10.0] {
            let tests = plan(scale);
            let files: Vec<&str> =
                tests.iter().flat_map(Test::runs).map(|run| run.file.as_str()).collect();
            assert_eq!(files.iter().collect::<BTreeSet<_>>().len(), files.len());
            for test in &tests {
                let expected = match test.name {
                    "workers" => scale >= 0.1,
                    _ => test.points.is_empty(),
                };
                assert_eq!(test.missing.is_some(), expected, "{} at {scale}", test.name);
                assert!(test.points.iter().all(|point| !point.runs.is_empty()), "{}", test.name);
            }
        }
        let tests = plan(0.05);
        let files: Vec<&str> =
            test_named(&tests, "conflicts").runs().map(|run| run.file.as_str()).collect();
        assert_eq!(files[1], "conflicts/1-percent-upload-update.json");
    }

    #[test]
    fn the_published_transports_are_there_and_the_first_one_is_plain() {
        let tests = plan(0.05);
        let labels = |name| -> Vec<&str> {
            test_named(&tests, name).points.iter().map(|point| &*point.label).collect()
        };
        let all = labels("transports");
        for published in ["tcp", "http", "tls ecdsa full", "tls rsa full", "https rsa full"] {
            assert!(all.contains(&published) && all.contains(&&*format!("{published} zstd")));
        }
        assert_eq!((all.len(), all.iter().collect::<BTreeSet<_>>().len()), (36, 36));
        for name in ["transports", "notes", "link-1000", "link-10"] {
            assert!(test_named(&tests, name).is_compared);
            assert_eq!(labels(name)[0], "tcp");
        }
        let slow = test_named(&tests, "link-10").runs().next().unwrap();
        assert_eq!((slow.options.link_mbit, slow.options.rows), (Some(10), 50));
    }

    #[test]
    fn links_are_left_out_with_a_word_where_there_can_be_none() {
        let options = options(1.0);
        let no_link = Some("nobody is root".to_owned());
        let tests = tests(&options, &Limits { connections_max: None, cpus_max: 2, no_link });
        for name in ["link-1000", "link-10"] {
            let test = test_named(&tests, name);
            assert!(test.points.is_empty() && test.is_of_this_version());
            let why = test.missing.as_deref().unwrap();
            assert_eq!(why, format!("{name} is left out: nobody is root"));
        }
        assert!(!test_named(&tests, "notes").points.is_empty());
    }
}
