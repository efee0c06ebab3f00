//! The client processes from the view of the run.

pub(crate) mod link;
pub(crate) mod process;

use crate::barrier::{self, Answer, Assignment, Order, Report};
use crate::clock::Stopwatch;
use crate::machine::cpu;
use link::Link;
use model::{Code, Failure};
use std::io::BufReader;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

/// Clients of one process: far from the limits of threads and descriptors.
const CLIENTS_PER_PROCESS_MAX: u32 = 2000;

/// Clients below which another process gains nothing.
const CLIENTS_PER_PROCESS_MIN: u32 = 16;

/// All client processes. Dropping them ends them.
#[derive(Debug)]
pub(crate) struct Clients {
    processes: Vec<Process>,
}

#[derive(Debug)]
struct Process {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

/// An order that all clients have executed.
#[derive(Debug)]
pub(crate) struct Round {
    /// From the opening of the barrier to the end of the last client.
    pub(crate) duration: Duration,
    pub(crate) report: Report,
}

/// How many clients each process plays.
pub(crate) fn shares(clients: u32, cores: u32) -> Vec<u32> {
    let processes = clients
        .div_ceil(CLIENTS_PER_PROCESS_MAX)
        .max(cores.min(clients.div_ceil(CLIENTS_PER_PROCESS_MIN)));
    (0..processes).map(|at| clients / processes + u32::from(at < clients % processes)).collect()
}

impl Clients {
    /// Starts the processes, at the other end of the link if there is one, and waits until every
    /// client is ready. The assignment is for the first one, and for all clients.
    pub(crate) fn start(
        assignment: &Assignment,
        shares: &[u32],
        link: Option<&Link>,
    ) -> Result<Clients, Failure> {
        let failed = |error| Failure::new(Code::Bug, "cannot start the clients").source(error);
        let executable = std::env::current_exe().map_err(failed)?;
        let mut clients = Clients { processes: Vec::new() };
        let mut first = 0;
        for count in shares {
            let mut command = match link {
                Some(link) => link.other_end(&executable),
                None => Command::new(&executable),
            };
            let mut child = command
                .args(["bench", "clients"])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .map_err(failed)?;
            let (Some(orders), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
                return Err(gone());
            };
            let mut process = Process { child, orders, answers: BufReader::new(answers) };
            let assignment = Assignment { first, count: *count, ..assignment.clone() };
            barrier::say(&mut process.orders, &assignment)?;
            clients.processes.push(process);
            first += count;
        }
        for process in &mut clients.processes {
            process.hear_the_end()?;
        }
        Ok(clients)
    }

    /// Lets all clients start, and waits until the last one is done.
    pub(crate) fn carry_out(&mut self, order: Order) -> Result<Round, Failure> {
        let started = Stopwatch::start();
        for process in &mut self.processes {
            barrier::say(&mut process.orders, &order)?;
        }
        for process in &mut self.processes {
            process.hear_the_end()?;
        }
        let duration = started.elapsed();
        let mut report = Report::default();
        for process in &mut self.processes {
            let part = process.hear_report()?;
            report.latencies_us.extend(part.latencies_us);
            report.retries += part.retries;
            report.errors += part.errors;
            report.conflicts += part.conflicts;
            report.network += part.network;
            report.checksums.extend(part.checksums);
        }
        Ok(Round { duration, report })
    }

    /// Processor time of all processes so far.
    pub(crate) fn cpu(&self) -> Option<Duration> {
        self.ids().map(cpu::used_by).sum()
    }

    /// The numbers of the processes.
    pub(crate) fn ids(&self) -> impl Iterator<Item = u32> {
        self.processes.iter().map(|process| process.child.id())
    }
}

impl Process {
    fn hear_the_end(&mut self) -> Result<(), Failure> {
        match barrier::hear(&mut self.answers)? {
            Some(Answer::Ended) => Ok(()),
            Some(Answer::Failed(failed)) => Err(failed.into()),
            Some(Answer::Done(_)) | None => Err(gone()),
        }
    }

    fn hear_report(&mut self) -> Result<Report, Failure> {
        match barrier::hear(&mut self.answers)? {
            Some(Answer::Done(report)) => Ok(report),
            Some(Answer::Failed(failed)) => Err(failed.into()),
            Some(Answer::Ended) | None => Err(gone()),
        }
    }
}

fn gone() -> Failure {
    Failure::new(Code::Bug, "a client process of the benchmark ended early")
}

impl Drop for Clients {
    fn drop(&mut self) {
        for process in &mut self.processes {
            // Fails where it has ended already, which is what is wanted.
            let _ = process.child.kill();
            let _ = process.child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::shares;

    #[test]
    fn every_client_has_its_process() {
        assert_eq!(shares(1, 8), [1]);
        assert_eq!(shares(100, 2), [50, 50]);
        assert_eq!(shares(33, 8), [11, 11, 11]);
        assert_eq!(shares(5000, 2), [1667, 1667, 1666]);
    }
}
