//! The layers of `fm-tool`: what several verbs share, the verbs, the command line on top.

/// Lowest first.
pub const LAYERS: &[&[&str]] = &[
    &["flags", "input", "json", "revisits"],
    &["stores::absence", "stores::file_system"],
    &["stores::opening"],
    &["arguments::urls"],
    &["arguments::selection", "arguments::variant"],
    &["arguments::pages"],
    // Parts of one verb.
    &["verbs::dump::target", "verbs::seen::canonical", "verbs::seen::lines"],
    &["verbs::import::report", "verbs::seen::sets", "verbs::stat::statistics", "verbs::top::hosts"],
    &["verbs::import::json_lines", "verbs::import::source", "verbs::seen::stat", "verbs::stat::watch"],
    &[
        "verbs::seen::ask",
        "verbs::seen::create",
        "verbs::seen::explain",
        "verbs::seen::export",
        "verbs::seen::forget",
        "verbs::seen::merge",
    ],
    // The verbs; some are a form of another, or end as it does.
    &["verbs::backup", "verbs::compact", "verbs::import", "verbs::repair"],
    &["verbs::load", "verbs::merge", "verbs::prune", "verbs::recompress"],
    &[
        "verbs::completions",
        "verbs::copy",
        "verbs::count",
        "verbs::dump",
        "verbs::erase",
        "verbs::get",
        "verbs::has",
        "verbs::head",
        "verbs::history",
        "verbs::inspect",
        "verbs::ls",
        "verbs::man",
        "verbs::put",
        "verbs::rm",
        "verbs::seen",
        "verbs::segments",
        "verbs::stat",
        "verbs::top",
        "verbs::train",
        "verbs::verify",
    ],
    &["cli"],
];
