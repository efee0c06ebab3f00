//! Databases whose tests have ended, which their cluster drops.
//!
//! A program with hundreds of tests would otherwise keep gigabytes until its end, and the server
//! would look after all of its databases.

use std::cell::RefCell;
use std::fmt::Write;
use std::sync::{Arc, Mutex};

/// The names of the databases of a cluster that nobody needs any more.
#[derive(Debug, Clone, Default)]
pub(super) struct Finished(Arc<Mutex<Vec<String>>>);

/// How long a database is needed.
#[derive(Debug)]
pub(super) struct Lifetime {
    name: String,
    finished: Finished,
}

thread_local! {
    /// Tests pass on only the URL of a database, so each lives as long as the thread of its test.
    static OF_THIS_TEST: RefCell<Vec<Arc<Lifetime>>> = const { RefCell::new(Vec::new()) };
}

impl Finished {
    /// A database is needed until this test ends, and for as long as the answer is held.
    pub(super) fn begin(&self, name: &str) -> Arc<Lifetime> {
        let lifetime = Arc::new(Lifetime { name: name.to_owned(), finished: self.clone() });
        OF_THIS_TEST.with_borrow_mut(|all| all.push(Arc::clone(&lifetime)));
        lifetime
    }

    /// What drops them, for `psql`. Nothing is dropped that a prepared transaction holds; that ends
    /// with the cluster.
    pub(super) fn dropping(&self) -> String {
        let mut text = "\\set ON_ERROR_STOP off\n".to_owned();
        for name in self.0.lock().unwrap().drain(..) {
            writeln!(text, "DROP DATABASE {name} WITH (FORCE);").expect("a String takes all");
        }
        text + "\\set ON_ERROR_STOP on\n"
    }
}

impl Drop for Lifetime {
    fn drop(&mut self) {
        self.finished.0.lock().unwrap().push(std::mem::take(&mut self.name));
    }
}
