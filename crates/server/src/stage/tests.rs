//! What a stage promises, with workers that are threads and with such as are tasks.

use super::*;
use std::marker::PhantomData;
use std::sync::mpsc;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// A routine without a beginning.
struct Does<T, F>(F, PhantomData<fn(T)>);

fn does<T, F: FnMut(T, &Intake<T>)>(work: F) -> Does<T, F> {
    Does(work, PhantomData)
}

impl<T, F> Routine for Does<T, F>
where
    T: Send + 'static,
    F: FnMut(T, &Intake<T>) + Send + 'static,
{
    type Item = T;

    fn work(&mut self, item: T, intake: &Intake<T>) {
        (self.0)(item, intake);
    }
}

/// Starts tasks on the runtime of the test, and lets every item take a moment.
struct OnRuntime;

impl Tasks for OnRuntime {
    fn start(&self, task: Task) {
        tokio::spawn(task);
    }

    fn working_time(&self) -> Duration {
        Duration::from_millis(3)
    }
}

fn in_tasks() -> Execution {
    Execution::Tasks(Arc::new(OnRuntime))
}

// S9
#[tokio::test]
async fn who_feeds_a_full_queue_waits_until_somebody_takes() {
    let (started, begun) = mpsc::sync_channel(9);
    let (go_on, may_go_on) = mpsc::sync_channel::<()>(9);
    let routine = does(move |item, _: &Intake<i32>| {
        started.send(item).unwrap();
        let _ = may_go_on.recv();
    });
    let (queue, threads) = start("test", 2, vec![routine], &Execution::Threads).unwrap();
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

// S9
#[tokio::test(start_paused = true)]
async fn who_feeds_the_full_queue_of_tasks_waits_as_well() {
    let (taken, list) = mpsc::sync_channel(9);
    let routine = does(move |item, _: &Intake<i32>| taken.send(item).unwrap());
    let (queue, threads) = start("test", 2, vec![routine], &in_tasks()).unwrap();
    assert!(threads.is_empty(), "no thread of its own");
    queue.put(1).await.unwrap();
    queue.put(2).await.unwrap();
    assert!(timeout(Duration::ZERO, queue.put(3)).await.is_err());
    queue.put(3).await.unwrap();
    drop(queue);
    tokio::time::sleep(REST).await;
    assert_eq!(list.iter().collect::<Vec<_>>(), [1, 2, 3], "what is queued is finished");
}

async fn all_are_taken_once(execution: Execution) {
    let (taken, list) = mpsc::sync_channel(1000);
    let routines = (0..2).map(|_| {
        let taken = taken.clone();
        does(move |first, intake: &Intake<i32>| {
            taken.send(first).unwrap();
            while let Some(next) = intake.take_waiting(|next| next % 10 != 0) {
                taken.send(next).unwrap();
            }
        })
    });
    let (queue, threads) = start("test", 3, routines.collect(), &execution).unwrap();
    drop(taken);
    for item in 0..1000 {
        queue.put(item).await.unwrap();
    }
    drop(queue);
    for thread in threads {
        thread.join().unwrap();
    }
    // Tasks end while this one waits.
    tokio::time::sleep(REST).await;
    let mut list: Vec<i32> = list.iter().collect();
    list.sort_unstable();
    assert_eq!(list, (0..1000).collect::<Vec<_>>());
}

#[tokio::test]
async fn every_item_is_taken_once_by_threads() {
    all_are_taken_once(Execution::Threads).await;
}

#[tokio::test(start_paused = true)]
async fn every_item_is_taken_once_by_tasks() {
    all_are_taken_once(in_tasks()).await;
}

// S11
#[tokio::test]
async fn a_panic_costs_its_item_only_and_its_asker_learns_of_it() {
    type Item = (bool, oneshot::Sender<()>);
    let routine = does(|(good, answer): Item, _: &Intake<Item>| {
        assert!(good, "{}", "x".repeat(5_000));
        let _ = answer.send(());
    });
    let (queue, threads) = start("test", 9, vec![routine], &Execution::Threads).unwrap();
    for good in [true, false, false, true] {
        let (answer, waits) = oneshot::channel::<()>();
        queue.put((good, answer)).await.unwrap();
        assert_eq!(waits.await.is_ok(), good);
    }
    drop(queue);
    for thread in threads {
        thread.join().unwrap();
    }
}

/// Panics at its first item, and is of no use from then on.
#[derive(Default)]
struct Dies(bool);

impl Routine for Dies {
    type Item = oneshot::Sender<()>;

    fn begin(&mut self, _: &Intake<Self::Item>) -> bool {
        !std::mem::replace(&mut self.0, true)
    }

    fn work(&mut self, _: Self::Item, _: &Intake<Self::Item>) {
        panic!("as it should");
    }
}

#[tokio::test]
async fn where_every_worker_has_died_nobody_waits_for_an_answer() {
    for execution in [Execution::Threads, in_tasks()] {
        let (queue, threads) = start("test", 9, vec![Dies::default()], &execution).unwrap();
        let (answer, waits) = oneshot::channel::<()>();
        queue.put(answer).await.unwrap();
        assert!(waits.await.is_err());
        for thread in threads {
            thread.join().unwrap();
        }
        let (answer, _) = oneshot::channel::<()>();
        assert_eq!(queue.put(answer).await.unwrap_err().code(), Code::ServerStopping);
    }
}
