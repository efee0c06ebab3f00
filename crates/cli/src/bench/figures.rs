//! The figures of a run, as JSON for programs and as a table for people.

use super::ceiling::Ceiling;
use super::latency::Latencies;
use super::machine;
use super::server_process::DatabaseCost;
use crate::args::{BenchRunOptions, ClientsOn};
use crate::output;
use model::{Code, Failure};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

/// What was measured, of the timed sets only.
#[derive(Debug, Default)]
pub(super) struct Figures {
    pub(super) syncs: u64,
    pub(super) rows: u64,
    pub(super) total_server_time: Duration,
    pub(super) latencies: Latencies,
    pub(super) retries: u64,
    pub(super) errors: u64,
    pub(super) cpu: CpuTimes,
    pub(super) ceiling: Option<Ceiling>,
    pub(super) database_cost: Option<DatabaseCost>,
    pub(super) peak_server_memory_bytes: Option<u64>,
    pub(super) client_processes: usize,
    /// What the database says of itself.
    pub(super) database: Value,
}

/// Processor time; none for what cannot be seen, or is a part of another.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct CpuTimes {
    pub(super) consolidated: Option<Duration>,
    pub(super) server: Option<Duration>,
    pub(super) clients: Option<Duration>,
}

impl CpuTimes {
    /// What was used since `earlier`.
    pub(super) fn since(self, earlier: CpuTimes) -> CpuTimes {
        self.with(earlier, Duration::saturating_sub)
    }

    pub(super) fn plus(self, more: CpuTimes) -> CpuTimes {
        self.with(more, |a, b| a + b)
    }

    fn with(self, other: CpuTimes, f: impl Fn(Duration, Duration) -> Duration) -> CpuTimes {
        let both = |a: Option<Duration>, b: Option<Duration>| Some(f(a?, b?));
        CpuTimes {
            consolidated: both(self.consolidated, other.consolidated),
            server: both(self.server, other.server),
            clients: both(self.clients, other.clients),
        }
    }
}

impl Figures {
    /// The result of a run.
    pub(super) fn into_json(self, options: &BenchRunOptions) -> Value {
        let seconds = self.total_server_time.as_secs_f64().max(1e-6);
        let rows = self.rows as f64;
        let rows_per_second = rows / seconds;
        let ([p50, p95, p99], max) = self.latencies.percentiles_ms([0.50, 0.95, 0.99]);
        let per_row =
            |time: Option<Duration>| time.map(|time| rounded(time.as_secs_f64() * 1e6 / rows));
        let ceiling = self.ceiling.as_ref();
        let server_to_consolidated =
            self.cpu.server.zip(self.cpu.consolidated).map(|(server, consolidated)| {
                rounded(server.as_secs_f64() / consolidated.as_secs_f64().max(1e-6))
            });
        let per_sync = |total: f64, cost: &DatabaseCost| {
            rounded(total / (cost.synchronizations as f64).max(1.0))
        };
        let cost = self.database_cost.as_ref();
        json!({
            "operation": options.operation.name(),
            "clients": options.clients,
            "rows_per_sync": options.rows,
            "syncs": self.syncs,
            "rows": self.rows,
            "total_server_time_s": rounded(seconds),
            "rows_per_second": rounded(rows_per_second),
            "syncs_per_second": rounded(self.syncs as f64 / seconds),
            "latency_ms": {
                "p50": rounded(p50),
                "p95": rounded(p95),
                "p99": rounded(p99),
                "max": rounded(max),
            },
            "retries": self.retries,
            "errors": self.errors,
            "cpu_us_per_row": {
                "consolidated": per_row(self.cpu.consolidated),
                "server": per_row(self.cpu.server),
                "clients": per_row(self.cpu.clients),
            },
            "ceiling": ceiling.map(|ceiling| json!({
                "technique": ceiling.technique,
                "connections": ceiling.connections,
                "rows_per_second": rounded(ceiling.rows_per_second),
                "cpu_us_per_row": ceiling.cpu_us_per_row.map(rounded),
            })),
            "ratio_to_ceiling":
                ceiling.map(|ceiling| rounded(rows_per_second / ceiling.rows_per_second)),
            "server_to_consolidated_cpu": server_to_consolidated,
            "database": {
                "round_trips_per_sync":
                    cost.map(|cost| per_sync(cost.round_trips as f64, cost)),
                "commits_per_sync": cost.map(|cost| per_sync(cost.commits, cost)),
            },
            "peak_server_memory_bytes": self.peak_server_memory_bytes,
            "machine": machine::describe(),
            "settings": settings(options, self.client_processes, self.database),
            "error": null,
        })
    }
}

