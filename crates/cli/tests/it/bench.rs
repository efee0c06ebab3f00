//! Tiny benchmarks: their figures mean nothing, but everything else about them must be right.

mod run;
mod scenario;
mod scripts;
mod suite;
mod wire;

use harness::{Outcome, Syncline};
use serde_json::Value;
use tempfile::TempDir;

const OPERATIONS: [&str; 5] =
    ["download", "upload-insert", "upload-update", "upload-delete", "exchange"];

/// A folder in which benchmarks are run.
struct Site {
    folder: TempDir,
    syncline: Syncline,
}

impl Site {
    fn new() -> Site {
        let folder = tempfile::tempdir().unwrap();
        let syncline = Syncline::new(env!("CARGO_BIN_EXE_syncline"), folder.path());
        Site { folder, syncline }
    }

    fn run(&self, url: &str, arguments: &[&str]) -> Outcome {
        let fixed = ["bench", "run", "--consolidated", url, "--json", "result.json"];
        self.syncline.run(&[&fixed, arguments].concat())
    }

    /// Runs a benchmark that must succeed.
    fn figures(&self, url: &str, arguments: &[&str]) -> Value {
        let outcome = self.run(url, arguments);
        assert_eq!(outcome.code, Some(0), "{arguments:?}: {outcome:?}");
        assert!(outcome.stdout.contains("rows per second"), "{outcome:?}");
        let result = self.result();
        assert_eq!(result["error"], Value::Null);
        result
    }

    /// What the last run wrote.
    fn result(&self) -> Value {
        self.json("result.json")
    }

    fn json(&self, name: &str) -> Value {
        let text = std::fs::read_to_string(self.folder.path().join(name)).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    fn names(&self) -> Vec<String> {
        let entries = self.folder.path().read_dir().unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

fn check_counts(result: &Value, operation: &str, clients: u64, rows: u64, sets: u64) {
    assert_eq!(result["operation"], operation);
    assert_eq!(result["syncs"], clients * sets, "{result}");
    assert_eq!(result["rows"], clients * sets * rows, "{result}");
    for figure in ["/rows_per_second", "/latency_ms/p99", "/ceiling/rows_per_second"] {
        assert!(result.pointer(figure).and_then(Value::as_f64) > Some(0.0), "{figure}: {result}");
    }
    assert_eq!(result["errors"], 0, "{result}");
    let commits = result.pointer("/database/commits_per_sync").unwrap().as_f64().unwrap();
    assert!(commits > 0.0, "{result}");
}
