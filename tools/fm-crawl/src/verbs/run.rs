//! `run`: starts or continues a crawl.
//!
//! Arguments are kept in the settings, so that continuing needs none.

mod args;
mod divided;
mod seeds;
mod shards;
mod values;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crawl::fetch::trust::Trust;
use crawl::files::depot::Depot;
use crawl::hooks::exec::Exec;
use crawl::run::{End, LostSeed, Observer, Summary, Tally, Written};
use crawl::settings::Settings;
use crawl::settings::filter::Filter;
use crawl::settings::fleet::Own;
use crawl::{Builder, Crawler, Error, Reason, Stop};
use filemap_http::ClientOptions;
use fm_cli::{Failure, Flags, Outcome, canonical, interrupt, sizes, words};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Value, json};

pub use self::args::Args;
use super::print;
use crate::bucket;
use crate::coverage;
use crate::face::{Face, Opening, Refused};
use crate::failure;

/// Maximum number of given-up seeds that are listed.
const COMPLAINTS: usize = 5;

/// Why `--warc` is refused, and what to do instead.
const NO_WARC: &str = "--warc follows a store in a folder, and a store in object storage has no list of changes: write \
                       its files with `fm-tool dump LOCATION --format warc,cdxj -o FOLDER`";

/// Runs the verb.
pub fn run(args: &Args, flags: &Flags) -> Result<Outcome, Failure> {
    let part = Part { store: args.store.clone(), own: None, template: None };
    let mut builder = part.builder(args, None)?;
    // Bad arguments are refused before anything is made.
    let trust = if args.insecure { Trust::Anybody } else { Trust::Roots(roots(args)?) };
    check_patterns(builder.settings())?;
    check_bucket(args, builder.settings())?;
    let given = seeds::read(&args.seed, &args.seeds, builder.settings().limits.url_bytes)?;
    if let Some((bucket, fleet)) = divided::several(builder.settings()) {
        return shards::run(args, flags, (builder, trust, given), (&bucket, &fleet));
    }
    let mut builder = part.open(args, builder, !given.is_empty())?;
    if !builder.was_begun() && given.is_empty() {
        return Err(Failure::Usage("a crawl needs a start page: --seed URL".to_owned()));
    }
    let stop = Stop::of(interrupt::listen());
    let seeds = seeds::enter(given, builder.settings());
    let face = Arc::new(Face::new(flags, opening(args, seeds)));
    builder = equipped(builder, args, trust)?.stop(stop).observer(Arc::<Face>::clone(&face) as Arc<dyn Observer>);
    let ended = builder.build().and_then(Crawler::run);
    face.clear();
    let summary = match ended {
        Err(error @ Error::Taken { .. }) => {
            face.log("end", json!({ "why": "taken" }))?;
            words::complain(error);
            return Ok(Outcome::Incomplete);
        }
        ended => ended.map_err(of_run)?,
    };
    face.close_edges()?;
    face.log("end", json!({ "why": summary.end.name(), "run": summary.tally.json() }))?;
    report(args, flags, (&args.store, None), &summary)
}

/// A crawl to run: the command's, or that of one of several shards.
struct Part<'a> {
    store: PathBuf,
    /// Its shard, if it is one of several.
    own: Option<Own>,
    /// The settings of a crawl that has not begun.
    template: Option<&'a Settings>,
}

impl Part<'_> {
    /// The builder of the crawl, with the settings that arguments give.
    fn builder(&self, args: &Args, depot: Option<Depot>) -> Result<Builder, Failure> {
        let mut builder = Crawler::builder(&self.store).map_err(failure::of)?.depot(depot);
        if let Some(template) = self.template.filter(|_| !builder.was_begun()) {
            builder.settings().clone_from(template);
        }
        args::apply(args, self.own.as_ref(), builder.settings())?;
        Ok(builder)
    }

    /// The builder, with the crawl's shard if its pages are in object storage: takes it from its
    /// current owner. The settings are those of the shard then, whichever machine had it last.
    fn open(&self, args: &Args, mut builder: Builder, begins: bool) -> Result<Builder, Failure> {
        let Some(bucket) = builder.settings().bucket.clone() else { return Ok(builder) };
        let rules = args.rules.as_ref().map(canonical::Canonical::canonicalizer);
        self.builder(args, Some(bucket::depot(&self.store, &bucket, (rules, begins))?))
    }
}

/// The outputs of a run.
fn opening(args: &Args, seeds: Vec<String>) -> Opening {
    Opening { edges: args.edges.clone(), path: args.log.clone(), most: args.log_size, begin: begin(args), seeds }
}

