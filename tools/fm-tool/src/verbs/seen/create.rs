//! `seen create`: makes an empty set, and prints its size and false positive rate.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum;
use fm_cli::{Failure, Outcome, Output, sizes, times, words};
use serde_json::Value;
use urlindex::disk::FingerprintBits;
use urlindex::hash::{HashFamily, SlotHash};
use urlindex::stored::{AnySet, NewSet, StoredSet};
use urlindex::{BloomOptions, DiskOptions, Error, Md5Bitmap, SeenSet};
use urlindex_redis::NewRedisSet;

use super::{redis, sets, stat};
use crate::flags::Shared;
use fm_cli::canonical::Canonical;

/// Make an empty set
#[derive(clap::Args)]
#[command(
    after_help = "Existing files are never replaced. The canonicaliser is recorded beside the set, in SET.canon. The default is whatwg, \
    that of page stores, so that a set can be filled from `fm-tool ls`; crawlers may want crawl.\n\n\
    Example:\n  fm-tool seen create seen.bits --kind md5-bitmap --bits 32\n  \
    fm-tool seen create old.bits --kind hash-bitmap --functions bkdr,ap,djb --slots 1000003 --adopt\n  \
    fm-tool seen create seen.bloom --kind bloom --urls 100000000 --rate 1e-4 --layout blocked\n  \
    fm-tool seen create seen.grow --kind growing --rate 1e-3 --canonicalizer crawl\n  \
    fm-tool seen create seen.trie --kind trie\n  \
    fm-tool seen create seen.disk --kind disk --max-age 90d\n  \
    fm-tool seen create redis://10.0.0.1:6379/pages --kind exact --urls 100000000"
)]
pub struct Args {
    /// The set's file
    set: PathBuf,
    /// The kind of set
    #[arg(long, value_enum)]
    kind: Kind,
    /// MD5 bitmap, or bitmap on Redis: 2^BITS slots (16 to 36, on Redis to 40) [default: 28]
    #[arg(long, value_name = "BITS")]
    bits: Option<u32>,
    /// Hash bitmap: the functions, one bit each: bkdr, ap, djb, djb0 (djb starting at 0)
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = slot_hash)]
    functions: Vec<SlotHash>,
    /// Hash bitmap: number of bits (1 to 2^31) [default: 2^28, with --adopt that of the file]
    #[arg(long, value_name = "N")]
    slots: Option<u64>,
    /// Bloom filter, or exact set on Redis: expected number of URLs
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    urls: Option<u64>,
    /// Bloom or growing filter: false positive rate [default: 0.001]
    #[arg(long, value_name = "RATE")]
    rate: Option<f64>,
    /// Bloom filter, instead of a rate: bits for each URL (the classic has 16, with 8 probes)
    #[arg(long, value_name = "BITS", conflicts_with = "rate", requires = "probes")]
    bits_per_url: Option<u64>,
    /// Bloom filter: bits set for each URL
    #[arg(long, value_name = "N", requires = "bits_per_url")]
    probes: Option<u32>,
    /// Bloom filter: where a URL's bits lie
    #[arg(long, value_enum)]
    layout: Option<Layout>,
    /// Bloom filter: its hash functions [default: xxh3]
    #[arg(long, value_enum)]
    family: Option<Family>,
    /// Bloom or growing filter, or set on disk: hash seed [default: 0]; choose a secret one if
    /// others choose the URLs
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Set on disk: length of fingerprints. 64 bits save 2 bytes a URL and lose more URLs; the
    /// expected loss is printed [default: 80]
    #[arg(long, value_name = "BITS", value_parser = fingerprint_bits)]
    fingerprint_bits: Option<FingerprintBits>,
    /// Set on disk: a URL is new again at this age, such as 90d, or up to an eighth later
    /// [default: never]
    #[arg(long, value_name = "AGE", value_parser = times::duration)]
    max_age: Option<Duration>,
    /// The canonicaliser: whatwg, crawl, surt or exact, with rules switched as in
    /// crawl,+www,-tracking
    #[arg(long = "canonicalizer", alias = "canonical", value_name = "RULES", value_parser = Canonical::parse, default_value = "whatwg")]
    canonical: Canonical,
    /// Adopt the bare bits of an MD5 or hash bitmap that another program made
    #[arg(long)]
    adopt: bool,
}

