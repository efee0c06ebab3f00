//! A client in Python, with nothing but its standard library, and the real server.
//!
//! It was written from `docs/internals/protocol.md`, so it shows that the document is complete.

use harness::{Server, World, count, sql};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

const PROGRAM: &str = env!("CARGO_BIN_EXE_syncline");

const NOTES: &str = "
    CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT, price DOUBLE PRECISION);
    CREATE TABLE line (a INTEGER NOT NULL, b VARCHAR(9) NOT NULL, n BIGINT, PRIMARY KEY (a, b));
    INSERT INTO note VALUES (1, 'one', 1.5), (2, 'zwölf', NULL), (-300, '', -0.25), (4, NULL, 4);
    INSERT INTO line VALUES (1, 'x', 9223372036854775807), (1, 'y', -9223372036854775807)";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testing/python")
}

/// False, with the reason, where there is no Python.
#[allow(clippy::print_stdout, reason = "tells why nothing is tested")]
fn has_python() -> bool {
    let found = Command::new("python3").args(["-c", "import sqlite3"]).output();
    let found = found.is_ok_and(|output| output.status.success());
    if !found {
        println!("skipped: there is no python3 with its module sqlite3");
    }
    found
}

fn python(world: &World, server: &Server) -> Value {
    let output = Command::new("python3")
        // Without compiled files beside the program.
        .arg("-B")
        .arg(folder().join("client.py"))
        .args([&server.url, "ann.db", "--user", "ann", "--password-file", "ann.password"])
        .args(["--ca-file", "ca.pem"])
        .current_dir(world.path(""))
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}\n{}", server.log());
    serde_json::from_slice(&output.stdout).unwrap()
}

// S1, S3
#[test]
fn a_client_in_python_downloads_and_uploads() {
    if !has_python() {
        return;
    }
    for world in [World::new(PROGRAM, NOTES), World::on_postgres(PROGRAM, NOTES)] {
        let server = world.serve();
        downloads_and_uploads(&world, &server);
    }
}

// S1, S3: an upload needs another request, which begins anew.
#[test]
fn a_client_in_python_downloads_and_uploads_over_https() {
    if !has_python() {
        return;
    }
    for world in [World::new(PROGRAM, NOTES), World::on_postgres(PROGRAM, NOTES)] {
        world.syncline.ok(&["cert", "dev"]);
        world.configure("tls_certificate = \"server.pem\"\ntls_key = \"server.key\"");
        let server = world.serve_at("https://127.0.0.1:0/behind/a/path");
        downloads_and_uploads(&world, &server);
        assert!(!server.log().contains("E1003"), "{}", server.log());
    }
}

/// Ann writes in Python, Ben with the real client.
fn downloads_and_uploads(world: &World, server: &Server) {
    world.add_user("ann");
    world.add_user("ben");
    let sync_ben = || {
        let mut arguments = world.sync_arguments("ben", server);
        arguments.extend(["--ca-file", "ca.pem"].map(str::to_owned));
        world.syncline.ok(&arguments);
    };
    assert_eq!(python(world, server)["downloaded"], 6);
    let file = world.remote("ann");
    sql(
        &file,
        "INSERT INTO note VALUES (10, 'zehn', 10.5); UPDATE note SET text = 'eins' WHERE id = 1;
         DELETE FROM note WHERE id = 4; UPDATE line SET n = 5 WHERE b = 'x'",
    );
    world.center_sql("UPDATE note SET text = 'from the center' WHERE id = 2");
    let report = python(world, server);
    let uploaded = &report["uploaded"];
    assert_eq!(
        (&uploaded["inserts"], &uploaded["updates"], &uploaded["deletes"]),
        (&1.into(), &2.into(), &1.into())
    );
    assert_eq!(report["downloaded"], 1);
    // Another remote, with the real client.
    sync_ben();
    world.assert_converged(&["ann", "ben"]);
    sql(&world.remote("ben"), "DELETE FROM line WHERE b = 'y'; UPDATE note SET price = 1");
    sync_ben();
    python(world, server);
    world.assert_converged(&["ann", "ben"]);
    assert_eq!(count(&file, "SELECT count(*) FROM note WHERE price = 1"), 4);
    // Two keys are exchanged.
    for (from, to) in [(1, 99), (2, 1), (99, 2)] {
        world.center_sql(&format!("UPDATE note SET id = {to} WHERE id = {from}"));
    }
    python(world, server);
    world.assert_converged(&["ann"]);
    // One table changes at the center while a row of another waits.
    sql(&file, "UPDATE note SET text = 'before the change' WHERE id = 10");
    world.center_sql("ALTER TABLE line ADD COLUMN more TEXT");
    world.syncline.ok(&["model", "add"]);
    world.syncline.ok(&["deploy"]);
    assert_eq!(python(world, server)["uploaded"]["updates"], 1);
    world.assert_converged(&["ann"]);
}

// Trap 18
#[test]
fn a_client_in_python_decodes_every_vector() {
    if !has_python() {
        return;
    }
    let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("../protocol/tests/vectors");
    let program = folder().join("vectors.py");
    let output = Command::new("python3").arg("-B").arg(program).arg(vectors).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = std::fs::read_to_string(folder().join("client.py")).unwrap().lines().count();
    assert!(lines <= 400, "{lines} lines: a client is a small program");
}
