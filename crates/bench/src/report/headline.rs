//! The four operations: the fastest run of Syncline and the best published figure.

use super::chart::{Bar, Frame, Group, draw_bars};
use super::html::Page;
use super::number::{percent, plain, short, times};
use super::published;
use super::suite::{Figures, Suite};
use crate::machine::PUBLISHED_PROFILE;
use crate::report::palette::Palette;
use model::Failure;

/// Tests with the published rows and operations.
const COMPARABLE: [&str; 3] = ["clients", "workers", "rows"];
/// Rows of each synchronization in the published headline.
const ROWS_PER_SYNC: f64 = 1000.0;
/// Clients and sets of a run that may be compared with the published headline.
const CLIENTS: f64 = 1000.0;
const SETS: f64 = 10.0;
/// The operation that can have conflicts, and the percentage of them in the run that is shown too.
const DISPUTED: &str = "upload-update";
const CONFLICTS_PERCENT: f64 = 1.0;

/// An operation in words.
pub(super) fn operation_title(operation: &str) -> &str {
    match operation {
        "download" => "Download",
        "upload-insert" => "Upload of inserts",
        "upload-update" => "Upload of updates",
        "upload-delete" => "Upload of deletes",
        "exchange" => "Upload and download, half of the rows each",
        other => other,
    }
}

/// The fastest run of an operation for the comparison with the published one. Comparable runs
/// come before those of another size, and real clients before those that only speak the protocol.
fn fastest<'a>(suite: &'a Suite, operation: &str) -> Option<&'a Figures> {
    let candidates = || {
        suite
            .measured()
            .filter(|(test, ..)| COMPARABLE.contains(&&*test.name))
            .filter(|(_, _, run, _)| run.operation == operation)
            .map(|(_, _, _, figures)| figures)
    };
    let best = |accept: &dyn Fn(&&Figures) -> bool| {
        let rows = |one: &&Figures, other: &&Figures| {
            one.rows_per_second.total_cmp(&other.rows_per_second)
        };
        candidates().filter(accept).max_by(rows)
    };
    let real = |figures: &&Figures| figures.text("/settings/clients_on") != Some("wire");
    let size = |figures: &&Figures| figures.number("/rows_per_sync") == Some(ROWS_PER_SYNC);
    best(&|figures| real(figures) && obstacles(figures).is_empty())
        .or_else(|| best(&|figures| obstacles(figures).is_empty()))
        .or_else(|| best(&|figures| real(figures) && size(figures)))
        .or_else(|| best(&|figures| size(figures)))
        .or_else(|| best(&|_| true))
}

/// The fastest run with [`CONFLICTS_PERCENT`], if it may be compared.
fn with_conflicts(suite: &Suite) -> Option<&Figures> {
    suite
        .measured()
        .filter(|(_, _, run, _)| run.operation == DISPUTED)
        .map(|(.., figures)| figures)
        .filter(|figures| {
            figures.number("/settings/conflicts_percent") == Some(CONFLICTS_PERCENT)
                && obstacles(figures).is_empty()
        })
        .max_by(|one, other| one.rows_per_second.total_cmp(&other.rows_per_second))
}

/// Why a run may not be compared with the published headline.
fn obstacles(figures: &Figures) -> Vec<String> {
    let mut obstacles = Vec::new();
    if figures.text("/machine/build") != Some(PUBLISHED_PROFILE) {
        obstacles.push("not a build with --profile dist".to_owned());
    }
    let sizes = [
        ("/clients", CLIENTS, "clients"),
        ("/rows_per_sync", ROWS_PER_SYNC, "rows each"),
        ("/settings/sets", SETS, "sets"),
    ];
    for (pointer, wanted, what) in sizes {
        match figures.number(pointer) {
            Some(number) if number == wanted => {}
            Some(number) => obstacles.push(format!("{} {what}", plain(number))),
            None => obstacles.push(format!("? {what}")),
        }
    }
    for setting in ["fsync", "synchronous_commit"] {
        let value = figures.text(&format!("/settings/consolidated/{setting}"));
        if value.is_some_and(|value| value != "on") {
            obstacles.push(format!("{setting} {}", value.unwrap_or_default()));
        }
    }
    obstacles
}

/// Adds a card for each of the four operations.
pub(super) fn write(page: &mut Page, suite: &Suite) -> Result<(), Failure> {
    let fastest = published::OPERATIONS.map(|operation| (operation, fastest(suite, operation)));
    let ours = fastest.iter().filter_map(|(_, figures)| Some((*figures)?.rows_per_second));
    let theirs =
        published::OPERATIONS.iter().filter_map(|operation| published::headline(operation));
    let most = ours.chain(theirs).fold(0.0, f64::max);
    page.markup("<div class=\"headlines\">\n");
    for (operation, figures) in fastest {
        card(page, suite, operation, figures, most)?;
    }
    page.markup("</div>\n");
    Ok(())
}

