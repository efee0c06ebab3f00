//! `syncline demo`: a complete example on embedded SQLite, with output at each step.
//!
//! It uses the same commands as a user (`demo/program.rs`). Only to kill the server in the middle
//! of a synchronization it uses the client engine itself (`demo/interruption.rs`). The last step is
//! the comparison (`demo/comparison.rs`).

mod comparison;
mod folder;
mod interruption;
mod program;
mod schema;
mod server_process;

use crate::args::DemoOptions;
use crate::sync::interruption::{INTERRUPTED, noted};
use client::transport::tcp::{self, Timeouts};
use client::{Components, Credential, Mode, Remote, Request, Transport};
use folder::Folder;
use interruption::{FatalTransport, KillPoint};
use model::{Code, Failure};
use program::Program;
use schema::{BULK_PURCHASES, REPRESENTATIVES};
use serde_json::Value;
use server_process::ServerProcess;
use signal_hook::consts::SIGINT;
use signal_hook::low_level;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use terminal::output;

/// Where in cleo's upload the server is killed: about half way.
const KILLED_AFTER_BYTES: usize = 1 << 20;

/// Tells the story from beginning to end, or until Ctrl-C.
pub(crate) fn run(options: &DemoOptions) -> Result<(), Failure> {
    let folder = Folder::prepare(&options.dir)?;
    // After a first Ctrl-C the command under way is the last.
    let interrupted = noted(&[SIGINT], INTERRUPTED)?;
    let told = tell_story(folder, interrupted.clone());
    // The story has ended its server, also where it ended early.
    if interrupted.load(Ordering::SeqCst) {
        let folder = options.dir.display();
        output::notice(&output::one_line(&format!(
            "interrupted: what the demo has made so far stays in {folder}; the next `syncline \
             demo` there begins anew"
        )));
        low_level::exit(INTERRUPTED);
    }
    told
}

fn tell_story(folder: Folder, interrupted: Arc<AtomicBool>) -> Result<(), Failure> {
    let program = Program::new(&folder, interrupted)?;
    let stage = Stage { folder, program };

    stage.prepare()?;
    let server = stage.start_server()?;
    stage.first_synchronization(&server)?;
    stage.work_offline()?;
    stage.meet(&server)?;
    let server = stage.kill_in_the_middle(server)?;
    let server = stage.lose_the_answer(server)?;
    stage.settle(&server)?;

    chapter("The result: every remote compared with the consolidated database, row by row")?;
    comparison::run(&stage.folder)?;
    server.stop()?;
    stage.farewell()
}

/// Where the demo plays.
struct Stage {
    folder: Folder,
    program: Program,
}

impl Stage {
    fn prepare(&self) -> Result<(), Failure> {
        chapter("A consolidated database for field sales")?;
        // The key of session tokens will lie in it.
        self.folder.write("consolidated.db", "")?;
        schema::create(&self.folder.consolidated())?;
        tell(&format!(
            "{} holds employees, customers, products, orders with lines, purchases",
            self.folder.consolidated().display()
        ))?;
        tell("one command writes the model, one prepares the database:")?;
        self.program.run(&["init", ".", "--consolidated", "sqlite:consolidated.db"])?;
        self.program.run(&["deploy"])?;

        chapter("Three sales representatives: ann, ben and cleo")?;
        for (name, number) in REPRESENTATIVES {
            let file = format!("passwords/{name}");
            self.folder.write(&file, &format!("{}\n", password(name)))?;
            let claim = format!("employee_id={number}");
            self.program.run(&[
                "user",
                "add",
                name,
                "--password-file",
                &file,
                "--claim",
                &claim,
            ])?;
        }
        Ok(())
    }

    fn start_server(&self) -> Result<ServerProcess, Failure> {
        ServerProcess::start(&self.program, &self.folder)
    }

    fn first_synchronization(&self, server: &ServerProcess) -> Result<(), Failure> {
        chapter("The first synchronization creates each remote")?;
        for (name, _) in REPRESENTATIVES {
            self.synchronize(name, server)?;
        }
        Ok(())
    }

