//! The tasks of one server, which a kill ends wherever they are.

use harness::Chance;
use server::{Task, Tasks};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::task::JoinHandle;

/// One item in so many takes a worker some time.
const SLOW_ONE_IN: u64 = 3;
/// Most milliseconds that it takes, and those that it takes rarely.
const SLOW_MS: u64 = 20;
const VERY_SLOW_MS: u64 = 3000;

/// Everything that a server has under way.
pub(super) struct Crew(Mutex<State>);

struct State {
    tasks: Vec<JoinHandle<()>>,
    chance: Chance,
}

impl Crew {
    pub(super) fn new(chance: Chance) -> Crew {
        Crew(Mutex::new(State { tasks: Vec::new(), chance }))
    }

    /// Ends all of them where they are. Fails where one has panicked.
    pub(super) async fn kill(&self) {
        loop {
            let tasks = std::mem::take(&mut self.state().tasks);
            if tasks.is_empty() {
                return;
            }
            for task in &tasks {
                task.abort();
            }
            for task in tasks {
                ended(task.await);
            }
        }
    }

    /// Fails where a task has panicked.
    pub(super) async fn check(&self) {
        let (done, going): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.state().tasks).into_iter().partition(JoinHandle::is_finished);
        for task in done {
            ended(task.await);
        }
        self.state().tasks.extend(going);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn ended(task: Result<(), tokio::task::JoinError>) {
    if let Err(error) = task
        && error.is_panic()
    {
        std::panic::resume_unwind(error.into_panic());
    }
}

impl Tasks for Crew {
    fn start(&self, task: Task) {
        let task = tokio::spawn(task);
        self.state().tasks.push(task);
    }

    fn working_time(&self) -> Duration {
        let chance = &mut self.state().chance;
        let ms = match chance.below(SLOW_ONE_IN) {
            0 if chance.below(100) == 0 => chance.below(VERY_SLOW_MS),
            0 => chance.below(SLOW_MS),
            _ => 0,
        };
        Duration::from_millis(ms)
    }
}