/// The kinds of sets.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// One bit at a slot of the URL's MD5: the oldest kind, readable by other programs; more false
    /// positives as it fills
    Md5Bitmap,
    /// One bit for each of some old hash functions (--functions): the Bloom filter of C programs,
    /// which can still read it
    HashBitmap,
    /// A Bloom filter: a chosen false positive rate for a known number of URLs
    Bloom,
    /// A growing filter: a chosen false positive rate for any number of URLs
    Growing,
    /// All URLs in memory: exact; can forget and list them
    Trie,
    /// Fingerprints of 80 bits on disk: nearly exact, for a billion URLs and more in little
    /// memory; can forget
    Disk,
    /// On Redis: fingerprints of 64 bits, 9 bytes each
    Exact,
    /// On Redis: one bit a URL; more false positives as it fills
    Bitmap,
}

fn slot_hash(text: &str) -> Result<SlotHash, String> {
    SlotHash::named(text).ok_or_else(|| "give bkdr, ap, djb, djb0, or some of them with commas".to_owned())
}

fn fingerprint_bits(text: &str) -> Result<FingerprintBits, String> {
    match text {
        "64" => Ok(FingerprintBits::Bits64),
        "80" => Ok(FingerprintBits::Bits80),
        _ => Err("give 80 or 64".to_owned()),
    }
}

/// Placement of a URL's bits in a Bloom filter.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Layout {
    /// Anywhere: the fewest bits
    #[value(alias = "classic")]
    Standard,
    /// In one cache line: faster, for some more bits
    Blocked,
}

/// Hash functions.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Family {
    Xxh3,
    Bkdr,
    Ap,
    Djb,
    /// ap, in filters made when djb started at 0
    Ap0,
    /// djb, in filters made when it started at 0
    Djb0,
}

/// Runs the verb.
pub fn run(args: &Args, shared: &Shared) -> Result<Outcome, Failure> {
    check(args)?;
    sets::refuse_bucket(&args.set)?;
    let canonicalizer = args.canonical.canonicalizer();
    if let Some(location) = redis::location(&args.set) {
        redis::create(location, new_on_redis(args)?, &*canonicalizer, shared)?;
        return Ok(Outcome::Done);
    }
    let made = match args.kind {
        Kind::HashBitmap if args.adopt => {
            StoredSet::adopt_hashed(&args.set, &args.functions, args.slots, &*canonicalizer)
        }
        _ if args.adopt => StoredSet::adopt(&args.set, &*canonicalizer),
        _ => StoredSet::create(&args.set, new_set(args)?, &*canonicalizer),
    };
    let set = made.map_err(|error| match &error {
        Error::Storage(absent) if absent.is_absent() => {
            Failure::Io(format!("cannot make {}: {error}", args.set.display()))
        }
        Error::NotASet { .. } | Error::Unsupported { .. } => Failure::Io(format!("{}: {error}", args.set.display())),
        _ => sets::failure(&args.set, error),
    })?;
    tell(&set, &args.set, shared)?;
    set.close().map_err(|error| sets::failure(&args.set, error))?;
    Ok(Outcome::Done)
}

