//! The tables of figures: for each set the main one, the puts, YCSB, upkeep, depths beside the device's own random
//! reads, and gets in little memory.
//!
//! A cell may hold several figures, each ranked for itself; the best engine's is bold, and the limit never is.

use super::data::{Data, Rounds};
use super::figures::{DEPTHS, ENGINES, FIO, Figure, MIXES, SQUEEZE, figure, is_engine};
use super::markdown::{Table, count, number};

/// A column: its heading, and the figures in its cells.
struct Column {
    heading: String,
    figures: Vec<&'static Figure>,
}

fn column(heading: &str, workload: &str, names: &[&str]) -> Column {
    Column { heading: heading.to_owned(), figures: names.iter().map(|name| figure(workload, name)).collect() }
}

/// All tables of a set, each under its heading.
pub fn tables(data: &Data, set: &str) -> String {
    let all = [
        (String::new(), main_columns()),
        ("Puts of the load".to_owned(), put_columns()),
        ("YCSB, zipfian keys: operations a second / p99.9 us".to_owned(), ycsb_columns()),
        ("Upkeep".to_owned(), upkeep_columns()),
    ];
    let mut out = String::new();
    for (title, columns) in all {
        out.push_str(&titled(&title, ranked(data, set, &columns)));
    }
    let title = "Gets a second by depth, and their share of what fio reads at that depth";
    out.push_str(&titled(title, depths(data, set, "depth")));
    let title = "The same with the index cached, where it has files of its own";
    out.push_str(&titled(title, depths(data, set, "indexed")));
    out.push_str(&titled("Gets a second with memory for a part of the index", ranked(data, set, &squeeze_columns())));
    out
}

/// The columns of the main table.
fn main_columns() -> Vec<Column> {
    let mut columns = vec![
        column("load MB/s", "load", &["mb_per_s"]),
        column("warm get/s", "warm", &["per_s"]),
        column("p50 / p99 / p99.9 us", "warm", &["p50_us", "p99_us", "p999_us"]),
        column("miss us", "miss", &["us"]),
        column("cold get/s", "cold", &["per_s"]),
        column("reads a cold get", "cold", &["reads_per_get"]),
        column("disk MB", "load", &["disk_bytes"]),
        column("written MB", "load", &["written_bytes"]),
    ];
    let memory = [("anonymous MB, load / warm", "anonymous_bytes"), ("mapped MB, load / warm", "mapped_bytes")];
    columns.extend(memory.map(|(heading, name)| {
        let figures = vec![figure("load", name), figure("warm", name)];
        Column { heading: heading.to_owned(), figures }
    }));
    columns
}

fn put_columns() -> Vec<Column> {
    vec![
        column("put p50 / p99 us", "load", &["put_p50_us", "put_p99_us"]),
        column("p99.9 / p99.99 us", "load", &["put_p999_us", "put_p9999_us"]),
        column("longest ms", "load", &["put_max_ms"]),
    ]
}

fn ycsb_columns() -> Vec<Column> {
    let mix = |workload: &&str| column(&workload[5..].to_uppercase(), workload, &["per_s", "p999_us"]);
    MIXES.iter().map(mix).collect()
}

fn upkeep_columns() -> Vec<Column> {
    vec![
        column("overwrite puts/s", "overwrite", &["puts_per_s"]),
        column("write amplification", "overwrite", &["write_amplification"]),
        column("disk MB then", "overwrite", &["disk_bytes"]),
        column("delete half s", "delete", &["seconds"]),
        column("disk MB after", "delete", &["disk_after_bytes"]),
        column("clean reopen ms", "reopen", &["clean_ms"]),
        column("after kill -9 ms / pages lost", "kill", &["open_ms", "lost"]),
        column("durable puts/s, 1 / 8 threads", "durable", &["per_s_1", "per_s_8"]),
        column("their p99 us", "durable", &["p99_us_1", "p99_us_8"]),
    ]
}

fn squeeze_columns() -> Vec<Column> {
    vec![
        column("100%", SQUEEZE, &["per_s_100"]),
        column("50%", SQUEEZE, &["per_s_50"]),
        column("25%", SQUEEZE, &["per_s_25"]),
    ]
}

