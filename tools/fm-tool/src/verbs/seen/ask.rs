//! `seen add` and `seen check`: one URL a line in, one verdict a line out, by the million.
//!
//! Lines are answered in batches of [`TOGETHER`]: made canonical, checked in the set, printed in
//! order. A set on disk, which is faster with larger batches, gets up to [`GATHERED`] lines. The
//! lines read so far are answered before waiting for more, so that a crawler can write a URL and
//! wait for its verdict.
//!
//! Invariants: an `add` syncs the URLs that it answered, however it ends; a line is answered once,
//! an empty one not at all.

use std::borrow::Cow;
use std::fmt;
use std::fs::File;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fm_cli::{Failure, Outcome, Output, Progress, fields, interrupt, sizes, words};
use serde_json::{Value, json};
use urlindex::{Canonicalizer, DiskUrlSet, UrlError, Verdict};

use super::asked::{self, Asked};
use super::lines::{self, Blocks, LINE_BYTES_MAX};
use super::sets::{self, CanonicalArg, MemoryArg};
use crate::flags::Shared;
use crate::input::Input;
use crate::json;

const NOTES: &str = "\
One URL a line, one answer a line: `new`, `seen` (certainly), `probably-seen` or `invalid`, a tab, and the line as it came. \
Lines may end in \\n or \\r\\n and hold any bytes; empty lines are skipped. A line that is not a URL, or is over 65535 bytes \
(only the beginning is printed), is invalid: the first ten are reported on standard error, all are counted, and the exit code \
is 2. URLs are made canonical by the rules that the set records. A set on disk takes lines in batches that end at a pause of \
5 ms, after 250 ms, at 32 MiB or at 524,288 lines; a line written alone is answered at once.";

const ADD_HELP: &str = "\
Answers are durable when the command ends, also by Ctrl-C, and after every N lines with --sync-every (with 1 before each answer; a growing \
filter and a trie are rewritten each time). It stops if the reader of the answers goes away. A new URL is added when it is answered: to lose none \
when a later step fails, ask with `check` and `add` what was fetched.

Example:
  fm-tool seen add seen.bloom --new-only < links.txt > frontier.txt
  fm-tool seen add seen.trie monday.txt tuesday.txt --count";

const CHECK_HELP: &str = "\
Changes nothing and takes no lock. Another process may be adding: URLs that it synced before the start are seen (in a bitmap, all).

Example:
  fm-tool seen check seen.bloom --new-only < links.txt";

/// Add URLs, and print which of them are new
#[derive(clap::Args)]
#[command(after_help = format!("{NOTES}\n\n{ADD_HELP}"))]
pub struct AddArgs {
    #[command(flatten)]
    lists: Lists,
    /// Sync after every N lines, not only at the end
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    sync_every: Option<u64>,
}

/// Print which URLs are new, and add none
#[derive(clap::Args)]
#[command(after_help = format!("{NOTES}\n\n{CHECK_HELP}"))]
pub struct CheckArgs {
    #[command(flatten)]
    lists: Lists,
}

/// The URLs, and how answers are printed.
#[derive(clap::Args)]
struct Lists {
    /// The set's file, or the address of a served one, such as http://127.0.0.1:8640/v1/seen/NAME
    set: PathBuf,
    /// Files of URLs, one a line; - or nothing is standard input
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Print only the new URLs, without verdicts
    #[arg(short, long)]
    new_only: bool,
    /// Print only the counts
    #[arg(short, long, conflicts_with = "new_only")]
    count: bool,
    #[command(flatten)]
    canonical: CanonicalArg,
    #[command(flatten)]
    memory: MemoryArg,
}

/// Lines in a batch.
const TOGETHER: usize = 1024;
/// Lines in the largest batch of a set on disk. A block of short lines may have sixteen million,
/// at 90 bytes of memory each.
const GATHERED: usize = 1 << 19;
/// Invalid lines of a file that are reported individually.
const TOLD: u64 = 10;

