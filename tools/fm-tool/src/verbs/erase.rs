//! `erase`: erases pages from every file of the store, and keeps a rule that prevents their
//! return.
//!
//! A host, prefix or regular expression is erased only after a question or with `--yes`, because
//! an erasure is final.

use std::io::{self, IsTerminal};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use filemap::PageStore;
#[cfg(feature = "cloud")]
use filemap::access::Scope;
use filemap::erase::{self, EraseOrder, EraseProgress, EraseRule, EraseTarget, Erasing, Proof};
use filemap_core::erase::{ErasureStep, RuleState};
use fm_cli::words::{self, count};
use fm_cli::{Failure, Outcome, Output, Progress, fields, interrupt, sizes, times};
use serde_json::{Value, json};

#[cfg(feature = "cloud")]
use super::in_bucket::{self, erase::Target};
use crate::arguments::selection;
use crate::arguments::urls::Address;
use crate::flags::Shared;
#[cfg(feature = "cloud")]
use crate::stores::bucket;
use crate::stores::{absence, opening, place, shards};

/// Erase pages from every file of a store, permanently
#[derive(clap::Args, Clone)]
#[command(
    group = clap::ArgGroup::new("order").args(["url", "host", "prefix", "regex", "digest"]).requires("reason"),
    group = clap::ArgGroup::new("what").required(true)
        .args(["url", "host", "prefix", "regex", "digest", "list", "lift", "resume", "rules_from"]),
    after_help = "Removes every matching capture with its variants and the records beside it, every dictionary that may contain its \
    text, and every segment that may contain its bytes; then searches all files for it. If dictionaries are removed \
    it takes as long as compressing all pages. A rule stays, which put, import and merge obey; it keeps a URL as a \
    digest only. Interrupted, it is finished by the same command or by --resume. Exits with 3 if something may be \
    left. Other copies are not reached: backups, dumps, processes that opened the store before.\n\n\
    In object storage --url, --host and --prefix erase pages with all versions and leave no rule: put again, a page is \
    stored. Revisits of other URLs that refer to an erased page have no body any more. Exits with 3 while objects younger than an hour may hold something; the same command ends it later.\n\n\
    Examples:\n  fm-tool erase pages.fm --url https://example.com/jane --reason 'request 17'\n  \
    fm-tool erase pages.fm --list"
)]
pub struct Args {
    /// The store's folder, or an s3:// location
    store: PathBuf,
    /// Erase this URL
    #[arg(long)]
    url: Option<Address>,
    /// Erase all URLs of this host
    #[arg(long, value_parser = selection::host)]
    host: Option<String>,
    /// Erase all URLs whose canonical form begins with this
    #[arg(long)]
    prefix: Option<Address>,
    /// Erase all URLs whose canonical form this regular expression matches
    #[arg(long)]
    regex: Option<String>,
    /// Erase all captures whose body has this digest: sha1:... or sha256:..., in hexadecimal, base
    /// 32 or base 64
    #[arg(long)]
    digest: Option<String>,
    /// Only captures from this time on
    #[arg(long, value_name = "TIME", requires = "order", value_parser = times::parse, allow_negative_numbers = true)]
    from: Option<i64>,
    /// Only captures up to this time
    #[arg(long, value_name = "TIME", requires = "order", value_parser = times::parse, allow_negative_numbers = true)]
    to: Option<i64>,
    /// Reason; kept in the rule, so leave out what is to be forgotten
    #[arg(long, requires = "order")]
    reason: Option<String>,
    /// Keep a digest of a host or prefix in the rule instead of its text
    #[arg(long, requires = "order", conflicts_with_all = ["regex"])]
    hashed: bool,
    /// Only print what would be erased
    #[arg(long, requires = "order")]
    dry_run: bool,
    /// Erase a whole host, prefix or expression without asking
    #[arg(short, long)]
    yes: bool,
    /// List the rules
    #[arg(long)]
    list: bool,
    /// Lift a rule: what it covers may be stored again
    #[arg(long, value_name = "ID")]
    lift: Option<u32>,
    /// Finish interrupted erasures
    #[arg(long)]
    resume: bool,
    /// Adopt the rules of another store and erase what they cover: for a backup older than an
    /// erasure
    #[arg(long, value_name = "STORE")]
    rules_from: Option<PathBuf>,
}

