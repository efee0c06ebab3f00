//! Charts: lines over a parameter with numbers, and bars for other parameters.
//!
//! The library draws at whole numbers. So positions are in a grid that is twice as fine as the
//! pixels that a chart usually gets.

use super::number::short;
use super::scale::Scale;
use crate::report::palette::{Age, Drawing, Palette};
use model::{Code, Failure};
use plotters::coord::Shift;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Plot<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Scale, Scale>>;

const WIDTH: u32 = 960;
const LINES_HEIGHT: u32 = 540;
/// Letters of a label in a drawing, at most.
const LABEL_CHARS_MAX: usize = 44;
const LETTERS: f64 = 25.0;
/// Between the middles of two labels.
const LABEL_DISTANCE: i32 = 30;
/// The library divides font sizes by this.
const LIBRARY_FONT_FACTOR: f64 = 1.24;

/// A line of a chart.
#[derive(Debug)]
pub(super) struct Series {
    pub(super) label: String,
    pub(super) color: Palette,
    pub(super) points: Vec<(f64, f64)>,
}

/// Lines over a parameter.
#[derive(Debug)]
pub(super) struct LineChart {
    pub(super) parameter: String,
    pub(super) x: Scale,
    pub(super) y: Scale,
    pub(super) series: Vec<Series>,
    /// Where a run failed: marked on the axis.
    pub(super) failed: Vec<f64>,
}

/// Bars with a common name.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) label: String,
    pub(super) bars: Vec<Bar>,
}

/// A bar with its value written beside it.
#[derive(Debug)]
pub(super) struct Bar {
    /// None for a run without figures.
    pub(super) value: Option<f64>,
    pub(super) text: String,
    pub(super) color: Palette,
}

/// How wide a chart of bars is, and how much of that the text beside the longest bar needs.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) width: u32,
    pub(super) text_width: u32,
}

impl Frame {
    /// As wide as lines over a parameter.
    pub(super) const CHART: Frame = Frame { width: WIDTH, text_width: 335 };
    /// A third of that.
    pub(super) const NARROW: Frame = Frame { width: 440, text_width: 215 };
}

impl LineChart {
    pub(super) fn draw(&self) -> Result<Drawing, Failure> {
        let mut svg = String::new();
        {
            let root = SVGBackend::with_string(&mut svg, (WIDTH, LINES_HEIGHT)).into_drawing_area();
            self.draw_on(&root).and_then(|()| root.present()).map_err(not_drawn)?;
        }
        Ok(Drawing::new(svg))
    }

    fn draw_on(&self, root: &Area<'_>) -> Drawn {
        let mut plot = ChartBuilder::on(root)
            .margin_top(20)
            .margin_left(4)
            .margin_right(110)
            .x_label_area_size(70)
            .y_label_area_size(88)
            .build_cartesian_2d(self.x.clone(), self.y.clone())?;
        plot.configure_mesh()
            .disable_x_mesh()
            .bold_line_style(rgb(Palette::Grid).stroke_width(2))
            .light_line_style(TRANSPARENT)
            .axis_style(rgb(Palette::Faint).stroke_width(2))
            .label_style(letters(Palette::Faint))
            .axis_desc_style(letters(Palette::Faint))
            .x_desc(cut(&self.parameter))
            .x_label_formatter(&|value| short(*value))
            .y_label_formatter(&|value| short(*value))
            .draw()?;
        // The line of Syncline is drawn last, above the others.
        for series in self.series.iter().rev() {
            self.draw_line(&mut plot, series)?;
        }
        self.draw_failures(root, &plot)?;
        self.draw_labels(root, &plot)
    }

    fn draw_line(&self, plot: &mut Plot<'_, '_>, series: &Series) -> Drawn {
        let width = if series.color == Palette::Ours { 6 } else { 4 };
        let points = || series.points.iter().copied();
        let color = rgb(series.color);
        for unbroken in self.unbroken(series) {
            let line = unbroken.iter().copied();
            plot.draw_series(LineSeries::new(line, color.stroke_width(width)))?;
        }
        match series.color {
            Palette::Baseline => {}
            Palette::Ours => {
                let rim = rgb(Palette::Paper).filled();
                plot.draw_series(points().map(|point| Circle::new(point, 11, rim)))?;
                plot.draw_series(points().map(|point| Circle::new(point, 8, color.filled())))?;
            }
            Palette::Published(Age::Newest) => {
                let square = || Rectangle::new([(-6, -6), (6, 6)], color.filled());
                plot.draw_series(points().map(|point| EmptyElement::at(point) + square()))?;
            }
            _ => {
                let marks = points().map(|point| TriangleMarker::new(point, 8, color.filled()));
                plot.draw_series(marks)?;
            }
        }
        Ok(())
    }