fn titled(title: &str, table: String) -> String {
    match (title, table.is_empty()) {
        (_, true) => String::new(),
        ("", _) => table,
        _ => format!("*{title}*\n\n{table}"),
    }
}

/// A row an engine that has any of the figures, and below it how far rounds lay apart; nothing without rows.
fn ranked(data: &Data, set: &str, columns: &[Column]) -> String {
    let headings = columns.iter().map(|column| column.heading.as_str());
    let mut table = Table::new(std::iter::once("engine").chain(headings));
    let (mut failed, mut fewer) = (false, false);
    for engine in ENGINES {
        let cells: Vec<String> = columns.iter().map(|column| cell(data, set, engine, column)).collect();
        if cells.iter().all(|cell| cell == "–") {
            continue;
        }
        let wrong = columns.iter().flat_map(|c| &c.figures).any(|figure| data.failed(set, engine, figure.workload));
        failed |= wrong;
        let pages = data.fewer_pages(set, engine);
        fewer |= pages.is_some();
        let of = pages.map_or(String::new(), |pages| format!(" ({} pages)", count(pages)));
        let name = format!("{engine}{}{of}", if wrong { " †" } else { "" });
        table.row(std::iter::once(name).chain(cells));
    }
    if table.is_empty() {
        return String::new();
    }
    let mut notes = spread_line(data, set, columns);
    if failed {
        notes.push_str("† Failed in this table: see the failures below.\n\n");
    }
    if fewer {
        notes.push_str("An engine with a number of pages beside its name was given only those.\n\n");
    }
    table.to_text() + &notes
}

/// Its figures, each with its rank; a dash if there is none at all.
fn cell(data: &Data, set: &str, engine: &str, column: &Column) -> String {
    let part = |figure: &&'static Figure| match data.rounds(set, engine, figure) {
        None => "–".to_owned(),
        Some(rounds) => {
            let words = number(rounds.median / figure.per);
            let best = is_engine(engine) && data.best(set, figure) == Some(rounds.median);
            if best { format!("**{words}**") } else { words }
        }
    };
    let parts: Vec<String> = column.figures.iter().map(part).collect();
    if parts.iter().all(|part| part == "–") { "–".to_owned() } else { parts.join(" / ") }
}

/// The rounds that lay farthest apart, figure by figure.
fn spread_line(data: &Data, set: &str, columns: &[Column]) -> String {
    let mut widest = Vec::new();
    for figure in columns.iter().flat_map(|column| &column.figures) {
        let of_engine = |engine| {
            let rounds: Rounds = data.rounds(set, engine, figure)?;
            Some((rounds.spread()?, engine, rounds))
        };
        let all = ENGINES.into_iter().filter_map(of_engine).filter(|(spread, ..)| *spread >= 0.005);
        let Some((spread, engine, rounds)) = all.reduce(|a, b| if b.0 > a.0 { b } else { a }) else { continue };
        let (min, max) = (number(rounds.min / figure.per), number(rounds.max / figure.per));
        widest.push(format!("{}: {min}–{max} ({engine}, {:.0}%)", figure.says, spread * 100.0));
    }
    match widest.is_empty() {
        true => String::new(),
        false => format!("Widest from the smallest to the largest round: {}.\n\n", widest.join("; ")),
    }
}

/// Gets a second by depth; fio's row first, the others with their share of it. `what` begins the names of the figures.
fn depths(data: &Data, set: &str, what: &str) -> String {
    let fio = |depth| fio_rate(data, set, depth);
    let mut table = Table::new(std::iter::once("engine".to_owned()).chain(DEPTHS.map(|depth| depth.to_string())));
    let device = DEPTHS.map(|depth| fio(depth).map_or("–".to_owned(), number));
    let has = |engine: &str| {
        DEPTHS.iter().any(|depth| data.median(set, engine, "depth", &format!("{what}_{depth}")).is_some())
    };
    if device.iter().any(|cell| cell != "–") && ENGINES.into_iter().any(has) {
        table.row(std::iter::once(FIO.to_owned()).chain(device));
    }
    for engine in ENGINES {
        let cell = |depth: u32| {
            let ranked = figure("depth", &format!("{what}_{depth}"));
            let Some(rounds) = data.rounds(set, engine, ranked) else { return "–".to_owned() };
            let share = fio(depth).map_or(String::new(), |fio| format!(" ({:.2})", rounds.median / fio));
            let best = is_engine(engine) && data.best(set, ranked) == Some(rounds.median);
            let mark = if best { "**" } else { "" };
            format!("{mark}{}{mark}{share}", number(rounds.median))
        };
        let cells = DEPTHS.map(cell);
        if cells.iter().any(|cell| cell != "–") {
            table.row(std::iter::once(engine.to_owned()).chain(cells));
        }
    }
    if table.is_empty() {
        return String::new();
    }
    let names = DEPTHS.map(|depth| format!("{what}_{depth}"));
    let columns = names.map(|name| column("", "depth", &[&name]));
    table.to_text() + &spread_line(data, set, &columns)
}