/// Four digits are more than any measurement is good for.
fn rounded(number: f64) -> f64 {
    if number == 0.0 || !number.is_finite() {
        return 0.0;
    }
    let digits = 10f64.powi(3 - number.abs().log10().floor() as i32);
    let rounded = (number * digits).round() / digits;
    if rounded.abs() >= 1000.0 { number.round() } else { rounded }
}

fn settings(options: &BenchRunOptions, client_processes: usize, database: Value) -> Value {
    json!({
        "sets": options.sets,
        "consolidated": database,
        "server": if options.server_url.is_some() { "given" } else { "own" },
        "transport": "tcp",
        "compression": "none",
        "clients_on": options.clients_on.name(),
        "client_processes": client_processes,
        "workers": options.workers.map(|workers| workers.0),
        "connection_limit": options.connection_limit,
        "retry_delay_s": options.retry_delay,
    })
}

/// What FILE says of a run that has no figures.
pub(super) fn failed_json(options: &BenchRunOptions, failure: &Failure) -> Value {
    json!({
        "operation": options.operation.name(),
        "clients": options.clients,
        "rows_per_sync": options.rows,
        "machine": machine::describe(),
        "settings": settings(options, 0, Value::Null),
        "error": {
            "code": failure.code().to_string(),
            "message": failure.full_message(),
            "retry": failure.retry(),
        },
    })
}

/// Overwrites the file.
pub(super) fn write_json(path: &Path, json: &Value) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(json)
        .map_err(|error| Failure::new(Code::Bug, "the result does not encode").source(error))?;
    std::fs::write(path, text + "\n").map_err(|error| {
        Failure::new(Code::CannotWrite, format!("cannot write {}", path.display())).source(error)
    })
}

/// Prints the figures for people.
pub(super) fn print(options: &BenchRunOptions, json: &Value) -> Result<(), Failure> {
    let number = |pointer: &str| match json.pointer(pointer) {
        Some(Value::Number(number)) => grouped(&number.to_string()),
        _ => "-".to_owned(),
    };
    let clients = match options.clients_on {
        ClientsOn::Wire => "clients that only speak the protocol",
        ClientsOn::Memory => "clients on SQLite in memory",
        ClientsOn::File => "clients on SQLite files",
    };
    output::line(&format!(
        "{}: {} {clients}, {} rows each, {} sets",
        options.operation.name(),
        options.clients,
        options.rows,
        options.sets
    ))?;
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut row = |figure: &str, value: String| rows.push(vec![figure.to_owned(), value]);
    row("rows per second", number("/rows_per_second"));
    row("synchronizations per second", number("/syncs_per_second"));
    row("total server time, s", number("/total_server_time_s"));
    for (figure, name) in [("median", "p50"), ("95 %", "p95"), ("99 %", "p99"), ("max", "max")] {
        row(&format!("latency {figure}, ms"), number(&format!("/latency_ms/{name}")));
    }
    for process in ["consolidated", "server", "clients"] {
        let value = number(&format!("/cpu_us_per_row/{process}"));
        row(&format!("CPU of {process}, µs per row"), value);
    }
    row("bare database, rows per second", number("/ceiling/rows_per_second"));
    row("share of the bare database", number("/ratio_to_ceiling"));
    row("round trips per synchronization", number("/database/round_trips_per_sync"));
    row("commits per synchronization", number("/database/commits_per_sync"));
    row("peak memory of the server, bytes", number("/peak_server_memory_bytes"));
    row("retries", number("/retries"));
    row("errors", number("/errors"));
    output::table(&["figure", "value"], &rows)?;
    if cfg!(debug_assertions) {
        output::warning("this is a debug build: its figures say nothing about a release");
    }
    Ok(())
}

/// A number with its thousands apart.
pub(super) fn grouped(number: &str) -> String {
    let (whole, fraction) = match number.split_once('.') {
        Some((whole, "0")) => (whole, None),
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (number, None),
    };
    let mut text = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if let Some(fraction) = fraction {
        text.push('.');
        text.push_str(fraction);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_as_exact_as_they_deserve() {
        assert_eq!(rounded(123_456.7), 123_457.0);
        assert_eq!(rounded(0.012_345_6), 0.012_35);
        assert_eq!(rounded(12.345_6), 12.35);
        assert_eq!(rounded(0.0), 0.0);
        assert_eq!(
            (grouped("1234567.0"), grouped("123.45")),
            ("1,234,567".into(), "123.45".into())
        );
    }

    #[test]
    fn processor_time_that_nobody_sees_stays_unknown() {
        let (one, two) = (Some(Duration::from_secs(1)), Some(Duration::from_secs(3)));
        let before = CpuTimes { consolidated: None, server: one, clients: one };
        let after = CpuTimes { consolidated: None, server: two, clients: None };
        let used = after.since(before);
        assert_eq!((used.consolidated, used.server), (None, Some(Duration::from_secs(2))));
        assert_eq!(used.clients, None);
    }
}