/// The builder with everything that is not remembered.
fn equipped(mut builder: Builder, args: &Args, trust: Trust) -> Result<Builder, Failure> {
    let seen = credentials(builder.settings())?;
    builder = builder
        .rules(args.rules.as_ref().map(canonical::Canonical::canonicalizer))
        .trust(trust)
        .seen_options(seen)
        .redis_password(fm_cli::credentials::redis_password()?)
        .resolve(args.resolve.clone())
        .proxy(args.proxy.clone())
        .bind(args.bind)
        .fetch_only(args.fetch.clone())
        .warc(args.warc.clone())
        .max_pages(args.max_pages.unwrap_or(u64::MAX))
        .min_free(args.min_free);
    builder = switched(builder, args);
    if let Some(command) = &args.exec {
        builder = builder.on_page(Exec::new(command, args.exec_jobs, args.exec_timeout));
    }
    Ok(builder)
}

/// Reports a run that has ended by itself, of a shard if it is one of several.
fn report(
    args: &Args,
    flags: &Flags,
    (store, shard): (&Path, Option<u32>),
    summary: &Summary,
) -> Result<Outcome, Failure> {
    let said = print(&in_words(flags, shard, summary));
    complain_of_seeds(&summary.lost_seeds);
    complain_of_unstorable(&summary.tally, store);
    complain_of_fleet(summary);
    complain_of_hooks(&summary.tally);
    complain_of_warc(summary.warc.as_ref());
    coverage::complain(&summary.coverage, summary.end, store, args.tolerate);
    if summary.end == End::Fetched && summary.unfetched() > 0 {
        let asked = words::count(summary.asked, "page");
        words::complain(format_args!("of {asked} requested, not fetched: {}", summary.unfetched()));
    }
    said?;
    Ok(outcome(summary, args.tolerate))
}

/// The builder with the options that arguments switch on.
fn switched(mut builder: Builder, args: &Args) -> Builder {
    if args.allow_private {
        builder = builder.allow_private();
    }
    if args.scope.is_some() || args.allow_private || !args.seed.is_empty() {
        builder = builder.take_back();
    }
    if args.edges.is_some() {
        builder = builder.edges();
    }
    if args.forever {
        builder = builder.forever();
    }
    builder
}

/// Refuses options that do not work with pages in object storage, before a shard is taken.
fn check_bucket(args: &Args, settings: &Settings) -> Result<(), Failure> {
    if settings.bucket.is_none() {
        return Ok(());
    }
    match &args.warc {
        Some(_) => Err(Failure::Usage(NO_WARC.to_owned())),
        None => Ok(()),
    }
}

fn of_run(error: Error) -> Failure {
    match error {
        // An error of the log, or of the terminal; its text says what failed.
        Error::Observer(error) => match error.downcast::<Refused>() {
            Ok(refused) => refused.0,
            Err(error) => Failure::Io(error.to_string()),
        },
        error => failure::of(error),
    }
}

fn outcome(summary: &Summary, tolerated: f64) -> Outcome {
    match summary.end {
        End::Interrupted => interrupt::outcome(),
        _ if summary.tally.unstorable() > 0 => Outcome::Damaged,
        _ if summary.warc.as_ref().is_some_and(|warc| warc.damaged > 0) => Outcome::Damaged,
        End::Fetched if summary.unfetched() > 0 => Outcome::Incomplete,
        _ if summary.fleet.is_some() || summary.tally.links_waiting > 0 => Outcome::Incomplete,
        _ if summary.is_empty() => Outcome::NotFound,
        _ if summary.tally.hooks_failed() > 0 => Outcome::Incomplete,
        _ if summary.coverage.missing_part(summary.end) > tolerated => Outcome::Incomplete,
        _ => Outcome::Done,
    }
}

/// Credentials for the server of a shared seen set, or of mailboxes.
fn credentials(settings: &Settings) -> Result<ClientOptions, Failure> {
    if settings.seen.is_none() && settings.fleet.is_none() {
        return Ok(ClientOptions::new());
    }
    let credentials = fm_cli::credentials::read()?;
    let mut options = ClientOptions::new();
    if let Some(token) = credentials.token {
        options = options.token(token);
    }
    if let Some(pem) = credentials.authorities {
        options = options.authorities(pem);
    }
    Ok(options)
}

/// Log entry for the beginning of a run. Contains no credentials.
fn begin(args: &Args) -> Value {
    if args.insecure {
        words::complain("certificates are not checked, as --insecure says");
    }
    json!({
        "store": args.store.display().to_string(), "pid": std::process::id(), "is_insecure": args.insecure,
        "proxy": args.proxy.as_ref().map(ToString::to_string), "bind": args.bind,
    })
}

/// Names all bad patterns of the crawl.
fn check_patterns(settings: &Settings) -> Result<(), Failure> {
    Filter::open(&settings.include, &settings.exclude, &settings.reject_extensions).map(drop).map_err(|wrong| {
        let (last, others) = wrong.split_last().map_or((String::new(), &[][..]), |(last, all)| (last.clone(), all));
        others.iter().for_each(words::complain);
        Failure::Usage(format!("{last}; --no-include and --no-exclude forget patterns of earlier runs"))
    })
}

