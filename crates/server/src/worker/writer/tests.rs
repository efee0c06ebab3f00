//! What is written in one transaction, and what is not.

use super::*;
use crate::clock::SystemClock;
use crate::stage::{Execution, Queue, start};
use crate::worker::cut::Cut;
use crate::worker::kept;
use crate::worker::reader::Resume;
use consolidated::{DownloadBatch, Echo, Fetched, Held, Passed};
use model::{Nonce, RemoteId, ScriptVersion, SpilledBytes, Spills, UserName};
use protocol::Compressor;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use tokio::sync::oneshot;

/// Notes what it is asked. Before the first group it says so, and waits.
#[derive(Debug)]
struct Noting {
    asked: Arc<Mutex<Vec<&'static str>>>,
    first: Option<(SyncSender<()>, Receiver<()>)>,
}

impl Noting {
    fn note(&self, what: &'static str) {
        self.asked.lock().unwrap().push(what);
    }
}

impl Writer for Noting {
    fn group_len_max(&self) -> usize {
        usize::MAX
    }

    fn begin(&mut self) -> Result<(), Failure> {
        self.note("begin");
        if let Some((begun, go_on)) = self.first.take() {
            begun.send(()).unwrap();
            go_on.recv().unwrap();
        }
        Ok(())
    }

    fn commit(&mut self) -> Result<(), Failure> {
        self.note("commit");
        Ok(())
    }

    fn rollback(&mut self) {
        self.note("roll back");
    }

    fn transaction_lost(&self) -> bool {
        false
    }

    fn begin_synchronization(
        &mut self,
        _: &Session,
        _: &Identity,
        _: Option<&Receipt>,
    ) -> Result<Begun, Failure> {
        Ok(Begun { epoch: 0, progress: Progress(0) })
    }

    fn upload(&mut self, _: &UploadRequest<'_>) -> Result<Applied, Failure> {
        Ok(Applied::default())
    }

    fn fetch(
        &mut self,
        _: &FetchRequest<'_>,
        _: &mut dyn FnMut(DownloadBatch) -> Result<(), Failure>,
    ) -> Result<Fetched, Failure> {
        self.note("fetch");
        Ok(Fetched { rows: 7, ..Fetched::default() })
    }

    fn session(&mut self, _: &Session) -> Result<&mut dyn Writer, Failure> {
        Ok(self)
    }

    fn end_session(&mut self) {}

    fn authenticate(&mut self, _: &Question<'_>) -> Result<Answered, Failure> {
        unreachable!("nobody asks who it is")
    }

    fn end(&mut self, _: &Ending<'_>) -> Result<(), Failure> {
        Ok(())
    }

    fn withhold(&mut self, _: &Withholding<'_>) -> Result<(), Failure> {
        Ok(())
    }

    fn acknowledge(&mut self, _: &Acknowledgement) -> Result<(), Failure> {
        self.note("acknowledge");
        Ok(())
    }

    fn change_password(&mut self, _: &PasswordChange) -> Result<(), Failure> {
        Ok(())
    }

    fn note_ended(&mut self, _: &[EndedSynchronization]) -> Result<(), Failure> {
        self.note("note ended");
        Ok(())
    }

    fn trim_logs(&mut self, _: i64) -> Result<(), Failure> {
        Ok(())
    }

    fn trim_notes(&mut self, _: i64, _: i64) -> Result<(), Failure> {
        Ok(())
    }
}

fn fetch() -> Fetch {
    let session = Session {
        database_id: Default::default(),
        deployment: 1,
        remote_id: RemoteId::new("one").unwrap(),
        user: UserName::new("ann").unwrap(),
        claims: Default::default(),
        passed: Passed::default(),
        script_version: ScriptVersion::new("v1").unwrap(),
        schema: Default::default(),
        held: Held::Untold,
        waiting: Default::default(),
        acknowledge: false,
        fetched_by_writer: true,
        asks_for_times: false,
        by_scripts: Default::default(),
        counted: None,
        publications: Default::default(),
        ends: false,
        is_session: false,
        authenticates: Default::default(),
        owner: UserName::new("ann").unwrap(),
    };
    Fetch {
        session: Arc::new(session),
        counter: Counter(1),
        marks: Default::default(),
        held_marks: Default::default(),
        compression: None,
        echo: Echo::default(),
        time_us: None,
        wanted: Vec::new(),
        receipt: None,
        acknowledge: false,
        resume: Resume::default(),
        spilled: SpilledBytes::default(),
    }
}

async fn acknowledge(queue: &Queue<Write>) -> oneshot::Receiver<Result<Costed<()>, Failure>> {
    let acknowledgement = Acknowledgement {
        remote_id: RemoteId::new("one").unwrap(),
        epoch: 1,
        counter: Counter(1),
        nonce: Nonce(1),
        incarnation: 1,
    };
    let (answer, answered) = oneshot::channel();
    queue.put(Write::Acknowledge(acknowledgement, answer)).await.unwrap();
    answered
}

// Trap 17: what it writes must neither be undone nor become durable with others.
#[tokio::test]
async fn a_download_is_fetched_between_two_groups() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let ((begun, has_begun), (go_on, may_go_on)) = (sync_channel(1), sync_channel(1));
    let first = Mutex::new(Some((begun, may_go_on)));
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let open = {
        let asked = asked.clone();
        move || {
            let first = first.lock().unwrap().take();
            let writer: Box<dyn Writer> = Box::new(Noting { asked: asked.clone(), first });
            Ok(writer)
        }
    };
    let kept = kept::open("writer", 1, open, &clock, &sync_channel(1).0).unwrap().remove(0);
    let limits = Limits { group_len_max: 9, log_rows_max: 1, rejects_kept_s: 1 };
    let cut = Cut { batch_bytes: 1, batch_rows: 1, row_bytes_max: 1 };
    let packing =
        Packing { spills: Arc::new(Spills::default()), cut, compressor: Compressor::default() };
    let work = Work::new(kept, limits, packing, clock);
    let (queue, threads) = start("writer", 9, vec![work], &Execution::Threads).unwrap();
    let mut noted = vec![acknowledge(&queue).await];
    has_begun.recv().unwrap();
    noted.push(acknowledge(&queue).await);
    let (answer, fetched) = oneshot::channel();
    queue.put(Write::Fetch(Box::new(fetch()), answer)).await.unwrap();
    noted.push(acknowledge(&queue).await);
    go_on.send(()).unwrap();
    for answered in noted {
        answered.await.unwrap().unwrap_or_else(|failure| panic!("{failure}"));
    }
    let fetched = fetched.await.unwrap().unwrap_or_else(|failure| panic!("{failure}"));
    assert_eq!((fetched.value.rows, fetched.cost.commits), (7, 1.0));
    drop(queue);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let expected = "begin acknowledge acknowledge commit fetch begin acknowledge commit";
    assert_eq!(asked.lock().unwrap().join(" "), expected);
}
