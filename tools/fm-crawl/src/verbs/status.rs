//! `status`: prints the settings, numbers, hosts and most important pages of a crawl.
//!
//! A running crawl publishes its numbers every two seconds; otherwise they are read from the
//! frontier.

use std::fs;
use std::path::PathBuf;

use crawl::files;
use crawl::run::{opening, status};
use fm_cli::{Failure, Flags, Outcome, fields, plain, words};
use frontier::Frontier;
use serde_json::{Value, json};

use super::print;
use crate::failure;

/// Show the state of a crawl
#[derive(clap::Args)]
#[command(after_help = "Example:\n  fm-crawl status pages.fm --top 5")]
pub struct Args {
    /// The store's folder
    store: PathBuf,
    /// Number of most important pages, and of largest hosts, to show
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
}

/// Runs the verb.
pub fn run(args: &Args, flags: &Flags) -> Result<Outcome, Failure> {
    let (folder, settings) = opening::settings(&args.store).map_err(failure::of)?;
    let published = fs::read(folder.join(files::STATUS)).ok();
    let published: Value = published.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or(Value::Null);
    let (numbers, hosts, pages, runs_as) = match opening::frontier_to_ask(&folder, &settings).map_err(failure::of) {
        Ok(frontier) => (status::numbers(&frontier), hosts(&frontier, args.top), pages(&frontier, args.top)?, None),
        Err(Failure::Locked(words)) => (published["frontier"].clone(), Vec::new(), Vec::new(), Some(words)),
        Err(failure) => return Err(failure),
    };
    let value = fields!(settings;
        store = args.store.display().to_string(), is_running = runs_as.is_some(), seeds,
        listed_seeds = settings.listed.len(), scope, user_agent,
        frontier = numbers, last_run = published["run"], hosts = hosts, most_important = pages,
    );
    let lines = if flags.json { format!("{value}\n") } else { in_words(&value) };
    print(&lines)?;
    if let Some(bucket) = &settings.bucket {
        let (shard, shards, location) = (bucket.shard, bucket.shards, &bucket.location);
        words::complain(format_args!(
            "the pages are in {location}, shard {shard} of {shards}: these numbers are of the last run on this machine"
        ));
        return Ok(Outcome::Done);
    }
    // Checked last: whether the store is as new as its crawl.
    let (_, is_as_far) = opening::store_to_read(&args.store, &folder).map_err(failure::of)?;
    is_as_far.map_err(failure::of)?;
    Ok(Outcome::Done)
}

fn hosts(frontier: &Frontier, top: usize) -> Vec<Value> {
    let mut hosts: Vec<_> = frontier.hosts().collect();
    hosts.sort_by(|a, b| b.pages.cmp(&a.pages).then_with(|| a.host.cmp(&b.host)));
    let row = |host: &frontier::HostState| fields!(host; host, pages, ready, delay_ms);
    hosts.iter().take(top).map(row).collect()
}

fn pages(frontier: &Frontier, top: usize) -> Result<Vec<Value>, Failure> {
    let of = |error: frontier::Error| failure::of(error.into());
    let ranked = frontier.by_importance(top).map_err(of)?.into_iter();
    ranked
        .map(|(page, importance)| Ok(json!({ "url": frontier.url(page).map_err(of)?, "importance": importance })))
        .collect()
}

fn in_words(value: &Value) -> String {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), |text| plain(text.as_bytes()));
    let state = if value["is_running"] == json!(true) { "a crawl is running" } else { "no crawl is running" };
    let listed = value["listed_seeds"].as_u64().unwrap_or(0);
    let seeds = words::count(listed + value["seeds"].as_array().map_or(0, Vec::len) as u64, "seed");
    let mut lines = vec![
        format!("{}: {state}", text(&value["store"])),
        format!("scope {} of {seeds}, as {}", text(&value["scope"]), text(&value["user_agent"])),
    ];
    let numbers = &value["frontier"];
    lines.push(match numbers.is_null() {
        true => "it has just begun: no numbers yet".to_owned(),
        false => format!(
            "{} pages known, {} fetched, {} queued, {} due again, {} given up, {}",
            numbers["pages"],
            numbers["fetched"],
            numbers["queued"],
            numbers["due"],
            numbers["gone"],
            words::count(numbers["hosts"].as_u64().unwrap_or(0), "host")
        ),
    });
    if let Some(reasons) = value["last_run"]["reasons"].as_object().filter(|reasons| !reasons.is_empty()) {
        let rows: Vec<String> = reasons.iter().map(|(name, times)| format!("{name} {times}")).collect();
        lines.push(format!("failures and limits of the last run: {}", rows.join(", ")));
    }
    for host in value["hosts"].as_array().into_iter().flatten() {
        let (pages, ready) = (host["pages"].to_string(), host["ready"].to_string());
        lines.push(format!("{pages:>9} pages, {ready:>7} ready  {}", text(&host["host"])));
    }
    for page in value["most_important"].as_array().into_iter().flatten() {
        let importance = page["importance"].as_f64().unwrap_or(0.0);
        lines.push(format!("importance {importance:.5}  {}", text(&page["url"])));
    }
    lines.join("\n") + "\n"
}
