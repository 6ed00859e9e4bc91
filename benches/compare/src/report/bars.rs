//! The bars of the comparison, each evaluated from the figures by the words in which it was set.
//!
//! A bar against all engines is met against those that were measured; the row names the ones that were not. Where a bar
//! does not name its variant, with and without dictionaries are held to it each, and none is chosen after the fact.

use super::data::Data;
use super::figures::{Better, CACHED, DEPTHS, FILEMAP, Figure, LIMIT, MIXES, PLAIN, figure, others};
use super::markdown::{Table, number, with_unit};
use super::tables::fio_rate;

/// How a bar came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// As wanted.
    Met,
    /// Not as wanted.
    Missed,
    /// A figure that it takes is not there.
    NotMeasured,
    /// Another part of the document has it.
    Elsewhere,
}

/// A bar for one set and one of our variants.
#[derive(Debug, PartialEq)]
pub struct Bar {
    /// What is looked at.
    pub name: String,
    /// What it should be.
    pub wanted: &'static str,
    /// The set or sets.
    pub set: String,
    /// Our variant.
    pub engine: &'static str,
    /// What it is, beside what it was held against.
    pub figure: String,
    /// How it came out.
    pub verdict: Verdict,
    /// What else must be known to read the verdict.
    pub notes: Vec<String>,
}

const VARIANTS: [&str; 2] = [FILEMAP, PLAIN];
const CORPUS: &str = "corpus";
const MILLION: &str = "generated-1m";
const TEN_MILLION: &str = "generated-10m";

/// All bars.
pub fn bars(data: &Data) -> Vec<Bar> {
    let mut all = Vec::new();
    for make in [load, warm, miss, cold, get_many, disk, written, overwrite, kill, durable, ycsb, flat] {
        all.extend(make(data));
    }
    all
}

/// The table, and a line that counts.
pub fn table(data: &Data) -> String {
    let all = bars(data);
    let mut table = Table::new(["bar", "wanted", "set", "engine", "figure", ""]);
    for bar in &all {
        let mut verdict = match bar.verdict {
            Verdict::Met => "met".to_owned(),
            Verdict::Missed => "**missed**".to_owned(),
            Verdict::NotMeasured => "not measured".to_owned(),
            Verdict::Elsewhere => "measured elsewhere".to_owned(),
        };
        if !bar.notes.is_empty() {
            verdict.push_str(&format!(" ({})", bar.notes.join("; ")));
        }
        table.row([&bar.name, bar.wanted, &bar.set, bar.engine, &bar.figure, &verdict]);
    }
    let of = |verdict| all.iter().filter(|bar| bar.verdict == verdict).count();
    format!(
        "{} met, {} missed, {} not measured. They are of `filemap` and `filemap-plain`; of `filemap-cached` for \
         warm gets and YCSB alone, where other engines' caches of expanded pages count too.\n\n{}",
        of(Verdict::Met),
        of(Verdict::Missed),
        of(Verdict::NotMeasured),
        table.to_text()
    )
}

/// What a bar looks at: one figure of one of our variants on one set.
struct Look<'a> {
    data: &'a Data,
    set: &'a str,
    engine: &'static str,
    figure: &'static Figure,
    name: String,
}

impl<'a> Look<'a> {
    fn new(data: &'a Data, set: &'a str, engine: &'static str, workload: &str, name: &str) -> Self {
        let figure = figure(workload, name);
        Self { data, set, engine, figure, name: figure.says.to_owned() }
    }

    fn ours(&self) -> Option<f64> {
        self.data.median(self.set, self.engine, self.figure.workload, self.figure.name)
    }

    fn best_other(&self) -> Option<(&'static str, f64)> {
        self.data.best_other(self.set, self.figure.workload, self.figure.name)
    }

    fn says(&self, raw: f64) -> String {
        with_unit(raw / self.figure.per, self.figure.unit)
    }

    /// The row, once it is known what came out: the figure's words and whether it is as wanted.
    fn bar(self, wanted: &'static str, found: Option<(String, bool)>, notes: Vec<String>) -> Bar {
        let mut notes = notes;
        if self.data.failed(self.set, self.engine, self.figure.workload) {
            notes.push("with failures, see below".to_owned());
        }
        let (figure, verdict) = match found {
            Some((figure, true)) => (figure, Verdict::Met),
            Some((figure, false)) => (figure, Verdict::Missed),
            None => (self.ours().map_or("–".to_owned(), |ours| self.says(ours)), Verdict::NotMeasured),
        };
        Bar { name: self.name, wanted, set: self.set.to_owned(), engine: self.engine, figure, verdict, notes }
    }

