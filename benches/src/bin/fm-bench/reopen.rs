//! `reopen`: a load killed in the middle, reopened and checked page by page, then opened after a
//! clean close.
//!
//! The load is a child process that writes the number of every page to a pipe after its put
//! returned. What the parent has read from the pipe must be in the store; any other page may be,
//! and then must be whole.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use clap::Args;
use filemap_benches::device::drop_caches;
use filemap_benches::drive::{Outcome, drive_reporting};
use filemap_benches::generate::Page;
use filemap_benches::report::{Bar, Report, median};
use filemap_benches::source::Source;
use filemap_core::Store;

use crate::puts::PutArgs;
use crate::store::{self, Loading, Log, StoreArgs};

/// Arguments of `fm-bench reopen`.
#[derive(Args)]
pub struct ReopenArgs {
    /// The store to create, or with --from to continue
    dir: PathBuf,
    /// Number of the first page; the store exists and holds those before it
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Kill the load when it has put this many pages [default: nine tenths of them]
    #[arg(long)]
    kill_at: Option<u64>,
    /// Drop the page cache before each open
    #[arg(long)]
    cold: bool,
    /// Clean opens to take the median of
    #[arg(long, default_value_t = 5)]
    opens: usize,
    /// Be the child that loads
    #[arg(long, hide = true)]
    child: bool,
    #[command(flatten)]
    put: PutArgs,
    #[command(flatten)]
    store: StoreArgs,
}

pub fn run(args: &ReopenArgs) -> Outcome<Report> {
    let source = args.put.source()?;
    let plan = args.put.plan(&source, args.from);
    if args.child {
        return child(args, &source);
    }
    let kill_at = args.kill_at.unwrap_or(args.from + (plan.pages.end - args.from) / 10 * 9);
    let returned = load_and_kill(plan.pages.end, kill_at - args.from)?;
    let mut report = Report::default();
    report.section(format!(
        "killed after {} of {} pages",
        returned.iter().filter(|page| **page).count(),
        plan.pages.end
    ));
    let log = Log::new();
    if args.cold {
        drop_caches()?;
    }
    let begun = Instant::now();
    let store = Store::open(&args.dir, store::options(&args.put, &args.store, &log))?;
    report.against("open after kill -9", begun.elapsed().as_secs_f64() * 1e3, "ms", Bar::AtMost(1000.0));
    report.note("recovery", log.recovered().unwrap_or_default());
    check(&store, &source, args, &returned, &mut report)?;
    store.close()?;
    let mut opens = Vec::new();
    for _ in 0..args.opens {
        if args.cold {
            drop_caches()?;
        }
        let begun = Instant::now();
        let store = Store::open(&args.dir, store::options(&args.put, &args.store, &Log::new()))?;
        opens.push(begun.elapsed().as_secs_f64() * 1e3);
        store.close()?;
    }
    report.against("open after clean close", median(&opens), "ms", Bar::AtMost(50.0));
    Ok(report)
}

/// Loads until killed; each returned put's number goes to stdout at once, unbuffered.
fn child(args: &ReopenArgs, source: &Source) -> Outcome<Report> {
    let log = Log::new();
    let plan = args.put.plan(source, args.from);
    let options = store::options(&args.put, &args.store, &log);
    let store = if args.from == 0 { Store::create(&args.dir, options)? } else { Store::open(&args.dir, options)? };
    let pipe = std::fs::File::from(std::io::stdout().as_fd().try_clone_to_owned()?);
    drive_reporting(source, &Loading { store: &store, log: &log }, &plan, &|number| {
        (&pipe).write_all(&number.to_le_bytes())?;
        Ok(())
    })?;
    Err("the child came to the end of its pages before it was killed".into())
}

/// Runs this program again as the child, kills it, and returns the pages whose puts had returned.
fn load_and_kill(pages: u64, kill_after: u64) -> Outcome<Vec<bool>> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(std::env::args_os().skip(1))
        .arg("--child")
        .stdout(Stdio::piped())
        .spawn()?;
    let mut pipe = child.stdout.take().ok_or("the child has no pipe")?;
    let mut returned = vec![false; pages as usize];
    let (mut numbers, mut kept) = (vec![0; 1 << 16], 0);
    let mut count = 0;
    loop {
        let read = pipe.read(&mut numbers[kept..])?;
        if read == 0 {
            break;
        }
        let whole = (kept + read) / 8 * 8;
        for number in numbers[..whole].chunks_exact(8) {
            returned[u64::from_le_bytes(number.try_into().expect("eight bytes")) as usize] = true;
            count += 1;
        }
        numbers.copy_within(whole..kept + read, 0);
        kept = kept + read - whole;
        if count >= kill_after {
            // What is still in the pipe had returned too: read to its end.
            child.kill()?;
        }
    }
    child.wait()?;
    if count < kill_after {
        return Err(format!("the child stopped by itself after {count} pages").into());
    }
    Ok(returned)
}

/// Gets every page of the plan and compares it with its number's.
fn check(store: &Store, source: &Source, args: &ReopenArgs, returned: &[bool], report: &mut Report) -> Outcome<()> {
    let (next, lost, wrong, beyond) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let begun = Instant::now();
    let thread = || -> Outcome<()> {
        let mut page = Page::default();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(returned) = returned.get(number as usize) else { return Ok(()) };
            source.page(number, &mut page);
            match store.get(&page.url)? {
                Some(value) if value.body != page.body => wrong.fetch_add(1, Ordering::Relaxed),
                Some(_) => beyond.fetch_add(u64::from(!returned && number >= args.from), Ordering::Relaxed),
                None => lost.fetch_add(u64::from(*returned || number < args.from), Ordering::Relaxed),
            };
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..args.put.threads).map(|_| scope.spawn(thread)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("a checking thread panicked"))
    })?;
    report.number("check of every page", begun.elapsed().as_secs_f64(), "s");
    report.against("pages lost that put had returned", lost.into_inner() as f64, "", Bar::AtMost(0.0));
    report.against("pages wrong", wrong.into_inner() as f64, "", Bar::AtMost(0.0));
    report.count("pages kept whose put had not reported yet", beyond.into_inner());
    Ok(())
}
