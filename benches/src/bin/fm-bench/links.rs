//! `frontier`: a frontier over a simulated web: links a second, memory, and how soon it continues
//! after kill -9.
//!
//! The crawl is a child process that prints a line after each commit. What the parent has read
//! from the pipe was committed, so it must be in the frontier that the parent opens after the
//! kill.

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use clap::Args;
use filemap_benches::device::{directory_bytes, drop_caches};
use filemap_benches::drive::Outcome;
use filemap_benches::process::{MemoryWatch, anonymous_bytes};
use filemap_benches::random::Random;
use filemap_benches::report::{Bar, Report};
use filemap_benches::web::{LINKS, Web};
use frontier::{Assignment, Fetched, Frontier, FrontierOptions, Next};

const MIB: f64 = (1 << 20) as f64;
/// All credit, whose sum never changes.
const CREDIT_UNITS: u128 = 1 << 62;
/// Most start pages; a small web has one for each twenty pages.
const SEEDS: u64 = 1_000;
/// Most commits of a child between its start and its kill.
const COMMITS_A_KILL: u64 = 50;
/// Pages whose links are made to time how long that takes.
const TIMED_PAGES: u64 = 20_000;

/// Arguments of `fm-bench frontier`.
#[derive(Args)]
pub struct FrontierArgs {
    /// The frontier's folder, to be created
    dir: PathBuf,
    /// Pages that the frontier must know at the end; the web has a tenth more
    #[arg(long, default_value_t = 200_000_000, value_parser = clap::value_parser!(u64).range(1_000..=3_000_000_000))]
    pages: u64,
    /// Links to report [default: five for each page]
    #[arg(long)]
    links: Option<u64>,
    /// Memory for pages, in MiB
    #[arg(long, default_value_t = 256)]
    memory_mib: u64,
    /// Virtual visits a fetch
    #[arg(long, default_value_t = 8)]
    visits: u8,
    /// Fetches between two commits
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..))]
    commit_every: u64,
    /// Kills, after the links are reported
    #[arg(long, default_value_t = 3)]
    kills: u32,
    /// Drop the page cache before each opening; needs root
    #[arg(long)]
    cold: bool,
    /// Seed of the web
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Be the child that crawls
    #[arg(long, hide = true)]
    child: bool,
    /// Time at which the child begins, in ms
    #[arg(long, hide = true, default_value_t = 0)]
    clock: i64,
}

impl FrontierArgs {
    fn options(&self) -> FrontierOptions {
        FrontierOptions::new().memory_bytes(self.memory_mib << 20).virtual_visits(self.visits)
    }

    fn seeds(&self) -> u64 {
        SEEDS.min(self.pages / 20)
    }
}

pub fn run(args: &FrontierArgs) -> Outcome<Report> {
    let web = Web::new(args.seed, args.pages + args.pages / 10);
    if args.child {
        return child(args, &web);
    }
    if args.dir.exists() {
        return Err(format!("{}: exists; give the path of a new folder", args.dir.display()).into());
    }
    let mut report = Report::default();
    let mut running = Running::start(args, 0)?;
    crawl(args, &web, &mut running, &mut report)?;
    report.section("after kill -9");
    let mut resumed = Resumed::default();
    for kill in 1..=args.kills {
        let beyond = 1 + Random::of(args.seed, u64::MAX - u64::from(kill)).below(COMMITS_A_KILL);
        for _ in 0..beyond {
            running.line()?;
        }
        let last = running.kill()?;
        resumed.open(args, &web, last)?;
        if kill == args.kills {
            break;
        }
        running = Running::start(args, resumed.clock_ms)?;
    }
    resumed.report(&mut report);
    Ok(report)
}

/// State of the crawl at a commit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Line {
    /// Links that this child has reported.
    links: u64,
    /// Pages that the frontier knows.
    known: u64,
    /// The crawl's own clock.
    clock_ms: i64,
    /// Anonymous memory of the child.
    anonymous_bytes: u64,
}

impl Line {
    fn print(self) -> String {
        format!("{} {} {} {}\n", self.links, self.known, self.clock_ms, self.anonymous_bytes)
    }

    fn parse(text: &str) -> Outcome<Line> {
        let fields: Vec<&str> = text.split(' ').collect();
        let [links, known, clock_ms, anonymous_bytes] = fields[..] else {
            return Err(format!("the child printed {text:?}").into());
        };
        Ok(Line {
            links: links.parse()?,
            known: known.parse()?,
            clock_ms: clock_ms.parse()?,
            anonymous_bytes: anonymous_bytes.parse()?,
        })
    }
}

