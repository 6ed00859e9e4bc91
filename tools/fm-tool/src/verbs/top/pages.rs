//! `top --most-pages`: the hosts with most pages, from keys alone.

use std::ops::ControlFlow;

use filemap::PageStore;
use fm_cli::words::count;
use fm_cli::{Failure, Outcome, Output, Progress, interrupt};
use serde_json::{Value, json};

use super::hosts::{Hosts, Sums};
use super::{Args, expected, say_short};
use crate::flags::Shared;
use crate::json;

/// Lists hosts by their pages; `None` if interrupted.
pub fn most_pages(
    args: &Args,
    shared: &Shared,
    stores: &[PageStore],
    out: &mut Output,
) -> Result<Option<Outcome>, Failure> {
    let progress = Progress::records(&shared.flags, expected(args, stores)?, "pages");
    let mut hosts = Hosts::new(args.exact_hosts, |sums| sums.pages);
    let mut is_interrupted = false;
    for store in stores {
        store.pages_by_host(&args.selection.scope(), &mut |host, pages| {
            progress.add_many(pages);
            hosts.add(host, &Sums { pages, ..Sums::default() });
            let flow: ControlFlow<()> = interrupt::go_on();
            is_interrupted = flow.is_break();
            flow
        })?;
        if is_interrupted {
            return Ok(None);
        }
    }
    drop(progress);
    print(args, shared, hosts, out)?;
    Ok(Some(Outcome::Done))
}

fn print(args: &Args, shared: &Shared, hosts: Hosts, out: &mut Output) -> Result<(), Failure> {
    let (short_by, all) = (hosts.short_by(), hosts.all().pages);
    for (host, Sums { pages, .. }) in hosts.heaviest(args.limit as usize) {
        if out.is_json() {
            let mut line = json!({ "pages": pages });
            match host.is_empty() {
                true => line["host"] = Value::Null,
                false => json::set(&mut line, "host", &host),
            }
            out.json(&line)?;
        } else {
            out.row(row(pages), if host.is_empty() { b"(no host)" } else { &host })?;
        }
    }
    if out.is_json() {
        return out.json(&json!({ "pages": all, "all": true, "short_by": short_by }));
    }
    out.line(format!("{}(all)", row(all)))?;
    say_short(args, shared, short_by, |pages| pages.to_string(), out)
}

fn row(pages: u64) -> String {
    format!("{:>16}  ", count(pages, "page"))
}
