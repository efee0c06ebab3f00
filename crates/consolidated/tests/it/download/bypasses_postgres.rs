//! Other programs bypass the triggers or the foreign keys of PostgreSQL.

use crate::support::center::{self, Center, Download, Remote, Upload, int, text};
use crate::support::on_postgres;
use harness::postgres::{Cluster, SUPERUSER, TestDatabase};
use model::Code;
use syncline_consolidated::DownloadedTable::{Changes, Refresh};

const SCHEMA: &str = "
    CREATE TABLE customer (id integer PRIMARY KEY, region text, note text);
    CREATE INDEX customer_region ON customer (region);
    CREATE TABLE invoice (id integer PRIMARY KEY, customer integer NOT NULL REFERENCES customer,
        note text);
    CREATE INDEX invoice_customer ON invoice (customer);
    CREATE TABLE line (id integer PRIMARY KEY, invoice integer NOT NULL REFERENCES invoice,
        note text);
    CREATE INDEX line_invoice ON line (invoice);
    INSERT INTO customer VALUES (1, 'north', ''), (2, 'south', '');
    INSERT INTO invoice VALUES (11, 1, ''), (21, 2, '');
    INSERT INTO line VALUES (111, 11, ''), (211, 21, '');";

const TABLES: &str = "[table.customer]
partition = \"region = {u.region}\"
[table.invoice]
parent = \"customer\"
[table.line]
parent = \"invoice\"
";

fn synchronized() -> (Center, TestDatabase, Remote) {
    let (mut center, database) = on_postgres::center(SCHEMA, TABLES);
    let mut remote = Remote::another();
    remote.claims.insert("region".into(), "north".into());
    let (_, download) = center.synchronize(&mut remote, &[]);
    assert_eq!(came(&download), ["customer 1", "invoice 11", "line 111"]);
    (center, database, remote)
}

fn came(download: &Download) -> Vec<String> {
    let key = |row: &[model::Value]| row[0].as_ref().display();
    let upserts = download.upserts.iter().map(|(table, row)| format!("{table} {}", key(row)));
    let deletes = download.deletes.iter().map(|(table, row)| format!("-{table} {}", key(row)));
    let mut all: Vec<String> = upserts.chain(deletes).collect();
    all.sort();
    all
}

fn replica(database: &TestDatabase, sql: &str) {
    let sql = format!("SET session_replication_role = replica; {sql}");
    database.as_role(SUPERUSER).sql(&sql);
}

/// Logical replication copies tables as it likes, and restores write children first; foreign keys
/// are not checked then. A child whose parent came later was never sent: the foreign key was
/// thought to keep it out, and its own children then failed the whole download with E5005.
// S2, S3, Trap 26
#[test]
fn children_that_were_there_before_their_parents_come_with_them() {
    for arrives_as_replica in [true, false] {
        let (mut center, database, mut remote) = synchronized();
        replica(
            &database,
            "INSERT INTO line VALUES (311, 31, ''), (312, 31, '');
             INSERT INTO invoice VALUES (31, 3, '')",
        );
        let (_, download) = center.synchronize(&mut remote, &[]);
        let orphans = ["invoice 31", "line 311", "line 312"];
        assert!(orphans.iter().all(|row| !came(&download).contains(&(*row).to_owned())));
        let parent = "INSERT INTO customer VALUES (3, 'north', '')";
        match arrives_as_replica {
            true => replica(&database, parent),
            false => database.sql(parent),
        }
        let (_, download) = center.synchronize(&mut remote, &[]);
        let new = ["customer 3", "invoice 31", "line 311", "line 312"];
        assert!(new.iter().all(|row| came(&download).contains(&(*row).to_owned())));
        // It is sent only once.
        let (_, download) = center.synchronize(&mut remote, &[]);
        assert_eq!(download.modes, [Changes, Changes, Changes]);
        assert!(came(&download).is_empty(), "{download:?}");
    }
}

