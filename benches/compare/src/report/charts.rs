//! Which figures are drawn: load, warm and cold rates by set, YCSB by mix, and gets by depth beside the device's own
//! reads.
//!
//! A chart without figures is not made. Charts of one set take the largest on which most engines were measured.

use super::data::Data;
use super::figures::{CACHED, DEPTHS, ENGINES, FILEMAP, FIO, LIMIT, MIXES, PLAIN, figure, is_ours};
use super::svg::{Bar, Bars, Line, Lines, Panel, bars, lines};
use super::tables::fio_rate;

/// A picture.
#[derive(Debug, PartialEq)]
pub struct Chart {
    /// Its file's name.
    pub file: &'static str,
    /// What it shows.
    pub title: String,
    /// The picture itself.
    pub svg: String,
}

/// All that can be drawn of the data.
pub fn charts(data: &Data) -> Vec<Chart> {
    let by_set = [
        ("compare-load.svg", "Load", "load", "mb_per_s", "MB of bodies a second; longer is better"),
        ("compare-warm.svg", "Warm get", "warm", "per_s", "gets a second; longer is better"),
        ("compare-cold.svg", "Cold get, nothing cached", "cold", "per_s", "gets a second; longer is better"),
    ];
    let mut all: Vec<Chart> = Vec::new();
    for (file, title, workload, name, axis) in by_set {
        let panels = data.sets().into_iter().map(|set| (set.to_owned(), set, workload, name)).collect();
        all.extend(bar_chart(data, file, title.to_owned(), axis, panels));
    }
    if let Some(set) = widest_set(data, "ycsb-a", "per_s") {
        let panels = MIXES.iter().map(|mix| (mix.to_uppercase().replace('-', " "), set, *mix, "per_s")).collect();
        all.extend(bar_chart(
            data,
            "compare-ycsb.svg",
            format!("YCSB, zipfian keys, {set}"),
            "operations a second",
            panels,
        ));
    }
    all.extend(depth_chart(data));
    all
}

/// A panel's title, set, workload and figure.
type PanelOf<'a> = (String, &'a str, &'static str, &'static str);

fn bar_chart(data: &Data, file: &'static str, title: String, axis: &str, panels: Vec<PanelOf<'_>>) -> Option<Chart> {
    let rounds =
        |engine: &str, (_, set, workload, name): &PanelOf<'_>| data.rounds(set, engine, figure(workload, name));
    let has = |engine: &str| panels.iter().any(|panel| rounds(engine, panel).is_some());
    let engines: Vec<&'static str> = ENGINES.into_iter().filter(|engine| has(engine)).collect();
    let bar = |engine: &str, panel: &PanelOf<'_>| {
        let rounds = rounds(engine, panel)?;
        Some(Bar { value: rounds.median, range: (rounds.count > 1).then_some((rounds.min, rounds.max)) })
    };
    let panels: Vec<Panel> = panels
        .iter()
        .map(|panel| Panel { title: panel.0.clone(), bars: engines.iter().map(|engine| bar(engine, panel)).collect() })
        .filter(|panel| panel.bars.iter().any(Option::is_some))
        .collect();
    if panels.is_empty() {
        return None;
    }
    let rows = engines.into_iter().map(|engine| (engine, bar_colour(engine))).collect();
    let subtitle = subtitle(data, panels.iter().flat_map(|panel| &panel.bars).flatten().any(|bar| bar.range.is_some()));
    let svg = bars(&Bars { title: &title, subtitle: &subtitle, axis, rows, panels });
    Some(Chart { file, title, svg })
}

fn subtitle(data: &Data, ranges: bool) -> String {
    let what = if ranges { "medians; the thin line goes from the smallest to the largest round" } else { "" };
    let machine = data.machines.first().map_or(String::new(), |m| format!("{}, {} cores", m.cpu, m.cores));
    [what, &machine].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ")
}

