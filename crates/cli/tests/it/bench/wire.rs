//! Transports, compression and links between clients and server.

use super::{OPERATIONS, Site, check_counts};
use harness::full;
use rustix::process::geteuid;
use serde_json::Value;

const SIZES: [&str; 6] = ["--clients", "2", "--rows", "12", "--sets", "2"];

/// Runs an operation of a few rows.
fn few(site: &Site, url: &str, operation: &str, more: &[&str]) -> Value {
    let result = site.figures(url, &[&["--operation", operation][..], more, &SIZES].concat());
    check_counts(&result, operation, 2, 12, 2);
    result
}

#[test]
fn every_transport_runs_with_every_operation() {
    let site = Site::new();
    let kinds = ["memory", "wire"].iter().cycle();
    let transports = ["tls", "http", "https", "ws", "wss"].iter().cycle();
    let runs = if full() { 2 * OPERATIONS.len() } else { OPERATIONS.len() };
    let operations = OPERATIONS.iter().cycle().take(runs);
    for ((operation, transport), kind) in operations.zip(transports).zip(kinds) {
        let more = ["--transport", transport, "--clients-on", kind];
        let result = few(&site, "sqlite:x.db", operation, &more);
        let settings = &result["settings"];
        assert_eq!(settings["transport"], **transport);
        let encrypted = ["tls", "https", "wss"].contains(transport);
        assert_eq!(settings["handshake"] == "full", encrypted, "{result}");
        let network = &result["network"];
        assert_eq!(network["full_handshakes"].as_u64() >= Some(4), encrypted, "{result}");
        assert_eq!(network["resumed_handshakes"], 0, "{result}");
    }
}

// More rows than travel with the first message. Over HTTP they need another request.
#[test]
fn uploads_of_every_size_cross_every_transport() {
    let site = Site::new();
    let what = ["--operation", "upload-update", "--clients", "2", "--rows", "1200", "--sets", "1"];
    for (transport, kind) in [("tcp", "memory"), ("https", "wire"), ("ws", "memory")] {
        let more = ["--transport", transport, "--clients-on", kind];
        let result = site.figures("sqlite:x.db", &[&what[..], &more].concat());
        check_counts(&result, "upload-update", 2, 1200, 1);
        let bytes = result["network"]["sent_bytes_per_sync"].as_f64().unwrap();
        assert!(bytes > 1200.0 * 2.0 * 100.0, "{result}");
    }
}

#[test]
fn handshakes_are_resumed_where_that_is_wanted_with_either_key() {
    let site = Site::new();
    for (transport, certificate, kind) in
        [("tls", "rsa", "wire"), ("https", "ecdsa", "memory"), ("wss", "ecdsa", "wire")]
    {
        let more = ["--transport", transport, "--certificate", certificate, "--clients-on", kind];
        for handshake in ["full", "resumed"] {
            let all = [&more[..], &["--handshake", handshake]].concat();
            let result = few(&site, "sqlite:x.db", "exchange", &all);
            assert_eq!(result["settings"]["certificate"], certificate);
            let network = &result["network"];
            for kind in ["full", "resumed"] {
                let count = network[format!("{kind}_handshakes")].as_u64();
                assert_eq!(count >= Some(4), kind == handshake, "{result}");
                assert_eq!(count == Some(0), kind != handshake, "{result}");
            }
        }
    }
}

/// Bytes of one row on the network.
fn bytes_per_row(operation: &str, kind: &str, notes: &str, compression: &str) -> f64 {
    let sizes = ["--operation", operation, "--clients", "2", "--rows", "400", "--sets", "1"];
    let more = ["--notes", notes, "--compression", compression, "--clients-on", kind];
    let result = Site::new().figures("sqlite:x.db", &[&sizes[..], &more].concat());
    check_counts(&result, operation, 2, 400, 1);
    result["network"]["bytes_per_row"].as_f64().unwrap()
}

#[test]
fn compression_saves_bytes_of_notes_that_are_text_in_both_directions() {
    for (operation, kind, other_kind) in
        [("download", "memory", "wire"), ("upload-insert", "wire", "memory")]
    {
        let bytes = |notes, compression| bytes_per_row(operation, kind, notes, compression);
        let plain = bytes("text", "none");
        let [fast, small] = ["lz4", "zstd"].map(|method| bytes("text", method));
        let random = bytes("random", "zstd");
        let other = bytes_per_row(operation, other_kind, "text", "zstd");
        let told = format!("{operation}: {plain}, {fast}, {small}, {random}, {other}");
        assert!(plain > 117.0 && fast < 0.9 * plain && small < 0.8 * fast, "{told}");
        assert!(other < 0.8 * fast, "{told}");
        // Six of eight bits are chance.
        assert!(random > 0.55 * plain && random > 1.1 * small, "{told}");
    }
}

#[test]
fn a_link_takes_its_time_where_one_can_be_made() {
    let site = Site::new();
    for (operation, kind) in [("download", "wire"), ("upload-insert", "memory")] {
        let what = ["--operation", operation, "--transport", "tls", "--clients-on", kind];
        let sizes = ["--clients", "2", "--rows", "1000", "--sets", "1", "--link-mbit", "2"];
        let outcome = site.run("sqlite:x.db", &[&what[..], &sizes].concat());
        if outcome.code != Some(0) {
            // Nobody else may, and not everywhere.
            outcome.message("E9480");
            assert!(!geteuid().is_root() || cfg!(not(target_os = "linux")), "{outcome:?}");
            return;
        }
        let result = site.result();
        check_counts(&result, operation, 2, 1000, 1);
        // More than 117 bytes a row, less what may pass at once.
        let seconds = result["total_server_time_s"].as_f64().unwrap();
        assert!(seconds > (2000.0 * 117.0 - 65_536.0) / 250_000.0, "{result}");
        assert_eq!(result["settings"]["link_mbit"], 2);
    }
    let left = std::process::Command::new("ip").args(["netns", "list"]).output().unwrap();
    let left = String::from_utf8(left.stdout).unwrap();
    let of_the_living = |name: &str| {
        let id = name.split(' ').next().unwrap().rsplit('-').next().unwrap().to_owned();
        std::path::Path::new("/proc").join(id).exists()
    };
    // Other tests may run beside this one.
    assert!(left.lines().filter(|name| name.starts_with("syncline")).all(of_the_living), "{left}");
}

#[test]
fn what_excludes_each_other_is_wrong_usage() {
    let site = Site::new();
    for wrong in [
        &["--certificate", "rsa"][..],
        &["--transport", "http", "--handshake", "full"],
        &["--transport", "tls", "--server-url", "tcp://a:1"],
        &["--server-url", "tls://a:1", "--certificate", "rsa"],
        &["--server-url", "tls://a:1", "--link-mbit", "10"],
    ] {
        let all = [&["--operation", "download"][..], wrong].concat();
        assert_eq!(site.run("postgres:///x", &all).code, Some(2), "{wrong:?}");
    }
}