/// Runs the verb.
pub fn run(args: &Args, shared: &Shared) -> Result<Outcome, Failure> {
    #[cfg(feature = "cloud")]
    if let Some(location) = bucket::location(&args.store) {
        return in_object_storage(location, args, shared);
    }
    let why = "each folder has its own numbers of rules: give its path";
    shards::refuse_flags(&args.store, &[("--lift", args.lift.is_some(), why)])?;
    if shards::is_shards(&args.store) {
        return over(args, shared);
    }
    let mut out = Output::stdout(shared.flags);
    if args.list {
        let rules = opening::local_to_read(&args.store, shared)?.erase_rules()?;
        rules.iter().try_for_each(|rule| print(rule, &mut out))?;
        return out.end(Outcome::Done);
    }
    let order = args.order();
    if let Some(order) = &order {
        order.check()?;
    }
    if args.dry_run
        && let Some(order) = &order
    {
        let store = opening::local_to_plan(&args.store, shared)?;
        return planned(&store, order, args, shared);
    }
    if let Some(order) = &order
        && !args.has_agreed(order)?
    {
        return Ok(Outcome::Refused);
    }
    let store = opening::local_to_change(&args.store, shared)?;
    let changed = change(args, order.as_ref(), &store, shared, out);
    Outcome::closed(changed, store.close())
}

/// The erasure in each member: also where no page is meant, so that the rule holds in all. First
/// each revisit that loses its original, in whichever member, gets the body as its own.
fn over(args: &Args, shared: &Shared) -> Result<Outcome, Failure> {
    let order = args.order();
    if let Some(order) = &order {
        order.check()?;
        if !args.dry_run && !args.has_agreed(order)? {
            return Ok(Outcome::Refused);
        }
    }
    let one = |path: &Path| Args { store: path.to_owned(), yes: true, ..args.clone() };
    if args.list {
        let members = shards::checked(&args.store)?.unwrap_or_default();
        return shards::each(&members, shared, |_, path| run(&one(path), shared));
    }
    if args.dry_run
        && let Some(order) = &order
    {
        let Some(store) = opening::shards_to_plan(&args.store, shared)? else { return Ok(Outcome::Done) };
        return shards::each_open(&store, shared, |_, member, path| planned(member, order, &one(path), shared));
    }
    let Some(store) = opening::shards_to_change(&args.store, shared)? else { return Ok(Outcome::Done) };
    let adopted = match &args.rules_from {
        Some(path) => opening::engine_to_read(path, shared)?.rules()?,
        None => Vec::new(),
    };
    interrupt::listen();
    let bar = Progress::records(&shared.flags, None, "keys");
    let detached = erase::detach_among(store.members(), order.as_ref(), &adopted, &mut |step| watch(&bar, step));
    drop(bar);
    if interrupt::asked() {
        return Ok(interrupt::stopped("nothing was erased, and no rule was made; the same command begins again"));
    }
    let detached = detached?;
    if detached > 0 && shared.flags.says() {
        let revisits = count(detached, "revisit");
        words::say(format_args!("{revisits} of pages that go, in whichever folder, keep the body as their own"));
    }
    shards::each_open(&store, shared, |_, member, path| {
        change(&one(path), order.as_ref(), member, shared, Output::stdout(shared.flags))
    })
}

/// Prints what an order would erase.
fn planned(store: &PageStore, order: &EraseOrder, args: &Args, shared: &Shared) -> Result<Outcome, Failure> {
    interrupt::listen();
    let bar = Progress::records(&shared.flags, None, "keys");
    let planned = store.erase_plan(order, &mut |progress| watch(&bar, progress));
    drop(bar);
    absence::of_search(store.engine());
    ended(planned.map(Some), Done::Planned, args, shared, Output::stdout(shared.flags))
}