    fn work_offline(&self) -> Result<(), Failure> {
        chapter("All three work offline, with plain SQL on plain SQLite files")?;
        tell("ann takes an order and enters a new phone number of customer 7")?;
        self.write("ann", &format!("{} {}", order("ann-1", 7, 2), phone(7, "+49 171 1111111")))?;
        tell("ben takes an order and enters another number of the same customer: a conflict")?;
        self.write("ben", &format!("{} {}", order("ben-1", 9, 3), phone(7, "+49 172 2222222")))?;
        tell("cleo deletes order hq-5, and with it its three lines")?;
        self.write("cleo", "DELETE FROM \"order\" WHERE order_id = 'hq-5';")?;
        tell(
            "at the center: a price changes, a product is added, a customer without orders is \
             deleted",
        )?;
        schema::write(
            &self.folder.consolidated(),
            "UPDATE product SET price = price + 1 WHERE product_id = 3;
             INSERT INTO product VALUES (41, 'Product 41', 4.5);
             DELETE FROM customer WHERE customer_id = 60;",
        )?;
        let waiting = self.program.run(&["remote", "pending", "remotes/ann.db"])?;
        for line in waiting.lines() {
            tell(line)?;
        }
        Ok(())
    }

    fn meet(&self, server: &ServerProcess) -> Result<(), Failure> {
        chapter("They synchronize: ann first, so ben's phone number is in conflict")?;
        let mut conflicts = 0;
        for (name, _) in REPRESENTATIVES {
            conflicts += self.synchronize(name, server)?["conflicts"].as_i64().unwrap_or(0);
        }
        let phone = "SELECT phone FROM customer WHERE customer_id = 7";
        tell(&format!(
            "{}; customer 7 has {} at the center and {} at ben's remote",
            output::counted(conflicts.unsigned_abs(), "conflict"),
            schema::text(&self.folder.consolidated(), phone)?,
            schema::text(&self.folder.remote("ben"), phone)?
        ))?;
        expect(conflicts == 1, "one conflict")
    }

    fn kill_in_the_middle(&self, server: ServerProcess) -> Result<ServerProcess, Failure> {
        chapter("The server is killed in the middle of an upload")?;
        tell(&format!("cleo enters {BULK_PURCHASES} purchases"))?;
        self.write(
            "cleo",
            &format!(
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n
                     WHERE i < {BULK_PURCHASES})
                 INSERT INTO purchase SELECT 4, 1000 + i, 1 + i % 50, i * 0.5,
                     datetime('2025-06-01', '+' || i || ' minutes'),
                     'purchase ' || i || ' of the bulk'
                 FROM n;"
            ),
        )?;
        tell(&format!("after {KILLED_AFTER_BYTES} bytes of the upload: kill -9 {}", server.id()))?;
        let failure = self.interrupted("cleo", server, KillPoint::Sent(KILLED_AFTER_BYTES))?;
        tell(&format!("cleo's synchronization ends: error {}: {failure}", failure.code()))?;
        let arrived = self.count_at_center(BULK)?;
        tell(&format!("{arrived} of {BULK_PURCHASES} rows arrived: an upload is one transaction"))?;
        expect(arrived == 0, "no row of the interrupted upload")?;