    /// Held against a fixed number.
    fn at_most(self, wanted: &'static str, most: f64) -> Bar {
        let found = self.ours().map(|ours| (self.says(ours), ours <= most));
        self.bar(wanted, found, Vec::new())
    }

    /// Held against the best of the others: `holds` is given ours and theirs.
    fn beside_others(self, wanted: &'static str, holds: impl Fn(Better, f64, f64) -> bool) -> Bar {
        let found = self.ours().zip(self.best_other()).map(|(ours, (whose, theirs))| {
            let words = format!("{}; {whose} {}{}", self.says(ours), self.says(theirs), ratio(ours, theirs));
            (words, holds(self.figure.better, ours, theirs))
        });
        // Whoever is missed already is missed whatever the absent ones would give.
        let absent = if found.as_ref().is_some_and(|(_, met)| *met) { self.absent() } else { Vec::new() };
        self.bar(wanted, found, absent)
    }

    fn ahead_of_others(self, wanted: &'static str) -> Bar {
        self.beside_others(wanted, Better::ahead)
    }

    /// Which of the others have no such figure, as a note.
    fn absent(&self) -> Vec<String> {
        let absent: Vec<&str> =
            others().filter(|other| self.data.rounds(self.set, other, self.figure).is_none()).collect();
        if absent.is_empty() { Vec::new() } else { vec![format!("without {}", absent.join(", "))] }
    }
}

fn ratio(ours: f64, theirs: f64) -> String {
    match ours / theirs {
        // A digit more than elsewhere: it decides near the bar.
        ratio if ratio < 10.0 => format!(": {ratio:.3}"),
        ratio if ratio.is_finite() => format!(": {}", number(ratio)),
        _ => String::new(),
    }
}

/// The sets that have the workload from one of ours; one that is not there if none has, so that the bar gets its row.
fn sets<'a>(data: &'a Data, workload: &str, name: &str) -> Vec<&'a str> {
    let has = |set: &&str| VARIANTS.iter().any(|engine| data.raw(set, engine, workload, name).is_some());
    let sets: Vec<&str> = data.sets().into_iter().filter(has).collect();
    if sets.is_empty() { vec!["any"] } else { sets }
}

/// One row a set and variant.
fn each<'a>(data: &'a Data, workload: &'static str, name: &'static str) -> Vec<Look<'a>> {
    let looks = |set| VARIANTS.map(|engine| Look::new(data, set, engine, workload, name));
    sets(data, workload, name).into_iter().flat_map(looks).collect()
}

/// One row a set and variant, that with a page cache among them where it was measured: for figures in which other engines' caches of
/// expanded pages count.
fn each_with_cache<'a>(data: &'a Data, workload: &'static str, name: &'static str) -> Vec<Look<'a>> {
    let cached = sets(data, workload, name).into_iter().map(|set| Look::new(data, set, CACHED, workload, name));
    each(data, workload, name).into_iter().chain(cached.filter(|look| look.ours().is_some())).collect()
}

fn load(data: &Data) -> Vec<Bar> {
    let beside_limit = each(data, "load", "mb_per_s").into_iter().map(|look| {
        let limit = data.median(look.set, LIMIT, "load", "mb_per_s");
        let found = look.ours().zip(limit).map(|(ours, limit)| {
            let words = format!("{}; limit {}{}", look.says(ours), look.says(limit), ratio(ours, limit));
            (words, ours >= 0.95 * limit)
        });
        look.bar(">= 0.95x the limit", found, Vec::new())
    });
    let ahead = each(data, "load", "mb_per_s").into_iter().map(|look| look.ahead_of_others("ahead of every engine"));
    beside_limit.chain(ahead).collect()
}

fn warm(data: &Data) -> Vec<Bar> {
    let bar = |look: Look<'_>| match look.engine {
        FILEMAP => look.beside_others("with dictionaries >= 0.9x the best", |_, ours, theirs| ours >= 0.9 * theirs),
        _ => look.beside_others(">= 1.0x the best", |_, ours, theirs| ours >= theirs),
    };
    each_with_cache(data, "warm", "per_s").into_iter().map(bar).collect()
}

