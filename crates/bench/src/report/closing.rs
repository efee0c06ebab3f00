//! The end of the page: what is missing, how to read the figures, how to repeat the measurement.

use super::headline::operation_title;
use super::html::{Page, upper_first};
use super::number::{bytes, percent, plain};
use super::published;
use super::suite::{Figures, Run, RunResult, Suite};
use serde_json::Value;

/// Different values of one setting that are written out.
const VALUES_MAX: usize = 8;

/// How many runs have figures, failed, or are missing.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Count {
    pub(super) measured: u64,
    pub(super) failed: u64,
    pub(super) not_run: u64,
}

impl Count {
    pub(super) fn of(suite: &Suite) -> Count {
        let mut count = Count::default();
        for (_, _, run) in suite.runs() {
            match run.outcome {
                RunResult::Measured(_) => count.measured += 1,
                RunResult::Failed(_) => count.failed += 1,
                RunResult::NotRun => count.not_run += 1,
            }
        }
        count
    }

    pub(super) fn all(self) -> u64 {
        self.measured + self.failed + self.not_run
    }
}

/// Tests that were not run, with the reason.
pub(super) fn write_missing(page: &mut Page, suite: &Suite) {
    let missing = || suite.tests.iter().filter(|test| test.points.is_empty());
    if missing().next().is_none() {
        return;
    }
    page.markup(
        "<section id=\"missing\">\n<h2>Published tests that were not measured here</h2>\n<dl>\n",
    );
    for test in missing() {
        page.element("<dt>", &test.title, "</dt>");
        page.element("<dd>", test.missing.as_deref().unwrap_or("no runs"), "</dd>\n");
    }
    page.markup("</dl>\n</section>\n");
}

/// How the figures were measured, and what they can be compared with.
pub(super) fn write_notes(page: &mut Page, suite: &Suite) {
    page.markup("<section id=\"notes\">\n<h2>How to read the figures</h2>\n<ul class=\"notes\">\n");
    let cores = machine_number(suite, "cores");
    page.markup("<li>All parts of Syncline ran on <b>one machine");
    if let Some(cores) = cores {
        page.markup(" with ").text(&plain(cores)).markup(if cores == 1.0 {
            " core"
        } else {
            " cores"
        });
    }
    page.markup(
        "</b>: the database, the server and all clients, without a network between them. The \
         published figures of 2012 were measured on two servers with 12 cores each and ten client \
         machines, connected by a network. The processors of the two measurements are more than \
         ten years apart. So the page compares whole systems, not programs on equal \
         machines.</li>\n\
         <li>The time is the <b>total server time</b>, summed over the sets. For Syncline it \
         begins when all clients may start and ends when the last client has committed. It \
         includes connecting, authentication, and the work of the clients. The published times \
         were taken at the server, from the first begin_synchronization to the last \
         end_synchronization, and include none of these.</li>\n<li>",
    );
    page.text(&row_sizes(suite));
    page.markup(
        " After every run the number of rows and a checksum are compared between the remotes and \
         the consolidated database. A run with a wrong row has no figures.</li>\n\
         <li><b>The bare database</b> is the same work on a table without change tracking, done \
         by the benchmark itself without a server. No synchronization with this database can be \
         faster.</li>\n",
    );
    let fsync = distinct(suite, "/settings/consolidated/fsync");
    if fsync.iter().any(|value| value == "off") {
        page.markup(
            "<li>The database did not wait for its disk (<code>fsync</code> is off). The published \
             figures were measured with databases in memory.</li>\n",
        );
    }
    if distinct(suite, "/machine/build").iter().any(|build| build == "debug") {
        page.markup(
            "<li><b>This was a debug build.</b> Its figures say nothing about a release.</li>\n",
        );
    }
    let most =
        suite.measured().filter_map(|(.., figures)| figures.number("/rows")).fold(0.0, f64::max);
    if (1.0..1e7).contains(&most) {
        page.element("<li>The largest run synchronized ", &plain(most), " rows, ");
        page.markup("each published one 10,000,000. Small runs vary more.</li>\n");
    }
    let count = Count::of(suite);
    if count.failed > 0 {
        page.element("<li>Runs that failed: ", &count.failed.to_string(), ". ");
        page.markup("The page shows the reason in the place of their figures.</li>\n");
    }
    if count.not_run > 0 {
        page.element("<li>Runs that are missing: ", &count.not_run.to_string(), ". ");
        page.markup("Start the suite again to run them.</li>\n");
    }
    page.markup("</ul>\n</section>\n");
}