impl Args {
    fn order(&self) -> Option<EraseOrder> {
        let target = None
            .or_else(|| self.url.as_ref().map(|url| EraseTarget::Url(url.bytes().to_vec())))
            .or_else(|| self.host.clone().map(EraseTarget::Host))
            .or_else(|| self.prefix.as_ref().map(|prefix| EraseTarget::Prefix(prefix.bytes().to_vec())))
            .or_else(|| self.regex.clone().map(EraseTarget::Regex))
            .or_else(|| self.digest.clone().map(EraseTarget::Digest))?;
        let reason = self.reason.clone().unwrap_or_default();
        let mut order = EraseOrder::new(target, reason);
        (order.from_ms, order.to_ms, order.hashed) = (self.from, self.to, self.hashed);
        Some(order)
    }

    /// Asks for confirmation if the order needs it.
    fn has_agreed(&self, order: &EraseOrder) -> Result<bool, Failure> {
        if self.yes || !asks(order) {
            return Ok(true);
        }
        if !io::stdin().is_terminal() {
            let what = "erasing a host, a prefix or an expression asks first; without a terminal, give --yes";
            return Err(Failure::Usage(what.to_owned()));
        }
        let has_agreed = words::ask(format_args!("Erase this from {} permanently?", place::shown(&self.store)));
        if !has_agreed {
            words::say("nothing was erased");
        }
        Ok(has_agreed)
    }
}

/// The erasure in a bucket, which keeps no rules.
#[cfg(feature = "cloud")]
fn in_object_storage(location: &str, args: &Args, shared: &Shared) -> Result<Outcome, Failure> {
    const NO_RULES: &str = "a bucket keeps no rules of erasures";
    let by_scope = "pages of a bucket are erased by URL, host and prefix, with all versions";
    let flags = [
        ("--list", args.list, NO_RULES),
        ("--lift", args.lift.is_some(), NO_RULES),
        ("--rules-from", args.rules_from.is_some(), NO_RULES),
        ("--hashed", args.hashed, NO_RULES),
        ("--resume", args.resume, "the same order ends what was begun in a bucket"),
        ("--regex", args.regex.is_some(), by_scope),
        ("--digest", args.digest.is_some(), by_scope),
        ("--from", args.from.is_some(), by_scope),
        ("--to", args.to.is_some(), by_scope),
    ];
    bucket::refuse_flags(location, &flags)?;
    let Some(order) = args.order() else { return Err(Failure::Usage("name what is to be erased".to_owned())) };
    order.check()?;
    let target = match &order.target {
        EraseTarget::Url(url) => Target::Url(url.clone()),
        EraseTarget::Host(host) => Target::Scope(Scope::new().host(host)),
        EraseTarget::Prefix(prefix) => Target::Scope(Scope::new().prefix(prefix.clone())),
        _ => return Err(Failure::Usage(by_scope.to_owned())),
    };
    if args.dry_run {
        return in_bucket::erase::foretell(location, &target, shared);
    }
    if args.has_agreed(&order)? { in_bucket::erase::run(location, &target, shared) } else { Ok(Outcome::Refused) }
}

fn asks(order: &EraseOrder) -> bool {
    !matches!(order.target, EraseTarget::Url(_) | EraseTarget::Digest(_))
}

fn change(
    args: &Args,
    order: Option<&EraseOrder>,
    store: &PageStore,
    shared: &Shared,
    out: Output,
) -> Result<Outcome, Failure> {
    if let Some(id) = args.lift {
        let is_unfinished = |rule: &EraseRule| rule.id == id && matches!(rule.state, RuleState::Unfinished);
        let is_unfinished = store.erase_rules()?.iter().any(is_unfinished);
        if !store.lift_erasure(id)? {
            words::complain(format_args!("{} has no rule {id} in force", args.store.display()));
            return Ok(Outcome::NotFound);
        }
        if !shared.flags.quiet {
            words::say(format_args!(
                "rule {id} is lifted: pages that it covers may be stored again; erased pages stay erased"
            ));
        }
        if is_unfinished {
            words::complain(format_args!(
                "rule {id} was lifted before its erasure had ended: what was not erased yet stays in {}; give the same order \
                 again to erase it",
                args.store.display()
            ));
        }
        return Ok(Outcome::Done);
    }
    if let Some(path) = &args.rules_from {
        let adopted = store.adopt_rules(&opening::engine_to_read(path, shared)?)?;
        if !shared.flags.quiet {
            words::say(format_args!("{} taken over from {}", count(adopted, "rule"), path.display()));
        }
    }
    interrupt::listen();
    let bar = Progress::records(&shared.flags, None, "keys");
    let erasing = match order {
        Some(order) => store.erase(order, &mut |progress| watch(&bar, progress)).map(Some),
        None => store.resume_erasures(&mut |progress| watch(&bar, progress)),
    };
    drop(bar);
    absence::of_search(store.engine());
    ended(erasing, Done::Erased, args, shared, out)
}