// S3, Trap 26: a parent that went and comes back, and one that an upload brings.
#[test]
fn a_parent_that_comes_back_brings_its_children() {
    let (mut center, database, mut remote) = synchronized();
    replica(&database, "DELETE FROM customer WHERE id = 1");
    let (_, download) = center.synchronize(&mut remote, &[]);
    assert!(came(&download).contains(&"-customer 1".to_owned()));
    let mut other = Remote::another();
    other.claims.insert("region".into(), "north".into());
    center.synchronize(&mut other, &[]);
    let row = vec![int(1), text("north"), text("again")];
    let (applied, download) = center.synchronize(&mut other, &[Upload::Insert("customer", row)]);
    assert_eq!((applied.inserts, applied.rejected), (1, 0));
    assert_eq!(came(&download), ["invoice 11", "line 111"]);
    let (_, download) = center.synchronize(&mut remote, &[]);
    assert_eq!(came(&download), ["customer 1", "invoice 11", "line 111"]);
}

// Trap 26: a foreign key that was never validated lets rows be that were there before.
#[test]
fn orphans_from_before_the_deployment_come_with_their_parents_and_are_named() {
    let (mut center, database) = on_postgres::center(
        "CREATE TABLE customer (id integer PRIMARY KEY, note text);
         CREATE TABLE invoice (id integer PRIMARY KEY, customer integer, note text);
         INSERT INTO invoice VALUES (31, 3, ''), (41, 4, '');
         ALTER TABLE invoice ADD FOREIGN KEY (customer) REFERENCES customer NOT VALID;",
        "[table.customer]\n[table.invoice]\nparent = \"customer\"\n",
    );
    let mut remote = Remote::another();
    assert!(came(&center.synchronize(&mut remote, &[]).1).is_empty());
    let model = syncline_consolidated::SyncModel::parse(
        "script_version = \"v1\"\n[table.customer]\n[table.invoice]\nparent = \"customer\"\n",
        "model.toml",
    );
    let model = [model.unwrap()];
    let findings = syncline_consolidated::administer(&center.url).unwrap().check(&model).unwrap();
    let orphans =
        findings.iter().find(|finding| finding.message.contains("refer to missing")).unwrap();
    assert_eq!(orphans.table.as_deref(), Some("invoice"));
    assert!(orphans.message.contains('2'), "{}", orphans.message);
    database.sql("INSERT INTO customer VALUES (3, '')");
    let (_, download) = center.synchronize(&mut remote, &[]);
    assert_eq!(came(&download), ["customer 3", "invoice 31"]);
    database.sql("DELETE FROM invoice WHERE id = 41");
    let findings = syncline_consolidated::administer(&center.url).unwrap().check(&model).unwrap();
    assert!(
        findings.iter().all(|finding| !finding.message.contains("refer to missing")),
        "{findings:?}"
    );
}

// S10: if no session bypasses foreign keys, no search is made.
#[test]
fn an_ordinary_download_takes_two_round_trips() {
    // Where others write at this moment, one more may be needed until that is on the disk.
    let cluster = Cluster::start_with("autovacuum = off");
    let database = cluster.database();
    database.sql(SCHEMA);
    let mut center = on_postgres::deployed(&database, TABLES);
    let mut remote = Remote::another();
    remote.claims.insert("region".into(), "north".into());
    center.synchronize(&mut remote, &[]);
    for note in ["u", "v"] {
        // What is asked for the first time is prepared first.
        database.sql(&format!("UPDATE line SET note = '{note}'"));
        center.synchronize(&mut remote, &[]);
    }
    database.sql("UPDATE line SET note = 'x'");
    let applied = center.upload(&mut remote, &[]).unwrap();
    let session = center.session(&remote);
    assert_eq!(session.schema.tables.len(), 3);
    let before = center.reader.round_trips();
    assert_eq!(center.download(&mut remote, &applied).upserts.len(), 1);
    // One more belongs to the admission.
    assert_eq!(center.reader.round_trips() - before, 3);
}

