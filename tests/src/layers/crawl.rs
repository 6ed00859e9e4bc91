//! The layers of `crawl`: the terms that all parts use, then what a crawl keeps on disk, then
//! fetching, one visit, the run; and those of its command line.

/// The library, lowest first.
pub const LAYERS: &[&[&str]] = &[
    &["clock", "error", "failure", "shard", "simhash", "stop"],
    &["pages"],
    &["files"],
    &["files::watched"],
    &["settings::bucket", "settings::filter", "settings::fleet", "settings::limits", "settings::scope"],
    &["settings"],
    &["files::bodies", "files::depot", "files::sequence", "files::sitemaps", "files::warc"],
    &["files::seen"],
    // Bytes in, links out.
    &["links"],
    &["links::css", "links::directives", "links::edges", "links::requisites", "links::source", "links::traps"],
    &["links::elements"],
    &["links::html", "links::plain", "links::sitemap"],
    &["links::head"],
    // One request.
    &[
        "fetch::address",
        "fetch::cookies",
        "fetch::decode",
        "fetch::proxy",
        "fetch::retry_after",
        "fetch::trust",
        "fetch::turns",
    ],
    &["fetch::hosts"],
    &["fetch::connect"],
    &["fetch::clients"],
    &["fetch"],
    &["hooks::guard", "hooks::page", "hooks::text"],
    &["record"],
    &["robots"],
    &["robots::cache"],
    // What callers add.
    &["hooks::exec", "hooks::fetch", "hooks::fields"],
    &["hooks"],
    // One visit.
    &["visit::hops", "visit::prints"],
    &["visit::parts"],
    &["visit::discovery"],
    &["visit"],
    // The run.
    &["run::line", "run::list", "run::pace", "run::tally", "run::view"],
    &["run::metrics", "run::observe", "run::shared_set", "run::warc"],
    &["run::fleet::post"],
    &[
        "run::claims",
        "run::control",
        "run::fleet",
        "run::opening",
        "run::patterns",
        "run::shards",
        "run::space",
        "run::status",
    ],
    &["run::backup", "run::starts"],
    &["run::coordinator"],
    &["run::coverage"],
    &["run::start"],
    &["run"],
    &["crawler"],
];

/// `fm-crawl`, lowest first.
pub const FM_CRAWL: &[&[&str]] =
    &[&["coverage", "failure", "lines", "progress"], &["bucket", "edges", "log"], &["face"], &["verbs"], &["cli"]];
