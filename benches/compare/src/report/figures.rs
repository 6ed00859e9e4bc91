//! The vocabulary of the raw results: engines in the order of tables, workloads, and every figure by which engines are
//! ranked, with its unit and which way is better.
//!
//! Tables, bars, charts and the list of losses all take their figures from here, so that none is ranked one way in one
//! place and the other way in another.

/// Engines in the order of tables.
pub const ENGINES: [&str; 13] = [
    LIMIT,
    FILEMAP,
    PLAIN,
    CACHED,
    "lmdb",
    "fjall",
    "redb",
    "rocksdb",
    "sqlite",
    "candystore",
    "file-per-page",
    "warc",
    FIO,
];

/// The bare loop: a floor to stand on, no engine.
pub const LIMIT: &str = "limit";
/// Default options, with dictionaries.
pub const FILEMAP: &str = "filemap";
/// Dictionaries off.
pub const PLAIN: &str = "filemap-plain";
/// With a page cache of the size of the others' caches.
pub const CACHED: &str = "filemap-cached";
/// The device's own random reads, beside `get_many`.
pub const FIO: &str = "fio";

/// Everything that was ever measured of an engine, in the order of the report.
pub const WORKLOADS: [&str; 15] = [
    "load",
    "reopen",
    "warm",
    "miss",
    "cold",
    "depth",
    "ycsb-a",
    "ycsb-b",
    "ycsb-c",
    "ycsb-d",
    "ycsb-f",
    "overwrite",
    "delete",
    "kill",
    "durable",
];

/// A workload of its own, since it runs under a limit of memory.
pub const SQUEEZE: &str = "squeeze";

/// What a failure may be laid to beside a workload: all mixes, or the engine's whole turn.
const STAGES: [&str; 3] = ["ycsb", "turn", "close"];

/// The mixes of YCSB that are run.
pub const MIXES: [&str; 5] = ["ycsb-a", "ycsb-b", "ycsb-c", "ycsb-d", "ycsb-f"];

/// Pages asked for at once.
pub const DEPTHS: [u32; 8] = [1, 2, 4, 8, 16, 32, 64, 128];

/// Is it one of ours?
pub fn is_ours(engine: &str) -> bool {
    [FILEMAP, PLAIN, CACHED].contains(&engine)
}

/// Is it what a user could pick, ours or not?
pub fn is_engine(engine: &str) -> bool {
    engine != LIMIT && engine != FIO
}

/// What a user could pick instead of ours.
pub fn others() -> impl Iterator<Item = &'static str> {
    ENGINES.into_iter().filter(|engine| is_engine(engine) && !is_ours(engine))
}

/// The engine's name as a constant, if it is one.
pub fn engine_of(name: &str) -> Option<&'static str> {
    ENGINES.into_iter().find(|engine| *engine == name)
}

/// The workload's name as a constant, if it is one.
pub fn workload_of(name: &str) -> Option<&'static str> {
    WORKLOADS.into_iter().chain([SQUEEZE]).find(|workload| *workload == name)
}

/// Is it a workload or a stage to which a failure may be laid?
pub fn is_stage(name: &str) -> bool {
    workload_of(name).is_some() || STAGES.contains(&name)
}

/// Does a failure at this stage concern the workload?
pub fn concerns(stage: &str, workload: &str) -> bool {
    match stage {
        "turn" | "close" => true,
        "ycsb" => MIXES.contains(&workload),
        _ => stage == workload,
    }
}

/// Which way a figure is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// A rate.
    More,
    /// A time, bytes, or reads.
    Less,
}

impl Better {
    /// Is one strictly better than the other?
    pub fn ahead(self, one: f64, other: f64) -> bool {
        match self {
            Better::More => one > other,
            Better::Less => one < other,
        }
    }

    /// The best of some.
    pub fn best(self, values: impl Iterator<Item = f64>) -> Option<f64> {
        values.reduce(|best, value| if self.ahead(value, best) { value } else { best })
    }
}

/// A figure by which engines are ranked.
#[derive(Debug, PartialEq)]
pub struct Figure {
    /// The workload that gives it.
    pub workload: &'static str,
    /// Its name in the raw results.
    pub name: &'static str,
    /// Its name for people.
    pub says: &'static str,
    /// Its unit for people.
    pub unit: &'static str,
    /// How many of the raw unit make one of people's.
    pub per: f64,
    /// Which way is better.
    pub better: Better,
}

const fn rate(workload: &'static str, name: &'static str, says: &'static str, unit: &'static str) -> Figure {
    Figure { workload, name, says, unit, per: 1.0, better: Better::More }
}