/// Runs `add`.
pub fn add(args: &AddArgs, shared: &Shared) -> Result<Outcome, Failure> {
    let lists = &args.lists;
    check_files(&lists.files)?;
    let rules = lists.canonical.canonical.as_ref();
    let (set, canonicalizer) = match asked::served(&lists.set, &lists.memory, rules)? {
        Some(served) => served,
        None => {
            let set = sets::to_change_within(&lists.set, &lists.memory)?;
            let canonicalizer = sets::noted_canonicalizer(&set, &lists.set, rules)?;
            (Asked::Local(Box::new(set)), canonicalizer)
        }
    };
    let mut asker = Asker::new(set, canonicalizer, lists, shared);
    (asker.is_adding, asker.sync_every) = (true, args.sync_every.unwrap_or(u64::MAX));
    asker.run(shared)
}

/// Runs `check`.
pub fn check(args: &CheckArgs, shared: &Shared) -> Result<Outcome, Failure> {
    let lists = &args.lists;
    check_files(&lists.files)?;
    let rules = lists.canonical.canonical.as_ref();
    let (set, canonicalizer) = match asked::served(&lists.set, &lists.memory, rules)? {
        Some(served) => served,
        None => {
            let set = sets::to_read_within(&lists.set, &lists.memory)?;
            let canonicalizer = sets::canonicalizer(&set, &lists.set, rules)?;
            (Asked::Local(Box::new(set)), canonicalizer)
        }
    };
    Asker::new(set, canonicalizer, lists, shared).run(shared)
}

/// Refuses unreadable files before the set is changed.
fn check_files(files: &[PathBuf]) -> Result<(), Failure> {
    for path in files.iter().filter(|path| *path != Path::new("-")) {
        let about = std::fs::metadata(path).map_err(|error| Failure::io("open", path, &error))?;
        if about.is_dir() {
            return Err(Failure::Usage(format!("{} is a folder; name the files in it", path.display())));
        }
    }
    Ok(())
}

/// Counts of answers.
#[derive(Default)]
struct Tally {
    new: u64,
    seen: u64,
    probably_seen: u64,
    invalid: u64,
}

impl Tally {
    fn lines(&self) -> u64 {
        self.new + self.seen + self.probably_seen + self.invalid
    }

    fn json(&self) -> Value {
        fields!(self; lines = self.lines(), new, seen, probably_seen, invalid)
    }

    fn words(&self) -> String {
        let parts =
            [(self.new, "new"), (self.seen, "seen"), (self.probably_seen, "probably seen"), (self.invalid, "invalid")];
        let parts = parts.iter().filter(|(number, _)| *number > 0).map(|(number, what)| format!("{number} {what}"));
        let parts: Vec<String> = parts.collect();
        let colon = if parts.is_empty() { "" } else { ": " };
        format!("{}{colon}{}", words::count(self.lines(), "line"), parts.join(", "))
    }
}

/// Checks or adds lines, and prints the answers.
struct Asker<'a> {
    set: Asked,
    canonicalizer: Arc<dyn Canonicalizer>,
    lists: &'a Lists,
    is_adding: bool,
    /// True if answers are printed, not only counted.
    is_printing: bool,
    sync_every: u64,
    unsynced: u64,
    out: Output,
    progress: Progress,
    verdicts: Vec<Verdict>,
    tally: Tally,
    /// The current file; the line number in it; the invalid lines before the file.
    source: String,
    line: u64,
    invalid_before: u64,
}

impl<'a> Asker<'a> {
    fn new(set: Asked, canonicalizer: Arc<dyn Canonicalizer>, lists: &'a Lists, shared: &Shared) -> Self {
        let out = Output::stdout(shared.flags);
        let is_printing = !lists.count;
        let progress = Progress::records(&shared.flags, None, "URLs").unless_printing(is_printing && out.is_terminal());
        Asker {
            set,
            canonicalizer,
            lists,
            is_adding: false,
            is_printing,
            sync_every: u64::MAX,
            unsynced: 0,
            out,
            progress,
            verdicts: Vec::with_capacity(TOGETHER),
            tally: Tally::default(),
            source: String::new(),
            line: 0,
            invalid_before: 0,
        }
    }