/// A trigger of the owner fired behind ours, because its name sorts behind, and set the version
/// back: what it wrote was hidden from every remote.
// S2, Trap 29
#[test]
fn a_trigger_that_sets_the_version_back_hides_nothing() {
    let (mut center, database, mut remote) = synchronized();
    database.sql(
        "CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             OLD.note := NEW.note; RETURN OLD; END $$;
         CREATE TRIGGER zz_keep BEFORE UPDATE ON customer FOR EACH ROW EXECUTE FUNCTION keep()",
    );
    let text_of_model = format!("script_version = \"v1\"\n{TABLES}");
    let model = [syncline_consolidated::SyncModel::parse(&text_of_model, "model.toml").unwrap()];
    let url = center.url.clone();
    let says = |part: &str| {
        let findings = syncline_consolidated::administer(&url).unwrap().check(&model).unwrap();
        findings.iter().any(|finding| finding.message.contains(part))
    };
    assert!(!says("sets row versions back"));
    for round in ["before", "one", "two"] {
        if round == "one" {
            center::deploy(&url, TABLES).unwrap();
            assert_eq!(center.synchronize(&mut remote, &[]).1.modes, [Changes, Changes, Changes]);
        }
        database.sql(&format!("UPDATE customer SET note = '{round}'"));
        let (_, download) = center.synchronize(&mut remote, &[]);
        let row = vec![int(1), text("north"), text(round)];
        assert!(download.upserts.contains(&("customer".into(), row)), "{download:?}");
        assert_eq!(download.modes[0], Refresh);
    }
    let (_, download) = center.synchronize(&mut remote, &[]);
    assert_eq!(download.modes[0], Changes);
    assert!(says("sets row versions back"));
}

/// A remote that only uploads was served whatever had become of the triggers.
// S2, Trap 29
#[test]
fn an_upload_that_no_download_follows_notices_triggers_that_went() {
    let disabled = "ALTER TABLE line DISABLE TRIGGER syncline_gone";
    let enabled = "ALTER TABLE line ENABLE ALWAYS TRIGGER syncline_gone";
    let (mut center, database, mut remote) = synchronized();
    for (round, first) in [(0, true), (1, false), (2, false)] {
        // The first upload over a connection, with rows and without, and each one later.
        if first {
            center.reconnect();
        }
        let row = vec![int(500 + round), int(11), text("")];
        let rows = if round == 1 { vec![] } else { vec![Upload::Insert("line", row)] };
        database.sql(disabled);
        let session = center.session(&remote);
        let refused = upload_only(&mut center, &session, &remote, &rows).unwrap_err();
        assert_eq!(refused.code(), Code::TableWentAway, "{round}");
        database.sql(enabled);
        let incarnation = "SELECT incarnation FROM syncline.syncline_logs
             WHERE table_name = 'line'";
        let before = database.count(incarnation);
        let applied = upload_only(&mut center, &session, &remote, &rows).unwrap();
        remote.identity.progress = applied.progress;
        assert_ne!(database.count(incarnation), before, "what was missed is made good");
        let (_, download) = center.synchronize(&mut remote, &[]);
        assert_eq!(download.modes, [Changes, Changes, Refresh]);
        assert!(round == 1 || came(&download).contains(&format!("line {}", 500 + round)));
    }
}

fn upload_only(
    center: &mut Center,
    session: &syncline_consolidated::Session,
    remote: &Remote,
    rows: &[Upload],
) -> Result<syncline_consolidated::Applied, model::Failure> {
    center.writer.begin()?;
    let applied = center::upload_only(center.writer.as_mut(), session, remote, rows);
    center.writer.commit()?;
    applied
}

/// While a server ran, a table was swapped by renaming, or its triggers were disabled or dropped:
/// only the next connection noticed, and until then changes were lost.
// S2, Trap 29
#[test]
fn triggers_that_go_while_a_server_runs_are_noticed() {
    let gone = [
        "BEGIN; CREATE TABLE another (LIKE line INCLUDING ALL);
         INSERT INTO another SELECT * FROM line;
         ALTER TABLE another ADD FOREIGN KEY (invoice) REFERENCES invoice;
         ALTER TABLE line RENAME TO former; ALTER TABLE another RENAME TO line; COMMIT",
        "ALTER TABLE line DISABLE TRIGGER ALL",
        "ALTER TABLE line DISABLE TRIGGER syncline_stamp",
        "DROP TRIGGER syncline_gone ON line",
        "ALTER TABLE line ENABLE TRIGGER syncline_moved",
    ];
    for sql in gone {
        let (mut center, database, remote) = synchronized();
        match sql.ends_with("ALL") {
            true => database.as_role(SUPERUSER).sql(sql),
            false => database.sql(sql),
        }
        let session = center.session(&remote);
        let fetched = fetch(&mut center, &session, &remote).unwrap();
        let left_out = fetched.watermarks[2] == remote.marks[2].watermark;
        assert!(left_out && fetched.watermarks[0] != remote.marks[0].watermark, "{sql}");
        let waiting = center.session(&remote).waiting.clone();
        assert!(waiting.len() == 1 && waiting[0].table == "line", "{sql}: {waiting:?}");
        center::deploy(&center.url, TABLES).unwrap();
        let mut remote = remote;
        database.sql("UPDATE line SET note = 'x' WHERE id = 111");
        let (_, download) = center.synchronize(&mut remote, &[]);
        let row = vec![int(111), int(11), text("x")];
        assert!(download.upserts.contains(&("line".into(), row)), "{sql}");
    }
}