        tell("the server starts again, cleo synchronizes again:")?;
        let server = self.start_server()?;
        self.synchronize("cleo", &server)?;
        let arrived = self.count_at_center(BULK)?;
        tell(&format!("{arrived} of {BULK_PURCHASES} rows arrived"))?;
        expect(arrived == BULK_PURCHASES, "every row of the repeated upload")?;
        Ok(server)
    }

    fn lose_the_answer(&self, server: ServerProcess) -> Result<ServerProcess, Failure> {
        chapter("The server is killed after the commit, before its answer arrives")?;
        tell(
            "ann enters one purchase; her remote does not receive the answer that it was committed",
        )?;
        self.write("ann", "INSERT INTO purchase VALUES (2, 5000, 7, 19.5, '2025-07-01', 'once');")?;
        let center = self.folder.consolidated();
        let committed = move || Ok(schema::count(&center, ONCE)? > 0);
        let failure = self.interrupted("ann", server, KillPoint::Committed(Box::new(committed)))?;
        tell(&format!("ann's synchronization ends: error {}: {failure}", failure.code()))?;
        tell("ann changes the same row again before the outcome is known")?;
        self.write("ann", "UPDATE purchase SET cost = 20.5 WHERE purchase_id = 5000;")?;

        let server = self.start_server()?;
        self.synchronize("ann", &server)?;
        let arrived = self.count_at_center(ONCE)?;
        tell(&format!("the purchase is at the center {arrived} time, with the new cost"))?;
        expect(arrived == 1, "the purchase once")?;
        Ok(server)
    }

    fn settle(&self, server: &ServerProcess) -> Result<(), Failure> {
        chapter("No more writes: all remotes synchronize once more")?;
        for (name, _) in REPRESENTATIVES {
            self.synchronize(name, server)?;
        }
        Ok(())
    }

    fn farewell(&self) -> Result<(), Failure> {
        chapter("What to try next")?;
        if let Some(executable) = self.program.path_to_show() {
            output::line(&format!("  alias syncline={executable}"))?;
        }
        output::line(&format!(
            "  cd {}
  syncline serve &
  sqlite3 remotes/ann.db \"UPDATE customer SET phone = '110' WHERE customer_id = 1\"
  syncline remote pending remotes/ann.db
  syncline sync remotes/ann.db --server tcp://127.0.0.1:2439 --password-file passwords/ann
  syncline scripts show          the SQL behind it, yours to read
  less model.toml                directions and conflict rules, yours to change",
            self.folder.root().display()
        ))
    }

    /// Synchronizes as a process of its own and tells what moved.
    fn synchronize(&self, name: &str, server: &ServerProcess) -> Result<Value, Failure> {
        let result = self.program.sync(name, server.url())?;
        let moved = |part: &str, operation: &str, noun: &str| {
            output::counted(result[part][operation].as_u64().unwrap_or(0), noun)
        };
        tell(&format!(
            "{name}: up {}, {}, {}; down {}, {}; {} ms",
            moved("uploaded", "inserts", "insert"),
            moved("uploaded", "updates", "update"),
            moved("uploaded", "deletes", "delete"),
            moved("downloaded", "upserts", "row"),
            moved("downloaded", "deletes", "delete"),
            result["duration_ms"]
        ))?;
        Ok(result)
    }

    /// Synchronizes while the server is killed; gives the failure that the remote saw.
    fn interrupted(
        &self,
        name: &str,
        server: ServerProcess,
        point: KillPoint,
    ) -> Result<Failure, Failure> {
        let address = server.url().to_owned();
        let (server, mut point) = (Rc::new(RefCell::new(server)), Some(point));
        let mut connect = || -> Result<Box<dyn Transport>, Failure> {
            let transport = tcp::connect(&address, Timeouts::default())?;
            match point.take() {
                Some(point) => Ok(Box::new(FatalTransport::new(transport, server.clone(), point))),
                None => Ok(Box::new(transport)),
            }
        };
        let request = Request {
            mode: Mode::Full,
            credential: Credential::Password(password(name)),
            client: "syncline demo".to_owned(),
        };
        let components = Components::system(&std::env::temp_dir())?;
        let mut remote = Remote::open(&self.folder.remote(name), components)?;
        match remote.synchronize(&request, &mut connect, &mut |_| {}) {
            Err(failure) => Ok(failure),
            Ok(_) => Err(Failure::new(
                Code::Bug,
                "a synchronization succeeded although its server was killed",
            )),
        }
    }

    fn write(&self, name: &str, sql: &str) -> Result<(), Failure> {
        schema::write(&self.folder.remote(name), sql)
    }

    fn count_at_center(&self, query: &str) -> Result<i64, Failure> {
        schema::count(&self.folder.consolidated(), query)
    }
}

/// Counts what arrived of cleo's purchases.
const BULK: &str = "SELECT count(*) FROM purchase WHERE employee_id = 4 AND purchase_id > 1000";
/// Counts how often ann's one purchase arrived.
const ONCE: &str = "SELECT count(*) FROM purchase WHERE employee_id = 2 AND purchase_id = 5000";

fn order(order_id: &str, customer_id: i64, employee_id: i64) -> String {
    format!(
        "INSERT INTO \"order\" VALUES ('{order_id}', {customer_id}, {employee_id}, '2025-06-01');
         INSERT INTO order_line VALUES ('{order_id}', 1, 3, 2), ('{order_id}', 2, 5, 1);"
    )
}

fn phone(customer_id: i64, number: &str) -> String {
    format!("UPDATE customer SET phone = '{number}' WHERE customer_id = {customer_id};")
}

// It is shown, because users may try things with the demo.
fn password(name: &str) -> String {
    format!("{name}-demo")
}

fn chapter(title: &str) -> Result<(), Failure> {
    output::line(&format!("\n{title}"))
}

fn tell(text: &str) -> Result<(), Failure> {
    output::line(&format!("  {}", output::one_line(text)))
}

fn expect(holds: bool, what: &str) -> Result<(), Failure> {
    if holds {
        return Ok(());
    }
    Err(Failure::new(Code::Bug, format!("the demo expected {what}")))
}