/// Refuses options of other kinds.
fn check(args: &Args) -> Result<(), Failure> {
    let is_bloom = args.kind == Kind::Bloom;
    let is_filter = is_bloom || args.kind == Kind::Growing;
    let is_disk = args.kind == Kind::Disk;
    let is_hashed = args.kind == Kind::HashBitmap;
    if is_hashed && args.functions.is_empty() {
        return Err(Failure::Usage("name the functions with --functions, for example bkdr,ap,djb".to_owned()));
    }
    let rows = [
        ("--bits", args.bits.is_some(), matches!(args.kind, Kind::Md5Bitmap | Kind::Bitmap) && !args.adopt),
        ("--adopt", args.adopt, args.kind == Kind::Md5Bitmap || is_hashed),
        ("--functions", !args.functions.is_empty(), is_hashed),
        ("--slots", args.slots.is_some(), is_hashed),
        ("--urls", args.urls.is_some(), is_bloom || args.kind == Kind::Exact),
        ("--bits-per-url", args.bits_per_url.is_some(), is_bloom),
        ("--layout", args.layout.is_some(), is_bloom),
        ("--family", args.family.is_some(), is_bloom),
        ("--rate", args.rate.is_some(), is_filter),
        ("--seed", args.seed.is_some(), is_filter || is_disk),
        ("--fingerprint-bits", args.fingerprint_bits.is_some(), is_disk),
        ("--max-age", args.max_age.is_some(), is_disk),
    ];
    match rows.iter().find(|(_, is_given, fits)| *is_given && !fits) {
        None => Ok(()),
        Some((option, ..)) => {
            Err(Failure::Usage(format!("{option} does not apply to a set of this kind; leave it out")))
        }
    }
}

fn new_set(args: &Args) -> Result<NewSet, Failure> {
    let (rate, seed) = (args.rate.unwrap_or(1e-3), args.seed.unwrap_or(0));
    Ok(match args.kind {
        Kind::Md5Bitmap => NewSet::Md5Bitmap { bits: args.bits.unwrap_or(Md5Bitmap::DEFAULT_BITS) },
        Kind::HashBitmap => NewSet::HashBitmap { hashes: args.functions.clone(), slots: args.slots.unwrap_or(1 << 28) },
        Kind::Growing => NewSet::Growing { rate, seed },
        Kind::Trie => NewSet::Trie,
        Kind::Disk => {
            let options = DiskOptions::new().seed(seed).fingerprint_bits(args.fingerprint_bits.unwrap_or_default());
            NewSet::Disk(args.max_age.into_iter().fold(options, DiskOptions::max_age))
        }
        Kind::Exact | Kind::Bitmap => {
            return Err(Failure::Usage("sets of this kind are on Redis: redis://HOST:PORT/NAME".to_owned()));
        }
        Kind::Bloom => {
            let Some(urls) = args.urls else {
                let what = "give the expected number of URLs with --urls; if it is unknown, --kind growing";
                return Err(Failure::Usage(what.to_owned()));
            };
            let options = match (args.bits_per_url, args.probes) {
                (Some(bits), Some(probes)) => BloomOptions::with_bits(urls, urls.saturating_mul(bits), probes),
                _ => BloomOptions::new(urls, rate),
            };
            let options = if args.layout == Some(Layout::Blocked) { options.blocked() } else { options };
            NewSet::Bloom(options.seed(seed).family(match args.family {
                None | Some(Family::Xxh3) => HashFamily::Xxh3,
                Some(Family::Bkdr) => HashFamily::Bkdr,
                Some(Family::Ap) => HashFamily::Ap,
                Some(Family::Djb) => HashFamily::Djb,
                Some(Family::Ap0) => HashFamily::Ap0,
                Some(Family::Djb0) => HashFamily::Djb0,
            }))
        }
    })
}

fn new_on_redis(args: &Args) -> Result<NewRedisSet, Failure> {
    let of_files = [
        ("--rate", args.rate.is_some()),
        ("--bits-per-url", args.bits_per_url.is_some()),
        ("--layout", args.layout.is_some()),
        ("--family", args.family.is_some()),
        ("--seed", args.seed.is_some()),
    ];
    if let Some((option, _)) = of_files.iter().find(|(_, is_given)| *is_given) {
        return Err(Failure::Usage(format!("{option} does not apply to a set on Redis; leave it out")));
    }
    let urls = || args.urls.ok_or_else(|| Failure::Usage("give the expected number of URLs with --urls".to_owned()));
    match args.kind {
        Kind::Exact => Ok(NewRedisSet::Exact { urls: urls()? }),
        Kind::Bitmap => Ok(NewRedisSet::Bitmap { bits: args.bits.unwrap_or(28) }),
        Kind::Bloom => Ok(NewRedisSet::Bloom { urls: urls()? }),
        _ => Err(Failure::Usage("a set on Redis is exact, bitmap or bloom".to_owned())),
    }
}

