//! The common part of all stages: a bounded queue and its threads.
//!
//! When a queue is full, the stage before it waits, up to the socket. When that stage ends, the
//! threads complete what is queued and end.
//!
//! A panic does not end a thread: it is counted and logged, the caller learns that there will be no
//! answer, and the thread continues with the next item.
//!
//! An item wakes at most one thread, and none if all are busy: waking a thread for nothing costs
//! more than the work of a small synchronization in this stage.

use model::{Code, Failure};
use std::any::Any;
use std::cell::Cell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::Semaphore;

/// How long a thread rests that has panicked without having taken anything.
const REST: Duration = Duration::from_secs(1);

/// Bytes of the message of a panic that are logged. It may quote what was in hand.
const PANIC_BYTES_MAX: usize = 1 << 10;

/// Feeds a stage; the queue closes when it is dropped.
#[derive(Debug)]
pub(crate) struct Queue<T>(Arc<Line<T>>);

/// What stands between the feeder of a stage and its threads.
#[derive(Debug)]
struct Line<T> {
    /// One permit for each place that is free.
    places: Semaphore,
    waiting: Mutex<Waiting<T>>,
    arrived: Condvar,
    panics: AtomicU64,
}

#[derive(Debug)]
struct Waiting<T> {
    items: VecDeque<T>,
    /// Threads of the stage that live.
    threads: usize,
    /// Threads that wait for an item. If there are none, no thread need be woken.
    idle: usize,
    closed: bool,
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

    /// Discards waiting items and accepts no more: no caller is left for the answers.
    pub(crate) fn abandon(&self) {
        self.0.places.close();
        let mut waiting = self.0.waiting();
        waiting.closed = true;
        waiting.items.clear();
        drop(waiting);
        self.0.arrived.notify_all();
    }

    fn append(&self, item: T) {
        let mut waiting = self.0.waiting();
        if waiting.threads == 0 {
            // No thread will take it: the caller that waits for its answer has to learn that.
            return;
        }
        waiting.items.push_back(item);
        let wake = waiting.idle > 0;
        drop(waiting);
        if wake {
            self.0.arrived.notify_one();
        }
    }
}

impl<T> Drop for Queue<T> {
    fn drop(&mut self) {
        self.0.waiting().closed = true;
        self.0.arrived.notify_all();
    }
}

fn stopping() -> Failure {
    Failure::new(Code::ServerStopping, "the server is stopping")
}

/// What one thread of a stage takes from.
pub(crate) struct Intake<T> {
    line: Arc<Line<T>>,
    /// Whether anything was taken since the thread last asked.
    took: Cell<bool>,
}

impl<T> Drop for Intake<T> {
    fn drop(&mut self) {
        let mut waiting = self.line.waiting();
        waiting.threads -= 1;
        if waiting.threads == 0 {
            self.line.places.close();
            waiting.items.clear();
        }
    }
}