fn watch(bar: &Progress, progress: EraseProgress) -> ControlFlow<()> {
    let (done, words) = match progress {
        EraseProgress::Comparing(captures) => (captures, "captures compared"),
        EraseProgress::Detaching(captures) => (captures, "captures read"),
        EraseProgress::Erasing(ErasureStep::Dropping(keys)) => (keys, "URLs read"),
        EraseProgress::Erasing(ErasureStep::Values(bytes)) => (bytes, "bytes of pages rewritten"),
        EraseProgress::Searching(bytes) => (bytes, "bytes searched"),
        _ => (0, "dictionaries and keys rewritten"),
    };
    bar.at(done, done, || words.to_owned());
    interrupt::go_on()
}

/// Kind of the report: an erasure, or the plan of one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Done {
    Planned,
    Erased,
}

fn ended(
    erasing: filemap::Result<Option<Erasing>>,
    done: Done,
    args: &Args,
    shared: &Shared,
    mut out: Output,
) -> Result<Outcome, Failure> {
    let store = args.store.display();
    let erasing = match erasing {
        Err(filemap::Error::Engine(filemap_core::Error::Cancelled)) if done == Done::Planned => {
            return Ok(interrupt::stopped("nothing was changed"));
        }
        Err(filemap::Error::Engine(filemap_core::Error::Cancelled)) => {
            let what =
                format_args!("the rule is in force, and bytes may be left; `fm-tool erase {store} --resume` continues");
            return Ok(interrupt::stopped(what));
        }
        Err(e @ filemap::Error::Rule { .. }) => return Err(Failure::Usage(e.to_string())),
        erasing => erasing?,
    };
    let Some(erasing) = erasing else {
        if !shared.flags.quiet {
            words::say("no erasure is unfinished");
        }
        return Ok(Outcome::Done);
    };
    let told = match out.is_json() {
        true => out.json(&line(&erasing, done)),
        false => Ok(()),
    };
    if !out.is_json() && !shared.flags.quiet {
        tell(&erasing, done);
    }
    let told = told.and_then(|()| out.finish());
    if erasing.is_complete() {
        return told.map(|()| Outcome::Done);
    }
    for file in &erasing.erased.left {
        words::complain(format_args!("{file} may still contain something: it could not be rewritten"));
    }
    if erasing.erased.unreadable_keys > 0 {
        words::complain(format_args!("{} could not be looked at", count(erasing.erased.unreadable_keys, "URL")));
    }
    if let Some(damage) = &erasing.erased.first_damage {
        words::complain(format_args!("the first of them: {damage}"));
    }
    for (file, offset, what) in erasing.proof.iter().flat_map(|proof| &proof.left) {
        words::complain(format_args!("{file}: offset {offset}: {what}"));
    }
    if done == Done::Erased {
        words::complain(format_args!("some of it could not be erased; `fm-tool erase {store} --resume` tries again"));
    }
    match told {
        Ok(()) | Err(Failure::PipeClosed) => Ok(Outcome::Damaged),
        Err(failure) => Err(failure),
    }
}

