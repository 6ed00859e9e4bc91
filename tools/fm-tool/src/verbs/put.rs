//! `put`: stores one page from a file or from standard input.
//!
//! Bad arguments are refused before the store is made.

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use filemap::Page;
use filemap::page::Headers;
use fm_cli::{Failure, Outcome, Output, times, words};
use rustix::fs::{FileType, OFlags};
use serde_json::json;

use crate::arguments::urls::Address;
use crate::arguments::variant::VariantArgs;
use crate::flags::Shared;
use crate::json;
use crate::stores::{bucket, file_system, opening, remote, shards};

/// Put one page
#[derive(clap::Args)]
#[command(after_help = "Example:\n  curl -s https://example.com/ | fm-tool put pages.fm https://example.com/")]
pub struct Args {
    /// The store's folder, made if missing; or a server's address
    store: PathBuf,
    /// The page's URL
    url: Address,
    /// The body's file; - is standard input
    #[arg(default_value = "-")]
    file: PathBuf,
    /// Time of the fetch [default: now]
    #[arg(long, value_name = "TIME", value_parser = times::parse, allow_negative_numbers = true)]
    time: Option<i64>,
    /// The status code
    #[arg(long, default_value_t = 200)]
    status: u16,
    /// A header; may be given several times, in order
    #[arg(long = "header", value_name = "Name: value", value_parser = header)]
    headers: Vec<(String, String)>,
    #[command(flatten)]
    variant: VariantArgs,
    #[command(flatten)]
    new: opening::NewStore,
}

/// A header of one line, as it could have been sent, so that it is printed back unchanged.
fn header(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once(':').map(|(name, value)| (name.trim(), value.trim()));
    let Some((name, value)) = parts.filter(|(name, _)| !name.is_empty()) else {
        return Err("write a header as `Name: value`".to_owned());
    };
    if name.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err("a header's name has no spaces or control characters".to_owned());
    }
    if value.contains(|c: char| c.is_control() && c != '\t') {
        return Err("a header is one line: its value has no control characters".to_owned());
    }
    Ok((name.to_owned(), value.to_owned()))
}

/// Runs the verb.
pub fn run(args: &Args, shared: &Shared) -> Result<Outcome, Failure> {
    if args.variant.reads_stdin() && args.file == Path::new("-") {
        return Err(Failure::Usage("the page and the request's body cannot both be standard input".to_owned()));
    }
    if (args.variant.reads_stdin() || args.file == Path::new("-")) && is_closed(&io::stdin()) {
        let words = "standard input is closed: give the page's file, or `- </dev/null` for an empty page";
        return Err(Failure::Usage(words.to_owned()));
    }
    let variant = args.variant.read()?;
    let mut body = body(&args.file, shared)?;
    check_url(args)?;
    let mut headers = Headers::new();
    for (name, value) in &args.headers {
        headers.push(name.as_str(), value.as_str());
    }
    let time_ms = args.time.unwrap_or_else(times::now_ms);
    let page = Page { headers, variant, ..Page::new(args.url.bytes(), time_ms, args.status, "") };
    let store = opening::to_fill(&args.store, &args.new, shared)?;
    let version = store.put_reader(&page, &mut *body).map_err(|error| not_put(error.into(), args))?;
    let key = store.key(args.url.bytes())?;
    store.close()?;

    let time = times::print(version.time_ms);
    let fields = json!({ "time": time, "time_ms": version.time_ms, "sequence": version.sequence });
    let mut out = Output::stdout(shared.flags);
    out.report(&json::of_url(&key, fields), format_args!("put {} as of {time}", args.url))?;
    out.end(Outcome::Done)
}

/// Names the full disk.
fn not_put(failure: Failure, args: &Args) -> Failure {
    let disk = file_system::of(&args.store);
    let full = |words| Failure::Full(format!("{} was not stored: {disk} is full: {words}", args.url));
    match failure {
        Failure::Full(words) => full(words),
        Failure::Floor(words) => full(format!("{words} (--min-free)")),
        failure => failure,
    }
}

fn body(path: &Path, shared: &Shared) -> Result<Box<dyn Read>, Failure> {
    if path == Path::new("-") {
        if io::stdin().is_terminal() && !shared.flags.quiet {
            words::say("reading the body from standard input; end it with Ctrl-D");
        }
        return Ok(Box::new(io::stdin()));
    }
    if path.is_dir() {
        return Err(Failure::Io(format!("{} is a folder; give a file, or - for standard input", path.display())));
    }
    let file = File::open(path).map_err(|error| Failure::io("open", path, &error))?;
    Ok(Box::new(file))
}

/// Returns whether a standard stream was closed when the program began. The runtime then opens the
/// null device for reading and writing in its place; a shell's `</dev/null` opens it for reading
/// only.
fn is_closed(stream: &impl AsFd) -> bool {
    let flags = rustix::fs::fcntl_getfl(stream);
    let is_for_both = flags.is_ok_and(|flags| flags & OFlags::RWMODE == OFlags::RDWR);
    let null = rustix::fs::stat("/dev/null");
    let (stream, null) = (rustix::fs::fstat(stream), null.map(|null| null.st_rdev));
    let is_null = stream.is_ok_and(|stream| {
        FileType::from_raw_mode(stream.st_mode) == FileType::CharacterDevice && Ok(stream.st_rdev) == null
    });
    is_for_both && is_null
}

/// Refuses a URL that a new store would refuse, before the store is made. An existing store checks
/// for itself.
fn check_url(args: &Args) -> Result<(), Failure> {
    let is_elsewhere = remote::is_server(&args.store) || bucket::is_bucket(&args.store);
    if args.store.exists() || shards::is_there(&args.store) || is_elsewhere || args.new.must_exist() {
        return Ok(());
    }
    let key = args.new.canonicalizer().canonicalize(args.url.bytes());
    let key = key.map_err(|error| Failure::Usage(format!("{:?}: {error}", args.url.to_string())))?;
    if key.len() > filemap_core::Record::MAX_KEY_BYTES {
        return Err(filemap_core::Error::KeyLength { len: key.len() }.into());
    }
    Ok(())
}