/// Gets by depth, each engine a line; the device's own is dashed.
fn depth_chart(data: &Data) -> Option<Chart> {
    let set = widest_set(data, "depth", "depth_1")?;
    let of_engine = |engine: &'static str| {
        let rate = |depth: u32| match engine {
            FIO => fio_rate(data, set, depth),
            _ => data.median(set, engine, "depth", &format!("depth_{depth}")).filter(|rate| *rate > 0.0),
        };
        let points: Vec<(f64, f64)> = DEPTHS.into_iter().filter_map(|d| Some((f64::from(d), rate(d)?))).collect();
        let line =
            Line { name: engine, colour: line_colour(engine), dashed: engine == FIO, bold: is_ours(engine), points };
        (!line.points.is_empty()).then_some(line)
    };
    // The device's own first, so that it lies under the others.
    let (device, engines): (Vec<_>, Vec<_>) = ENGINES.into_iter().filter_map(of_engine).partition(|line| line.dashed);
    let drawn: Vec<Line> = device.into_iter().chain(engines).collect();
    if drawn.is_empty() {
        return None;
    }
    let title = format!("Gets asked for at once, {set}");
    let svg = lines(&Lines {
        title: &title,
        subtitle: &subtitle(data, false),
        x_axis: "pages asked for at once: get_many, or as many threads where an engine has none",
        y_axis: "gets a second; fio: random reads of the same size",
        x_ticks: DEPTHS.map(f64::from).into(),
        lines: drawn,
    });
    Some(Chart { file: "compare-depth.svg", title, svg })
}

/// The largest set on which more than half of the engines have the figure that have it on any.
fn widest_set<'a>(data: &'a Data, workload: &str, name: &str) -> Option<&'a str> {
    let has = |set: &str, engine: &&str| data.median(set, engine, workload, name).is_some();
    let engines = |set: &str| ENGINES.iter().filter(|engine| has(set, engine)).count();
    let most = data.sets().into_iter().map(engines).max()?;
    data.sets().into_iter().rfind(|set| 2 * engines(set) > most)
}

/// Ours are blue, the limit grey, the others of one colour: a bar has its name beside it.
fn bar_colour(engine: &str) -> &'static str {
    match engine {
        FILEMAP => "#2563a8",
        PLAIN => "#5b8fc7",
        CACHED => "#1e3a5f",
        LIMIT => "#6b7280",
        FIO => "#111",
        _ => "#b45309",
    }
}

/// Lines cross, so that each has its own.
fn line_colour(engine: &str) -> &'static str {
    match engine {
        "lmdb" => "#b45309",
        "fjall" => "#15803d",
        "redb" => "#be123c",
        "rocksdb" => "#7c3aed",
        "sqlite" => "#a16207",
        "candystore" => "#db2777",
        "file-per-page" => "#0f766e",
        "warc" => "#78350f",
        _ => bar_colour(engine),
    }
}

#[cfg(test)]
mod tests {
    use super::super::synthetic::{data, machine, result};
    use super::*;

    #[test]
    fn only_what_was_measured_is_drawn() {
        assert_eq!(charts(&Data::default()), []);
        let charts = charts(&data(&[machine(), result("lmdb", "corpus", "load", &[("mb_per_s", 711.0)])]));
        let files: Vec<_> = charts.iter().map(|chart| chart.file).collect();
        assert_eq!(files, ["compare-load.svg"]);
        for words in [">lmdb<", ">711<", ">corpus<", ">Load<", "AMD EPYC"] {
            assert!(charts[0].svg.contains(words), "{words}");
        }
        assert!(!charts[0].svg.contains(">redb<"));
    }

    #[test]
    fn depths_have_a_line_for_each_engine_and_the_device() {
        let lines = [
            result("fio", "corpus", "depth", &[("fio_1", 20_000.0), ("fio_2", 40_000.0)]),
            result("filemap", "corpus", "depth", &[("depth_1", 19_000.0), ("depth_2", 36_000.0)]),
        ];
        let charts = charts(&data(&lines));
        assert_eq!(charts.len(), 1);
        assert_eq!(charts[0].svg.matches("<polyline").count(), 2);
        assert_eq!(charts[0].svg.matches("stroke-dasharray").count(), 1);
    }

    #[test]
    fn the_largest_set_of_most_engines_is_chosen() {
        let of = |engine, set| result(engine, set, "ycsb-a", &[("per_s", 1.0)]);
        let few = data(&[of("lmdb", "corpus"), of("redb", "corpus"), of("lmdb", "generated-10m")]);
        assert_eq!(widest_set(&few, "ycsb-a", "per_s"), Some("corpus"));
        assert_eq!(widest_set(&few, "ycsb-b", "per_s"), None);
        let same = data(&[of("lmdb", "corpus"), of("lmdb", "generated-10m"), of("lmdb", "generated-1m")]);
        assert_eq!(widest_set(&same, "ycsb-a", "per_s"), Some("generated-10m"));
    }
}
