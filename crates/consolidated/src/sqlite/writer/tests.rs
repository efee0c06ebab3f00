//! What is nobody's fault at a remote fails an upload and rejects nothing.

use super::*;
use crate::connection::Writer as _;
use crate::sqlite::administer;
use crate::sync_model::SyncModel;
use crate::synchronization::Held;
use crate::synchronization::change::{Change, UploadedRows};
use model::{Counter, Nonce, Progress, RemoteId, UserName, ValueRef, write_value};

struct Site {
    _folder: tempfile::TempDir,
    writer: Writer,
}

impl Site {
    fn new() -> Site {
        Site::of("[table.doc]")
    }

    fn of(table: &str) -> Site {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("consolidated.db");
        let schema = "CREATE TABLE doc (id INTEGER PRIMARY KEY, body TEXT)";
        Connection::open(&path).unwrap().execute_batch(schema).unwrap();
        let model = format!("script_version = \"v1\"\n{table}");
        let model = SyncModel::parse(&model, "model.toml").unwrap();
        administer(Location::system(&path)).unwrap().deploy(&[model], false).unwrap();
        let writer = Writer::open(&Location::system(&path), &Serving::default()).unwrap();
        Site { _folder: folder, writer }
    }

    /// Uploads rows of 4 KB with these keys as the first upload of a remote.
    fn upload(&mut self, remote_id: &str, keys: std::ops::Range<i64>) -> Result<u64, Code> {
        let count = u32::try_from(keys.end - keys.start).unwrap();
        let (mut rows, body) = (Vec::new(), "x".repeat(4000));
        for key in keys {
            write_value(&mut rows, ValueRef::Integer(key));
            write_value(&mut rows, ValueRef::Text(body.as_bytes()));
        }
        self.send(remote_id, (Change::Insert, count, &rows))
    }

    fn send(
        &mut self,
        remote_id: &str,
        (change, count, rows): (Change, u32, &[u8]),
    ) -> Result<u64, Code> {
        let mut catalog = Catalog::load(&self.writer.connection).unwrap();
        let (script_version, schema) = catalog.deployed.schema(None, &[]).unwrap();
        let session = Session {
            by_scripts: Default::default(),
            publications: std::sync::Arc::default(),
            ends: false,
            is_session: false,
            authenticates: Default::default(),
            database_id: catalog.deployed.database_id.clone(),
            deployment: catalog.deployed.deployment,
            remote_id: RemoteId::new(remote_id).unwrap(),
            user: UserName::new("ann").unwrap(),
            owner: UserName::new("ann").unwrap(),
            claims: Default::default(),
            script_version,
            schema,
            held: Held::Untold,
            waiting: Default::default(),
            acknowledge: false,
            fetched_by_writer: false,
            asks_for_times: false,
            counted: None,
            passed: Default::default(),
        };
        let identity = Identity {
            counter: Counter(0),
            nonce_confirmed: Nonce(0),
            nonce_attempt: Nonce(1),
            attempt: 1,
            progress: Progress(0),
            outcome_unknown: false,
            secret: None,
        };
        let request = UploadRequest {
            session: &session,
            identity,
            receipt: None,
            epoch: None,
            previous: Progress(0),
            progress: Progress(1),
            uploads: true,
            download_follows: true,
            marks: &[],
            batches: &|visit| visit(UploadedRows { table: 0, change, count, rows }),
            left_out: None,
            entered_again: None,
        };
        self.writer.upload(&request).map(|it| it.rejected).map_err(|failure| failure.code())
    }

    fn set(&self, pragma: &str) {
        self.writer.connection.execute_batch(&format!("PRAGMA {pragma}")).unwrap();
    }

    fn count(&self, what: &str) -> i64 {
        let sql = format!("SELECT count(*) FROM {what}");
        self.writer.connection.query_row(&sql, [], |row| row.get(0)).unwrap()
    }
}

// S2, S4, S11, Trap 17: neither its own rows are rejected nor is the upload beside it lost.
#[test]
fn a_full_disk_fails_one_upload_and_rejects_no_row() {
    let mut site = Site::new();
    let pages: i64 =
        site.writer.connection.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
    site.set(&format!("max_page_count = {}", pages + 40));
    site.writer.begin().unwrap();
    assert_eq!(site.upload("small", 0..1), Ok(0));
    assert_eq!(site.upload("large", 1..201), Err(Code::DatabaseDiskFull));
    let lost = site.writer.transaction_lost();
    if !lost {
        site.writer.commit().unwrap();
    }
    assert_eq!(site.count("syncline_reject"), 0);
    assert_eq!(site.count("doc"), i64::from(!lost), "all of the small one, or nothing");
    site.set("max_page_count = 1000000");
    site.writer.begin().unwrap();
    if lost {
        assert_eq!(site.upload("small", 0..1), Ok(0));
    }
    assert_eq!(site.upload("large", 1..201), Ok(0));
    site.writer.commit().unwrap();
    assert_eq!((site.count("doc"), site.count("syncline_reject")), (201, 0));
}

// S2, S11
#[test]
fn a_database_that_may_not_be_written_fails_the_upload_and_rejects_no_row() {
    let mut site = Site::new();
    site.writer.begin().unwrap();
    site.set("query_only = ON");
    assert_eq!(site.upload("one", 0..10), Err(Code::DatabaseUnavailable));
    site.set("query_only = OFF");
    assert_eq!(site.upload("one", 0..10), Ok(0));
    site.writer.commit().unwrap();
    assert_eq!((site.count("doc"), site.count("syncline_reject")), (10, 0));
}
