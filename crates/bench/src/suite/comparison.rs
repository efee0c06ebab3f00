//! A table of what the points of a test cost, compared with its first one.

use super::plan::{Point, Run, Test};
use super::result::result_of;
use crate::figures::cost::{Cost, signed};
use model::Failure;
use serde_json::Value;
use std::path::Path;
use terminal::output;

/// Prints the table, as far as there are results.
pub(super) fn print(folder: &Path, test: &Test) -> Result<(), Failure> {
    let Some(first) = test.points.first() else { return Ok(()) };
    output::line(&format!(
        "{}: CPU of the server, and of all processes, compared with {}; bytes per row",
        test.name, first.label
    ))?;
    let headings = headings(test, first);
    let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
    output::table(&headings, &lines(folder, test, first))
}

fn headings(test: &Test, first: &Point) -> Vec<String> {
    let mut headings = vec![test.parameter.0.to_owned()];
    for run in &first.runs {
        headings.extend([run.operation.name(), "all", "bytes"].map(str::to_owned));
    }
    headings
}

fn lines(folder: &Path, test: &Test, first: &Point) -> Vec<Vec<String>> {
    test.points.iter().map(|point| line(folder, first, point)).collect()
}

fn line(folder: &Path, first: &Point, point: &Point) -> Vec<String> {
    let mut cells = vec![point.label.clone()];
    for (base, run) in first.runs.iter().zip(&point.runs) {
        let [base, result] = [base, run].map(|run| result(folder, run));
        let cost = |result: &Option<Value>| Cost::of(|pointer| number(result.as_ref()?, pointer));
        let increase = cost(&base).zip(cost(&result)).map(|(base, cost)| cost.increase_over(base));
        let shown = |percent: Option<f64>| percent.map_or("-".to_owned(), signed);
        cells.push(shown(increase.map(|it| it.server)));
        cells.push(shown(increase.map(|it| it.all)));
        let bytes = result.as_ref().and_then(|result| number(result, "/network/bytes_per_row"));
        cells.push(bytes.map_or("-".to_owned(), |bytes| format!("{bytes:.0}")));
    }
    cells
}

fn result(folder: &Path, run: &Run) -> Option<Value> {
    result_of(&folder.join(&run.file), run)
}

fn number(result: &Value, pointer: &str) -> Option<f64> {
    result.pointer(pointer)?.as_f64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::{settings, write_json};
    use crate::options::{BenchSuiteOptions, ClientsOn};
    use crate::suite::plan::{self, Limits};
    use model::Code;
    use serde_json::json;

    /// What a run of this point would have written.
    fn record(folder: &Path, run: &Run, server: f64, bytes: f64) {
        let failure = Failure::new(Code::BenchmarkWrong, "it has not ended");
        let mut json = settings::failed_json(&run.options, &failure);
        json["error"] = Value::Null;
        json["rows_per_second"] = json!(1000.0);
        json["cpu_us_per_row"] = json!({"consolidated": null, "server": server, "clients": 1.0});
        json["network"] = json!({"bytes_per_row": bytes});
        let file = folder.join(&run.file);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        write_json(&file, &json).unwrap();
    }

    #[test]
    fn everything_is_compared_with_plain_tcp_and_what_is_missing_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let options = BenchSuiteOptions {
            consolidated: "sqlite:x.db".to_owned(),
            dir: folder.path().to_owned(),
            scale: 0.05,
            only: Vec::new(),
            sets: None,
            clients_on: ClientsOn::Wire,
        };
        let limits = Limits { connections_max: None, cpus_max: 2, no_link: None };
        let tests = plan::tests(&options, &limits);
        let test = tests.iter().find(|test| test.name == "notes").unwrap();
        let named = |label: &str| test.points.iter().find(|point| point.label == label).unwrap();
        record(folder.path(), &named("tcp").runs[0], 4.0, 125.4);
        record(folder.path(), &named("tls ecdsa full").runs[0], 5.0, 126.0);
        record(folder.path(), &named("tcp zstd").runs[0], 3.0, 60.0);
        // Without one to compare it with.
        record(folder.path(), &named("tcp zstd").runs[1], 3.0, 61.0);
        let lines = lines(folder.path(), test, &test.points[0]);
        let line = |label: &str| lines.iter().find(|line| line[0] == label).unwrap().join("|");
        assert_eq!(line("tcp"), "tcp|0 %|0 %|125|-|-|-");
        assert_eq!(line("tls ecdsa full"), "tls ecdsa full|+25 %|+20 %|126|-|-|-");
        assert_eq!(line("tcp zstd"), "tcp zstd|-25 %|-20 %|60|-|-|61");
        assert_eq!(line("https ecdsa full lz4"), "https ecdsa full lz4|-|-|-|-|-|-");
        assert_eq!(headings(test, &test.points[0]).len(), lines[0].len());
    }
}