    /// Answers all lists, and closes the set in any case.
    fn run(mut self, shared: &Shared) -> Result<Outcome, Failure> {
        interrupt::listen();
        let stdin = [PathBuf::from("-")];
        let lists = self.lists;
        let files = if lists.files.is_empty() { &stdin[..] } else { &lists.files[..] };
        let done = files.iter().take_while(|_| !interrupt::asked()).try_for_each(|path| self.file(path, shared));
        let Asker { set, mut out, progress, tally, .. } = self;
        drop(progress);
        let costs = set.disk().map(costs);
        // Answered URLs are made durable, whatever stopped the others.
        let closed = set.close(&lists.set);
        match done {
            // A closed pipe is not an error, but a failed close is.
            Err(Failure::PipeClosed) => closed.and(Err(Failure::PipeClosed))?,
            done => done.and(closed)?,
        }
        if lists.count {
            if shared.flags.json { out.json(&tally.json())? } else { out.line(tally.words())? }
        }
        out.finish()?;
        let outcome = if tally.invalid > 0 { Outcome::Refused } else { Outcome::Done };
        if interrupt::asked() {
            return Ok(outcome.and(interrupt::stopped(format_args!("{}; what was answered stays", tally.words()))));
        }
        if !lists.count && shared.flags.says() {
            words::say(tally.words());
        }
        if let Some(costs) = costs.filter(|_| shared.flags.says() && tally.lines() > 0) {
            words::say(costs);
        }
        Ok(outcome)
    }

    fn file(&mut self, path: &Path, shared: &Shared) -> Result<(), Failure> {
        let fail = |error| Failure::io("open", path, &error);
        let input = if path == Path::new("-") {
            if io::stdin().is_terminal() && !shared.flags.quiet {
                words::say("reading URLs from standard input; end them with Ctrl-D");
            }
            self.source = "standard input".to_owned();
            Input::stdin().map_err(fail)?
        } else {
            self.source = path.display().to_string();
            Input::file(File::open(path).map_err(fail)?)
        };
        (self.line, self.invalid_before) = (0, self.tally.invalid);
        let gathers = self.set.gathers();
        let mut blocks = if gathers { Blocks::gathered(input) } else { Blocks::new(input) };
        let most = if gathers { GATHERED } else { TOGETHER };
        let together = usize::try_from(self.sync_every).unwrap_or(most).min(most);
        while let Some(block) = blocks.next().map_err(|error| Failure::io("read", path, &error))? {
            let mut run: Vec<(u64, &[u8])> = Vec::with_capacity(together.min(TOGETHER));
            for line in lines::lines(block) {
                self.line += 1;
                if !line.is_empty() {
                    run.push((self.line, line));
                }
                if run.len() == together {
                    self.answer(&run)?;
                    run.clear();
                    if interrupt::asked() {
                        return Ok(());
                    }
                }
            }
            self.answer(&run)?;
            self.out.flush()?;
        }
        self.tell_more();
        Ok(())
    }

    /// Answers a batch of lines with their numbers.
    fn answer(&mut self, run: &[(u64, &[u8])]) -> Result<(), Failure> {
        let keys: Vec<Option<Cow<'_, [u8]>>> = run.iter().map(|(_, line)| self.key(line).ok()).collect();
        let asked: Vec<&[u8]> = keys.iter().filter_map(Option::as_deref).collect();
        let answered = self.set.ask(&self.lists.set, &asked, self.is_adding, &mut self.verdicts);
        self.unsynced += run.len() as u64;
        if self.unsynced >= self.sync_every && answered.is_ok() {
            self.unsynced = 0;
            self.set.sync(&self.lists.set)?;
        }
        let verdicts = std::mem::take(&mut self.verdicts);
        let mut next = verdicts.iter();
        for ((number, line), key) in run.iter().zip(&keys) {
            if key.is_none() {
                self.print_invalid(*number, line)?;
                continue;
            }
            match next.next() {
                Some(verdict) => self.print(line, *verdict)?,
                // The set failed at this line.
                None => break,
            }
        }
        self.verdicts = verdicts;
        self.progress.add_many(run.len() as u64);
        answered
    }