fn miss(data: &Data) -> Vec<Bar> {
    let bar = |engine| Look::new(data, TEN_MILLION, engine, "miss", "us").at_most("<= 0.25 us at 10 M keys", 0.25);
    VARIANTS.map(bar).into()
}

fn cold(data: &Data) -> Vec<Bar> {
    let look = |engine, name| Look::new(data, TEN_MILLION, engine, "cold", name);
    let rates = VARIANTS.map(|engine| look(engine, "per_s").ahead_of_others("ahead of every engine at 10 M"));
    let reads = VARIANTS.map(|engine| look(engine, "index_cached_reads_per_get").at_most("<= 1.05 at 10 M", 1.05));
    rates.into_iter().chain(reads).collect()
}

/// All depths that both have; the lowest share decides.
fn get_many(data: &Data) -> Vec<Bar> {
    let has = |set: &&str| DEPTHS.iter().any(|depth| fio_rate(data, set, *depth).is_some());
    let mut sets: Vec<&str> = data.sets().into_iter().filter(has).collect();
    if sets.is_empty() {
        sets.push("any");
    }
    let bar = |set, engine| {
        let mut look = Look::new(data, set, engine, "depth", "depth_1");
        look.name = "get_many".to_owned();
        let share = |depth: u32| {
            // What fio reads is what a get reads when the index is cached.
            let of = |name: &str| data.median(set, engine, "depth", &format!("{name}_{depth}"));
            let ours = of("indexed").or_else(|| of("depth"))?;
            Some((ours / fio_rate(data, set, depth)?, depth))
        };
        let shares: Vec<(f64, u32)> = DEPTHS.into_iter().filter_map(share).collect();
        let worst = shares.iter().copied().reduce(|worst, next| if next.0 < worst.0 { next } else { worst });
        let found = worst.map(|(share, depth)| {
            let best = shares.iter().fold(share, |best, next| best.max(next.0));
            (format!("{share:.3} of fio at depth {depth}, up to {best:.3} at others"), share >= 0.9)
        });
        let absent: Vec<String> =
            DEPTHS.iter().filter(|depth| !shares.iter().any(|share| share.1 == **depth)).map(u32::to_string).collect();
        let met = found.as_ref().is_some_and(|(_, met)| *met);
        let notes =
            if met && !absent.is_empty() { vec![format!("without depths {}", absent.join(", "))] } else { Vec::new() };
        look.bar(">= 0.9x fio at the same depth", found, notes)
    };
    sets.into_iter().flat_map(|set| VARIANTS.map(|engine| bar(set, engine))).collect()
}

fn disk(data: &Data) -> Vec<Bar> {
    let smaller =
        each(data, "load", "disk_bytes").into_iter().map(|look| look.ahead_of_others("smaller than every engine"));
    let beside_warc = Bar {
        name: "disk after recompression".to_owned(),
        wanted: "<= 0.70x WARC.gz + CDXJ",
        set: CORPUS.to_owned(),
        engine: FILEMAP,
        figure: "see above: WARC size".to_owned(),
        verdict: Verdict::Elsewhere,
        notes: Vec::new(),
    };
    smaller.chain([beside_warc]).collect()
}

fn written(data: &Data) -> Vec<Bar> {
    let bar = |set, engine, wanted, most| {
        let mut look = Look::new(data, set, engine, "load", "written_bytes");
        look.name = "written per byte of value log".to_owned();
        let log = data.raw(set, engine, "load", "value_log_bytes").filter(|log| log.median > 0.0);
        let found = look.ours().zip(log).map(|(ours, log)| {
            let words = format!("{} of {}{}", look.says(ours), look.says(log.median), ratio(ours, log.median));
            (words, ours / log.median <= most)
        });
        look.bar(wanted, found, Vec::new())
    };
    let corpus = VARIANTS.map(|engine| bar(CORPUS, engine, "<= 1.1 on the corpus", 1.1));
    let generated = VARIANTS.map(|engine| bar(TEN_MILLION, engine, "<= 1.3 at 10 M", 1.3));
    corpus.into_iter().chain(generated).collect()
}

fn overwrite(data: &Data) -> Vec<Bar> {
    let bar = |mut look: Look<'_>| {
        look.name = "write amplification of overwriting".to_owned();
        look.at_most("<= 2.5, as in step 3 in random order", 2.5)
    };
    each(data, "overwrite", "write_amplification").into_iter().map(bar).collect()
}