    /// The pieces of a line. A failed run interrupts the line.
    fn unbroken<'s>(&self, series: &'s Series) -> impl Iterator<Item = &'s [(f64, f64)]> {
        let ours = matches!(series.color, Palette::Ours | Palette::Baseline);
        series.points.chunk_by(move |one, next| {
            let between = |failed: &f64| one.0 < *failed && *failed < next.0;
            !ours || !self.failed.iter().any(between)
        })
    }

    fn draw_failures(&self, root: &Area<'_>, plot: &Plot<'_, '_>) -> Drawn {
        let style = rgb(Palette::Failed).stroke_width(5);
        for value in &self.failed {
            let (x, y) = plot.backend_coord(&(*value, self.y.least()));
            for lean in [-9, 9] {
                root.draw(&PathElement::new([(x - lean, y - 9), (x + lean, y + 9)], style))?;
            }
        }
        Ok(())
    }

    /// Names every line at its end; where ends are close, one below the other.
    fn draw_labels(&self, root: &Area<'_>, plot: &Plot<'_, '_>) -> Drawn {
        let mut labels: Vec<(i32, i32, &Series)> = Vec::new();
        for series in &self.series {
            if let Some(last) = series.points.last() {
                let (x, y) = plot.backend_coord(last);
                labels.push((x + 18, y, series));
            }
        }
        let mut heights: Vec<i32> = labels.iter().map(|(_, y, _)| *y).collect();
        spread(&mut heights, LINES_HEIGHT as i32 - 90);
        for ((x, _, series), y) in labels.into_iter().zip(heights) {
            let style = letters(series.color).pos(Pos::new(HPos::Left, VPos::Center));
            root.draw(&Text::new(cut(&series.label), (x, y), style))?;
        }
        Ok(())
    }
}

/// The interface by which the library uses a scale.
impl Ranged for Scale {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (from, to): (i32, i32)) -> i32 {
        from + (self.share(*value) * f64::from(to - from)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.ticks().to_vec()
    }

    fn range(&self) -> std::ops::Range<f64> {
        self.least()..self.most()
    }
}

/// Moves heights apart until all are legible, none below `lowest`.
fn spread(heights: &mut [i32], lowest: i32) {
    let mut order: Vec<usize> = (0..heights.len()).collect();
    order.sort_by_key(|at| heights[*at]);
    for pair in order.windows(2) {
        heights[pair[1]] = heights[pair[1]].max(heights[pair[0]] + LABEL_DISTANCE);
    }
    let mut below = lowest + LABEL_DISTANCE;
    for at in order.into_iter().rev() {
        heights[at] = heights[at].min(below - LABEL_DISTANCE);
        below = heights[at];
    }
}

/// Groups of horizontal bars from zero to `most`, so that several charts can share a scale.
pub(super) fn draw_bars(groups: &[Group], most: f64, frame: &Frame) -> Result<Drawing, Failure> {
    const BAR: i32 = 34;
    const HEADING: i32 = 44;
    const GAP: i32 = 18;
    let bars = |group: &Group| group.bars.len() as i32 * BAR;
    let heading = |group: &Group| if group.label.is_empty() { 0 } else { HEADING };
    let height: i32 = groups.iter().map(|group| heading(group) + bars(group) + GAP).sum();
    let mut svg = String::new();
    {
        let size = (frame.width, height.max(1) as u32);
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        let mut y = 0;
        for group in groups {
            let style = letters(Palette::Text).pos(Pos::new(HPos::Left, VPos::Center));
            let name = Text::new(cut(&group.label), (0, y + HEADING / 2), style);
            if !group.label.is_empty() {
                root.draw(&name).map_err(not_drawn)?;
            }
            y += heading(group);
            for bar in &group.bars {
                let share = (bar.value.unwrap_or(0.0) / most).clamp(0.0, 1.0);
                let length = (share * f64::from(frame.width - frame.text_width)) as i32;
                draw_bar(&root, bar, length.max(3), y + BAR / 2).map_err(not_drawn)?;
                y += BAR;
            }
            y += GAP;
        }
        root.present().map_err(not_drawn)?;
    }
    Ok(Drawing::new(svg))
}

