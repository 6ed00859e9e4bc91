//! Drawing as SVG text: panels of bars that share their rows, and lines on two logarithmic axes. No figures are chosen
//! here.
//!
//! Pictures have a white ground of their own, so that they read the same on light and dark pages. The same input gives
//! the same bytes.

use std::fmt::Write as _;

use super::markdown::number;

/// Width of every picture.
const WIDTH: f64 = 1100.0;
const INK: &str = "#111";
const FAINT: &str = "#555";
const GRID: &str = "#ddd";

/// A bar with how far its rounds went.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bar {
    /// Its length.
    pub value: f64,
    /// The smallest and the largest round, if there were several.
    pub range: Option<(f64, f64)>,
}

/// Bars under one title, one a row or none.
#[derive(Debug, PartialEq)]
pub struct Panel {
    /// What these bars have in common.
    pub title: String,
    /// As many as there are rows.
    pub bars: Vec<Option<Bar>>,
}

/// Panels side by side.
#[derive(Debug)]
pub struct Bars<'a> {
    /// The heading.
    pub title: &'a str,
    /// Under it, smaller.
    pub subtitle: &'a str,
    /// Under each panel: what is measured, and which way is better.
    pub axis: &'a str,
    /// Names of the rows with their colours.
    pub rows: Vec<(&'static str, &'static str)>,
    /// At least one.
    pub panels: Vec<Panel>,
}

/// A line with its name.
#[derive(Debug)]
pub struct Line {
    /// Written at its end.
    pub name: &'static str,
    /// Its colour.
    pub colour: &'static str,
    /// What the others are held against.
    pub dashed: bool,
    /// What the picture is about.
    pub bold: bool,
    /// In the order of x; all greater than 0.
    pub points: Vec<(f64, f64)>,
}

/// Lines on two logarithmic axes.
#[derive(Debug)]
pub struct Lines<'a> {
    /// The heading.
    pub title: &'a str,
    /// Under it, smaller.
    pub subtitle: &'a str,
    /// What x is.
    pub x_axis: &'a str,
    /// What y is.
    pub y_axis: &'a str,
    /// Where x is marked.
    pub x_ticks: Vec<f64>,
    /// At least one point in all.
    pub lines: Vec<Line>,
}

struct Canvas {
    out: String,
}

impl Canvas {
    fn new(height: f64, title: &str, subtitle: &str) -> Self {
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH:.0} {height:.0}\" \
             font-family=\"sans-serif\" role=\"img\">\n"
        );
        let _ = writeln!(out, "<title>{}</title>", escape(title));
        let _ = writeln!(out, "<rect width=\"{WIDTH:.0}\" height=\"{height:.0}\" rx=\"6\" fill=\"white\"/>");
        let mut canvas = Self { out };
        canvas.text((WIDTH / 2.0, 26.0), title, 18, "middle", INK);
        canvas.text((WIDTH / 2.0, 46.0), subtitle, 12, "middle", FAINT);
        canvas
    }

    fn text(&mut self, (x, y): (f64, f64), words: &str, size: u32, anchor: &str, colour: &str) {
        let _ = writeln!(
            self.out,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" text-anchor=\"{anchor}\" fill=\"{colour}\">{}</text>",
            escape(words)
        );
    }

    fn line(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64), colour: &str) {
        let _ = writeln!(
            self.out,
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{colour}\"/>"
        );
    }

    fn end(mut self) -> String {
        self.out.push_str("</svg>\n");
        self.out
    }
}