fn tell(erasing: &Erasing, done: Done) {
    let erased = &erasing.erased;
    let (captures, urls) = (count(erased.versions, "capture"), count(erased.keys, "URL"));
    let dictionaries = erased.dictionaries.len() as u64;
    if done == Done::Planned {
        words::say(format_args!(
            "{captures} would be erased, {urls} completely, and {} that may contain their text",
            count(dictionaries, "dictionary"),
        ));
    } else {
        words::say(format_args!(
            "{captures} erased, {urls} completely; {} removed, {} trained in their place; {} of {} \
             rewritten",
            count(dictionaries, "dictionary"),
            erased.made_dictionaries,
            count(erased.segments, "segment"),
            sizes::print(erased.segment_bytes),
        ));
        let rules: Vec<String> = erasing.rules.iter().map(u32::to_string).collect();
        words::say(format_args!("rule {} keeps it from coming back", rules.join(", ")));
    }
    if let Some(proof) = &erasing.proof {
        tell_proof(proof);
    }
    if !erasing.shared_files.is_empty() {
        words::say(format_args!(
            "not reached: {} with other names (hard links, mostly of a backup), under which the old bytes stay: {}",
            count(erasing.shared_files.len() as u64, "file"),
            erasing.shared_files.join(", "),
        ));
    }
    for (file, versions) in &erasing.archives {
        words::say(format_args!("not reached: {file}, in which {} stay", count(*versions, "record")));
    }
    words::say("not reached: backups, copies, dumps and seen sets elsewhere; processes that opened the store before");
}

fn tell_proof(proof: &Proof) {
    words::say(format_args!(
        "searched {} of {}, and {} expanded, for {}: {}",
        count(proof.files, "file"),
        sizes::print(proof.bytes),
        count(proof.records, "record"),
        count(proof.texts, "text"),
        if proof.is_clean() { "nothing of it is left" } else { "something is left" },
    ));
    if proof.mentions > 0 {
        let captures = count(proof.mentions, "capture");
        words::say(format_args!("{captures} that stay link to it or share some of its text:"));
        for mention in proof.mentioned_in.iter().take(10) {
            let what = if mention.is_url { "has the URL" } else { "has a piece of the text" };
            words::say(format_args!("  {} {what}", String::from_utf8_lossy(&mention.url)));
        }
    }
    if !proof.strangers.is_empty() {
        let names = proof.strangers.join(", ");
        words::say(format_args!("not searched, since they are not the store's: {names}"));
    }
}

fn line(erasing: &Erasing, done: Done) -> Value {
    let erased = &erasing.erased;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let proof = erasing.proof.as_ref().map(|proof| {
        let left = proof.left.iter().map(|(file, offset, what)| json!({"file": file, "offset": offset, "what": what}));
        let mentions = proof.mentioned_in.iter().map(|m| json!({"url": text(&m.url), "is_url": m.is_url}));
        fields!(proof;
            files, bytes, records, texts, left = left.collect::<Vec<_>>(), mentions,
            mentioned_in = mentions.collect::<Vec<_>>(), not_searched = proof.strangers,
        )
    });
    let archives = erasing.archives.iter().map(|(file, records)| json!({"file": file, "records": records}));
    fields!(erased;
        dry_run = done == Done::Planned, complete = erasing.is_complete(), rules = erasing.rules,
        captures = erased.versions, urls = erased.keys, given_own_bodies = erased.promoted, dictionaries,
        made_dictionaries, segments, segment_bytes, left_files = erased.left,
        unreadable_urls = erased.unreadable_keys, shared_files = erasing.shared_files, archives = archives.collect::<Vec<_>>(), proof = proof,
    )
}

fn print(rule: &EraseRule, out: &mut Output) -> Result<(), Failure> {
    let state = match rule.state {
        RuleState::Unfinished => "unfinished",
        RuleState::InForce => "in force",
        RuleState::Lifted => "lifted",
    };
    if out.is_json() {
        return out.json(&json!({
            "id": rule.id,
            "state": state,
            "made": times::print(rule.made_ms),
            "changed": times::print(rule.changed_ms),
            "reason": rule.reason,
            "rule": serde_json::from_str::<Value>(&rule.what).unwrap_or(Value::Null),
        }));
    }
    let made = times::print(rule.made_ms);
    out.row("", format!("{}\t{state}\t{made}\t{}\t{}", rule.id, rule.about, rule.reason).as_bytes())
}