fn draw_bar(root: &Area<'_>, bar: &Bar, length: i32, middle: i32) -> Drawn {
    const HALF: i32 = 13;
    let corners = [(0, middle - HALF), (length, middle + HALF)];
    root.draw(&Rectangle::new(corners, rgb(bar.color).filled()))?;
    let style = letters(bar.color).pos(Pos::new(HPos::Left, VPos::Center));
    root.draw(&Text::new(cut(&bar.text), (length + 14, middle), style))
}

type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

fn not_drawn(error: DrawingAreaErrorKind<std::io::Error>) -> Failure {
    Failure::new(Code::Bug, "a chart cannot be drawn").source(error.to_string())
}

fn rgb(color: Palette) -> RGBColor {
    let [_, red, green, blue] = color.light().to_be_bytes();
    RGBColor(red, green, blue)
}

fn letters(color: Palette) -> TextStyle<'static> {
    ("sans-serif", LETTERS * LIBRARY_FONT_FACTOR).into_font().color(&rgb(color))
}

/// A label that fits, without the characters that XML forbids.
fn cut(text: &str) -> String {
    let clean = |character: char| match character.is_control() {
        true => char::REPLACEMENT_CHARACTER,
        false => character,
    };
    let mut label: String = text.chars().take(LABEL_CHARS_MAX).map(clean).collect();
    if text.chars().nth(LABEL_CHARS_MAX).is_some() {
        label.push('…');
    }
    label
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(points: Vec<(f64, f64)>, label: &str) -> LineChart {
        let (x, y): (Vec<f64>, Vec<f64>) = points.iter().copied().unzip();
        LineChart {
            parameter: label.to_owned(),
            x: Scale::of_parameter(&x),
            y: Scale::of_quantities(&y),
            series: vec![Series { label: label.to_owned(), color: Palette::Ours, points }],
            failed: vec![10.0],
        }
    }

    #[test]
    fn labels_are_escaped_and_cut() {
        let label = format!("<script>&\u{1b}{}", "x".repeat(100));
        let svg = chart(vec![(1.0, 5.0), (10.0, 9.0)], &label).draw().unwrap();
        assert!(!svg.svg().contains("<script>"), "{svg:?}");
        assert!(svg.svg().contains("&lt;script&gt;&amp;\u{fffd}xxx"), "{svg:?}");
        assert!(svg.svg().contains("x…"), "{svg:?}");
        let bar = Bar { value: None, text: label.clone(), color: Palette::Failed };
        let svg = draw_bars(&[Group { label, bars: vec![bar] }], 0.0, &Frame::CHART).unwrap();
        assert!(!svg.svg().contains("<script>"), "{svg:?}");
    }

    #[test]
    fn strange_figures_are_drawn_somewhere() {
        for points in [
            vec![],
            vec![(0.0, 0.0)],
            vec![(3.0, 0.0), (3.0, 1e15)],
            vec![(1e-9, 1e-9), (1e15, 1e15)],
        ] {
            let svg = chart(points, "clients").draw().unwrap();
            assert!(!svg.svg().contains("NaN"), "{svg:?}");
        }
    }

    #[test]
    fn a_line_does_not_go_on_over_a_failed_run() {
        let chart = chart(vec![(1.0, 5.0), (5.0, 6.0), (20.0, 9.0)], "clients");
        let pieces: Vec<usize> = chart.unbroken(&chart.series[0]).map(<[_]>::len).collect();
        assert_eq!(pieces, [2, 1]);
        let published = Series {
            label: "2012".to_owned(),
            color: Palette::Published(Age::Newest),
            points: chart.series[0].points.clone(),
        };
        assert_eq!(chart.unbroken(&published).count(), 1);
    }

    #[test]
    fn labels_at_the_same_height_are_moved_apart() {
        let mut heights = [100, 100, 95, 440];
        spread(&mut heights, 450);
        assert_eq!(heights, [125, 155, 95, 440]);
        let mut heights = [450, 450, 450];
        spread(&mut heights, 450);
        assert_eq!(heights, [390, 420, 450]);
    }
}