const fn cost(workload: &'static str, name: &'static str, says: &'static str, unit: &'static str) -> Figure {
    Figure { workload, name, says, unit, per: 1.0, better: Better::Less }
}

const fn bytes(workload: &'static str, name: &'static str, says: &'static str) -> Figure {
    Figure { workload, name, says, unit: "MB", per: 1e6, better: Better::Less }
}

/// The ranked figures. One that says the same as another in another unit (seconds beside a rate over the same work) is
/// left out, and so is one that only explains another.
pub const FIGURES: &[Figure] = &[
    rate("load", "mb_per_s", "load", "MB/s"),
    cost("load", "put_p50_us", "put p50", "us"),
    cost("load", "put_p99_us", "put p99", "us"),
    cost("load", "put_p999_us", "put p99.9", "us"),
    cost("load", "put_p9999_us", "put p99.99", "us"),
    cost("load", "put_max_ms", "longest put", "ms"),
    bytes("load", "written_bytes", "written by the load"),
    bytes("load", "disk_bytes", "disk after the load"),
    bytes("load", "anonymous_bytes", "anonymous memory after the load"),
    bytes("load", "mapped_bytes", "mapped memory after the load"),
    cost("reopen", "clean_ms", "clean reopen", "ms"),
    rate("warm", "per_s", "warm get", "/s"),
    cost("warm", "p50_us", "warm get p50", "us"),
    cost("warm", "p99_us", "warm get p99", "us"),
    cost("warm", "p999_us", "warm get p99.9", "us"),
    bytes("warm", "anonymous_bytes", "anonymous memory after warm gets"),
    bytes("warm", "mapped_bytes", "mapped memory after warm gets"),
    cost("miss", "us", "miss", "us"),
    rate("cold", "per_s", "cold get", "/s"),
    cost("cold", "reads_per_get", "reads a cold get", ""),
    cost("cold", "bytes_per_get", "bytes a cold get", "B"),
    cost("cold", "p50_us", "cold get p50", "us"),
    cost("cold", "p99_us", "cold get p99", "us"),
    cost("cold", "index_cached_reads_per_get", "reads a get with the index cached", ""),
    rate("cold", "index_cached_per_s", "get with the index cached", "/s"),
    rate("depth", "depth_1", "cold gets at depth 1", "/s"),
    rate("depth", "depth_2", "cold gets at depth 2", "/s"),
    rate("depth", "depth_4", "cold gets at depth 4", "/s"),
    rate("depth", "depth_8", "cold gets at depth 8", "/s"),
    rate("depth", "depth_16", "cold gets at depth 16", "/s"),
    rate("depth", "depth_32", "cold gets at depth 32", "/s"),
    rate("depth", "depth_64", "cold gets at depth 64", "/s"),
    rate("depth", "depth_128", "cold gets at depth 128", "/s"),
    rate("depth", "indexed_1", "gets with the index cached at depth 1", "/s"),
    rate("depth", "indexed_2", "gets with the index cached at depth 2", "/s"),
    rate("depth", "indexed_4", "gets with the index cached at depth 4", "/s"),
    rate("depth", "indexed_8", "gets with the index cached at depth 8", "/s"),
    rate("depth", "indexed_16", "gets with the index cached at depth 16", "/s"),
    rate("depth", "indexed_32", "gets with the index cached at depth 32", "/s"),
    rate("depth", "indexed_64", "gets with the index cached at depth 64", "/s"),
    rate("depth", "indexed_128", "gets with the index cached at depth 128", "/s"),
    rate("ycsb-a", "per_s", "YCSB A", "/s"),
    cost("ycsb-a", "p50_us", "YCSB A p50", "us"),
    cost("ycsb-a", "p99_us", "YCSB A p99", "us"),
    cost("ycsb-a", "p999_us", "YCSB A p99.9", "us"),
    cost("ycsb-a", "read_p999_us", "YCSB A p99.9 of reads", "us"),
    cost("ycsb-a", "write_p999_us", "YCSB A p99.9 of writes", "us"),
    rate("ycsb-b", "per_s", "YCSB B", "/s"),
    cost("ycsb-b", "p50_us", "YCSB B p50", "us"),
    cost("ycsb-b", "p99_us", "YCSB B p99", "us"),
    cost("ycsb-b", "p999_us", "YCSB B p99.9", "us"),
    cost("ycsb-b", "read_p999_us", "YCSB B p99.9 of reads", "us"),
    cost("ycsb-b", "write_p999_us", "YCSB B p99.9 of writes", "us"),
    rate("ycsb-c", "per_s", "YCSB C", "/s"),
    cost("ycsb-c", "p50_us", "YCSB C p50", "us"),
    cost("ycsb-c", "p99_us", "YCSB C p99", "us"),
    cost("ycsb-c", "p999_us", "YCSB C p99.9", "us"),
    rate("ycsb-d", "per_s", "YCSB D", "/s"),
    cost("ycsb-d", "p50_us", "YCSB D p50", "us"),
    cost("ycsb-d", "p99_us", "YCSB D p99", "us"),
    cost("ycsb-d", "p999_us", "YCSB D p99.9", "us"),
    cost("ycsb-d", "read_p999_us", "YCSB D p99.9 of reads", "us"),
    cost("ycsb-d", "write_p999_us", "YCSB D p99.9 of writes", "us"),
    rate("ycsb-f", "per_s", "YCSB F", "/s"),
    cost("ycsb-f", "p50_us", "YCSB F p50", "us"),
    cost("ycsb-f", "p99_us", "YCSB F p99", "us"),
    cost("ycsb-f", "p999_us", "YCSB F p99.9", "us"),
    cost("ycsb-f", "read_p999_us", "YCSB F p99.9 of reads", "us"),
    cost("ycsb-f", "write_p999_us", "YCSB F p99.9 of writes", "us"),
    rate("overwrite", "puts_per_s", "overwriting puts", "/s"),
    bytes("overwrite", "written_bytes", "written by overwriting"),
    cost("overwrite", "write_amplification", "write amplification", ""),
    bytes("overwrite", "disk_bytes", "disk after overwriting"),
    cost("delete", "seconds", "delete half and reclaim", "s"),
    bytes("delete", "disk_after_bytes", "disk after the delete"),
    cost("kill", "open_ms", "reopen after kill -9", "ms"),
    cost("kill", "lost", "pages lost by kill -9", ""),
    rate("durable", "per_s_1", "durable put, 1 thread", "/s"),
    cost("durable", "p50_us_1", "durable put p50, 1 thread", "us"),
    cost("durable", "p99_us_1", "durable put p99, 1 thread", "us"),
    rate("durable", "per_s_8", "durable put, 8 threads", "/s"),
    cost("durable", "p50_us_8", "durable put p50, 8 threads", "us"),
    cost("durable", "p99_us_8", "durable put p99, 8 threads", "us"),
    rate(SQUEEZE, "per_s_100", "get in memory of 100% of the index", "/s"),
    rate(SQUEEZE, "per_s_50", "get in memory of 50% of the index", "/s"),
    rate(SQUEEZE, "per_s_25", "get in memory of 25% of the index", "/s"),
];