impl<T> Intake<T> {
    /// Waits for the next item; `None` when there will be no more.
    pub(crate) fn take(&self) -> Option<T> {
        let mut waiting = self.line.waiting();
        loop {
            if let Some(item) = waiting.items.pop_front() {
                drop(waiting);
                self.line.places.add_permits(1);
                self.took.set(true);
                return Some(item);
            }
            if waiting.closed {
                return None;
            }
            waiting.idle += 1;
            waiting = self.line.arrived.wait(waiting).unwrap_or_else(PoisonError::into_inner);
            waiting.idle -= 1;
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
        self.line.places.add_permits(1);
        self.took.set(true);
        Some(item)
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
        if !self.took.replace(false) {
            std::thread::sleep(REST);
        }
    }
}

/// Starts one thread per element of `workers`, each running `run` with its element. After a
/// panic `run` is called again with what the element is then.
pub(crate) fn start<T: Send + 'static, W: Send + 'static>(
    name: &str,
    queue_len_max: usize,
    workers: Vec<W>,
    run: impl Fn(&mut W, &Intake<T>) + Send + Sync + 'static,
) -> Result<(Queue<T>, Vec<JoinHandle<()>>), Failure> {
    let waiting =
        Waiting { items: VecDeque::new(), threads: workers.len(), idle: 0, closed: false };
    let line = Arc::new(Line {
        places: Semaphore::new(queue_len_max.clamp(1, Semaphore::MAX_PERMITS)),
        waiting: Mutex::new(waiting),
        arrived: Condvar::new(),
        panics: AtomicU64::new(0),
    });
    // Closes the line if not every thread can be started.
    let queue = Queue(line.clone());
    let run = Arc::new(run);
    let mut threads = Vec::new();
    for (number, mut worker) in workers.into_iter().enumerate() {
        let intake = Intake { line: line.clone(), took: Cell::new(false) };
        let run = run.clone();
        let thread = std::thread::Builder::new()
            .name(format!("{name}-{number}"))
            .spawn(move || {
                // What a panic leaves half done is what the worker was lent; it has to begin with
                // what is whole.
                let mut work = || run(&mut worker, &intake);
                while let Err(panic) = catch_unwind(AssertUnwindSafe(&mut work)) {
                    intake.panicked(panic.as_ref());
                }
            })
            .map_err(|error| Failure::new(Code::Bug, "cannot start a thread").source(error))?;
        threads.push(thread);
    }
    Ok((queue, threads))
}

/// Does `work` on a separate thread and does not wait for its end.
pub(crate) fn aside(name: &str, work: impl FnOnce() + Send + 'static) {
    let started = std::thread::Builder::new().name(name.to_owned()).spawn(work);
    if let Err(error) = started {
        tracing::warn!(%error, thread = name, "cannot start a thread");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use tokio::time::timeout;

    // S9
    #[tokio::test]
    async fn who_feeds_a_full_queue_waits_until_somebody_takes() {
        let (started, begun) = mpsc::sync_channel(9);
        let (go_on, may_go_on) = mpsc::sync_channel::<()>(9);
        let (queue, threads) = start("test", 2, vec![may_go_on], move |may_go_on, intake| {
            while let Some(item) = intake.take() {
                started.send(item).unwrap();
                let _ = may_go_on.recv();
            }
        })
        .unwrap();
        queue.put(1).await.unwrap();
        assert_eq!(begun.recv(), Ok(1));
        queue.put(2).await.unwrap();
        queue.put(3).await.unwrap();
        assert!(timeout(Duration::ZERO, queue.put(4)).await.is_err());
        go_on.send(()).unwrap();
        assert_eq!(begun.recv(), Ok(2));
        queue.put(5).await.unwrap();
        drop((queue, go_on));
        assert_eq!(begun.iter().collect::<Vec<_>>(), [3, 5], "what is queued is finished");
        for thread in threads {
            thread.join().unwrap();
        }
    }

    #[tokio::test]
    async fn every_item_is_taken_once_and_those_that_wait_in_order() {
        let (taken, list) = mpsc::sync_channel(1000);
        let workers = vec![taken.clone(), taken];
        let (queue, threads) = start("test", 3, workers, |taken, intake| {
            while let Some(first) = intake.take() {
                taken.send(first).unwrap();
                while let Some(next) = intake.take_waiting(|next| next % 10 != 0) {
                    taken.send(next).unwrap();
                }
            }
        })
        .unwrap();
        for item in 0..1000 {
            queue.put(item).await.unwrap();
        }
        drop(queue);
        for thread in threads {
            thread.join().unwrap();
        }
        let mut list: Vec<i32> = list.iter().collect();
        list.sort_unstable();
        assert_eq!(list, (0..1000).collect::<Vec<_>>());
    }

    // S11
    #[tokio::test]
    async fn a_panic_costs_its_item_only_and_its_asker_learns_of_it() {
        type Item = (bool, tokio::sync::oneshot::Sender<()>);
        let (queue, threads) = start("test", 9, vec![()], |(), intake: &Intake<Item>| {
            while let Some((good, answer)) = intake.take() {
                assert!(good, "{}", "x".repeat(5_000));
                let _ = answer.send(());
            }
        })
        .unwrap();
        for good in [true, false, false, true] {
            let (answer, waits) = tokio::sync::oneshot::channel::<()>();
            queue.put((good, answer)).await.unwrap();
            assert_eq!(waits.await.is_ok(), good);
        }
        drop(queue);
        for thread in threads {
            thread.join().unwrap();
        }
    }

    #[tokio::test]
    async fn where_every_thread_has_died_nobody_waits_for_an_answer() {
        let (queue, threads) =
            start("test", 9, vec![()], |(), intake| drop(intake.take())).unwrap();
        let (answer, waits) = tokio::sync::oneshot::channel::<()>();
        queue.put(answer).await.unwrap();
        for thread in threads {
            thread.join().unwrap();
        }
        assert!(waits.await.is_err());
        let (answer, _) = tokio::sync::oneshot::channel::<()>();
        assert_eq!(queue.put(answer).await.unwrap_err().code(), Code::ServerStopping);
    }
}