/// A child that crawls until it is killed.
struct Running {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    last: Line,
}

impl Running {
    /// Runs this program again as the child.
    fn start(args: &FrontierArgs, clock_ms: i64) -> Outcome<Running> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(std::env::args_os().skip(1)).arg("--child").arg(format!("--clock={clock_ms}"));
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let pipe = child.stdout.take().ok_or_else(|| format!("{}: the child has no pipe", args.dir.display()))?;
        Ok(Running { child, lines: BufReader::new(pipe).lines(), last: Line { clock_ms, ..Line::default() } })
    }

    /// Waits for the next commit.
    fn line(&mut self) -> Outcome<Line> {
        let line = self.lines.next().ok_or("the child ended before it was killed; its error is above")?;
        self.last = Line::parse(&line?)?;
        Ok(self.last)
    }

    /// Kills the child, and returns its last line: what is still in the pipe was committed too.
    fn kill(mut self) -> Outcome<Line> {
        self.child.kill()?;
        for line in self.lines.by_ref() {
            self.last = Line::parse(&line?)?;
        }
        self.child.wait()?;
        Ok(self.last)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // After an error. A child that is gone already cannot be killed again.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads the child's lines until it has reported all links.
fn crawl(args: &FrontierArgs, web: &Web, running: &mut Running, report: &mut Report) -> Outcome<()> {
    let links = args.links.unwrap_or(5 * args.pages);
    let begun = Instant::now();
    let (mut line, mut peak, mut late) = (Line::default(), 0, None);
    while line.links < links {
        line = running.line()?;
        peak = peak.max(line.anonymous_bytes);
        if late.is_none() && line.links >= links / 10 * 9 {
            late = Some((line.links, begun.elapsed()));
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    report.section("crawl");
    report.count("pages of the web", web.len());
    report.count("links", line.links);
    report.against("known pages", line.known as f64, "", Bar::AtLeast(args.pages as f64));
    report.number("time", seconds, "s");
    report.against("links a second", line.links as f64 / seconds, "", Bar::AtLeast(100_000.0));
    if let Some((before, at)) = late.filter(|(before, _)| *before < line.links) {
        let tenth_s = seconds - at.as_secs_f64();
        report.number("links a second, last tenth", (line.links - before) as f64 / tenth_s, "");
    }
    report.number("of it making the links, a page", making_us(web), "us");
    report.number("all of it, a page", seconds * 1e6 / (line.links as f64 / LINKS as f64), "us");
    report.against("anonymous memory, peak", peak as f64 / MIB, "MiB", Bar::AtMost(1024.0));
    Ok(())
}

/// Time that it takes to make the links of a page, which is part of the crawl's.
fn making_us(web: &Web) -> f64 {
    let mut made = Links::default();
    let pages = TIMED_PAGES.min(web.len());
    let begun = Instant::now();
    for page in 0..pages {
        made.make(web, page);
        std::hint::black_box(&made.text);
    }
    begun.elapsed().as_secs_f64() * 1e6 / pages as f64
}

/// The links of one page as text. Reused, so that making them allocates little.
#[derive(Default)]
struct Links {
    numbers: Vec<u64>,
    text: String,
    ends: Vec<usize>,
}

impl Links {
    fn make(&mut self, web: &Web, page: u64) {
        web.links(page, &mut self.numbers);
        self.text.clear();
        self.ends.clear();
        for number in &self.numbers {
            web.url(*number, &mut self.text);
            self.ends.push(self.text.len());
        }
    }

    fn urls(&self) -> Vec<&str> {
        let mut begin = 0;
        let url = |end: &usize| &self.text[std::mem::replace(&mut begin, *end)..*end];
        self.ends.iter().map(url).collect()
    }
}

/// Crawls until it is killed: a line to stdout after each commit.
fn child(args: &FrontierArgs, web: &Web) -> Outcome<Report> {
    let mut frontier = if args.dir.exists() {
        Frontier::open(&args.dir, args.options())?
    } else {
        let mut frontier = Frontier::create(&args.dir, args.options())?;
        frontier.seed(&seeds(args, web), args.clock)?;
        frontier
    };
    let mut line = Line { clock_ms: args.clock, ..Line::default() };
    let mut links = Links::default();
    let mut out = std::io::stdout().lock();
    loop {
        for _ in 0..args.commit_every {
            let assignment = hand_out(&mut frontier, &mut line.clock_ms)?;
            let page = Web::number(&assignment.url).ok_or_else(|| format!("{}: not of the web", assignment.url))?;
            links.make(web, page);
            // A page takes a millisecond.
            line.clock_ms += 1;
            let urls = links.urls();
            let fetched = Fetched { fetched_at_ms: line.clock_ms, links: &urls, ..Fetched::default() };
            frontier.done(assignment.page, &fetched)?;
            line.links += urls.len() as u64;
        }
        frontier.commit()?;
        line.known = u64::from(frontier.pages());
        line.anonymous_bytes = anonymous_bytes()?;
        out.write_all(line.print().as_bytes())?;
        out.flush()?;
    }
}

fn seeds(args: &FrontierArgs, web: &Web) -> Vec<String> {
    let url = |number: u64| {
        let mut url = String::new();
        web.url(number, &mut url);
        url
    };
    web.seeds(args.seeds()).map(url).collect()
}

/// The next page. While all hosts rest the clock goes forward, since nothing is really fetched.
fn hand_out(frontier: &mut Frontier, clock_ms: &mut i64) -> Outcome<Assignment> {
    loop {
        match frontier.next(*clock_ms)? {
            Next::Fetch(assignment) => return Ok(assignment),
            Next::Wait { until_ms } => *clock_ms = until_ms.max(*clock_ms + 1),
            Next::InFlight | Next::Empty => return Err("no page of the web is left to fetch".into()),
        }
    }
}

/// What the openings after kills found.
#[derive(Default)]
struct Resumed {
    clock_ms: i64,
    /// Fetches that the frontier had at its last opening.
    fetches: u64,
    longest: Duration,
    seconds: Vec<f64>,
    journal_bytes: u64,
    peak_bytes: u64,
    counted_bytes: u64,
    disk_bytes_a_page: f64,
    lost: u64,
    credit: u128,
}

impl Resumed {
    /// Opens the frontier as the kill left it, hands out a page, and compares.
    fn open(&mut self, args: &FrontierArgs, web: &Web, last: Line) -> Outcome<()> {
        self.journal_bytes = self.journal_bytes.max(journal_bytes(&args.dir)?);
        if args.cold {
            drop_caches()?;
        }
        self.clock_ms = last.clock_ms;
        let memory = MemoryWatch::start()?;
        let begun = Instant::now();
        let mut frontier = Frontier::open(&args.dir, args.options())?;
        hand_out(&mut frontier, &mut self.clock_ms)?;
        let took = begun.elapsed();
        self.longest = self.longest.max(took);
        self.seconds.push(took.as_secs_f64());
        self.peak_bytes = self.peak_bytes.max(memory.peak_bytes());
        let stats = frontier.stats();
        self.counted_bytes = self.counted_bytes.max(stats.memory_bytes);
        self.disk_bytes_a_page = directory_bytes(&args.dir)?.1 as f64 / f64::from(stats.pages);
        self.lost += last.known.saturating_sub(u64::from(stats.pages));
        self.lost += (self.fetches + last.links / LINKS as u64).saturating_sub(stats.fetches);
        for seed in seeds(args, web) {
            self.lost += u64::from(!frontier.knows(&seed)?);
        }
        self.fetches = stats.fetches;
        self.credit = frontier.credit_units()?;
        // Not closed: the next child finds it as after a kill.
        Ok(())
    }

    fn report(&self, report: &mut Report) {
        let longest_s = self.longest.as_secs_f64();
        report.against("opened and the first page handed out, longest", longest_s, "s", Bar::AtMost(5.0));
        report.note("each", self.seconds.clone());
        report.number("longest journal", self.journal_bytes as f64 / 1e6, "MB");
        let peak_mib = self.peak_bytes as f64 / MIB;
        report.against("anonymous memory while opening, peak", peak_mib, "MiB", Bar::AtMost(1024.0));
        report.number("memory by the frontier's own count", self.counted_bytes as f64 / MIB, "MiB");
        report.number("disk a page", self.disk_bytes_a_page, "B");
        report.against("committed pages and fetches lost", self.lost as f64, "", Bar::AtMost(0.0));
        let credit_lost = if self.seconds.is_empty() { 0 } else { CREDIT_UNITS.abs_diff(self.credit) };
        report.against("units of credit lost or made", credit_lost as f64, "", Bar::AtMost(0.0));
    }
}

/// Bytes of the frontier's journals.
fn journal_bytes(dir: &Path) -> Outcome<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().ends_with(".journal") {
            bytes += entry.metadata()?.len();
        }
    }
    Ok(bytes)
}
