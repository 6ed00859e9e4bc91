//! The layers of `fm-crawl`: the terms that all parts use, then fetching, then the crawl, then its
//! verbs.

/// Lowest first.
pub const LAYERS: &[&[&str]] = &[
    &["failure", "files", "filter", "limits", "retry_after", "scope"],
    &["bodies", "sequence", "settings"],
    &["seen"],
    // Bytes in, links out.
    &["links"],
    &["links::css", "links::directives", "links::requisites", "links::source"],
    &["links::html", "links::plain", "links::sitemap"],
    // One request.
    &["fetch::address", "fetch::cookies", "fetch::decode", "fetch::proxy", "fetch::trust"],
    &["fetch::connect"],
    &["fetch"],
    &["record"],
    &["robots"],
    &["robots::cache"],
    // The crawl.
    &["crawl::claims", "crawl::control", "crawl::hops", "crawl::pace", "crawl::sitemaps", "crawl::view"],
    &["crawl::parts"],
    &["crawl::discovery"],
    &["crawl::visit"],
    &["crawl::log", "crawl::tally"],
    &["crawl::patterns", "crawl::space"],
    &["crawl::coordinator"],
    &["crawl"],
    &["coverage", "metrics"],
    &["progress"],
    &["verbs::opening", "verbs::starts"],
    &["verbs"],
    &["cli"],
];