fn card(
    page: &mut Page,
    suite: &Suite,
    operation: &str,
    figures: Option<&Figures>,
    most: f64,
) -> Result<(), Failure> {
    let published = published::headline(operation).unwrap_or_default();
    page.element("<section class=\"headline\">\n<h3>", operation_title(operation), "</h3>\n");
    match figures {
        Some(figures) => {
            let rows = figures.rows_per_second;
            page.element("<p class=\"figure\">", &plain(rows), " <span>rows/s</span></p>\n");
            let obstacles = obstacles(figures);
            if obstacles.is_empty() {
                page.element(
                    "<p class=\"ratio\"><b>",
                    &times(rows / published),
                    "</b> the published ",
                );
                page.text(&rounded(published)).markup("</p>\n");
            } else {
                page.markup("<p class=\"ratio\">Not comparable with the published ");
                page.text(&rounded(published)).markup(": ").text(&obstacles.join(", "));
                page.markup("</p>\n");
            }
            if let (DISPUTED, Some(disputed)) = (operation, with_conflicts(suite)) {
                let rows = rounded(disputed.rows_per_second);
                page.element("<p class=\"ratio\">", &rows, " rows/s with 1 % conflicts</p>\n");
            }
            // Bars beside each other would be a comparison.
            if obstacles.is_empty() {
                bars(page, rows, published, most)?;
            }
        }
        None => {
            page.markup("<p class=\"figure none\">–</p>\n");
            page.markup("<p class=\"ratio\">not measured; the published figure is ");
            page.text(&rounded(published)).markup("</p>\n");
        }
    }
    if let Some(figures) = figures {
        page.element("<p class=\"setting\">", &circumstances(figures), "</p>\n");
    }
    page.markup("</section>\n");
    Ok(())
}

/// Our rows per second beside the published ones.
fn bars(page: &mut Page, ours: f64, published: f64, most: f64) -> Result<(), Failure> {
    let bar =
        |name: &str, rows: f64, color| Bar { value: Some(rows), text: short_of(name, rows), color };
    let bars = vec![
        bar("Syncline", ours, Palette::Ours),
        bar(published::NEWEST.label, published, Palette::Published(published::NEWEST.age)),
    ];
    let drawing = draw_bars(&[Group { label: String::new(), bars }], most, &Frame::NARROW)?;
    page.markup("<div class=\"chart bars\" aria-hidden=\"true\">")
        .drawing(&drawing)
        .markup("</div>\n");
    Ok(())
}

fn short_of(name: &str, rows: f64) -> String {
    format!("{name} {}", rounded(rows))
}

/// Rounded to thousands: `469k`.
fn rounded(rows: f64) -> String {
    if rows >= 1000.0 { short((rows / 1000.0).round() * 1000.0) } else { short(rows) }
}

/// The comparison with the published figures at the top of the page.
#[derive(Debug, PartialEq)]
pub(super) enum Claim {
    /// Ahead in so many operations of so many; with 1 % conflicts so many rows a second.
    Ahead { operations: usize, of: usize, rows_with_conflicts: f64 },
    /// Runs that this needs are missing.
    Nothing,
}

/// Compares with the published headline, if the runs allow it.
pub(super) fn claim(suite: &Suite) -> Claim {
    let ratios = published::OPERATIONS.iter().filter_map(|operation| {
        let figures = fastest(suite, operation).filter(|it| obstacles(it).is_empty())?;
        Some(figures.rows_per_second / published::headline(operation)?)
    });
    let ratios: Vec<f64> = ratios.collect();
    match with_conflicts(suite) {
        Some(disputed) if !ratios.is_empty() => Claim::Ahead {
            operations: ratios.iter().filter(|ratio| **ratio > 1.0).count(),
            of: ratios.len(),
            rows_with_conflicts: disputed.rows_per_second,
        },
        _ => Claim::Nothing,
    }
}

/// The settings of the run in which a figure was measured.
fn circumstances(figures: &Figures) -> String {
    let number = |pointer: &str| figures.number(pointer).map_or_else(|| "?".to_owned(), plain);
    let mut text = format!("{} clients × {} rows", number("/clients"), number("/rows_per_sync"));
    match figures.text("/settings/clients_on") {
        Some("memory") => text.push_str(", on SQLite in memory"),
        Some("file") => text.push_str(", on SQLite files"),
        Some("wire") => text.push_str(" without a database"),
        _ => {}
    }
    if let Some(workers) = figures.number("/settings/workers") {
        text.push_str(&format!("; {} workers", plain(workers)));
    }
    if let Some(share) = figures.number("/ratio_to_ceiling") {
        text.push_str(&format!("; {} of the speed of the bare database", percent(share)));
    }
    text
}
