//! A consolidated database under test, and remotes that consist of rows and marks.

use harness::postgres::{Cluster, client_command, run_client};
use model::{
    Counter, Failure, Nonce, Progress, PublishedTable, RemoteId, RemoteSchema, RowReader, UserName,
    Value, Watermark, write_value,
};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use syncline_consolidated::{
    Applied, Change, DownloadBatch, DownloadedTable, EnteredAgain, Event, FetchRequest, Fetched,
    Held, Identity, Reader, ScriptFile, Session, SyncModel, TableMark, UploadRequest, Url, Writer,
    administer, open_reader, open_writer,
};

pub(crate) struct Center {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) url: Url,
    pub(crate) writer: Box<dyn Writer>,
    pub(crate) reader: Box<dyn Reader>,
    /// Whether the writer fetches downloads, whatever their sessions say.
    pub(crate) by_writer: bool,
}

/// A remote as the center sees it.
#[derive(Clone)]
pub(crate) struct Remote {
    pub(crate) id: &'static str,
    pub(crate) identity: Identity,
    pub(crate) marks: Vec<TableMark>,
    /// The digest of the schema that it holds.
    pub(crate) schema: Option<String>,
    pub(crate) claims: BTreeMap<String, String>,
}

/// One change: table, what happened, and the images.
pub(crate) type Row = Vec<Value>;
#[derive(Debug)]
pub(crate) enum Upload {
    Insert(&'static str, Row),
    Update(&'static str, Row, Row),
    /// The row was deleted, and entered again.
    Again(&'static str, Row, Row),
    Delete(&'static str, Row),
}

/// What a download brought.
#[derive(Debug, Default)]
pub(crate) struct Download {
    pub(crate) modes: Vec<DownloadedTable>,
    pub(crate) restored: bool,
    pub(crate) rejects: Vec<(String, Row, u16)>,
    pub(crate) upserts: Vec<(String, Row)>,
    pub(crate) deletes: Vec<(String, Row)>,
    pub(crate) filtered: u64,
    /// In how many parts the rows and the keys came.
    pub(crate) batches: u64,
}

impl Download {
    /// What was rejected, as table, first column of the key, and code; sorted.
    pub(crate) fn told(&self) -> Vec<String> {
        let told = |(table, key, code): &(String, Row, u16)| {
            format!("{table} {} E{code}", key[0].as_ref().display())
        };
        let mut rejects: Vec<String> = self.rejects.iter().map(told).collect();
        rejects.sort();
        rejects
    }
}

pub(crate) fn int(i: i64) -> Value {
    Value::Integer(i)
}

pub(crate) fn text(t: &str) -> Value {
    Value::Text(t.as_bytes().to_vec())
}

/// The databases that every test of what all backends promise runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Backend {
    Sqlite,
    Postgres,
}

impl Backend {
    /// Runs a test on each.
    pub(crate) fn each(test: impl Fn(Backend)) {
        [Backend::Sqlite, Backend::Postgres].into_iter().for_each(test);
    }

    /// Where the two speak different SQL.
    pub(crate) fn pick<'a>(self, sqlite: &'a str, postgres: &'a str) -> &'a str {
        match self {
            Backend::Sqlite => sqlite,
            Backend::Postgres => postgres,
        }
    }
}

impl Center {
    /// An SQLite database with `schema`, deployed with a model whose tables have `tables` as their
    /// text.
    pub(crate) fn new(schema: &str, tables: &str) -> Center {
        Center::on(Backend::Sqlite, schema, tables)
    }

    /// The same on any database.
    pub(crate) fn on(backend: Backend, schema: &str, tables: &str) -> Center {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("consolidated.db");
        let url = match backend {
            Backend::Sqlite => {
                sqlite(&path, schema);
                format!("sqlite:{}", path.display())
            }
            Backend::Postgres => {
                let database = Cluster::shared().database();
                database.sql(schema);
                database.url()
            }
        };
        let url = Url::parse(&url).unwrap();
        deploy(&url, tables).unwrap();
        let (writer, reader) = (open_writer(&url).unwrap(), open_reader(&url).unwrap());
        Center { folder, url, writer, reader, by_writer: false }
    }

    /// Deploys the model with scripts that a user wrote: table, event and text.
    pub(crate) fn deploy_own(
        &mut self,
        tables: &str,
        scripts: &[(&str, Event, &str)],
    ) -> Result<syncline_consolidated::Deployment, Failure> {
        let deployed = deploy_own(&self.url, tables, scripts)?;
        self.reconnect();
        Ok(deployed)
    }

    /// New connections, which read again what is deployed.
    pub(crate) fn reconnect(&mut self) {
        self.writer = open_writer(&self.url).unwrap();
        self.reader = open_reader(&self.url).unwrap();
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("consolidated.db")
    }

    /// Another program writes to the database.
    pub(crate) fn foreign(&self, sql: &str) {
        match &self.url {
            Url::Sqlite(path) => sqlite(path, sql),
            Url::Postgres(_) => {
                psql(&self.url.to_string(), sql);
            }
        }
    }

    /// Another program, which heeds foreign keys, tries one statement after the other; those that
    /// break a constraint change nothing.
    pub(crate) fn try_foreign(&self, statements: &[String]) {
        match &self.url {
            Url::Sqlite(path) => {
                let connection = rusqlite::Connection::open(path).unwrap();
                connection.pragma_update(None, "foreign_keys", true).unwrap();
                for sql in statements {
                    let done = connection.execute_batch(sql);
                    let refused = done.as_ref().is_err_and(|error| {
                        error.sqlite_error_code() == Some(rusqlite::ErrorCode::ConstraintViolation)
                    });
                    assert!(done.is_ok() || refused, "{sql}: {done:?}");
                }
            }
            Url::Postgres(_) => {
                let tried = statements.iter().map(|sql| {
                    format!(
                        "BEGIN {sql}; EXCEPTION WHEN integrity_constraint_violation THEN NULL; END;"
                    )
                });
                let all = tried.collect::<String>();
                psql(&self.url.to_string(), &format!("DO $$ BEGIN {all} END $$"));
            }
        }
    }

    /// One value that another program reads; on PostgreSQL an integer or a text.
    pub(crate) fn value(&self, sql: &str) -> Value {
        match &self.url {
            Url::Sqlite(path) => value(path, sql),
            Url::Postgres(_) => {
                let printed = psql(&self.url.to_string(), sql);
                printed_value(printed.trim_end_matches('\n'))
            }
        }
    }

    /// The values of one column, in the order of the query.
    pub(crate) fn list(&self, sql: &str) -> String {
        match &self.url {
            Url::Sqlite(path) => match value(path, &format!("SELECT group_concat(v) FROM ({sql})"))
            {
                Value::Text(list) => String::from_utf8(list).unwrap(),
                Value::Null => String::new(),
                other => other.as_ref().display(),
            },
            Url::Postgres(_) => psql(&self.url.to_string(), sql).trim().replace('\n', ","),
        }
    }

    /// Rows that another program reads; on PostgreSQL of integers and texts without a bar.
    pub(crate) fn rows(&self, sql: &str) -> Vec<Row> {
        self.answers(&[sql.to_owned()]).remove(0)
    }

    /// The same for several queries in one go.
    pub(crate) fn answers(&self, queries: &[String]) -> Vec<Vec<Row>> {
        if let Url::Sqlite(path) = &self.url {
            return queries.iter().map(|sql| rows(path, sql)).collect();
        }
        let mut commands: Vec<&str> = Vec::new();
        for query in queries {
            commands.extend([query.as_str(), "\\echo <end>"]);
        }
        let printed = psql_all(&self.url.to_string(), &commands);
        let mut answers = vec![Vec::new()];
        for line in printed.lines() {
            match line {
                "<end>" => answers.push(Vec::new()),
                row => {
                    let row = row.split('|').map(printed_value).collect();
                    answers.last_mut().unwrap().push(row);
                }
            }
        }
        answers
    }

    pub(crate) fn session(&mut self, remote: &Remote) -> Session {
        let user = UserName::new("ann").unwrap();
        let id = RemoteId::new(remote.id).unwrap();
        self.reader.admittees(&[(&user, &id)]).unwrap();
        let claims = remote.claims.clone();
        let mut session = self.reader.session(&user, claims, &id, None, &[]).unwrap();
        let held: Vec<String> = remote.marks.iter().map(|mark| mark.fingerprint.clone()).collect();
        session.held = self.reader.held(&session, remote.schema.as_deref(), &held).unwrap();
        session
    }

    /// Uploads in a transaction of its own.
    pub(crate) fn upload(
        &mut self,
        remote: &mut Remote,
        rows: &[Upload],
    ) -> Result<Applied, Failure> {
        let session = self.session(remote);
        self.writer.begin()?;
        let result = upload(self.writer.as_mut(), &session, remote, rows);
        self.writer.commit()?;
        let applied = result?;
        remote.identity.progress = applied.progress;
        Ok(applied)
    }

    /// Uploads, downloads, and takes what it got.
    pub(crate) fn synchronize(
        &mut self,
        remote: &mut Remote,
        rows: &[Upload],
    ) -> (Applied, Download) {
        let applied = self.upload(remote, rows).unwrap();
        let download = self.download(remote, &applied);
        (applied, download)
    }

    pub(crate) fn download(&mut self, remote: &mut Remote, applied: &Applied) -> Download {
        self.try_download(remote, applied).unwrap()
    }

    /// Fetches over the connection that is to.
    pub(crate) fn fetch(
        &mut self,
        request: &FetchRequest<'_>,
        sink: &mut dyn FnMut(DownloadBatch) -> Result<(), Failure>,
    ) -> Result<Fetched, Failure> {
        match self.by_writer || request.session.fetched_by_writer {
            true => self.writer.fetch(request, sink),
            false => self.reader.fetch(request, sink),
        }
    }

    pub(crate) fn try_download(
        &mut self,
        remote: &mut Remote,
        applied: &Applied,
    ) -> Result<Download, Failure> {
        let session = applied.session(&Arc::new(self.session(remote)));
        let mut download = Download::default();
        let schema = session.schema.clone();
        let fetched = self.fetch(
            &FetchRequest {
                session: &session,
                counter: applied.counter,
                marks: &marks(&session, remote),
                held_marks: &[],
                is_counted: false,
                echo: &applied.echo,
                time_us: applied.time_us,
                wanted: &[],
                batch_bytes: 100,
                batch_rows: 3,
                row_bytes_max: 1000,
                resuming: Default::default(),
            },
            &mut |batch| {
                let name = |table: usize| schema.tables[table].name.clone();
                download.batches += u64::from(has_rows(&batch));
                match batch {
                    DownloadBatch::Begin { tables, restored, .. } => {
                        download = Download { modes: tables, ..Download::default() };
                        download.restored = restored;
                    }
                    DownloadBatch::Reject { table, key, code, .. } => {
                        download.rejects.push((name(table), decode(&key), code));
                    }
                    DownloadBatch::Upserts { table, count, rows } => {
                        let width = schema.tables[table].width();
                        let rows = decode_all(&rows, count, width);
                        download.upserts.extend(rows.into_iter().map(|r| (name(table), r)));
                    }
                    DownloadBatch::Conflict { .. }
                    | DownloadBatch::Withheld { .. }
                    | DownloadBatch::Unreadable { .. }
                    | DownloadBatch::Position { .. } => {}
                    DownloadBatch::Deletes { table, count, rows } => {
                        let width = schema.tables[table].key.len();
                        let rows = decode_all(&rows, count, width);
                        download.deletes.extend(rows.into_iter().map(|r| (name(table), r)));
                    }
                }
                Ok(())
            },
        )?;
        download.filtered = fetched.filtered;
        remote.marks = received(&schema, fetched.watermarks);
        remote.schema = Some(schema.fingerprint.clone());
        remote.identity.counter = applied.counter;
        remote.identity.nonce_confirmed = remote.identity.nonce_attempt;
        remote.identity.nonce_attempt = Nonce(remote.identity.nonce_attempt.0 + 1);
        Ok(download)
    }
}

fn received(schema: &RemoteSchema, watermarks: Vec<Option<Watermark>>) -> Vec<TableMark> {
    let of = |(table, watermark): (&PublishedTable, Option<Watermark>)| TableMark {
        fingerprint: table.fingerprint.clone(),
        watermark,
    };
    schema.tables.iter().zip(watermarks).map(of).collect()
}

impl Remote {
    /// One that no test had before.
    pub(crate) fn another() -> Remote {
        static NEXT: std::sync::atomic::AtomicI64 = std::sync::atomic::AtomicI64::new(1);
        let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Remote::new(format!("remote-{number}").leak())
    }

    pub(crate) fn new(id: &'static str) -> Remote {
        let seed = id.bytes().map(i64::from).sum::<i64>() * 1000;
        let identity = Identity {
            counter: Counter(0),
            nonce_confirmed: Nonce(0),
            nonce_attempt: Nonce(seed),
            attempt: 0,
            progress: Progress(0),
            outcome_unknown: false,
            secret: None,
        };
        let (marks, claims) = (Vec::new(), BTreeMap::new());
        Remote { id, identity, marks, schema: None, claims }
    }
}

pub(crate) fn deploy(
    url: &Url,
    tables: &str,
) -> Result<syncline_consolidated::Deployment, Failure> {
    let model = SyncModel::parse(&format!("script_version = \"v1\"\n{tables}"), "model.toml")?;
    administer(url)?.deploy(&[model], false)
}

/// Deploys a model with scripts that a user wrote: table, event and text.
pub(crate) fn deploy_own(
    url: &Url,
    tables: &str,
    scripts: &[(&str, Event, &str)],
) -> Result<syncline_consolidated::Deployment, Failure> {
    let model = format!("script_version = \"v1\"\n{tables}");
    let mut model = SyncModel::parse(&model, "model.toml")?;
    for (table, event, text) in scripts {
        let name = format!("scripts/v1/{table}/{event}.sql");
        let file = ScriptFile { name, text: (*text).to_owned(), for_all: false };
        model.own_scripts.insert(((*table).to_owned(), *event), file);
    }
    administer(url)?.deploy(&[model], false)
}

/// What the remote says of itself with its next connection.
pub(crate) fn attempt(remote: &Remote) -> Identity {
    static NEXT: std::sync::atomic::AtomicI64 = std::sync::atomic::AtomicI64::new(1);
    let attempt = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    Identity { attempt, ..remote.identity }
}

/// Applies rows inside the writer's transaction.
pub(crate) fn upload(
    writer: &mut dyn Writer,
    session: &Session,
    remote: &Remote,
    rows: &[Upload],
) -> Result<Applied, Failure> {
    Ok(upload_and_count(writer, session, remote, rows)?.0)
}

/// The same, with how often the rows of the upload were read.
pub(crate) fn upload_and_count(
    writer: &mut dyn Writer,
    session: &Session,
    remote: &Remote,
    rows: &[Upload],
) -> Result<(Applied, u64), Failure> {
    apply(writer, session, remote, rows, true)
}

/// The same for a remote that wants no download.
pub(crate) fn upload_only(
    writer: &mut dyn Writer,
    session: &Session,
    remote: &Remote,
    rows: &[Upload],
) -> Result<Applied, Failure> {
    Ok(apply(writer, session, remote, rows, false)?.0)
}

fn apply(
    writer: &mut dyn Writer,
    session: &Session,
    remote: &Remote,
    rows: &[Upload],
    download_follows: bool,
) -> Result<(Applied, u64), Failure> {
    let held = match &session.held {
        Held::Older(held) => &held.schema,
        _ => &*session.schema,
    };
    let position = |name: &str| held.tables.iter().position(|t| t.name == name).unwrap();
    let batches: Vec<(usize, Change, Vec<u8>)> = rows
        .iter()
        .map(|row| match row {
            Upload::Insert(table, new) => (position(table), Change::Insert, encode(&[new])),
            Upload::Update(table, old, new) => {
                (position(table), Change::Update, encode(&[old, new]))
            }
            Upload::Again(table, old, new) => {
                (position(table), Change::Update, encode(&[old, new]))
            }
            Upload::Delete(table, old) => (position(table), Change::Delete, encode(&[old])),
        })
        .collect();
    let mut again = EnteredAgain::within(&Default::default());
    for row in rows {
        if let Upload::Again(name, old, _) = row {
            let table = position(name);
            let key = held.tables[table].key.iter().map(|at| old[usize::from(*at)].clone());
            again.add(table, &encode(&[&key.collect::<Vec<_>>()]))?;
        }
    }
    let step = i64::from(!rows.is_empty());
    let reads = std::cell::Cell::new(0);
    let applied = writer.upload(&UploadRequest {
        session,
        identity: attempt(remote),
        receipt: None,
        epoch: None,
        previous: remote.identity.progress,
        progress: Progress(remote.identity.progress.0 + step),
        uploads: true,
        download_follows,
        marks: &marks(session, remote),
        left_out: None,
        entered_again: Some(&again),
        batches: &|visit| {
            reads.set(reads.get() + 1);
            for (table, change, rows) in &batches {
                visit(syncline_consolidated::UploadedRows {
                    table: *table,
                    change: *change,
                    count: 1,
                    rows,
                })?;
            }
            Ok(())
        },
    })?;
    Ok((applied, reads.get()))
}

/// Whether it brings rows, or keys of rows that are gone.
fn has_rows(batch: &DownloadBatch) -> bool {
    matches!(batch, DownloadBatch::Upserts { .. } | DownloadBatch::Deletes { .. })
}

/// What the remote presents per table of the session, as a server finds it by the digests.
/// The download behind an upload, in parts of this many bytes and rows.
pub(crate) fn fetch_request<'a>(
    session: &'a Session,
    applied: &'a Applied,
    marks: &'a [TableMark],
    (batch_bytes, batch_rows): (usize, u32),
) -> FetchRequest<'a> {
    FetchRequest {
        session,
        counter: applied.counter,
        marks,
        held_marks: &[],
        is_counted: false,
        echo: &applied.echo,
        time_us: applied.time_us,
        wanted: &[],
        batch_bytes,
        batch_rows,
        row_bytes_max: u64::MAX,
        resuming: Default::default(),
    }
}

pub(crate) fn marks(session: &Session, remote: &Remote) -> Vec<TableMark> {
    let known = |fingerprint: &String| {
        remote.marks.iter().find(|mark| mark.fingerprint == *fingerprint).cloned()
    };
    let none =
        |fingerprint: &String| TableMark { fingerprint: fingerprint.clone(), watermark: None };
    let tables = session.schema.tables.iter().map(|table| &table.fingerprint);
    tables.map(|fingerprint| known(fingerprint).unwrap_or_else(|| none(fingerprint))).collect()
}

fn encode(images: &[&Row]) -> Vec<u8> {
    let mut bytes = Vec::new();
    images.iter().flat_map(|image| image.iter()).for_each(|v| write_value(&mut bytes, v.as_ref()));
    bytes
}

fn decode(bytes: &[u8]) -> Row {
    let mut reader = RowReader::new(bytes);
    let mut row = Vec::new();
    while !reader.is_at_end() {
        row.push(reader.value().unwrap().to_owned());
    }
    row
}

fn decode_all(bytes: &[u8], count: u32, width: usize) -> Vec<Row> {
    let all = decode(bytes);
    assert_eq!(all.len(), count as usize * width);
    all.chunks(width).map(<[Value]>::to_vec).collect()
}

/// Runs SQL with SQLite's own shell: a program that knows nothing of us.
pub(crate) fn sqlite(path: &std::path::Path, sql: &str) {
    let output = std::process::Command::new("sqlite3")
        .arg("-bail")
        .arg(path)
        .arg(sql)
        .output()
        .expect("the tests need the sqlite3 shell");
    assert!(output.status.success(), "{sql}\n{}", String::from_utf8_lossy(&output.stderr));
}

/// What `psql` prints for SQL that must succeed.
pub(crate) fn psql(url: &str, sql: &str) -> String {
    psql_all(url, &[sql])
}

/// The same for several commands, each on its own.
fn psql_all(url: &str, commands: &[&str]) -> String {
    let mut command = client_command("psql");
    command.args([url, "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-P"]);
    command.arg(format!("null={NULL}"));
    commands.iter().for_each(|sql| {
        command.args(["-c", sql]);
    });
    let outcome = run_client(&mut command);
    assert_eq!(outcome.code, Some(0), "{commands:?}\n{}", outcome.stderr);
    outcome.stdout
}

fn printed_value(printed: &str) -> Value {
    match printed {
        NULL => Value::Null,
        printed => printed.parse().map_or(text(printed), Value::Integer),
    }
}

/// What `psql` prints for NULL.
const NULL: &str = "<null>";

/// One value that another program reads.
pub(crate) fn value(path: &std::path::Path, sql: &str) -> Value {
    rows(path, sql).remove(0).remove(0)
}

/// Rows that another program reads.
pub(crate) fn rows(path: &std::path::Path, sql: &str) -> Vec<Row> {
    let connection = rusqlite::Connection::open(path).unwrap();
    let mut statement = connection.prepare(sql).unwrap();
    let width = statement.column_count();
    let value = |row: &rusqlite::Row<'_>, column: usize| match row.get_ref(column).unwrap() {
        rusqlite::types::ValueRef::Null => Value::Null,
        rusqlite::types::ValueRef::Integer(i) => Value::Integer(i),
        rusqlite::types::ValueRef::Real(r) => Value::Real(r),
        rusqlite::types::ValueRef::Text(t) => Value::Text(t.to_vec()),
        rusqlite::types::ValueRef::Blob(b) => Value::Blob(b.to_vec()),
    };
    let rows = statement
        .query_map([], |row| Ok((0..width).map(|column| value(row, column)).collect()))
        .unwrap();
    rows.map(Result::unwrap).collect()
}