// S2, Trap 29: they are there again, but were not when it mattered.
#[test]
fn what_was_written_while_triggers_were_disabled_is_made_good() {
    let (mut center, database, mut remote) = synchronized();
    let all = database.as_role(SUPERUSER);
    all.sql(
        "ALTER TABLE customer DISABLE TRIGGER USER;
         UPDATE customer SET note = 'unseen' WHERE id = 1;
         ALTER TABLE customer ENABLE TRIGGER USER;",
    );
    let names = database.text(
        "SELECT tgname FROM pg_trigger WHERE tgrelid = 'customer'::regclass
         AND tgname LIKE 'syncline%'",
    );
    for name in names.lines() {
        let when = if name == "syncline_unlinked" { "REPLICA" } else { "ALWAYS" };
        all.sql(&format!("ALTER TABLE customer ENABLE {when} TRIGGER {name}"));
    }
    let (_, download) = center.synchronize(&mut remote, &[]);
    let row = vec![int(1), text("north"), text("unseen")];
    assert!(download.upserts.contains(&("customer".into(), row)), "{download:?}");
    assert_eq!(center.synchronize(&mut remote, &[]).1.modes, [Changes, Changes, Changes]);
}

/// A function in a DEFAULT or CHECK of the table that an upload writes deleted rows of another: the
/// trigger took it for the upload's own delete, which notes itself, and no remote heard of it.
// S6, Trap 8
#[test]
fn what_functions_delete_while_an_upload_is_applied_is_noted() {
    let (mut center, database) = on_postgres::center(
        "CREATE TABLE word (id integer PRIMARY KEY, note text);
         CREATE FUNCTION forget() RETURNS integer LANGUAGE plpgsql AS $$ BEGIN
             DELETE FROM word WHERE id = 1;
             UPDATE word SET note = 'x' WHERE id = 4; RETURN 7; END $$;
         CREATE FUNCTION is_fine(n integer) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN
             DELETE FROM word WHERE id = 2; RETURN true; END $$;
         CREATE TABLE entry (id integer PRIMARY KEY CHECK (is_fine(id)), note text,
             hidden integer DEFAULT forget());
         INSERT INTO word VALUES (1, ''), (2, ''), (3, ''), (4, '');",
        "[table.word]\n[table.entry]\ncolumns = [\"id\", \"note\"]\n",
    );
    let (mut remote, mut other) = (Remote::another(), Remote::another());
    center.synchronize(&mut remote, &[]);
    center.synchronize(&mut other, &[]);
    let rows = [
        Upload::Insert("entry", vec![int(1), text("")]),
        Upload::Delete("word", vec![int(3), text("")]),
    ];
    let own = came(&center.synchronize(&mut remote, &rows).1);
    assert!(
        ["-word 1", "-word 2", "word 4"].iter().all(|word| own.contains(&(*word).to_owned())),
        "{own:?}"
    );
    let (_, download) = center.synchronize(&mut other, &[]);
    assert_eq!(came(&download), ["-word 1", "-word 2", "-word 3", "entry 1", "word 4"]);
    let noted = "SELECT sum(syncline_rows) FROM syncline.syncline_gone_word";
    assert_eq!(database.count(noted), 3, "each once");
}

fn fetch(
    center: &mut Center,
    session: &syncline_consolidated::Session,
    remote: &Remote,
) -> Result<syncline_consolidated::Fetched, model::Failure> {
    let request = syncline_consolidated::FetchRequest {
        is_counted: false,
        session,
        counter: remote.identity.counter,
        marks: &remote.marks,
        held_marks: &[],
        echo: &syncline_consolidated::Echo::default(),
        time_us: None,
        wanted: &[],
        batch_bytes: 1000,
        batch_rows: 10,
        row_bytes_max: u64::MAX,
        resuming: Default::default(),
    };
    center.reader.fetch(&request, &mut |_| Ok(()))
}
