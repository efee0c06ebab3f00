//! The common part of all stages: a bounded queue and its workers.
//!
//! When a queue is full, the stage before it waits, up to the socket. When that stage ends, the
//! workers complete what is queued and end.
//!
//! A worker is a thread, because it blocks. A panic does not end it: it is counted and logged, the
//! caller learns that there will be no answer, and the worker continues with the next item.
//!
//! An item wakes at most one worker, and none if all are busy: waking a thread for nothing costs
//! more than the work of a small synchronization in this stage.
//!
//! Where a server runs in tasks only, each worker is one of them. A panic ends it, for who runs
//! the tasks to find.

mod execution;

pub use execution::{Execution, Task, Tasks};

use model::{Code, Failure};
use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::{Notify, Semaphore, oneshot};

/// How long a thread rests that has panicked without having taken anything.
const REST: Duration = Duration::from_secs(1);

/// Bytes of the message of a panic that are logged. It may quote what was in hand.
const PANIC_BYTES_MAX: usize = 1 << 10;

/// What a worker of a stage does.
pub(crate) trait Routine: Send + 'static {
    /// What its stage is fed with.
    type Item: Send + 'static;

    /// Prepares for the first item, and again after a panic, which may have left its work half
    /// done. False if it never will be ready.
    fn begin(&mut self, _intake: &Intake<Self::Item>) -> bool {
        true
    }

    /// Does the work of `item`, and of those waiting at `intake` that it takes together with it.
    fn work(&mut self, item: Self::Item, intake: &Intake<Self::Item>);
}

/// Feeds a stage; the queue closes when it is dropped.
#[derive(Debug)]
pub(crate) struct Queue<T>(Arc<Line<T>>);

/// What stands between the feeder of a stage and its workers.
#[derive(Debug)]
struct Line<T> {
    /// One permit for each place that is free.
    places: Semaphore,
    waiting: Mutex<Waiting<T>>,
    arrived: Arrived,
    panics: AtomicU64,
}

#[derive(Debug)]
struct Waiting<T> {
    items: VecDeque<T>,
    /// Workers of the stage that live.
    workers: usize,
    /// Items for which there was no place.
    beyond: usize,
    /// Workers that wait for an item. If there are none, none need be woken.
    idle: usize,
    closed: bool,
}

/// Where workers wait for an item.
#[derive(Debug)]
enum Arrived {
    Threads(Condvar),
    Tasks(Notify),
}

impl Arrived {
    fn of(execution: &Execution) -> Arrived {
        match execution {
            Execution::Threads => Arrived::Threads(Condvar::new()),
            Execution::Tasks(_) => Arrived::Tasks(Notify::new()),
        }
    }

    fn wake_one(&self) {
        match self {
            Arrived::Threads(threads) => threads.notify_one(),
            Arrived::Tasks(tasks) => tasks.notify_one(),
        }
    }

    fn wake_all(&self) {
        match self {
            Arrived::Threads(threads) => threads.notify_all(),
            Arrived::Tasks(tasks) => tasks.notify_waiters(),
        }
    }
}

impl<T> Line<T> {
    fn waiting(&self) -> MutexGuard<'_, Waiting<T>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Queue<T> {
    /// Waits for a place, then hands over.
    pub(crate) async fn put(&self, item: T) -> Result<(), Failure> {
        self.0.places.acquire().await.map_err(|_| stopping())?.forget();
        self.append(item);
        Ok(())
    }

    /// Hands over what must not be lost, also where there is no place.
    pub(crate) fn put_at_once(&self, item: T) {
        match self.0.places.try_acquire() {
            Ok(place) => place.forget(),
            Err(_) => self.0.waiting().beyond += 1,
        }
        self.append(item);
    }

    /// Discards waiting items and accepts no more: no caller is left for the answers.
    pub(crate) fn abandon(&self) {
        self.0.places.close();
        let mut waiting = self.0.waiting();
        waiting.closed = true;
        waiting.items.clear();
        drop(waiting);
        self.0.arrived.wake_all();
    }

    fn append(&self, item: T) {
        let mut waiting = self.0.waiting();
        if waiting.workers == 0 {
            // No worker will take it: the caller that waits for its answer has to learn that.
            return;
        }
        waiting.items.push_back(item);
        let wake = waiting.idle > 0;
        drop(waiting);
        if wake {
            self.0.arrived.wake_one();
        }
    }
}

impl<T> Drop for Queue<T> {
    fn drop(&mut self) {
        self.0.waiting().closed = true;
        self.0.arrived.wake_all();
    }
}

fn stopping() -> Failure {
    Failure::new(Code::ServerStopping, "the server is stopping")
}

/// What one worker of a stage takes from.
pub(crate) struct Intake<T> {
    line: Arc<Line<T>>,
    /// Whether anything was taken since the worker last panicked.
    took: AtomicBool,
}

impl<T> Drop for Intake<T> {
    fn drop(&mut self) {
        let mut waiting = self.line.waiting();
        waiting.workers -= 1;
        if waiting.workers == 0 {
            self.line.places.close();
            waiting.items.clear();
        }
    }
}

impl<T> Intake<T> {
    /// Waits on its thread for the next item; `None` when there will be no more.
    fn take(&self) -> Option<T> {
        let mut waiting = self.line.waiting();
        loop {
            if let Some(item) = waiting.items.pop_front() {
                drop(waiting);
                return Some(self.taken(item));
            }
            let Arrived::Threads(threads) = &self.line.arrived else { return None };
            if waiting.closed {
                return None;
            }
            waiting.idle += 1;
            waiting = threads.wait(waiting).unwrap_or_else(PoisonError::into_inner);
            waiting.idle -= 1;
        }
    }

