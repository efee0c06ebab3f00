//! `syncline remote verify`: is the file whole, and has it the rows that it should have?

use crate::args::{SyncOptions, VerifyOptions};
use crate::sync::{Summary, Synchronizer, interruption};
use client::{Components, FileCheck, Remote, Verification, VerifiedTable};
use model::{Code, Failure};
use serde_json::{Value, json};
use terminal::output::{self, counted};

/// What came of all of it.
struct Findings {
    file: FileCheck,
    /// Of the first comparison, if there was one.
    found: Option<Verification>,
    /// Rows that differ at the end.
    remaining: u64,
    repaired: bool,
    /// The file was synchronized after its check.
    synchronized: bool,
}

/// Of a comparison that is possible as soon as the file was synchronized.
const SYNCHRONIZE_FIRST: [Code; 2] = [Code::SynchronizeFirst, Code::TriggersMissing];

/// Checks the file, and compares and repairs it where that is wanted.
pub(super) fn run(options: &VerifyOptions) -> Result<(), Failure> {
    interruption::tell("nothing is lost; the next `syncline remote verify` begins anew")?;
    let components = Components::system(&std::env::temp_dir())?;
    let file = Remote::open(&options.file, components)?.check()?;
    let mut findings =
        Findings { file, found: None, remaining: 0, repaired: false, synchronized: false };
    if !options.json {
        show_file(options, &findings.file)?;
    }
    if options.server.is_some() {
        compare(options, &mut findings)?;
    }
    if options.json {
        output::json(&json_of(&findings))?;
    }
    verdict(&findings)
}

fn compare(options: &VerifyOptions, findings: &mut Findings) -> Result<(), Failure> {
    let sync = SyncOptions::repairing(options);
    let mut synchronizer = Synchronizer::open(&sync, &mut Summary::of(&sync))?;
    let named_max = usize::from(options.rows);
    let captured = triggers_verdict(&findings.file.uncaptured);
    let found = match captured.and_then(|()| synchronizer.verify(named_max)) {
        Err(failure) if options.repair && SYNCHRONIZE_FIRST.contains(&failure.code()) => {
            let why = output::one_line(failure.message());
            output::notice(&format!("{why}: the file is synchronized first"));
            synchronizer.synchronize()?;
            findings.synchronized = true;
            synchronizer.verify(named_max)?
        }
        found => found?,
    };
    findings.remaining = found.differences();
    if !options.json {
        show(&found)?;
    }
    if options.repair && findings.remaining > 0 {
        let whole = synchronizer.remote.repair(&found)?;
        if !whole.is_empty() {
            let tables = whole.join(", ");
            output::notice(&output::one_line(&format!(
                "these tables are downloaded whole: {tables}"
            )));
        }
        synchronizer.synchronize()?;
        findings.synchronized = true;
        findings.remaining = synchronizer.verify(named_max)?.differences();
        findings.repaired = true;
        if !options.json {
            let before = counted(found.differences(), "row");
            output::line(&format!("{before} downloaded again; {} differ now", findings.remaining))?;
        }
    }
    findings.found = Some(found);
    Ok(())
}

fn verdict(findings: &Findings) -> Result<(), Failure> {
    if let Some(fault) = findings.file.faults.first() {
        let message = format!("the remote file is damaged: {fault}");
        return Err(Failure::new(Code::RemoteNotADatabase, message)
            .hint("restore the file from a backup, or begin with a new one"));
    }
    match findings.remaining {
        0 if !findings.synchronized => triggers_verdict(&findings.file.uncaptured),
        0 => Ok(()),
        1 => Err(Failure::new(Code::RemoteDiffers, "1 row differs from the consolidated database")),
        rows => {
            let message = format!("{rows} rows differ from the consolidated database");
            Err(Failure::new(Code::RemoteDiffers, message))
        }
    }
}

/// What was changed without triggers is known only after the next synchronization.
fn triggers_verdict(uncaptured: &[String]) -> Result<(), Failure> {
    let Some(first) = uncaptured.first() else { return Ok(()) };
    let message = match uncaptured.len() {
        1 => format!("the triggers of table {first} were missing"),
        tables => format!("the triggers of {tables} tables were missing"),
    };
    Err(Failure::new(Code::TriggersMissing, message).table(first))
}

fn show_file(options: &VerifyOptions, file: &FileCheck) -> Result<(), Failure> {
    for fault in &file.faults {
        output::line(&output::one_line(fault))?;
    }
    let condition = if file.faults.is_empty() { "whole" } else { "damaged" };
    let (name, tables) = (options.file.display(), counted(file.tables as u64, "published table"));
    let broken = match file.broken_references {
        0 => String::new(),
        rows => format!(", {} without parent", counted(rows, "row")),
    };
    output::line(&output::one_line(&format!("{name} is {condition}: {tables}{broken}")))?;
    for table in &file.uncaptured {
        output::line(&output::one_line(&format!("{table}: its triggers were missing")))?;
    }
    for table in &file.not_received {
        output::line(&output::one_line(&format!("{table}: not received yet")))?;
    }
    Ok(())
}

fn show(found: &Verification) -> Result<(), Failure> {
    let rows: Vec<Vec<String>> = found.tables.iter().map(line_of).collect();
    output::line("")?;
    output::table(&["table", "ranges", "missing", "extra", "different", "left out"], &rows)?;
    for table in &found.tables {
        for row in &table.rows {
            let text = format!("{}: {} {}", table.name, row.how.as_str(), row.key);
            output::line(&output::one_line(&text))?;
        }
    }
    Ok(())
}

fn line_of(table: &VerifiedTable) -> Vec<String> {
    if table.waits {
        let dash = || "-".to_owned();
        return vec![table.name.clone(), dash(), dash(), dash(), dash(), "waits".to_owned()];
    }
    let counts = [table.ranges, table.missing, table.extra, table.different, table.left_out];
    std::iter::once(table.name.clone()).chain(counts.map(|count| count.to_string())).collect()
}

fn json_of(findings: &Findings) -> Value {
    let file = &findings.file;
    let mut all = json!({
        "file": {
            "faults": file.faults,
            "broken_references": file.broken_references,
            "tables": file.tables,
            "uncaptured": file.uncaptured,
            "not_received": file.not_received,
        },
    });
    if let Some(found) = &findings.found {
        all["tables"] = found.tables.iter().map(table_json).collect();
        all["differences"] = json!(found.differences());
        all["repaired"] = json!(findings.repaired);
        all["remaining"] = json!(findings.remaining);
    }
    all
}

fn table_json(table: &VerifiedTable) -> Value {
    let row = |row: &client::DifferingRow| json!({ "how": row.how.as_str(), "key": row.key });
    json!({
        "table": table.name,
        "waits": table.waits,
        "ranges": table.ranges,
        "missing": table.missing,
        "extra": table.extra,
        "different": table.different,
        "left_out": table.left_out,
        "rows": table.rows.iter().map(row).collect::<Vec<Value>>(),
    })
}