/// The figure of that name.
///
/// # Panics
/// If there is none: a table asks for what nobody measures.
pub fn figure(workload: &str, name: &str) -> &'static Figure {
    let found = FIGURES.iter().find(|figure| figure.workload == workload && figure.name == name);
    found.unwrap_or_else(|| panic!("{workload} has no ranked figure {name}: add it to FIGURES"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_figure_is_there_once_and_of_a_known_workload() {
        for (number, figure) in FIGURES.iter().enumerate() {
            assert!(workload_of(figure.workload).is_some(), "{figure:?}");
            let twins = FIGURES[..number].iter().filter(|f| f.workload == figure.workload && f.name == figure.name);
            assert_eq!(twins.count(), 0, "{figure:?}");
        }
    }

    #[test]
    fn better_knows_rates_from_costs() {
        assert!(figure("warm", "per_s").better.ahead(2.0, 1.0));
        assert!(figure("warm", "p50_us").better.ahead(1.0, 2.0));
        assert!(!Better::More.ahead(1.0, 1.0) && !Better::Less.ahead(1.0, 1.0));
        assert_eq!(Better::Less.best([3.0, 1.0, 2.0].into_iter()), Some(1.0));
        assert_eq!(Better::More.best([].into_iter()), None);
    }

    #[test]
    fn a_broken_turn_concerns_every_workload_and_a_mix_only_its_own() {
        assert!(concerns("turn", "warm") && concerns("ycsb", "ycsb-c") && concerns("warm", "warm"));
        assert!(!concerns("ycsb", "warm") && !concerns("ycsb-a", "ycsb-c") && !is_stage("sleep"));
    }

    #[test]
    fn the_limit_and_the_device_are_no_engines() {
        let others: Vec<_> = others().collect();
        assert_eq!(others.first(), Some(&"lmdb"));
        assert!(!others.contains(&LIMIT) && !others.contains(&FIO) && !others.contains(&PLAIN));
    }
}
