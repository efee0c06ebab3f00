//! `syncline bench report`: one page with what a suite has measured and what was published.
//!
//! The page is a single file: it contains its style and its charts, and needs no script and no
//! other file. It can be written at any time, and shows which runs failed and which are missing.
//! `suite.rs` reads the results, `published.rs` has the published figures, `comparison.rs` brings
//! both together for one chart, and `costs.rs` for one table of costs. `headline.rs`, `section.rs`
//! and `closing.rs` write the page from top to bottom.

mod chart;
mod closing;
mod comparison;
mod costs;
mod headline;
mod html;
mod number;
mod palette;
mod published;
mod scale;
mod section;
mod suite;

use crate::options::BenchReportOptions;
use closing::{Count, distinct, machine_number, machine_texts};
use headline::Claim;
use html::{Page, upper_first};
use model::{Code, Failure};
use suite::{Suite, Test};
use terminal::output;

/// Writes the page.
pub(crate) fn run(options: &BenchReportOptions) -> Result<(), Failure> {
    let suite = suite::read(&options.dir)?;
    let page = write(&suite)?;
    std::fs::write(&options.output, page).map_err(|error| {
        let message = format!("cannot write {}", options.output.display());
        Failure::new(Code::CannotWrite, message).source(error)
    })?;
    let count = Count::of(&suite);
    output::line(&format!("{}: {}", options.output.display(), state(count)))
}

/// `figures of 62 of 64 runs, 1 failed, 1 not run yet`.
fn state(count: Count) -> String {
    let runs = output::counted(count.all(), "run");
    let mut text = match count.measured == count.all() {
        true => format!("figures of {runs}"),
        false => format!("figures of {} of {runs}", count.measured),
    };
    if count.failed > 0 {
        text.push_str(&format!(", {} failed", count.failed));
    }
    if count.not_run > 0 {
        text.push_str(&format!(", {} not run yet", count.not_run));
    }
    text
}

fn write(suite: &Suite) -> Result<String, Failure> {
    let tests = || suite.tests.iter().filter(|test| !test.points.is_empty());
    let mut page = Page::default();
    page.markup(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <link rel=\"icon\" href=\"data:,\">\n<title>Syncline benchmark</title>\n<style>\n",
    );
    page.style_sheet(&palette::style_sheet()).markup(include_str!("report/style.css"));
    page.markup("</style>\n</head>\n<body>\n");
    header(&mut page, suite, tests());
    page.markup("<main>\n<section id=\"headlines\">\n<h2>Four operations</h2>\n");
    page.markup(
        "<p class=\"lead\">For each operation: the fastest run of Syncline and the best published \
         figure.</p>\n",
    );
    headline::write(&mut page, suite)?;
    machines(&mut page, suite);
    page.markup("</section>\n");
    for test in tests() {
        section::write(&mut page, test)?;
    }
    closing::write_missing(&mut page, suite);
    closing::write_notes(&mut page, suite);
    closing::write_machine(&mut page, suite);
    closing::write_commands(&mut page, suite);
    closing::write_every_run(&mut page, suite);
    page.markup("</main>\n</body>\n</html>\n");
    Ok(page.into_text())
}

fn header<'a>(page: &mut Page, suite: &Suite, tests: impl Iterator<Item = &'a Test>) {
    page.markup("<header>\n<p class=\"kicker\">Syncline benchmark</p>\n");
    page.markup("<h1>Many remotes, one database, rows per second</h1>\n<p class=\"lead\">");
    match headline::claim(suite) {
        Claim::Ahead { operations, of, rows_with_conflicts } => {
            page.markup("<strong>Ahead of the published figures in ").text(&operations.to_string());
            page.markup(" of ").text(&output::counted(of as u64, "operation"));
            page.markup(".</strong> With 1 % conflicts updates reach ");
            page.text(&number::plain(rows_with_conflicts)).markup(" rows a second. ");
        }
        Claim::Nothing => {
            page.markup(
                "These figures cannot be compared with the published ones. A comparison needs a \
                 build with --profile dist, 1,000 clients × 1,000 rows × 10 sets, a database that \
                 waits for its disk, and a run with 1 % conflicts. ",
            );
        }
    }
    if let Some(started) = &suite.started {
        page.markup("Started ").text(&moment(started)).markup(". ");
    }
    page.text(&upper_first(&state(Count::of(suite)))).markup(".");
    if let Some(scale) = suite.scale.filter(|scale| scale.is_finite()) {
        page.markup(" Scale ").text(&number::plain(scale)).markup(".");
    }
    page.markup("</p>\n<nav aria-label=\"Contents\"><ul>\n");
    for test in tests {
        page.markup("<li><a href=\"#test-").text(&test.name).markup("\">").text(&test.title);
        page.markup("</a></li>\n");
    }
    page.markup(
        "<li><a href=\"#notes\">How to read the figures</a></li>\n\
         <li><a href=\"#machine\">Machine and settings</a></li>\n\
         <li><a href=\"#repeat\">Repeat the measurement</a></li>\n\
         <li><a href=\"#runs\">All runs</a></li>\n</ul></nav>\n</header>\n",
    );
}

/// The machines on which the figures of the headline were measured.
fn machines(page: &mut Page, suite: &Suite) {
    let mut ours = machine_texts(suite, "cpu");
    if let Some(cores) = machine_number(suite, "cores") {
        ours.push(output::counted(cores as u64, "core"));
    }
    ours.extend(machine_number(suite, "memory_bytes").map(number::bytes));
    let database: Vec<String> = ["database", "version"]
        .iter()
        .flat_map(|key| distinct(suite, &format!("/settings/consolidated/{key}")))
        .collect();
    page.markup("<dl class=\"machines\">\n<dt class=\"ours\">Syncline</dt>\n<dd>");
    page.text(&ours.join(", ")).markup(": database, server and all clients on this machine");
    if !database.is_empty() {
        page.markup("; ").text(&database.join(" "));
    }
    page.element(".</dd>\n<dt class=\"newest\">", published::NEWEST.label, "</dt>\n<dd>");
    page.text(published::NEWEST.title).markup(": ").text(published::NEWEST.hardware);
    page.markup(". 10,000 clients × 1,000 rows.</dd>\n</dl>\n");
}

/// `2026-11-22T13:47:18Z` as people write it. Any other text is not changed.
fn moment(started: &str) -> String {
    let parts = started.split_once('T').and_then(|(day, time)| {
        let minutes = time.strip_suffix('Z')?.get(..5)?;
        (day.len() == 10).then(|| format!("{day}, {minutes} UTC"))
    });
    parts.unwrap_or_else(|| started.to_owned())
}
