//! A history in words and SQL.

use super::History;
use super::fleet::USERS;
use super::step::{Fault, Mode, Step};
use super::write::Write;

impl History {
    /// One step.
    pub fn say(&self, step: &Step) -> String {
        match step {
            Step::WriteRemote { remote, writes } => {
                format!("remote {remote} writes: {}", self.sql(writes))
            }
            Step::WriteCenter { writes } => format!("the center writes: {}", self.sql(writes)),
            Step::Synchronize { remote, mode, fault } => {
                let what = match mode {
                    Mode::Full => "synchronizes",
                    Mode::Up => "uploads",
                    Mode::Down => "downloads",
                };
                let fault = match fault {
                    Fault::None => String::new(),
                    Fault::CutUp(bytes) => {
                        format!(", the network breaks after {bytes} bytes from it")
                    }
                    Fault::CutDown(bytes) => {
                        format!(", the network breaks after {bytes} bytes to it")
                    }
                    Fault::Kill(bytes) => format!(", it is killed after {bytes} bytes"),
                    Fault::Vanish(bytes) => {
                        format!(", it is killed after {bytes} bytes, and its server waits")
                    }
                    Fault::Stall(bytes) => format!(", it stands still after {bytes} bytes"),
                };
                format!("remote {remote} {what}{fault}")
            }
            Step::Continue { remote } => format!("remote {remote} goes on"),
            Step::SetClaims { user, rep } => format!("user {} is {rep} now", USERS[*user].0),
            Step::Deploy { model } => {
                format!("deploy: {}", model.toml(&self.schema).replace('\n', "; "))
            }
            Step::Disk { place, trouble, after } => {
                format!("{trouble:?} of {place:?} after {after} operations")
            }
            Step::StepClock { place, by_ms } => {
                format!("the clock of {place:?} moves by {by_ms} ms")
            }
            _ => format!("{step:?}"),
        }
    }

    fn sql(&self, writes: &[Write]) -> String {
        let sql = writes.iter().filter_map(|write| write.sql(&self.schema, &|_, _| true));
        sql.collect::<Vec<_>>().join("; ")
    }

    /// All of it.
    pub fn tell(&self) -> String {
        let mut story = format!("{}{}", self.schema.create(), self.model.toml(&self.schema));
        for (number, step) in self.steps.iter().enumerate() {
            story.push_str(&format!("{number:4}  {}\n", self.say(step)));
        }
        story
    }
}
