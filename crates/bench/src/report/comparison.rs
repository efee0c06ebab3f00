//! One operation of one test: measured and published figures, as a chart and as a table.

use super::chart::{Bar, Frame, Group, LineChart, Series, draw_bars};
use super::number::{percent, plain, times};
use super::published::{self, Line};
use super::scale::Scale;
use super::suite::{Figures, Point, Test};
use crate::report::palette::{Drawing, Palette};
use model::Failure;

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Measure {
    RowsPerSecond,
    /// Rows a second, divided by those with one processor. This shows the effect of more processors
    /// whatever their speed.
    Speedup,
    /// For synchronizations of one row or none.
    SyncsPerSecond,
}

/// One operation of one test.
#[derive(Debug)]
pub(super) struct Comparison<'a> {
    test: &'a Test,
    operation: &'a str,
    measure: Measure,
    published: Vec<Line>,
}

/// A table for people.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) headings: Vec<String>,
    /// A name of the line, then a cell for every other heading.
    pub(super) lines: Vec<(String, Vec<Cell>)>,
}

/// What stands in a table.
#[derive(Debug, PartialEq)]
pub(super) enum Cell {
    Ours(String),
    Number(String),
    Failed,
    NotRun,
    Nothing,
}

/// A value of the parameter.
struct Tick<'a> {
    label: String,
    order: Option<f64>,
    /// The value of the published points that belong here.
    published: Option<f64>,
    point: Option<&'a Point>,
}