    /// The same in a task.
    async fn taken_in_turn(&self) -> Option<T> {
        let Arrived::Tasks(tasks) = &self.line.arrived else { return None };
        loop {
            // What arrives from now on wakes it.
            let arrived = tasks.notified();
            {
                let mut waiting = self.line.waiting();
                if let Some(item) = waiting.items.pop_front() {
                    drop(waiting);
                    return Some(self.taken(item));
                }
                if waiting.closed {
                    return None;
                }
                waiting.idle += 1;
            }
            arrived.await;
            self.line.waiting().idle -= 1;
        }
    }

    /// The next item if one is waiting that is `wanted`.
    pub(crate) fn take_waiting(&self, wanted: impl FnOnce(&T) -> bool) -> Option<T> {
        let mut waiting = self.line.waiting();
        if !waiting.items.front().is_some_and(wanted) {
            return None;
        }
        let item = waiting.items.pop_front()?;
        drop(waiting);
        Some(self.taken(item))
    }

    fn taken(&self, item: T) -> T {
        let mut waiting = self.line.waiting();
        match waiting.beyond {
            0 => self.line.places.add_permits(1),
            _ => waiting.beyond -= 1,
        }
        drop(waiting);
        self.took.store(true, Ordering::Relaxed);
        item
    }

    /// Whether there will be no more than what is queued.
    pub(crate) fn is_closed(&self) -> bool {
        self.line.waiting().closed
    }

    /// Counts a panic of this thread and logs it.
    fn panicked(&self, panic: &(dyn Any + Send)) {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
        let panics = self.line.panics.fetch_add(1, Ordering::Relaxed) + 1;
        let thread = std::thread::current();
        tracing::error!(
            worker = thread.name(),
            panics,
            panic = model::cut(text, PANIC_BYTES_MAX).as_ref(),
            "a worker panicked and is replaced"
        );
        if !self.took.swap(false, Ordering::Relaxed) {
            std::thread::sleep(REST);
        }
    }
}

/// What feeds a stage, and the threads of those of its workers that have one.
type Started<T> = (Queue<T>, Vec<JoinHandle<()>>);

/// Starts one worker per element of `routines`.
pub(crate) fn start<R: Routine>(
    name: &str,
    queue_len_max: usize,
    routines: Vec<R>,
    execution: &Execution,
) -> Result<Started<R::Item>, Failure> {
    let waiting = Waiting {
        items: VecDeque::new(),
        workers: routines.len(),
        beyond: 0,
        idle: 0,
        closed: false,
    };
    let line = Arc::new(Line {
        places: Semaphore::new(queue_len_max.clamp(1, Semaphore::MAX_PERMITS)),
        waiting: Mutex::new(waiting),
        arrived: Arrived::of(execution),
        panics: AtomicU64::new(0),
    });
    // Closes the line if not every worker can be started.
    let queue = Queue(line.clone());
    let mut threads = Vec::new();
    for (number, routine) in routines.into_iter().enumerate() {
        let intake = Intake { line: line.clone(), took: AtomicBool::new(false) };
        match execution {
            Execution::Tasks(tasks) => tasks.start(Box::pin(run(routine, intake, tasks.clone()))),
            Execution::Threads => {
                let thread = std::thread::Builder::new()
                    .name(format!("{name}-{number}"))
                    .spawn(move || run_blocking(routine, &intake))
                    .map_err(|error| {
                        Failure::new(Code::Bug, "cannot start a thread").source(error)
                    })?;
                threads.push(thread);
            }
        }
    }
    Ok((queue, threads))
}

/// A worker that is a thread.
fn run_blocking<R: Routine>(mut routine: R, intake: &Intake<R::Item>) {
    // What a panic leaves half done is what the routine was lent; it has to begin with what is
    // whole.
    let mut work = || {
        if !routine.begin(intake) {
            return;
        }
        while let Some(item) = intake.take() {
            routine.work(item, intake);
        }
    };
    while let Err(panic) = catch_unwind(AssertUnwindSafe(&mut work)) {
        intake.panicked(panic.as_ref());
    }
}

/// A worker that is a task.
async fn run<R: Routine>(mut routine: R, intake: Intake<R::Item>, tasks: Arc<dyn Tasks>) {
    if !routine.begin(&intake) {
        return;
    }
    while let Some(item) = intake.taken_in_turn().await {
        tokio::time::sleep(tasks.working_time()).await;
        routine.work(item, &intake);
        tokio::task::yield_now().await;
    }
}

/// Does `work` on a separate thread and does not wait for its end.
pub(crate) fn aside(name: &str, work: impl FnOnce() + Send + 'static) {
    let started = std::thread::Builder::new().name(name.to_owned()).spawn(work);
    if let Err(error) = started {
        tracing::warn!(%error, thread = name, "cannot start a thread");
    }
}

/// Waits for work that is rare and blocks, and needs no place in a stage.
pub(crate) async fn aside_until_done<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Failure> {
    let (answer, answered) = oneshot::channel();
    // The session may have ended in the meantime. Then the answer is not needed.
    aside(name, move || drop(answer.send(work())));
    let ended = |_| Failure::new(Code::Bug, format!("the thread {name} ended without an answer"));
    answered.await.map_err(ended)
}

#[cfg(test)]
mod tests;
