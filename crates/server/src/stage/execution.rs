//! What the work of a server runs on.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// A part of a server at work. It ends by itself, or by being dropped, as by a kill.
pub type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What the work of a server runs on.
#[derive(Clone)]
pub enum Execution {
    /// A thread for each worker, because it blocks, and the runtime's own for everything else.
    Threads,
    /// Tasks only, so that one thread can run a whole server and decide what comes next. What a
    /// worker does is done in one go.
    Tasks(Arc<dyn Tasks>),
}

/// Runs the tasks of a server.
pub trait Tasks: Send + Sync {
    /// Starts a task.
    fn start(&self, task: Task);

    /// How long a worker waits before its next item, in place of the time that it would take.
    fn working_time(&self) -> Duration;
}

impl Execution {
    /// Starts what never blocks.
    pub(crate) fn start(&self, task: impl Future<Output = ()> + Send + 'static) {
        match self {
            Execution::Threads => drop(tokio::spawn(task)),
            Execution::Tasks(tasks) => tasks.start(Box::pin(task)),
        }
    }
}