fn kill(data: &Data) -> Vec<Bar> {
    let bar = |look: Look<'_>| {
        let lost = data.raw(look.set, look.engine, "kill", "lost").map_or(0.0, |rounds| rounds.max);
        let mut bar =
            look.beside_others("first, or within 50 ms of the first", |_, ours, theirs| ours <= theirs + 50.0);
        if lost > 0.0 {
            bar.notes.push(format!("but lost {} synced pages", number(lost)));
        }
        bar
    };
    each(data, "kill", "open_ms").into_iter().map(bar).collect()
}

fn durable(data: &Data) -> Vec<Bar> {
    let looks = each(data, "durable", "per_s_8").into_iter();
    looks.map(|look| look.beside_others(">= the best", |_, ours, theirs| ours >= theirs)).collect()
}

/// First in both: nobody is ahead.
fn ycsb(data: &Data) -> Vec<Bar> {
    let bar = |rate: Look<'_>| {
        let tail = Look::new(data, rate.set, rate.engine, rate.figure.workload, "p999_us");
        let part = |look: &Look<'_>| {
            let (ours, (whose, theirs)) = (look.ours()?, look.best_other()?);
            let words = format!("{}; {whose} {}", look.says(ours), look.says(theirs));
            Some((words, !look.figure.better.ahead(theirs, ours)))
        };
        let found = part(&rate).zip(part(&tail)).map(|((rate, first), (tail, first_in_tail))| {
            let behind = |first: bool| if first { "" } else { " (behind)" };
            let words = format!("{rate}{}. p99.9 {tail}{}", behind(first), behind(first_in_tail));
            (words, first && first_in_tail)
        });
        let absent = if found.as_ref().is_some_and(|(_, met)| *met) { rate.absent() } else { Vec::new() };
        rate.bar("first in throughput and in p99.9", found, absent)
    };
    MIXES.iter().flat_map(|mix| each_with_cache(data, mix, "per_s")).map(bar).collect()
}

