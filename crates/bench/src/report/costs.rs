//! The part of the page about a test whose points are compared with the first: what they cost.

use super::comparison::{Cell, Table};
use super::headline::operation_title;
use super::number::plain;
use super::published;
use super::suite::{Figures, Point, Test};
use crate::figures::cost::{Cost, signed};

/// One operation of such a test.
pub(super) fn table(test: &Test, operation: &str) -> Table {
    let published = published::TRANSPORTS.iter().any(|line| line.test == test.name);
    let mut headings = vec![test.axis()];
    let ours = ["rows/s", "bytes per row", "CPU of the server", "CPU of all"];
    headings.extend(ours.map(str::to_owned));
    if published {
        headings.push(format!("time, {}", published::NEWEST.label));
    }
    let first = test.points.first().and_then(|point| point.figures(operation));
    let line = |point: &Point| {
        let mut cells = cells(first, point, operation);
        if published {
            let increase = published::increase(&test.name, &point.label, operation);
            cells.push(increase.map_or(Cell::Nothing, |it| Cell::Number(signed(it))));
        }
        (point.label.clone(), cells)
    };
    Table { headings, lines: test.points.iter().map(line).collect() }
}

fn cells(first: Option<&Figures>, point: &Point, operation: &str) -> Vec<Cell> {
    let Some(figures) = point.figures(operation) else {
        let why = match point.failure(operation) {
            Some(_) => Cell::Failed,
            None => Cell::NotRun,
        };
        return vec![why, Cell::Nothing, Cell::Nothing, Cell::Nothing];
    };
    let cost = |figures: &Figures| Cost::of(|pointer| figures.number(pointer));
    let increase =
        first.and_then(cost).zip(cost(figures)).map(|(first, cost)| cost.increase_over(first));
    let number = |number: Option<String>| number.map_or(Cell::Nothing, Cell::Number);
    let share = |percent: Option<f64>| percent.map_or(Cell::Nothing, |it| Cell::Ours(signed(it)));
    vec![
        Cell::Number(plain(figures.rows_per_second)),
        number(figures.number("/network/bytes_per_row").map(plain)),
        share(increase.map(|it| it.server)),
        share(increase.map(|it| it.all)),
    ]
}

/// The name of the table of an operation.
pub(super) fn caption(test: &Test, operation: &str) -> String {
    let first = test.points.first().map_or("the first", |point| &*point.label);
    format!("{}: {}, compared with {first}", test.title, operation_title(operation))
}