fn tell(set: &StoredSet, path: &Path, shared: &Shared) -> Result<(), Failure> {
    let mut out = Output::stdout(shared.flags);
    if out.is_json() {
        out.json(&Value::Object(stat::fields(set, path)?))?;
    } else if !shared.flags.quiet {
        words::say(format_args!("made {}: {}", path.display(), expected(set)));
    }
    out.finish()
}

/// The size of the set, and its error rate.
fn expected(set: &StoredSet) -> String {
    let (kind, bytes) = (set.kind().name(), sizes::print(set.disk_bytes()));
    let rate = sets::rate;
    match set.any() {
        AnySet::Md5Bitmap(bitmap) => {
            let rates = rates(|urls| bitmap.theoretical_rate(urls));
            format!("{kind} of 2^{} slots, {bytes}; {rates}", bitmap.bits())
        }
        AnySet::HashBitmap(bitmap) => {
            let rates = rates(|urls| bitmap.theoretical_rate(urls));
            format!("{kind} of {} slots, {} functions, {bytes}; {rates}", bitmap.slots(), bitmap.hashes().len())
        }
        AnySet::Bloom(filter) => {
            let ((bits, probes), urls) = (filter.shape(), filter.capacity());
            let each = bits as f64 / urls as f64;
            let full = rate(filter.theoretical_rate(urls));
            format!(
                "{kind}, {bytes}; false positive rate {full} with {urls} URLs ({each:.1} bits each, {probes} probes)"
            )
        }
        AnySet::Growing(filter) => {
            // At most 1.3 times the bits of a Bloom filter for the same number of URLs.
            let each = 1.3 * std::f64::consts::LOG2_E * -filter.rate().log2();
            let most = rate(filter.rate());
            format!("{kind}; false positive rate at most {most} for any number of URLs (about {each:.0} bits each)")
        }
        AnySet::Trie(_) => format!("{kind}, in memory while it is open; exact"),
        AnySet::Disk(disk) => {
            let bits = disk.fingerprint_bits();
            let loss = |urls_per_host| loss(bits.expected_loss(1e9, urls_per_host));
            let age = disk.max_age().map_or(String::new(), |age| format!("; forgets after {}", length(age)));
            format!(
                "{kind}, fingerprints of {} bits; expected loss of a billion URLs: {} with 1000 on each host, {} on one host{age}",
                bits.bits(),
                loss(1e3),
                loss(1e9)
            )
        }
        _ => kind.to_owned(),
    }
}

/// False positive rates at three fills.
fn rates(at: impl Fn(u64) -> f64) -> String {
    let at = |urls| sets::rate(at(urls));
    let (low, middle, high) = (at(1_000_000), at(10_000_000), at(100_000_000));
    format!("false positive rate {low} with 1 million URLs, {middle} with 10 million, {high} with 100 million")
}

/// A length of time in the largest unit that divides it.
fn length(age: Duration) -> String {
    let units = [("d", 86_400), ("h", 3_600), ("m", 60)];
    let fits = units.into_iter().find(|(_, seconds)| age.as_secs().is_multiple_of(*seconds));
    let (unit, seconds) = fits.unwrap_or(("s", 1));
    format!("{}{unit}", age.as_secs() / seconds)
}

/// An expected number of URLs.
fn loss(urls: f64) -> String {
    if urls >= 100.0 { format!("{urls:.0}") } else { sets::rate(urls) }
}
