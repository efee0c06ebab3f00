//! Both twins, the same steps for them, and the comparison.

use super::history::{History, Length, Step};
use super::image::{Ignored, difference};
use super::world::{Backend, Twin, token};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

/// How often two images are read until they are equal. A server may still write down what its last
/// client has confirmed.
const READS_MAX: u32 = 20;
const READ_PAUSE: Duration = Duration::from_millis(100);

/// Letters of an answer that are shown, and how many of them before the difference.
const SHOWN_MAX: usize = 600;
const SHOWN_BEFORE: usize = 200;

/// What makes the second twin another one on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sabotage {
    None,
    /// A row of the user at the center.
    UserRow,
    /// A row of a system table at the center.
    SystemRow,
    /// A row of a system table at a remote.
    Remote,
    /// A remote that has lost its token.
    Answer,
}

pub(crate) struct Pair {
    twins: [Twin; 2],
    history: History,
    ignored: Ignored,
    step: u64,
}

impl Pair {
    /// The old program and the new one.
    pub(crate) fn new(
        backend: Backend,
        seed: u64,
        programs: [&PathBuf; 2],
        length: Length,
        ignore: &str,
    ) -> Pair {
        let history = History::new(seed, backend == Backend::Sqlite, length);
        let create = history.create();
        println!("{create}");
        let twin = |at: usize| {
            // It runs in a folder of its own.
            let program: PathBuf = Path::new(programs[at]).canonicalize().unwrap();
            Twin::new(backend, at == 1, &program, &create)
        };
        let ignored = ignore.split(',').map(|it| it.trim().to_owned()).collect();
        Pair { twins: [twin(0), twin(1)], history, ignored, step: 0 }
    }

    /// The whole history; the first difference where there is one.
    pub(crate) fn run(mut self, sabotage: Sabotage) -> Result<(), String> {
        while let Some(step) = self.history.next(&self.twins[0]) {
            self.step += 1;
            self.go(&step)?;
            if let Some(remote) = self.history.has_synchronized(&step) {
                self.compare(remote)?;
            }
            if step == Step::Compare {
                self.twins[1].sabotage(sabotage);
                self.compare_all()?;
            }
        }
        Ok(())
    }

    fn go(&mut self, step: &Step) -> Result<(), String> {
        println!("step {}: {step}", self.step);
        let [old, new] = self.twins.each_mut().map(|twin| twin.go(step));
        println!("{new}");
        match old == new {
            true => Ok(()),
            false => Err(self.story(step, &unequal(&old, &new))),
        }
    }

    fn compare_all(&self) -> Result<(), String> {
        self.compare_images("the center", |twin| twin.center_image(&self.ignored))?;
        self.history.remotes().iter().try_for_each(|remote| self.compare(remote))
    }

    fn compare(&self, remote: &str) -> Result<(), String> {
        self.compare_images(remote, |twin| twin.remote_image(remote, &self.ignored))
    }

    fn compare_images(
        &self,
        of: &str,
        read: impl Fn(&Twin) -> super::image::Image,
    ) -> Result<(), String> {
        let mut found = None;
        for _ in 0..READS_MAX {
            found = difference(&self.twins.each_ref().map(&read));
            if found.is_none() {
                return Ok(());
            }
            sleep(READ_PAUSE);
        }
        Err(self.story(&Step::Compare, &format!("{of} differs:\n{}", found.unwrap_or_default())))
    }

    fn story(&self, step: &Step, what: &str) -> String {
        format!("step {}, {step}:\n{what}", self.step)
    }
}

/// Two answers, from a little before the place where they part.
fn unequal(old: &str, new: &str) -> String {
    let same = old.chars().zip(new.chars()).take_while(|(old, new)| old == new).count();
    let shown = |answer: &str| -> String {
        answer.chars().skip(same.saturating_sub(SHOWN_BEFORE)).take(SHOWN_MAX).collect()
    };
    format!("  old: …{}\n  new: …{}", shown(old), shown(new))
}

impl Twin {
    /// Does one step; what it answers.
    fn go(&mut self, step: &Step) -> String {
        match step {
            Step::Run(arguments) => self.run(arguments),
            Step::File(name, content) => {
                self.write_file(name, content);
                String::new()
            }
            Step::Serve => {
                self.serve();
                String::new()
            }
            Step::Write(statements, is_checked) => self.write(statements, *is_checked),
            Step::Own(sql) => self.own(sql),
            Step::WriteRemote(remote, statements) => self.write_remote(remote, statements),
            Step::CopyRemote(remote, copy) => self.copy_remote(remote, copy),
            Step::Compare => String::new(),
        }
    }

    fn sabotage(&mut self, sabotage: Sabotage) {
        let system = match self.is_sqlite() {
            true => "syncline_table",
            false => "syncline.syncline_table",
        };
        let done = match sabotage {
            Sabotage::None => return,
            Sabotage::UserRow => self.own("INSERT INTO member VALUES (9, 'sabotage')"),
            Sabotage::SystemRow => {
                self.own(&format!("UPDATE {system} SET conflict_rule = 'sabotage'"))
            }
            Sabotage::Remote => {
                let sql = "INSERT INTO syncline_state VALUES ('x', 'sabotage')";
                self.write_remote("ann", &[sql.to_owned()])
            }
            Sabotage::Answer => {
                std::fs::remove_file(self.path(&token("ann"))).unwrap();
                "done".to_owned()
            }
        };
        assert_eq!(done, "done");
    }
}
