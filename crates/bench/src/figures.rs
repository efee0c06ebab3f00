//! The figures of a run, as JSON for programs and as a table for people.

pub(crate) mod cost;
mod own_scripts;
pub(crate) mod settings;
mod table;

pub(crate) use own_scripts::Measured;
pub(crate) use table::{grouped, print};

use crate::baseline::Baseline;
use crate::client::traffic::Network;
use crate::clients::Round;
use crate::latency::Latencies;
use crate::layout::{Layout, notes_len};
use crate::machine;
use crate::options::BenchRunOptions;
use crate::purchase::Purchase;
use crate::server_process::DatabaseCost;
use consolidated::Url;
use model::{Code, Failure};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

/// What was measured, of the timed sets only.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    pub(crate) syncs: u64,
    pub(crate) rows: u64,
    /// From the opening of the barrier to the end of the last client, set by set.
    pub(crate) sets: Vec<Duration>,
    pub(crate) conflicts: u64,
    pub(crate) latencies: Latencies,
    pub(crate) network: Network,
    pub(crate) retries: u64,
    pub(crate) errors: u64,
    pub(crate) cpu: CpuTimes,
    pub(crate) baseline: Option<Baseline>,
    pub(crate) database_cost: Option<DatabaseCost>,
    pub(crate) peak_server_memory_bytes: Option<u64>,
    pub(crate) client_processes: usize,
    /// What the database says of itself.
    pub(crate) database: Value,
}

/// Processor time; none for what cannot be seen, or is a part of another.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CpuTimes {
    pub(crate) consolidated: Option<Duration>,
    pub(crate) server: Option<Duration>,
    pub(crate) clients: Option<Duration>,
}

impl CpuTimes {
    /// What was used since `earlier`.
    pub(crate) fn since(self, earlier: CpuTimes) -> CpuTimes {
        self.with(earlier, Duration::saturating_sub)
    }

