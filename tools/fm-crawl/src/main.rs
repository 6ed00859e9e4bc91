//! `fm-crawl`: a crawler over FileMap. Arguments in, pages into a store.
//!
//! From the top down: [`cli`] and `verbs` take arguments; [`crawl`] assigns pages to visits and
//! commits their results; a visit uses [`robots`], [`fetch`], [`links`] and [`record`], none of
//! which knows another except that `robots` fetches; [`settings`], [`scope`], [`limits`] and
//! [`failure`] are the terms they share. The frontier decides which page is next, `urlindex` what
//! a URL's canonical form is, the store how pages are kept.
//!
//! Invariants: nothing is fetched from an unchecked address; every limit that is met has a name in
//! [`failure`]; a page that the frontier calls done is in the store.

mod bodies;
mod cli;
mod coverage;
mod crawl;
mod failure;
mod fetch;
mod files;
mod filter;
mod limits;
mod links;
mod metrics;
mod progress;
mod record;
mod retry_after;
mod robots;
mod scope;
mod seen;
mod sequence;
mod settings;
mod verbs;

use std::process::ExitCode;

fn main() -> ExitCode {
    fm_cli::main("fm-crawl", cli::Cli::run)
}
