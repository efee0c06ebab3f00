//! The figures of a run as a table for people.

use crate::machine::{PROFILE, PUBLISHED_PROFILE};
use crate::options::{BenchRunOptions, ClientsOn, Operation};
use model::Failure;
use serde_json::Value;
use terminal::output;

/// Prints the figures for people.
pub(crate) fn print(options: &BenchRunOptions, json: &Value) -> Result<(), Failure> {
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
    let own = json.get("own_scripts");
    let mut row = |figure: &str, pointer: &str| {
        let mut cells = vec![figure.to_owned(), number(json, pointer)];
        if let Some(own) = own {
            cells.extend([number(own, pointer), number(&own["ratio"], pointer)]);
        }
        rows.push(cells);
    };
    row("rows per second", "/rows_per_second");
    row("synchronizations per second", "/syncs_per_second");
    row("total server time, s", "/total_server_time_s");
    for (figure, name) in [("median", "p50"), ("95 %", "p95"), ("99 %", "p99"), ("max", "max")] {
        row(&format!("latency {figure}, ms"), &format!("/latency_ms/{name}"));
    }
    // Where there are few rows or none, the rest is what costs.
    let (key, each) = match options.rows {
        0..=9 => ("cpu_us_per_sync", "synchronization"),
        _ => ("cpu_us_per_row", "row"),
    };
    for process in ["consolidated", "server", "clients"] {
        row(&format!("CPU of {process}, µs per {each}"), &format!("/{key}/{process}"));
    }
    match options.rows {
        0 => {
            row("bytes sent per synchronization", "/network/sent_bytes_per_sync");
            row("bytes received per synchronization", "/network/received_bytes_per_sync");
        }
        _ => row("bytes on the network per row", "/network/bytes_per_row"),
    }
    row("bare database, rows per second", "/ceiling/rows_per_second");
    row("share of the bare database", "/ratio_to_ceiling");
    if options.operation == Operation::UploadDelete {
        row("share of deletes that are logged", "/ratio_to_tracked_delete");
    }
    if options.conflicts > 0 {
        row("conflicts", "/conflicts");
    }
    row("round trips per synchronization", "/database/round_trips_per_sync");
    row("commits per synchronization", "/database/commits_per_sync");
    row("peak memory of the server, bytes", "/peak_server_memory_bytes");
    row("retries", "/retries");
    row("errors", "/errors");
    match own {
        None => output::table(&["figure", "value"], &rows)?,
        Some(_) => output::table(&["figure", "generated", "own", "own / generated"], &rows)?,
    }
    if cfg!(debug_assertions) {
        output::warning("this is a debug build: its figures say nothing about a release");
    } else if PROFILE != PUBLISHED_PROFILE {
        output::warning("packages are faster than this build: measure one of `--profile dist`");
    }
    Ok(())
}

/// The number at a place of the result.
fn number(json: &Value, pointer: &str) -> String {
    match json.pointer(pointer) {
        Some(Value::Number(number)) => grouped(&number.to_string()),
        _ => "-".to_owned(),
    }
}

/// A number with its thousands apart.
pub(crate) fn grouped(number: &str) -> String {
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
    use super::grouped;

    #[test]
    fn thousands_stand_apart() {
        let told = ["1234567.0", "123.45", "0", "999999"].map(grouped);
        assert_eq!(told, ["1,234,567", "123.45", "0", "999,999"]);
    }
}