/// The rate at 10 M beside that at 1 M; of a miss it is one over its time.
fn flat(data: &Data) -> Vec<Bar> {
    let bar = |engine, workload, name| {
        let mut large = Look::new(data, TEN_MILLION, engine, workload, name);
        large.name = format!("flat: {}", large.figure.says);
        let (hosts, others) = (data.hosts(TEN_MILLION), data.hosts(MILLION));
        let one_machine = hosts == others && hosts.len() < 2;
        let small = data.median(MILLION, engine, workload, name).filter(|small| one_machine && *small > 0.0);
        let found = large.ours().filter(|ours| *ours > 0.0).zip(small).map(|(ours, small)| {
            let share = if large.figure.better == Better::More { ours / small } else { small / ours };
            (format!("{}; {} at 1 M: {share:.3}", large.says(ours), large.says(small)), share >= 0.8)
        });
        let notes = if one_machine { Vec::new() } else { vec!["on different machines".to_owned()] };
        large.bar("10 M >= 0.8x of 1 M", found, notes)
    };
    let figures = [("warm", "per_s"), ("miss", "us"), ("ycsb-c", "per_s")];
    figures.iter().flat_map(|(workload, name)| VARIANTS.map(|engine| bar(engine, workload, name))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::synthetic::{data, result};
    use super::*;

    /// The rows of a bar, as set, engine, verdict.
    fn verdicts<'a>(bars: &'a [Bar], wanted: &str) -> Vec<(&'a str, &'static str, Verdict)> {
        let of_bar = bars.iter().filter(|bar| bar.wanted == wanted);
        of_bar.map(|bar| (bar.set.as_str(), bar.engine, bar.verdict)).collect()
    }

    fn of(engine: &str, set: &str, workload: &str, name: &str, value: f64) -> String {
        result(engine, set, workload, &[(name, value)])
    }

    #[test]
    fn load_is_held_against_the_limit_and_every_engine() {
        let rates = [("limit", 100.0), ("filemap", 95.0), ("filemap-plain", 94.9), ("lmdb", 94.9), ("warc", 20.0)];
        let lines = rates.map(|(engine, rate)| of(engine, "corpus", "load", "mb_per_s", rate));
        let bars = load(&data(&lines));
        let limit = [("corpus", FILEMAP, Verdict::Met), ("corpus", PLAIN, Verdict::Missed)];
        assert_eq!(verdicts(&bars, ">= 0.95x the limit"), limit);
        // As fast as another is not ahead of it.
        assert_eq!(verdicts(&bars, "ahead of every engine"), limit);
        let met = bars.iter().find(|bar| bar.wanted == "ahead of every engine").expect("a row");
        assert_eq!(met.figure, "95 MB/s; lmdb 94.9 MB/s: 1.001");
        assert_eq!(met.notes, ["without fjall, redb, rocksdb, sqlite, candystore, file-per-page"]);
    }

    #[test]
    fn warm_gets_may_cost_a_tenth_with_dictionaries() {
        let rates = [("filemap", 90.0), ("filemap-plain", 99.0), ("filemap-cached", 500.0), ("lmdb", 100.0)];
        let bars = warm(&data(&rates.map(|(engine, rate)| of(engine, "corpus", "warm", "per_s", rate))));
        assert_eq!(verdicts(&bars, "with dictionaries >= 0.9x the best"), [("corpus", FILEMAP, Verdict::Met)]);
        let without = [("corpus", PLAIN, Verdict::Missed), ("corpus", CACHED, Verdict::Met)];
        assert_eq!(verdicts(&bars, ">= 1.0x the best"), without);
    }

    #[test]
    fn misses_and_cold_reads_have_fixed_bounds_at_ten_million() {
        let set = "generated-10m";
        let lines = [
            of("filemap", set, "miss", "us", 0.25),
            of("filemap-plain", set, "miss", "us", 0.2501),
            result("filemap", set, "cold", &[("per_s", 11.0), ("index_cached_reads_per_get", 1.05)]),
            result("filemap-plain", set, "cold", &[("per_s", 9.0), ("index_cached_reads_per_get", 1.06)]),
            of("fjall", set, "cold", "per_s", 10.0),
        ];
        let data = data(&lines);
        let expected = [(set, FILEMAP, Verdict::Met), (set, PLAIN, Verdict::Missed)];
        assert_eq!(verdicts(&miss(&data), "<= 0.25 us at 10 M keys"), expected);
        assert_eq!(verdicts(&cold(&data), "ahead of every engine at 10 M"), expected);
        assert_eq!(verdicts(&cold(&data), "<= 1.05 at 10 M"), expected);
    }

    #[test]
    fn get_many_is_as_good_as_its_worst_depth() {
        let lines = [
            result("fio", "corpus", "depth", &[("fio_1", 100.0), ("fio_2", 200.0)]),
            result("filemap", "corpus", "depth", &[("depth_1", 10.0), ("indexed_1", 90.0), ("depth_2", 210.0)]),
            result("filemap-plain", "corpus", "depth", &[("depth_1", 101.0), ("depth_2", 179.0)]),
        ];
        let bars = get_many(&data(&lines));
        let expected = [("corpus", FILEMAP, Verdict::Met), ("corpus", PLAIN, Verdict::Missed)];
        assert_eq!(verdicts(&bars, ">= 0.9x fio at the same depth"), expected);
        assert_eq!(bars[0].figure, "0.900 of fio at depth 1, up to 1.050 at others");
        assert_eq!(bars[0].notes, ["without depths 4, 8, 16, 32, 64, 128"]);
    }

    #[test]
    fn disk_and_written_bytes() {
        let load = |engine, set, written, log, disk| {
            result(engine, set, "load", &[("written_bytes", written), ("value_log_bytes", log), ("disk_bytes", disk)])
        };
        let lines = [
            load("filemap", "corpus", 110.0, 100.0, 110.0),
            load("filemap-plain", "corpus", 111.0, 100.0, 120.0),
            of("warc", "corpus", "load", "disk_bytes", 120.0),
            load("filemap", "generated-10m", 131.0, 100.0, 1.0),
            load("filemap-plain", "generated-10m", 130.0, 100.0, 1.0),
        ];
        let data = data(&lines);
        let (met, missed, none) = (Verdict::Met, Verdict::Missed, Verdict::NotMeasured);
        let (corpus, large) = ("corpus", "generated-10m");
        let smaller = [(corpus, FILEMAP, met), (corpus, PLAIN, missed), (large, FILEMAP, none), (large, PLAIN, none)];
        assert_eq!(verdicts(&disk(&data), "smaller than every engine"), smaller);
        let bars = disk(&data);
        assert_eq!(verdicts(&bars, "<= 0.70x WARC.gz + CDXJ"), [(corpus, FILEMAP, Verdict::Elsewhere)]);
        let corpus = [(corpus, FILEMAP, met), (corpus, PLAIN, missed)];
        assert_eq!(verdicts(&written(&data), "<= 1.1 on the corpus"), corpus);
        assert_eq!(verdicts(&written(&data), "<= 1.3 at 10 M"), [(large, FILEMAP, missed), (large, PLAIN, met)]);
    }

    #[test]
    fn upkeep_bars() {
        let lines = [
            of("filemap", "corpus", "kill", "open_ms", 52.0),
            of("filemap-plain", "corpus", "kill", "open_ms", 52.1),
            of("lmdb", "corpus", "kill", "open_ms", 2.0),
            of("filemap", "corpus", "durable", "per_s_8", 70.0),
            of("filemap-plain", "corpus", "durable", "per_s_8", 69.0),
            of("rocksdb", "corpus", "durable", "per_s_8", 70.0),
            of("filemap", "corpus", "overwrite", "write_amplification", 2.5),
            of("filemap-plain", "corpus", "overwrite", "write_amplification", 2.6),
        ];
        let data = data(&lines);
        let expected = [("corpus", FILEMAP, Verdict::Met), ("corpus", PLAIN, Verdict::Missed)];
        assert_eq!(verdicts(&kill(&data), "first, or within 50 ms of the first"), expected);
        assert_eq!(verdicts(&durable(&data), ">= the best"), expected);
        assert_eq!(verdicts(&overwrite(&data), "<= 2.5, as in step 3 in random order"), expected);
    }

    #[test]
    fn ycsb_is_first_only_in_both() {
        let of = |engine, rate, tail| result(engine, "corpus", "ycsb-a", &[("per_s", rate), ("p999_us", tail)]);
        let lines = [of("filemap", 100.0, 10.0), of("filemap-plain", 101.0, 10.1), of("redb", 90.0, 10.0)];
        let bars = ycsb(&data(&lines));
        let measured: Vec<_> = bars.iter().filter(|bar| bar.verdict != Verdict::NotMeasured).collect();
        assert_eq!(measured.len(), 2);
        assert_eq!((measured[0].verdict, measured[1].verdict), (Verdict::Met, Verdict::Missed));
        assert!(measured[1].figure.ends_with("p99.9 10.1 us; redb 10 us (behind)"), "{}", measured[1].figure);
    }

    #[test]
    fn flat_compares_rates_at_both_sizes() {
        let lines = [
            of("filemap", "generated-1m", "miss", "us", 0.2),
            of("filemap", "generated-10m", "miss", "us", 0.25),
            of("filemap", "generated-1m", "warm", "per_s", 100.0),
            of("filemap", "generated-10m", "warm", "per_s", 79.0),
        ];
        let bars = flat(&data(&lines));
        let of_filemap: Vec<_> = bars.iter().filter(|bar| bar.engine == FILEMAP).map(|bar| bar.verdict).collect();
        assert_eq!(of_filemap, [Verdict::Missed, Verdict::Met, Verdict::NotMeasured]);
        let other = [super::super::synthetic::machine().replace("EPYC", "Ryzen"), lines[3].clone()];
        let moved = flat(&data(&[&lines[..3], &other].concat()));
        assert!(moved.iter().all(|bar| bar.verdict == Verdict::NotMeasured && bar.notes == ["on different machines"]));
    }

    #[test]
    fn without_results_every_bar_has_its_row_and_none_is_met() {
        let bars = bars(&Data::default());
        assert!(bars.iter().all(|bar| matches!(bar.verdict, Verdict::NotMeasured | Verdict::Elsewhere)), "{bars:?}");
        assert!(bars.len() > 30, "{}", bars.len());
    }

    #[test]
    fn a_failure_is_said_beside_the_verdict() {
        let failure = r#"{"kind":"failure","engine":"filemap","set":"corpus","workload":"warm","what":"a wrong page"}"#;
        let lines = [of("filemap", "corpus", "warm", "per_s", 2.0), of("lmdb", "corpus", "warm", "per_s", 1.0)];
        let text = table(&data(&[lines.as_slice(), &[failure.to_owned()]].concat()));
        assert!(text.contains("sqlite, candystore, file-per-page, warc; with failures, see below) |"), "{text}");
    }
}