impl<'a> Comparison<'a> {
    pub(super) fn new(test: &'a Test, operation: &'a str) -> Comparison<'a> {
        let published = published::lines(&test.name, operation);
        let mut comparison =
            Comparison { test, operation, measure: Measure::RowsPerSecond, published };
        comparison.measure = match &*test.name {
            "cpus" if comparison.base().is_some() => Measure::Speedup,
            "small" => Measure::SyncsPerSecond,
            _ => Measure::RowsPerSecond,
        };
        comparison
    }

    /// Rows a second where the parameter is 1.
    fn base(&self) -> Option<f64> {
        let one = self.test.points.iter().find(|point| point.value == Some(1.0))?;
        Some(one.figures(self.operation)?.rows_per_second).filter(|base| *base > 0.0)
    }

    /// The figure of Syncline that is drawn.
    fn ours(&self, figures: &Figures) -> f64 {
        match self.measure {
            Measure::RowsPerSecond => figures.rows_per_second,
            Measure::Speedup => figures.rows_per_second / self.base().unwrap_or(1.0),
            Measure::SyncsPerSecond => figures.syncs_per_second,
        }
    }

    /// Published figures as they are drawn.
    fn published_points(&self, line: &Line) -> Vec<(f64, f64)> {
        let base = match self.measure {
            Measure::Speedup => line.at(1.0).unwrap_or(1.0),
            _ => 1.0,
        };
        line.points.iter().map(|(value, figure)| (*value, figure / base)).collect()
    }

    /// The lines of the chart. The first is that of Syncline.
    fn series(&self) -> Vec<Series> {
        let figures = |of: &dyn Fn(&Figures) -> Option<f64>| -> Vec<(f64, f64)> {
            let mut points: Vec<(f64, f64)> = self
                .test
                .points
                .iter()
                .filter_map(|point| Some((point.value?, of(point.figures(self.operation)?)?)))
                .filter(|(value, figure)| *value > 0.0 && *figure > 0.0)
                .collect();
            points.sort_by(|one, other| one.0.total_cmp(&other.0));
            points
        };
        let mut series = vec![Series {
            label: "Syncline".to_owned(),
            color: Palette::Ours,
            points: figures(&|figures| Some(self.ours(figures))),
        }];
        series.extend(self.published.iter().map(|line| Series {
            label: line.source.label.to_owned(),
            color: Palette::Published(line.source.age),
            points: self.published_points(line),
        }));
        if self.measure == Measure::RowsPerSecond {
            series.push(Series {
                label: "bare".to_owned(),
                color: Palette::Baseline,
                points: figures(&|figures| figures.number("/ceiling/rows_per_second")),
            });
        }
        series.retain(|series| !series.points.is_empty());
        series
    }

    /// The chart, and a text with the same content for people who do not see it.
    pub(super) fn draw(&self) -> Result<(Drawing, String), Failure> {
        let series = self.series();
        let ordered = self.test.points.iter().all(|point| point.value.is_some_and(|v| v > 0.0));
        if !ordered || series.iter().all(|series| series.points.len() < 2) {
            return self.draw_bars();
        }
        let failed: Vec<f64> = self
            .test
            .points
            .iter()
            .filter(|point| point.failure(self.operation).is_some())
            .filter_map(|point| point.value)
            .collect();
        let all = |of: fn(&(f64, f64)) -> f64| -> Vec<f64> {
            series.iter().flat_map(|series| &series.points).map(of).collect()
        };
        let x = [all(|point| point.0), failed.clone()].concat();
        let summary = summary_of(&series);
        let chart = LineChart {
            parameter: self.test.axis(),
            x: Scale::of_parameter(&x),
            y: Scale::of_quantities(&all(|point| point.1)),
            series,
            failed,
        };
        Ok((chart.draw()?, summary))
    }

    fn draw_bars(&self) -> Result<(Drawing, String), Failure> {
        let mut groups: Vec<Group> = self.places().iter().map(|place| self.group(place)).collect();
        groups.retain(|group| !group.bars.is_empty());
        let bars = || groups.iter().flat_map(|group| &group.bars);
        let most = bars().filter_map(|bar| bar.value).fold(0.0, f64::max);
        let summary: Vec<String> = groups
            .iter()
            .map(|group| {
                let bars: Vec<&str> = group.bars.iter().map(|bar| &*bar.text).collect();
                format!("{}: {}", group.label, bars.join(", "))
            })
            .collect();
        Ok((draw_bars(&groups, most, &Frame::CHART)?, summary.join("; ")))
    }

    fn group(&self, Tick { label, published, point, .. }: &Tick<'_>) -> Group {
        let mut bars = Vec::new();
        let figures = point.and_then(|point| point.figures(self.operation));
        match (figures, point.map(|point| point.failure(self.operation))) {
            (Some(figures), _) => {
                let figure = self.ours(figures);
                let text = format!("Syncline {}", plain(figure));
                bars.push(Bar { value: Some(figure), text, color: Palette::Ours });
                if let Some(baseline) = figures.number("/ceiling/rows_per_second")
                    && self.measure == Measure::RowsPerSecond
                {
                    let text = format!("bare database {}", plain(baseline));
                    bars.push(Bar { value: Some(baseline), text, color: Palette::Baseline });
                }
            }
            (None, Some(Some(_))) => {
                bars.push(Bar { value: None, text: "failed".to_owned(), color: Palette::Failed });
            }
            (None, Some(None)) => {
                bars.push(Bar {
                    value: None,
                    text: "not run yet".to_owned(),
                    color: Palette::Baseline,
                });
            }
            (None, None) => {}
        }
        for line in &self.published {
            if let Some(figure) = published.and_then(|value| line.at(value)) {
                let text = format!("{}: {}", line.source.label, plain(figure));
                let color = Palette::Published(line.source.age);
                bars.push(Bar { value: Some(figure), text, color });
            }
        }
        // A bare number gets the name of its parameter. `1 row` and `100 %` are clear without it.
        let bare = |point: &Point| point.label.chars().all(|c| c.is_ascii_digit() || c == ',');
        let label = match point.is_none_or(bare) {
            true if self.test.unit.is_empty() => format!("{label} {}", self.test.parameter),
            true => format!("{label} {}", self.test.unit),
            false => label.clone(),
        };
        Group { label, bars }
    }

    /// All values of the parameter, measured or published, in order.
    fn places(&self) -> Vec<Tick<'a>> {
        // A value for which the operation has no run has no point.
        let with_runs = |point: &&Point| point.runs_of(self.operation).next().is_some();
        let ours = self.test.points.iter().filter(with_runs).map(|point| Tick {
            label: match (point.value, point.published) {
                (Some(value), Some(published)) if value != published => {
                    format!("{} for {}", point.label, plain(published))
                }
                _ => point.label.clone(),
            },
            order: point.value.and(point.published),
            published: point.published,
            point: Some(point),
        });
        let mut places: Vec<Tick<'a>> = ours.collect();
        for (value, _) in self.published.iter().flat_map(|line| &line.points) {
            if places.iter().all(|place| place.published != Some(*value)) {
                let (label, value) = (plain(*value), Some(*value));
                places.push(Tick { label, order: value, published: value, point: None });
            }
        }
        // Values without an order come last, in the order of the suite.
        places.sort_by(|one, other| {
            let key = |value: Option<f64>| value.unwrap_or(f64::INFINITY);
            key(one.order).total_cmp(&key(other.order))
        });
        places
    }

    pub(super) fn table(&self) -> Table {
        let mut headings = vec![self.test.axis()];
        match self.measure {
            Measure::RowsPerSecond => headings.push("Syncline".to_owned()),
            Measure::Speedup => headings.extend(["rows/s", "Syncline"].map(str::to_owned)),
            Measure::SyncsPerSecond => {
                let more = ["Syncline", "median, ms", "99 %, ms", "round trips", "commits"];
                headings.extend(more.map(str::to_owned));
            }
        }
        headings.extend(self.published.iter().map(|line| line.source.label.to_owned()));
        if self.measure == Measure::RowsPerSecond {
            if let Some(line) = self.published.first() {
                headings.push(format!("ratio to {}", line.source.label));
            }
            headings.extend(["bare database", "of bare database"].map(str::to_owned));
        }
        let places = self.places();
        let lines = places.iter().map(|place| (place.label.clone(), self.cells(place)));
        // A source may lack figures of an operation. A line without any figure is left out.
        let says = |cells: &[Cell]| cells.iter().any(|cell| *cell != Cell::Nothing);
        Table { headings, lines: lines.filter(|(_, cells)| says(cells)).collect() }
    }

    fn cells(&self, place: &Tick<'_>) -> Vec<Cell> {
        let point = place.point;
        let figures = point.and_then(|point| point.figures(self.operation));
        let number = |number: Option<f64>, show: fn(f64) -> String| match number {
            Some(number) => Cell::Number(show(number)),
            None => Cell::Nothing,
        };
        let of = |pointer: &str| figures.and_then(|figures| figures.number(pointer));
        let ours = match (figures, point) {
            (Some(figures), _) => Cell::Ours(match self.measure {
                Measure::Speedup => times(self.ours(figures)),
                _ => plain(self.ours(figures)),
            }),
            (None, Some(point)) if point.failure(self.operation).is_some() => Cell::Failed,
            (None, Some(_)) => Cell::NotRun,
            (None, None) => Cell::Nothing,
        };
        let published: Vec<Option<f64>> = self
            .published
            .iter()
            .map(|line| {
                let points = self.published_points(line);
                points
                    .iter()
                    .find(|(at, _)| Some(*at) == place.published)
                    .map(|(_, figure)| *figure)
            })
            .collect();
        let shown = |show: fn(f64) -> String| published.iter().map(move |f| number(*f, show));
        let mut cells = Vec::new();
        match self.measure {
            Measure::RowsPerSecond => {
                cells.push(ours);
                cells.extend(shown(plain));
                let rows = figures.map(|figures| figures.rows_per_second);
                if let Some(first) = published.first() {
                    let ratio = rows.zip(*first).map(|(ours, theirs)| ours / theirs);
                    cells.push(number(ratio, times));
                }
                cells.push(number(of("/ceiling/rows_per_second"), plain));
                cells.push(number(of("/ratio_to_ceiling"), percent));
            }
            Measure::Speedup => {
                cells.push(number(figures.map(|figures| figures.rows_per_second), plain));
                cells.push(ours);
                cells.extend(shown(times));
            }
            Measure::SyncsPerSecond => {
                cells.push(ours);
                for pointer in [
                    "/latency_ms/p50",
                    "/latency_ms/p99",
                    "/database/round_trips_per_sync",
                    "/database/commits_per_sync",
                ] {
                    cells.push(number(of(pointer), plain));
                }
                cells.extend(shown(plain));
            }
        }
        cells
    }

    /// What the figures of the chart are.
    pub(super) fn unit(&self) -> String {
        let unit = match self.measure {
            Measure::RowsPerSecond => "rows per second",
            Measure::Speedup => "times as fast as with one processor",
            Measure::SyncsPerSecond => "synchronizations per second",
        };
        let figures: Vec<f64> =
            self.series().iter().flat_map(|series| &series.points).map(|point| point.1).collect();
        let drawn = self.series().iter().any(|series| series.points.len() > 1);
        match drawn && Scale::of_quantities(&figures).is_logarithmic() {
            true => format!("{unit}, logarithmic"),
            false => unit.to_owned(),
        }
    }

    /// Runs without figures: where, and why.
    pub(super) fn failures(&self) -> Vec<(&'a str, &'a str)> {
        let points = self.test.points.iter();
        points
            .filter_map(|point| Some((point.label.as_str(), point.failure(self.operation)?)))
            .collect()
    }

    /// Whether the chart also shows the bare database.
    pub(super) fn shows_baseline(&self) -> bool {
        self.measure == Measure::RowsPerSecond
    }

    /// Where the published figures are from.
    pub(super) fn published(&self) -> &[Line] {
        &self.published
    }
}

/// The chart in words: where each line begins and ends.
fn summary_of(series: &[Series]) -> String {
    let lines: Vec<String> = series
        .iter()
        .filter_map(|series| {
            let ((x0, y0), (x1, y1)) = (series.points.first()?, series.points.last()?);
            let name = &series.label;
            let (x0, y0, x1, y1) = (plain(*x0), plain(*y0), plain(*x1), plain(*y1));
            Some(format!("{name} from {y0} at {x0} to {y1} at {x1}"))
        })
        .collect();
    lines.join("; ")
}