/// How large the rows are.
fn row_sizes(suite: &Suite) -> String {
    let bytes = distinct(suite, "/bytes_per_row_on_wire");
    let ours = match bytes.is_empty() {
        true => String::new(),
        false => format!(" Syncline sends {} bytes per row.", bytes.join(" or ")),
    };
    format!(
        "The tables have the published columns, with 92 bytes of values per row (116 in the test \
         of merge replication).{ours}"
    )
}

/// The machines on which the figures were measured, and the published ones.
pub(super) fn write_machine(page: &mut Page, suite: &Suite) {
    page.markup("<section id=\"machine\">\n<h2>Machine and settings</h2>\n<dl class=\"facts\">\n");
    let mut fact = |name: &str, values: Vec<String>| {
        if !values.is_empty() {
            page.element("<dt>", name, "</dt>").element("<dd>", &listed(values), "</dd>\n");
        }
    };
    fact("Processor", machine_texts(suite, "cpu"));
    fact("Cores", machine_number(suite, "cores").map(plain).into_iter().collect());
    fact("Memory", machine_number(suite, "memory_bytes").map(bytes).into_iter().collect());
    fact("System", machine_texts(suite, "system"));
    fact("Kernel", machine_texts(suite, "kernel"));
    fact("Syncline", machine_texts(suite, "syncline"));
    fact("Build", machine_texts(suite, "build"));
    fact("Database URL", suite.consolidated.clone().into_iter().collect());
    for key in keys(suite, "/settings/consolidated") {
        let values = distinct(suite, &format!("/settings/consolidated/{key}"));
        fact(&titled(&key), values);
    }
    for key in keys(suite, "/settings").into_iter().filter(|key| !key.starts_with("consolidated")) {
        let values = distinct(suite, &format!("/settings/{key}"));
        fact(&titled(&key), values);
    }
    let baselines = distinct(suite, "/ceiling/technique");
    fact("Bare database", baselines);
    page.markup("</dl>\n<h3>The published figures</h3>\n<dl>\n");
    for source in published::SOURCES {
        page.element("<dt>", source.title, "</dt>").element("<dd>", source.hardware, ".</dd>\n");
    }
    page.markup("</dl>\n</section>\n");
}

/// The commands of the suite and of each run.
pub(super) fn write_commands(page: &mut Page, suite: &Suite) {
    page.markup("<section id=\"repeat\">\n<h2>Repeat the measurement</h2>\n");
    if let Some(command) = &suite.command {
        page.markup("<p>All runs, and this page:</p>\n");
        page.element("<pre>", command, "\nsyncline bench report DIR</pre>\n");
    }
    if suite.runs().any(|(_, _, run)| run.command.is_some()) {
        page.markup("<p>One run at a time:</p>\n<pre class=\"commands\">");
        for test in &suite.tests {
            let commands: Vec<&str> = test
                .points
                .iter()
                .flat_map(|point| &point.runs)
                .filter_map(|run| run.command.as_deref())
                .collect();
            if !commands.is_empty() {
                page.element("<b># ", &test.title, "</b>\n");
            }
            for command in commands {
                page.text(command).markup("\n");
            }
        }
        page.markup("</pre>\n");
    }
    page.markup("</section>\n");
}

/// A column of the table of all runs: heading, place in the result, and how it is written.
type Column = (&'static str, &'static str, fn(f64) -> String);

const COLUMNS: [Column; 15] = [
    ("rows/s", "/rows_per_second", plain),
    ("syncs/s", "/syncs_per_second", plain),
    ("total, s", "/total_server_time_s", plain),
    ("median, ms", "/latency_ms/p50", plain),
    ("99 %, ms", "/latency_ms/p99", plain),
    ("database, µs/row", "/cpu_us_per_row/consolidated", plain),
    ("server, µs/row", "/cpu_us_per_row/server", plain),
    ("clients, µs/row", "/cpu_us_per_row/clients", plain),
    ("bare database, rows/s", "/ceiling/rows_per_second", plain),
    ("of bare database", "/ratio_to_ceiling", percent),
    ("of tracked delete", "/ratio_to_tracked_delete", percent),
    ("server : database", "/server_to_consolidated_cpu", plain),
    ("server memory", "/peak_server_memory_bytes", bytes),
    ("retries", "/retries", plain),
    ("errors", "/errors", plain),
];

