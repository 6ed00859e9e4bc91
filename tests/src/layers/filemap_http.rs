//! The layers of `filemap-http`: what is sent, then client and server, which do not know each
//! other; and of its tool.

/// Lowest first.
pub const LAYERS: &[&[&str]] = &[
    // What both sides send.
    &["following", "query", "wire"],
    &["client::options"],
    &["client::call", "client::paged"],
    &["client::changes", "client::import", "client::links", "client::many", "client::seen"],
    &["client"],
    &["follow", "pooled"],
    // The terms of the server.
    &[
        "server::tokens",
        "server::refusal",
        "server::counters",
        "server::hour",
        "server::inline",
        "server::lookup",
        "server::seen::external",
        "server::seen::worker",
    ],
    &["server::links::boxes", "server::seen::sets"],
    &["server::options"],
    // What of a store is shown.
    &["server::shown::store"],
    &["server::shown::changes", "server::shown::lists"],
    &["server::shown"],
    &["server::backend"],
    // What each request passes.
    &["server::guard", "server::measure", "server::patient"],
    // Handlers.
    &["server::pages::condition", "server::pages::range", "server::pages::send", "server::pages::upload"],
    &["server::pages::read"],
    &["server::pages::write"],
    // Archives' own ways of asking.
    &["server::archive::captures"],
    &["server::archive::cdx", "server::archive::memento"],
    &["server::archive::replay"],
    &["server::many::arriving", "server::many::told"],
    &["server::many::file"],
    &["server::many::add", "server::many::fetch"],
    &["server::seen::ask"],
    &["server::links::mail", "server::seen::manage"],
    &["server::links::owners"],
    &["server::hosts", "server::space"],
    &["server::crawl"],
    &["server::inspect::layout"],
    &[
        "server::inspect::charts",
        "server::inspect::calendar",
        "server::inspect::capture",
        "server::inspect::diff",
        "server::inspect::highlight",
    ],
    &[
        "server::inspect::captures",
        "server::inspect::compare",
        "server::inspect::crawl",
        "server::inspect::find",
        "server::inspect::overview",
        "server::inspect::rendered",
        "server::inspect::sets",
        "server::inspect::show",
        "server::inspect::space",
        "server::inspect::tree",
    ],
    &["server::changes", "server::figures", "server::lists", "server::openapi"],
    &["server::routes"],
    &["server::serve"],
];

/// The layers of `fm-serve`.
pub const FM_SERVE: &[&[&str]] = &[&["files", "redis"], &["cli"]];