fn roots(args: &Args) -> Result<Vec<CertificateDer<'static>>, Failure> {
    let Some(path) = &args.ca else { return Ok(Vec::new()) };
    let unreadable = |error| Failure::Usage(format!("{}: {error}", path.display()));
    let found: Vec<_> =
        CertificateDer::pem_file_iter(path).map_err(unreadable)?.collect::<Result<_, _>>().map_err(unreadable)?;
    match found.is_empty() {
        true => Err(Failure::Usage(format!("{}: no certificate in it", path.display()))),
        false => Ok(found),
    }
}

/// Reports seeds that were given up, and why.
fn complain_of_seeds(lost: &[LostSeed]) {
    for LostSeed { url, why } in lost.iter().take(COMPLAINTS) {
        words::complain(format_args!("the seed {url} was given up: {}", why.as_deref().unwrap_or_default()));
    }
    if lost.len() > COMPLAINTS {
        words::complain(format_args!("{} more were given up", words::count((lost.len() - COMPLAINTS) as u64, "seed")));
    }
}

/// Reports what the crawl's fleet has left to do.
fn complain_of_fleet(summary: &Summary) {
    if summary.tally.links_waiting > 0 {
        let links = words::count(summary.tally.links_waiting, "link");
        words::complain(format_args!("{links} of the outbox are in no mailbox yet: run again to send them"));
    }
    let Some(left) = &summary.fleet else { return };
    for shard in &left.silent {
        words::complain(format_args!("shard {shard} has work to do, and its crawl is silent: run that crawl again"));
    }
    for shard in &left.free {
        words::complain(format_args!("shard {shard} has no owner: run a crawl with --own {shard}, or auto"));
    }
    let waiting = words::count(left.waiting, "link");
    words::complain(format_args!("the fleet is not finished: {waiting} wait for their crawls; run this one again too"));
}

/// Reports pages that got no answer from the program of `--exec`.
fn complain_of_hooks(tally: &Tally) {
    if tally.hooks_failed() > 0 {
        let pages = words::count(tally.hooks_failed(), "page");
        let last = tally.last_of(Reason::HookFailed).unwrap_or_default();
        words::complain(format_args!("{pages} stored without the answer of --exec, the last since {last}"));
    }
}

/// Reports what could not be written to WARC files.
fn complain_of_warc(written: Option<&Written>) {
    let Some(Written { damaged: 1.., last_damage, .. }) = written else { return };
    let (damaged, last) = (written.map_or(0, |written| written.damaged), last_damage.as_deref().unwrap_or_default());
    words::complain(format_args!(
        "left out of WARC files, as they cannot be read: {}, the last since {last}",
        words::count(damaged, "version")
    ));
}

/// Reports the number of pages that the store refused.
fn complain_of_unstorable(tally: &Tally, store: &Path) {
    if tally.unstorable() > 0 {
        let (pages, store) = (words::count(tally.unstorable(), "page"), store.display());
        let rules = format_args!("`fm-tool erase {store} --list` prints its rules of erasures");
        words::complain(format_args!("{pages} fetched and not stored: {store} refuses them; {rules}"));
    }
}

fn in_words(flags: &Flags, shard: Option<u32>, summary: &Summary) -> String {
    let Summary { end, tally, coverage, frontier: stats, took, .. } = summary;
    let seconds = took.as_secs_f64().max(1e-3);
    if flags.json {
        let mut line = tally.json();
        line["end"] = json!(end.name());
        line["seconds"] = json!(seconds);
        line["queued"] = json!(stats.queued + stats.due);
        line["not_fetched"] = coverage.json(*end);
        let seed = |lost: &LostSeed| json!({ "url": lost.url, "why": lost.why });
        line["lost_seeds"] = summary.lost_seeds.iter().map(seed).collect();
        if let Some(shard) = shard {
            line["shard"] = json!(shard);
        }
        return format!("{line}\n");
    }
    let queued = stats.queued + stats.due;
    let ended = match end {
        End::Complete => "nothing is left to fetch".to_owned(),
        End::Fetched => format!("the pages asked for are done; queued: {queued}"),
        End::Waiting => format!("no page may be fetched within --patience, run again to continue; queued: {queued}"),
        End::MaxPages => format!("the requested number of pages is fetched; queued: {queued}"),
        End::Interrupted => format!("interrupted, run again to continue; queued: {queued}"),
    };
    let of = shard.map(|shard| format!("shard {shard}: ")).unwrap_or_default();
    let mut lines = format!(
        "{of}{} fetched in {seconds:.1} s ({:.0} pages/s, {}/s): {ended}\n{} discovered, {}, {} unchanged, {}\n",
        words::count(tally.fetched, "page"),
        tally.fetched as f64 / seconds,
        sizes::print((tally.body_bytes as f64 / seconds) as u64),
        tally.discovered,
        words::count(tally.redirects, "redirect"),
        tally.unchanged,
        words::count(tally.duplicates, "duplicate"),
    );
    let reasons = tally.reasons_in_words();
    if !reasons.is_empty() {
        lines += &format!("failures and limits: {reasons}\n");
    }
    lines
}