    pub(crate) fn plus(self, more: CpuTimes) -> CpuTimes {
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
    /// Adds what one set brought.
    pub(crate) fn add_set(&mut self, layout: &Layout, round: Round, cpu: CpuTimes) {
        self.cpu = match self.sets.is_empty() {
            true => cpu,
            false => self.cpu.plus(cpu),
        };
        self.sets.push(round.duration);
        self.syncs += u64::from(layout.clients);
        self.rows += u64::from(layout.clients) * u64::from(layout.rows);
        self.retries += round.report.retries;
        self.errors += round.report.errors;
        self.conflicts += round.report.conflicts;
        self.network += round.report.network;
        for latency_us in round.report.latencies_us {
            self.latencies.add(Duration::from_micros(latency_us));
        }
    }

    /// Adds those of another run with the same settings.
    pub(crate) fn add_run(&mut self, more: Figures) {
        self.syncs += more.syncs;
        self.rows += more.rows;
        self.sets.extend(more.sets);
        self.conflicts += more.conflicts;
        self.latencies.add_all(more.latencies);
        self.network += more.network;
        self.retries += more.retries;
        self.errors += more.errors;
        self.cpu = self.cpu.plus(more.cpu);
        if let (Some(cost), Some(more)) = (&mut self.database_cost, more.database_cost) {
            *cost += more;
        }
        self.peak_server_memory_bytes =
            self.peak_server_memory_bytes.max(more.peak_server_memory_bytes);
    }

    /// The result of a run.
    pub(crate) fn into_json(self, options: &BenchRunOptions) -> Value {
        let seconds = self.sets.iter().sum::<Duration>().as_secs_f64().max(1e-6);
        let rows_per_second = self.rows as f64 / seconds;
        let ratio = |baseline: Option<&Baseline>| {
            baseline.map(|baseline| rounded(rows_per_second / baseline.rows_per_second))
        };
        let baseline = self.baseline.as_ref();
        let server_to_consolidated =
            self.cpu.server.zip(self.cpu.consolidated).map(|(server, consolidated)| {
                rounded(server.as_secs_f64() / consolidated.as_secs_f64().max(1e-6))
            });
        json!({
            "operation": options.operation.name(),
            "clients": options.clients,
            "rows_per_sync": options.rows,
            "syncs": self.syncs,
            "rows": self.rows,
            "bytes_per_row_on_wire": bytes_on_wire(options),
            "total_server_time_s": rounded(seconds),
            "rows_per_second": rounded(rows_per_second),
            "syncs_per_second": rounded(self.syncs as f64 / seconds),
            "network": self.network_json(),
            "sets": self.sets_json(),
            "conflicts": self.conflicts,
            "retries": self.retries,
            "errors": self.errors,
            "cpu_us_per_row": self.cpu.per(self.rows),
            "cpu_us_per_sync": self.cpu.per(self.syncs),
            "ceiling": baseline.map(Baseline::json),
            "ratio_to_ceiling": ratio(baseline),
            "ratio_to_tracked_delete":
                ratio(baseline.and_then(|baseline| baseline.tracked_delete.as_deref())),
            "server_to_consolidated_cpu": server_to_consolidated,
            "database": self.database_cost.map(DatabaseCost::json),
            "peak_server_memory_bytes": self.peak_server_memory_bytes,
            "machine": machine::describe(),
            "settings": settings::of(options, self.client_processes, self.database),
            "latency_ms": self.latencies.json(),
            "error": null,
        })
    }

    fn network_json(&self) -> Value {
        let network = &self.network;
        let per =
            |bytes: u64, count: u64| (count > 0).then(|| rounded(bytes as f64 / count as f64));
        json!({
            "bytes_per_row": per(network.bytes(), self.rows),
            "sent_bytes_per_sync": per(network.sent_bytes, self.syncs),
            "received_bytes_per_sync": per(network.received_bytes, self.syncs),
            "full_handshakes": network.full_handshakes,
            "resumed_handshakes": network.resumed_handshakes,
        })
    }

    fn sets_json(&self) -> Vec<Value> {
        let rows = self.rows as f64 / self.sets.len().max(1) as f64;
        let one = |set: &Duration| {
            let seconds = set.as_secs_f64().max(1e-6);
            json!({"seconds": rounded(seconds), "rows_per_second": rounded(rows / seconds)})
        };
        self.sets.iter().map(one).collect()
    }
}

impl CpuTimes {
    /// Microseconds for each of so many.
    fn per(self, count: u64) -> Value {
        let each = |time: Option<Duration>| {
            let us = time?.as_secs_f64() * 1e6;
            (count > 0).then(|| rounded(us / count as f64))
        };
        json!({
            "consolidated": each(self.consolidated),
            "server": each(self.server),
            "clients": each(self.clients),
        })
    }
}

impl DatabaseCost {
    fn json(self) -> Value {
        let per_sync = |total: f64| rounded(total / (self.synchronizations as f64).max(1.0));
        json!({
            "round_trips_per_sync": per_sync(self.round_trips as f64),
            "commits_per_sync": per_sync(self.commits),
        })
    }
}

impl Latencies {
    fn json(self) -> Value {
        let ([p50, p95, p99], max) = self.percentiles_ms([0.50, 0.95, 0.99]);
        json!({
            "p50": rounded(p50),
            "p95": rounded(p95),
            "p99": rounded(p99),
            "max": rounded(max),
        })
    }
}

impl Baseline {
    fn json(&self) -> Value {
        let mut json = json!({
            "technique": self.technique,
            "connections": self.connections,
            "rows_per_second": rounded(self.rows_per_second),
            "cpu_us_per_row": self.cpu_us_per_row.map(rounded),
        });
        if let Some(tracked) = &self.tracked_delete {
            json["tracked_delete"] = tracked.json();
        }
        json
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

/// What one row of the run takes on the wire, before compression.
fn bytes_on_wire(options: &BenchRunOptions) -> Option<usize> {
    // Remotes of PostgreSQL hold its decimal numbers as text.
    let cost_as_text = matches!(Url::parse(&options.consolidated).ok()?, Url::Postgres(_));
    Some(Purchase::bytes_on_wire(notes_len(options.model), cost_as_text))
}

/// Overwrites the file.
pub(crate) fn write_json(path: &Path, json: &Value) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(json)
        .map_err(|error| Failure::new(Code::Bug, "the result does not encode").source(error))?;
    std::fs::write(path, text + "\n").map_err(|error| {
        Failure::new(Code::CannotWrite, format!("cannot write {}", path.display())).source(error)
    })
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