/// The device's own random reads a second.
pub fn fio_rate(data: &Data, set: &str, depth: u32) -> Option<f64> {
    data.raw(set, FIO, "depth", &format!("fio_{depth}")).map(|rounds| rounds.median).filter(|rate| *rate > 0.0)
}

#[cfg(test)]
mod tests {
    use super::super::synthetic::{data, result};
    use super::*;

    #[test]
    fn the_best_engine_is_bold_and_the_limit_never() {
        let lines = [("limit", 900.0), ("filemap", 700.0), ("lmdb", 710.0)];
        let text = tables(
            &data(&lines.map(|(engine, rate)| result(engine, "corpus", "load", &[("mb_per_s", rate)]))),
            "corpus",
        );
        assert!(text.contains("| limit | 900 |") && text.contains("| filemap | 700 |"), "{text}");
        assert!(text.contains("| lmdb | **710** |"), "{text}");
        assert!(!text.contains("Upkeep"), "a table without figures is left out: {text}");
    }

    #[test]
    fn each_figure_of_a_cell_is_ranked_for_itself() {
        let of = |engine, p50, p99| result(engine, "corpus", "warm", &[("p50_us", p50), ("p99_us", p99)]);
        let text = tables(&data(&[of("filemap", 9.0, 80.0), of("redb", 8.0, 90.0)]), "corpus");
        assert!(text.contains("| 9 / **80** / – |") && text.contains("| **8** / 90 / – |"), "{text}");
    }

    #[test]
    fn the_widest_spread_stands_below() {
        let of = |engine, rate| result(engine, "corpus", "warm", &[("per_s", rate)]);
        let lines =
            [of("filemap", 100.0), of("filemap", 110.0), of("filemap", 105.0), of("lmdb", 50.0), of("lmdb", 150.0)];
        let text = tables(&data(&lines), "corpus");
        assert!(text.contains("warm get: 50–150 (lmdb, 100%)"), "{text}");
    }

    #[test]
    fn depths_stand_beside_the_device() {
        let fio = result("fio", "corpus", "depth", &[("fio_1", 20_000.0), ("fio_8", 80_000.0)]);
        let figures = [("depth_1", 19_000.0), ("depth_2", 30_000.0), ("indexed_8", 40_000.0)];
        let ours = result("filemap", "corpus", "depth", &figures);
        let text = tables(&data(&[fio, ours]), "corpus");
        assert!(text.contains("| fio | 20,000 | – | – | 80,000 |"), "{text}");
        assert!(text.contains("| filemap | 19,000 (0.95) | 30,000 | – |"), "{text}");
        assert!(text.contains("| filemap | – | – | – | 40,000 (0.50) |"), "{text}");
    }

    #[test]
    fn failed_engines_and_smaller_sets_are_marked() {
        let fewer =
            result("candystore", "corpus", "warm", &[("per_s", 1.0)]).replace("\"pages\":1000", "\"pages\":900");
        let failure =
            r#"{"kind":"failure","engine":"lmdb","set":"corpus","workload":"warm","what":"a wrong page"}"#.to_owned();
        let text = tables(&data(&[fewer, result("lmdb", "corpus", "warm", &[("per_s", 2.0)]), failure]), "corpus");
        assert!(text.contains("| lmdb † |") && text.contains("| candystore (900 pages) |"), "{text}");
    }
}
