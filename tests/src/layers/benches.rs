//! Layers of the benchmarks, lowest first: their library, `fm-bench`, and the comparison.

/// `filemap-benches`.
pub const LIBRARY: &[&[&str]] = &[
    &["device", "generalised_list", "process", "random", "report", "scale"],
    &["generate", "urls", "web"],
    &["corpus"],
    &["source"],
    &["drive"],
    &["bare", "dictionaries", "fixture"],
];

/// `fm-bench`.
pub const FM_BENCH: &[&[&str]] = &[
    &[
        "ahead",
        "dictionaries",
        "library",
        "links",
        "order",
        "puts",
        "scale",
        "seen::batch",
        "seen::disk",
        "seen::way",
        "served",
        "small",
        "versions",
    ],
    &["bare", "seen::sqlite", "store"],
    &["get", "gzip", "load", "reopen", "seen::table"],
    &["compare", "overwrite", "seen::chart"],
    &["seen"],
];

/// `filemap-compare`.
pub const COMPARE: &[&[&str]] = &[
    // Instruments and results.
    &["measure::cgroup", "measure::lines", "measure::machine", "measure::usage"],
    &["measure::latency"],
    // What is put and asked for.
    &["pages::zipf"],
    &["pages"],
    // The engines behind one interface.
    &["engine::codec"],
    &["engine"],
    &[
        "engine::candystore",
        "engine::file_per_page",
        "engine::filemap",
        "engine::fjall",
        "engine::limit",
        "engine::lmdb",
        "engine::redb",
        "engine::rocksdb",
        "engine::sqlite",
        "engine::warc",
    ],
    &["engine::registry"],
    // One engine's turn, and what workloads do in it.
    &["turn::plan"],
    &["turn"],
    &["workload"],
    &[
        "workload::cold",
        "workload::delete",
        "workload::durable",
        "workload::fio",
        "workload::kill",
        "workload::load",
        "workload::overwrite",
        "workload::reopen",
        "workload::squeeze",
        "workload::warm",
        "workload::ycsb",
    ],
    &["workload::depth"],
    // A run of all turns; the command line.
    &["run"],
    &["cli"],
];