    /// The key of a line, or why it has none.
    #[inline]
    fn key<'l>(&self, line: &'l [u8]) -> Result<Cow<'l, [u8]>, Invalid> {
        if line.len() > LINE_BYTES_MAX {
            return Err(Invalid::Line);
        }
        let key = self.canonicalizer.canonical(line).map_err(Invalid::Url)?;
        if key.len() > LINE_BYTES_MAX {
            return Err(Invalid::Key { bytes: key.len() });
        }
        Ok(key)
    }

    fn print(&mut self, line: &[u8], verdict: Verdict) -> Result<(), Failure> {
        let count = match verdict {
            Verdict::New => &mut self.tally.new,
            Verdict::Seen => &mut self.tally.seen,
            Verdict::ProbablySeen => &mut self.tally.probably_seen,
        };
        *count += 1;
        let word = verdict.name();
        if !self.is_printing || (self.lists.new_only && !verdict.is_new()) {
            return Ok(());
        }
        if self.out.is_json() {
            return self.out.json(&json::of_url(line, json!({ "verdict": word })));
        }
        if !self.lists.new_only {
            self.out.bytes(word.as_bytes())?;
            self.out.bytes(b"\t")?;
        }
        self.out.row("", line)
    }

    /// Prints an invalid line. The reason is determined only if it is printed.
    fn print_invalid(&mut self, number: u64, line: &[u8]) -> Result<(), Failure> {
        self.tally.invalid += 1;
        let why = || self.key(line).err().map(|why| why.to_string()).unwrap_or_default();
        if self.tally.invalid - self.invalid_before <= TOLD {
            let (source, why) = (&self.source, why());
            self.progress.aside(|| words::complain(format_args!("{source}: line {number}: {why}")));
        }
        if !self.is_printing || self.lists.new_only {
            return Ok(());
        }
        let shown = &line[..line.len().min(LINE_BYTES_MAX)];
        if self.out.is_json() {
            return self.out.json(&json::of_url(shown, json!({ "verdict": "invalid", "why": why() })));
        }
        self.out.row("invalid\t", shown)
    }

    /// Reports the number of further invalid lines of a file.
    fn tell_more(&self) {
        let invalid = self.tally.invalid - self.invalid_before;
        if invalid > TOLD {
            let (source, more) = (&self.source, words::count(invalid - TOLD, "more line"));
            self.progress.aside(|| words::complain(format_args!("{source}: {more} invalid, {invalid} in all")));
        }
    }
}

/// Reason why a line has no key.
enum Invalid {
    Line,
    Key { bytes: usize },
    Url(UrlError),
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Invalid::Line => write!(f, "the line has over {LINE_BYTES_MAX} bytes"),
            Invalid::Key { bytes } => {
                write!(f, "its canonical form has {bytes} bytes, {LINE_BYTES_MAX} are the limit")
            }
            Invalid::Url(error) => error.fmt(f),
        }
    }
}

/// The cost of the checks of a set on disk.
fn costs(disk: &DiskUrlSet) -> String {
    let stats = disk.disk_stats();
    let (read, written) = (sizes::print(stats.read_bytes), sizes::print(stats.written_bytes));
    let mut costs = format!("{}; {read} read, {written} written", words::count(stats.runs, "run"));
    if disk.max_age().is_some_and(|age| u128::from(stats.ahead_ms) > age.as_millis()) {
        costs += &format!("; dated {} s ahead of the clock, and forgotten that much later", stats.ahead_ms / 1000);
    }
    if stats.tests > 0 {
        let percent = |hits: u64| 100.0 * hits as f64 / stats.tests as f64;
        let (table, cache) = (percent(stats.table_hits), percent(stats.cache_hits));
        let (tests, reads) = (words::count(stats.tests, "test"), words::count(stats.block_reads, "block"));
        costs += &format!(
            "; {tests} one at a time: {table:.1}% found by the table, {cache:.1}% by the cache, {reads} searched for one URL"
        );
    }
    costs
}
