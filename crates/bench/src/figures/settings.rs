//! The settings of a run, and whether two runs have the same ones.

use crate::machine;
use crate::options::{BenchRunOptions, Certificate, Handshake};
use consolidated::Url;
use model::Failure;
use serde_json::{Value, json};

/// The settings of a run. `database` is what the database says of itself.
pub(super) fn of(options: &BenchRunOptions, client_processes: usize, database: Value) -> Value {
    json!({
        "sets": options.sets,
        "model": options.model.name(),
        "tables": options.tables,
        "conflicts_percent": options.conflicts,
        "consolidated": database,
        // Without the password, which is never shown.
        "consolidated_url": Url::parse(&options.consolidated).map(|url| url.to_string()).ok(),
        "server": if options.server_url.is_some() { "given" } else { "own" },
        "transport": options.transport().name(),
        "certificate": options.certificate().map(Certificate::name),
        "handshake": options.handshake().map(Handshake::name),
        "compression": options.compression.name(),
        "notes": options.notes.name(),
        "link_mbit": options.link_mbit,
        "clients_on": options.clients_on.name(),
        "client_processes": client_processes,
        "client_bandwidth_bytes_per_second": options.client_bandwidth,
        "workers": options.workers.map(|workers| workers.0),
        "cpus": options.cpus,
        "connection_limit": options.connection_limit,
        "retry_delay_s": options.retry_delay,
        "scripts": options.scripts.as_deref().map(|dir| dir.display().to_string()),
    })
}

/// What FILE says of a run that has no figures.
pub(crate) fn failed_json(options: &BenchRunOptions, failure: &Failure) -> Value {
    json!({
        "operation": options.operation.name(),
        "clients": options.clients,
        "rows_per_sync": options.rows,
        "machine": machine::describe(),
        "settings": of(options, 0, Value::Null),
        "error": {
            "code": failure.code().to_string(),
            "message": failure.full_message(),
            "retry": failure.retry(),
        },
    })
}

/// Whether a run that wrote `json` was made with the same settings, by the same program and on the
/// same machine.
pub(crate) fn are_those_of(json: &Value, options: &BenchRunOptions) -> bool {
    let asked = |json: &Value| {
        let mut settings = json["settings"].clone();
        let mut machine = json["machine"].clone();
        // What only the run itself can tell.
        for measured in ["consolidated", "client_processes"] {
            settings[measured].take();
        }
        // Fewer where a run has pinned itself.
        machine["cores"].take();
        let sizes = ["operation", "clients", "rows_per_sync"].map(|key| json[key].clone());
        (sizes, settings, machine)
    };
    let wanted = json!({
        "operation": options.operation.name(),
        "clients": options.clients,
        "rows_per_sync": options.rows,
        "machine": machine::describe(),
        "settings": of(options, 0, Value::Null),
    });
    json["settings"].is_object() && json["machine"].is_object() && asked(json) == asked(&wanted)
}
