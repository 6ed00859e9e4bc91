//! Charts of the last hour: rates and latencies. The script requests the view again, and replaces
//! the charts by the newer ones.

use std::time::Duration;

use filemap_core::Stats;
use maud::{Markup, html};

use super::super::hour::{COUNTED, EVERY, KEPT, Point, Spread};
use super::layout::number;

/// Display names of the figures.
const NAMES: [&str; COUNTED.len()] = ["reads", "found", "puts", "puts unchanged", "removals"];

/// The counters: in all, per second, and over the last hour.
pub(super) fn rates(stats: &Stats, points: &[Point], since: Duration) -> Markup {
    let counted = [stats.gets, stats.hits, stats.puts, stats.unchanged_puts, stats.removes];
    let average = |number: u64| rate(number as f64 / since.as_secs_f64().max(1.0));
    html! {
        div class="scroll" tabindex="0" role="region" aria-label="Calls a second" {
            table {
                thead {
                    tr {
                        th scope="col" { "Calls" } th scope="col" class="n" { "In all" }
                        th scope="col" class="n" { "A second, on average" }
                        th scope="col" class="n" { "A second, now" } th scope="col" { "The last hour" }
                    }
                }
                tbody id="rates" {
                    @for (at, (figure, name)) in COUNTED.iter().zip(NAMES).enumerate() {
                        @let line: Vec<Option<f64>> = points.iter().map(|point| Some(point.rates[at])).collect();
                        tr data-figure=(figure) {
                            th scope="row" { (name) }
                            td class="n" { (number(counted[at])) }
                            td class="n" { (average(counted[at])) }
                            td class="n" { (line.last().copied().flatten().map_or("-".to_owned(), rate)) }
                            td { (chart(&format!("{name} a second"), &[&line], rate)) }
                        }
                    }
                }
            }
        }
    }
}

/// Selects a latency of a point.
type Of = fn(&Point) -> Option<Spread>;

/// Latencies of requests for pages.
pub(super) fn times(points: &[Point]) -> Markup {
    let rows: [(&str, Of); 2] = [("a read", |point| point.gets), ("a put", |point| point.puts)];
    html! {
        div class="scroll" tabindex="0" role="region" aria-label="Times of requests" {
            table {
                thead {
                    tr {
                        th scope="col" { "Time of" } th scope="col" class="n" { "Median" }
                        th scope="col" class="n" { "99%" } th scope="col" { "The last hour" }
                    }
                }
                tbody id="times" {
                    @for (name, of) in rows {
                        @let last = points.iter().rev().find_map(of);
                        @let shown = |us: fn(Spread) -> u64| last.map_or("-".to_owned(), |spread| took(us(spread) as f64));
                        tr {
                            th scope="row" { (name) }
                            td class="n" { (shown(|spread| spread.median_us)) }
                            td class="n" { (shown(|spread| spread.p99_us)) }
                            td {
                                (chart(
                                    &format!("time of {name}, median and 99%"),
                                    &[
                                        &points.iter().map(|point| of(point).map(|spread| spread.median_us as f64)).collect::<Vec<_>>(),
                                        &points.iter().map(|point| of(point).map(|spread| spread.p99_us as f64)).collect::<Vec<_>>(),
                                    ],
                                    took,
                                ))
                            }
                        }
                    }
                }
            }
        }
    }
}

/// A line chart of the last hour, newest point at the right; a point without a value is a gap.
fn chart(name: &str, lines: &[&[Option<f64>]], words: fn(f64) -> String) -> Markup {
    let values = || lines.iter().flat_map(|line| line.iter().flatten());
    let most = values().copied().fold(0.0, f64::max);
    let place = |line: &[Option<f64>]| {
        let first = KEPT - line.len();
        let of = |(at, value): (usize, &Option<f64>)| {
            let height = 98.0 - 96.0 * (*value)? / most.max(1e-9);
            Some(format!("{},{height:.1}", first + at))
        };
        line.iter().enumerate().filter_map(of).collect::<Vec<_>>().join(" ")
    };
    let minutes = (lines.first().map_or(0, |line| line.len() as u64) * EVERY.as_secs()).div_ceil(60);
    let label = match values().next() {
        None => format!("{name}: nothing yet"),
        Some(_) => format!("{name}: at most {} in the last {minutes} min", words(most)),
    };
    html! {
        svg class="chart" viewBox=(format!("0 0 {} 100", KEPT - 1)) preserveAspectRatio="none" role="img" aria-label=(label) {
            @for line in lines { polyline vector-effect="non-scaling-stroke" points=(place(line)) {} }
        }
    }
}

/// A rate in three digits.
fn rate(rate: f64) -> String {
    match rate {
        0.0 => "0".to_owned(),
        100.0.. => number(rate.round() as u64),
        10.0.. => format!("{rate:.1}"),
        _ => format!("{rate:.2}"),
    }
}

/// A duration, given in microseconds.
fn took(us: f64) -> String {
    match us {
        1_000_000.0.. => format!("{:.1} s", us / 1e6),
        1_000.0.. => format!("{:.1} ms", us / 1e3),
        _ => format!("{us:.0} µs"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_has_its_newest_point_at_the_right_and_says_what_it_shows() {
        let drawn = chart("reads a second", &[&[Some(1.0), None, Some(4.0)]], rate).into_string();
        assert!(drawn.contains("points=\"357,74.0 359,2.0\""), "{drawn}");
        assert!(drawn.contains("aria-label=\"reads a second: at most 4.00 in the last 1 min\""), "{drawn}");
        assert!(chart("puts", &[&[None]], rate).into_string().contains("puts: nothing yet"));
    }

    #[test]
    fn rates_and_times_have_about_three_digits() {
        assert_eq!([0.0, 0.125, 12.34, 1234.4].map(rate), ["0", "0.12", "12.3", "1,234"]);
        assert_eq!([45.0, 1500.0, 2_500_000.0].map(took), ["45 µs", "1.5 ms", "2.5 s"]);
    }
}