fn escape(words: &str) -> String {
    words.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Draws panels of bars. Each panel has a scale of its own, from zero.
pub fn bars(chart: &Bars<'_>) -> String {
    let bottom = TOP + ROW * chart.rows.len() as f64;
    let mut canvas = Canvas::new(bottom + 56.0, chart.title, chart.subtitle);
    for (number, (name, colour)) in chart.rows.iter().enumerate() {
        canvas.text((NAMES - 10.0, row_middle(number) + 4.0), name, 13, "end", colour);
    }
    let width = (WIDTH - NAMES - 10.0) / chart.panels.len() as f64;
    for (number, panel) in chart.panels.iter().enumerate() {
        let left = NAMES + width * number as f64;
        draw_panel(&mut canvas, chart, panel, (left, left + width - 20.0), bottom);
    }
    canvas.end()
}

const TOP: f64 = 88.0;
const ROW: f64 = 24.0;
const NAMES: f64 = 125.0;

fn row_middle(number: usize) -> f64 {
    TOP + ROW * (number as f64 + 0.5)
}

fn draw_panel(canvas: &mut Canvas, chart: &Bars<'_>, panel: &Panel, (left, right): (f64, f64), bottom: f64) {
    let longest =
        panel.bars.iter().flatten().map(|bar| bar.range.map_or(bar.value, |range| range.1)).fold(0.0, f64::max);
    // The number of the longest bar needs its place, too.
    let room = right - left - 58.0;
    let place = |value: f64| left + if longest > 0.0 { value / longest * room } else { 0.0 };
    canvas.text((f64::midpoint(left, right), TOP - 14.0), &panel.title, 14, "middle", INK);
    for tick in ticks(longest, if right - left < 250.0 { 2.0 } else { 4.0 }) {
        canvas.line((place(tick), TOP), (place(tick), bottom), GRID);
        canvas.text((place(tick), bottom + 16.0), &number(tick), 11, "middle", FAINT);
    }
    canvas.text((f64::midpoint(left, right), bottom + 38.0), chart.axis, 12, "middle", FAINT);
    for (row, ((_, colour), bar)) in chart.rows.iter().zip(&panel.bars).enumerate() {
        let middle = row_middle(row);
        let Some(bar) = bar else {
            canvas.text((left + 4.0, middle + 4.0), "–", 12, "start", FAINT);
            continue;
        };
        let (end, height) = (place(bar.value), ROW - 8.0);
        let _ = writeln!(
            canvas.out,
            "<rect x=\"{left:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{height:.1}\" fill=\"{colour}\"/>",
            middle - height / 2.0,
            end - left
        );
        let mut label = end;
        if let Some((min, max)) = bar.range {
            canvas.line((place(min), middle), (place(max), middle), INK);
            for at in [place(min), place(max)] {
                canvas.line((at, middle - 4.0), (at, middle + 4.0), INK);
            }
            label = place(max);
        }
        canvas.text((label + 5.0, middle + 4.0), &number(bar.value), 12, "start", INK);
    }
    canvas.line((left, TOP), (left, bottom), FAINT);
}

/// Round numbers from zero to the longest: about as many as asked for.
fn ticks(longest: f64, wanted: f64) -> Vec<f64> {
    if longest <= 0.0 {
        return vec![0.0];
    }
    let rough = longest / wanted;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|m| m * power).find(|step| *step >= rough * 0.999);
    let step = step.unwrap_or(rough);
    (0..).map(|number| f64::from(number) * step).take_while(|tick| *tick <= longest).collect()
}

const PLOT: (f64, f64, f64, f64) = (95.0, 925.0, 70.0, 540.0);

/// Draws lines on two logarithmic axes.
pub fn lines(chart: &Lines<'_>) -> String {
    let (left, right, top, bottom) = PLOT;
    let mut canvas = Canvas::new(bottom + 56.0, chart.title, chart.subtitle);
    let (y_ticks, low, high) = decades(chart);
    let (first, last) = range(chart.x_ticks.iter().copied().chain(points(chart).map(|point| point.0)));
    let place = |(x, y): (f64, f64)| (scale(x, first, last, left, right), scale(y, low, high, bottom, top));
    for tick in &chart.x_ticks {
        let x = place((*tick, low)).0;
        canvas.line((x, top), (x, bottom), GRID);
        canvas.text((x, bottom + 18.0), &tick.to_string(), 12, "middle", INK);
    }
    for tick in y_ticks {
        let y = place((first, tick)).1;
        canvas.line((left, y), (right, y), GRID);
        canvas.text((left - 8.0, y + 4.0), &number(tick), 12, "end", INK);
    }
    canvas.text((f64::midpoint(left, right), bottom + 40.0), chart.x_axis, 13, "middle", FAINT);
    let middle = f64::midpoint(top, bottom);
    let _ = writeln!(
        canvas.out,
        "<text transform=\"translate(24 {middle:.1}) rotate(-90)\" font-size=\"13\" text-anchor=\"middle\" \
         fill=\"{FAINT}\">{}</text>",
        escape(chart.y_axis)
    );
    let ends: Vec<(f64, f64)> =
        chart.lines.iter().filter_map(|line| line.points.last()).map(|end| place(*end)).collect();
    let heights = spread(&ends.iter().map(|end| end.1).collect::<Vec<_>>(), 15.0, bottom);
    let drawn = chart.lines.iter().filter(|line| !line.points.is_empty());
    for ((line, end), height) in drawn.zip(&ends).zip(heights) {
        draw_line(&mut canvas, line, &place);
        canvas.line(*end, (right + 14.0, height), line.colour);
        canvas.text((right + 18.0, height + 4.0), line.name, 13, "start", line.colour);
    }
    canvas.end()
}

