//! The part of the page about one test: a card for each operation, with chart and table.

use super::comparison::{Cell, Comparison, Table};
use super::costs;
use super::headline::operation_title;
use super::html::Page;
use super::suite::Test;
use crate::report::palette::Palette;
use model::Failure;

/// Adds a test that has runs.
pub(super) fn write(page: &mut Page, test: &Test) -> Result<(), Failure> {
    let comparisons: Vec<(&str, Comparison<'_>)> = test
        .operations()
        .into_iter()
        .map(|operation| (operation, Comparison::new(test, operation)))
        .collect();
    page.element("<section class=\"test\" id=\"test-", &test.name, "\">\n");
    page.element("<h2>", &test.title, "</h2>\n");
    if let Some(why) = &test.missing {
        page.element("<p class=\"note\">Incomplete: ", why, ".</p>\n");
    }
    if test.is_compared {
        for (operation, comparison) in &comparisons {
            table(page, &costs::caption(test, operation), &costs::table(test, operation));
            failures(page, comparison);
        }
        page.markup("</section>\n");
        return Ok(());
    }
    legend(page, &comparisons);
    page.markup("<div class=\"cards\">\n");
    for (operation, comparison) in &comparisons {
        card(page, test, operation, comparison)?;
    }
    page.markup("</div>\n</section>\n");
    Ok(())
}

fn legend(page: &mut Page, comparisons: &[(&str, Comparison<'_>)]) {
    page.markup("<ul class=\"legend\">\n");
    entry(page, Palette::Ours, "Syncline, on this machine");
    if let Some((_, comparison)) = comparisons.first() {
        for line in comparison.published() {
            let name = format!("{}, {}", line.source.title, line.places.join(", "));
            entry(page, Palette::Published(line.source.age), &name);
        }
        if comparison.shows_baseline() {
            entry(page, Palette::Baseline, "bare database, on this machine");
        }
    }
    page.markup("</ul>\n");
}

fn entry(page: &mut Page, color: Palette, name: &str) {
    page.markup("<li><svg class=\"swatch ").text(color.name());
    page.markup("\" viewBox=\"0 0 64 20\" aria-hidden=\"true\">");
    page.markup("<line x1=\"2\" y1=\"10\" x2=\"62\" y2=\"10\"/>");
    page.markup(match color {
        Palette::Ours => "<circle cx=\"32\" cy=\"10\" r=\"8\"/>",
        Palette::Published(crate::report::palette::Age::Newest) => {
            "<rect x=\"26\" y=\"4\" width=\"12\" height=\"12\"/>"
        }
        Palette::Published(_) => "<polygon points=\"32,2 40,16 24,16\"/>",
        _ => "",
    });
    page.element("</svg>", name, "</li>\n");
}

fn card(
    page: &mut Page,
    test: &Test,
    operation: &str,
    comparison: &Comparison<'_>,
) -> Result<(), Failure> {
    let (drawing, summary) = comparison.draw()?;
    page.element("<figure class=\"card\">\n<figcaption><h3>", operation_title(operation), "</h3>");
    page.element("<p>", &comparison.unit(), "</p></figcaption>\n");
    page.markup("<div class=\"chart\" role=\"img\" aria-label=\"").text(operation_title(operation));
    page.markup(", ").text(&comparison.unit()).markup(". ").text(&summary);
    page.markup(". The figures are in the next table.\">").drawing(&drawing);
    page.markup("</div>\n");
    let name = format!("{}: {}", test.title, operation_title(operation));
    table(page, &name, &comparison.table());
    failures(page, comparison);
    page.markup("</figure>\n");
    Ok(())
}

fn failures(page: &mut Page, comparison: &Comparison<'_>) {
    for (point, why) in comparison.failures() {
        page.element("<p class=\"failure\"><b>", point, " failed.</b> ").text(why).markup("</p>\n");
    }
}

fn table(page: &mut Page, name: &str, table: &Table) {
    page.element("<div class=\"wide\"><table>\n<caption>", name, "</caption>\n<thead><tr>");
    for heading in &table.headings {
        page.element("<th scope=\"col\">", heading, "</th>");
    }
    page.markup("</tr></thead>\n<tbody>\n");
    for (name, cells) in &table.lines {
        page.element("<tr><th scope=\"row\">", name, "</th>");
        for cell in cells {
            match cell {
                Cell::Ours(text) => page.element("<td class=\"ours\">", text, "</td>"),
                Cell::Number(text) => page.element("<td>", text, "</td>"),
                Cell::Failed => page.markup("<td class=\"failed\">failed</td>"),
                Cell::NotRun => page.markup("<td class=\"faint\">not run</td>"),
                Cell::Nothing => page.markup("<td class=\"none\">–</td>"),
            };
        }
        page.markup("</tr>\n");
    }
    page.markup("</tbody>\n</table></div>\n");
}
