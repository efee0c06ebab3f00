//! The one small kit that stages are made of: a bounded queue and the threads behind it.
//!
//! When a queue is full, whoever feeds it waits, up to the socket. When the last sender is gone,
//! the threads finish what is queued and end.

use model::{Code, Failure};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use tokio::sync::mpsc;

/// Feeds a stage.
#[derive(Debug)]
pub(crate) struct Queue<T>(mpsc::Sender<T>);

impl<T> Clone for Queue<T> {
    fn clone(&self) -> Self {
        Queue(self.0.clone())
    }
}

impl<T> Queue<T> {
    /// Hands over if there is a place.
    pub(crate) fn try_put(&self, item: T) -> Result<(), Failure> {
        self.0.try_send(item).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => {
                Failure::new(Code::ServerFull, "too many requests wait").retry_after_s(5)
            }
            mpsc::error::TrySendError::Closed(_) => stopping(),
        })
    }

    /// Waits for a place, then hands over.
    pub(crate) async fn put(&self, item: T) -> Result<(), Failure> {
        self.0.send(item).await.map_err(|_| stopping())
    }
}

fn stopping() -> Failure {
    Failure::new(Code::ServerStopping, "the server is stopping")
}

/// What the threads of a stage take from.
pub(crate) struct Intake<T>(Arc<Mutex<mpsc::Receiver<T>>>);

impl<T> Intake<T> {
    /// Waits for the next item; `None` when there will be no more.
    pub(crate) fn take(&self) -> Option<T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).blocking_recv()
    }

    /// The next item if one is waiting.
    pub(crate) fn take_waiting(&self) -> Option<T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).try_recv().ok()
    }
}

/// Starts one thread per element of `workers`, each running `run` with its element.
pub(crate) fn start<T: Send + 'static, W: Send + 'static>(
    name: &str,
    queue_len_max: usize,
    workers: Vec<W>,
    run: impl Fn(W, Intake<T>) + Send + Sync + 'static,
) -> Result<(Queue<T>, Vec<JoinHandle<()>>), Failure> {
    let (sender, receiver) = mpsc::channel(queue_len_max.max(1));
    let receiver = Arc::new(Mutex::new(receiver));
    let run = Arc::new(run);
    let mut threads = Vec::new();
    for (number, worker) in workers.into_iter().enumerate() {
        let (intake, run) = (Intake(receiver.clone()), run.clone());
        let thread = std::thread::Builder::new()
            .name(format!("{name}-{number}"))
            .spawn(move || run(worker, intake))
            .map_err(|error| Failure::new(Code::Bug, "cannot start a thread").source(error))?;
        threads.push(thread);
    }
    Ok((Queue(sender), threads))
}