fn draw_line(canvas: &mut Canvas, line: &Line, place: &impl Fn((f64, f64)) -> (f64, f64)) {
    let places: Vec<(f64, f64)> = line.points.iter().map(|point| place(*point)).collect();
    let path: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let dashes = if line.dashed { " stroke-dasharray=\"7 5\"" } else { "" };
    let _ = writeln!(
        canvas.out,
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\"{dashes}/>",
        path.join(" "),
        line.colour,
        if line.bold { 3 } else { 2 }
    );
    for (x, y) in places {
        let _ = writeln!(canvas.out, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\" fill=\"{}\"/>", line.colour);
    }
}

fn points<'a>(chart: &'a Lines<'_>) -> impl Iterator<Item = (f64, f64)> + 'a {
    chart.lines.iter().flat_map(|line| line.points.iter().copied())
}

fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)))
}

/// Marks at 1, 2 and 5 of every decade that the points touch, the lowest mark and the highest.
fn decades(chart: &Lines<'_>) -> (Vec<f64>, f64, f64) {
    let (least, most) = range(points(chart).map(|point| point.1));
    let mut marks = Vec::new();
    let mut decade = 10f64.powf(least.log10().floor());
    while decade <= most * 10.0 {
        marks.extend([1.0, 2.0, 5.0].map(|step| step * decade));
        decade *= 10.0;
    }
    let low = marks.iter().copied().filter(|mark| *mark <= least).fold(marks[0], f64::max);
    let high = marks.iter().copied().find(|mark| *mark >= most).unwrap_or(most);
    marks.retain(|mark| (low..=high).contains(mark));
    (marks, low, high)
}

/// Where a value lies on a logarithmic axis.
fn scale(value: f64, low: f64, high: f64, start: f64, end: f64) -> f64 {
    if high <= low {
        return f64::midpoint(start, end);
    }
    start + (value.log10() - low.log10()) / (high.log10() - low.log10()) * (end - start)
}

/// Labels' heights, moved apart so that none covers another.
fn spread(wanted: &[f64], gap: f64, lowest: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|a, b| wanted[*a].total_cmp(&wanted[*b]));
    let mut heights = wanted.to_vec();
    for pair in order.windows(2) {
        heights[pair[1]] = heights[pair[1]].max(heights[pair[0]] + gap);
    }
    let mut ceiling = lowest;
    for place in order.into_iter().rev() {
        heights[place] = heights[place].min(ceiling);
        ceiling = heights[place] - gap;
    }
    heights
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_reach_no_farther_than_the_longest() {
        assert_eq!(ticks(856.0, 4.0), [0.0, 500.0]);
        assert_eq!(ticks(62_510.0, 4.0), [0.0, 20_000.0, 40_000.0, 60_000.0]);
        assert_eq!(ticks(0.0, 4.0), [0.0]);
    }

    #[test]
    fn labels_keep_their_distance() {
        let heights = spread(&[100.0, 101.0, 99.0, 300.0], 15.0, 300.0);
        assert_eq!(heights, [114.0, 129.0, 99.0, 300.0]);
        assert_eq!(spread(&[300.0, 300.0], 15.0, 300.0), [285.0, 300.0]);
    }

    #[test]
    fn names_are_escaped_and_absent_bars_are_dashes() {
        let panels = vec![Panel { title: "a<b".into(), bars: vec![Some(Bar { value: 2.0, range: None }), None] }];
        let rows = vec![("lmdb", "#123456"), ("redb", "#123456")];
        let text = bars(&Bars { title: "t & u", subtitle: "", axis: "MB/s", rows, panels });
        assert!(text.contains("a&lt;b") && text.contains("t &amp; u") && text.contains(">–</text>"), "{text}");
    }

    #[test]
    fn logarithmic_places_are_in_proportion() {
        assert_eq!(scale(10.0, 1.0, 100.0, 0.0, 50.0), 25.0);
        assert_eq!(scale(3.0, 3.0, 3.0, 0.0, 50.0), 25.0);
    }
}