/// A table of all runs.
pub(super) fn write_every_run(page: &mut Page, suite: &Suite) {
    page.markup("<section id=\"runs\">\n<h2>All runs</h2>\n");
    page.markup(
        "<p class=\"lead\">µs/row is processor time, as the operating system counts it. A – means \
         that the time is not known, or that it is included in the time of another process. “Of \
         tracked delete” compares with deletes on a table where a trigger records every deleted \
         row.</p>\n",
    );
    page.markup(
        "<div class=\"wide\"><table class=\"runs\">\n<caption>All runs</caption>\n<thead><tr>",
    );
    page.markup(
        "<th scope=\"col\">test</th><th scope=\"col\">point</th><th scope=\"col\">operation</th>",
    );
    for (heading, ..) in COLUMNS {
        page.element("<th scope=\"col\">", heading, "</th>");
    }
    page.markup("</tr></thead>\n<tbody>\n");
    for (test, point, run) in suite.runs() {
        page.element("<tr><td>", &test.name, "</td>").element("<td>", &point.label, "</td>");
        page.element("<th scope=\"row\">", operation_title(&run.operation), "</th>");
        cells(page, run);
        page.markup("</tr>\n");
    }
    page.markup("</tbody>\n</table></div>\n</section>\n");
}

fn cells(page: &mut Page, run: &Run) {
    match &run.outcome {
        RunResult::Measured(figures) => {
            for (_, pointer, show) in COLUMNS {
                let text = figures.number(pointer).map_or_else(|| "–".to_owned(), show);
                page.element("<td>", &text, "</td>");
            }
        }
        RunResult::Failed(why) => {
            page.element("<td class=\"failed why\" colspan=\"15\">failed: ", why, "</td>");
        }
        RunResult::NotRun => {
            page.markup("<td class=\"faint why\" colspan=\"15\">not run yet</td>");
        }
    }
}

/// A number of the machine: the suite's, or the largest of its runs. A test may give a run fewer
/// processors.
pub(super) fn machine_number(suite: &Suite, key: &str) -> Option<f64> {
    let of_suite = suite.machine.get(key).and_then(Value::as_f64);
    of_suite.or_else(|| {
        let numbers =
            suite.measured().filter_map(|(.., figures)| figures.number(&format!("/machine/{key}")));
        numbers.max_by(f64::total_cmp)
    })
}

/// What the suite and its runs say about the machine. Runs on several machines give several texts.
pub(super) fn machine_texts(suite: &Suite, key: &str) -> Vec<String> {
    let mut texts = distinct(suite, &format!("/machine/{key}"));
    if let Some(text) = suite.machine.get(key).and_then(Value::as_str)
        && !texts.iter().any(|known| known == text)
    {
        texts.insert(0, text.to_owned());
    }
    texts
}

/// The different values at a place of the results.
pub(super) fn distinct(suite: &Suite, pointer: &str) -> Vec<String> {
    let mut values: Vec<String> = Vec::new();
    for (.., figures) in suite.measured() {
        let value = match figures.part(pointer) {
            Value::Null => continue,
            Value::String(text) => text.clone(),
            Value::Number(number) => plain(number.as_f64().unwrap_or_default()),
            other => other.to_string(),
        };
        if !values.contains(&value) {
            values.push(value);
        }
    }
    values
}

/// The keys of an object in the results.
fn keys(suite: &Suite, pointer: &str) -> Vec<String> {
    let mut keys: Vec<String> = Vec::new();
    let objects = suite
        .measured()
        .filter_map(|(.., figures): (_, _, _, &Figures)| figures.part(pointer).as_object());
    for key in objects.flat_map(|object| object.keys()) {
        if !keys.contains(key) {
            keys.push(key.clone());
        }
    }
    keys
}

/// A key of the result in words.
fn titled(key: &str) -> String {
    upper_first(&key.replace('_', " "))
}

fn listed(mut values: Vec<String>) -> String {
    let more = values.len().saturating_sub(VALUES_MAX);
    values.truncate(VALUES_MAX);
    let mut text = values.join(", ");
    if more > 0 {
        text.push_str(&format!(", and {more} more"));
    }
    text
}
