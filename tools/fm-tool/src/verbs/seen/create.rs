//! `seen create`: makes an empty set, and says what it will cost and how often it will err.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum;
use serde_json::Value;
use urlindex::{
    AnySet, BloomOptions, DiskOptions, Error, FingerprintBits, HashFamily, Md5Bitmap, NewSet, SeenSet, SlotHash,
    StoredSet,
};

use crate::canonical::Canonical;
use crate::cli::Shared;
use crate::outcome::{Failure, Outcome};
use crate::output::Output;
use crate::quantity;
use crate::seen_set;
use crate::verbs::seen::stat;
use crate::words::{self, size};

/// Make an empty set
#[derive(clap::Args)]
#[command(
    after_help = "Nothing is made where something is. How URLs are made canonical is remembered beside the set, in SET.canon: the default is \
    whatwg, as page stores have it, so that a set can be filled from `fm-tool ls`; crawlers may want crawl.\n\n\
    Example:\n  fm-tool seen create seen.bits --kind md5-bitmap --bits 32\n  \
    fm-tool seen create old.bits --kind hash-bitmap --functions bkdr,ap,djb --slots 1000003 --adopt\n  \
    fm-tool seen create seen.bloom --kind bloom --urls 100000000 --rate 1e-4 --layout blocked\n  \
    fm-tool seen create seen.grow --kind growing --rate 1e-3 --canonical crawl\n  \
    fm-tool seen create seen.trie --kind trie\n  \
    fm-tool seen create seen.disk --kind disk --max-age 90d"
)]
pub struct Args {
    /// The set's file
    set: PathBuf,
    /// What it is to be
    #[arg(long, value_enum)]
    kind: Kind,
    /// Of a bitmap: it has 2^BITS slots (16 to 36) [default: 28]
    #[arg(long, value_name = "BITS")]
    bits: Option<u32>,
    /// Of a filter of functions: those that give a URL a bit each, of bkdr, ap, djb, djb0 (djb that begins at 0)
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = slot_hash)]
    functions: Vec<SlotHash>,
    /// Of a filter of functions: how many bits it has (1 to 2^31) [default: 2^28, with --adopt those of the file]
    #[arg(long, value_name = "N")]
    slots: Option<u64>,
    /// Of a Bloom filter: for how many URLs it is meant
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    urls: Option<u64>,
    /// Of a Bloom or growing filter: how many of the new URLs it may call seen [default: 0.001]
    #[arg(long, value_name = "RATE")]
    rate: Option<f64>,
    /// Of a Bloom filter, instead of a rate: bits for each URL (the classic has 16, with 8 probes)
    #[arg(long, value_name = "BITS", conflicts_with = "rate", requires = "probes")]
    bits_per_url: Option<u64>,
    /// How many bits of a URL are set
    #[arg(long, value_name = "N", requires = "bits_per_url")]
    probes: Option<u32>,
    /// Of a Bloom filter: where a URL's bits lie
    #[arg(long, value_enum)]
    layout: Option<Layout>,
    /// Of a Bloom filter: its hash functions [default: xxh3]
    #[arg(long, value_enum)]
    family: Option<Family>,
    /// Of a Bloom or growing filter, or a set on disk: the seed of its hash [default: 0]. Give a secret one where others choose the URLs
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Of a set on disk: how long its fingerprints are. 64 bits take 2 bytes a URL less on disk, and lose more URLs: what is expected is
    /// printed [default: 80]
    #[arg(long, value_name = "BITS", value_parser = fingerprint_bits)]
    fingerprint_bits: Option<FingerprintBits>,
    /// Of a set on disk: a URL is new again at this age (or up to an eighth of it later), as in 90d; nothing is forgotten otherwise
    #[arg(long, value_name = "AGE", value_parser = quantity::duration)]
    max_age: Option<Duration>,
    /// What makes URLs canonical: whatwg, crawl, surt or exact, with rules switched as in crawl,+www,-tracking
    #[arg(long, value_name = "RULES", value_parser = Canonical::parse, default_value = "whatwg")]
    canonical: Canonical,
    /// Take up the bare bits of an MD5 bitmap, or of a filter of functions, that another program made
    #[arg(long)]
    adopt: bool,
}

/// The kinds of sets.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// A bit for each slot of an MD5: the oldest, readable for other programs; errs as it fills
    Md5Bitmap,
    /// A bit for each of the functions of old (--functions): the Bloom filter of C programs, whose bits they go on reading
    HashBitmap,
    /// A Bloom filter: errs at a chosen rate, for a number of URLs that is known
    Bloom,
    /// A filter that grows: errs at a chosen rate, for any number of URLs
    Growing,
    /// All texts, in memory: never errs, can forget and list them
    Trie,
    /// Fingerprints of 80 bits on disk: as good as exact, for a billion URLs and more in little memory; can forget
    Disk,
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

/// Where a URL's bits lie in a Bloom filter.
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
    /// As ap of filters that were made when djb began at 0
    Ap0,
    /// As djb of filters that were made when it began at 0
    Djb0,
}

/// Runs the verb.
pub fn run(args: &Args, shared: &Shared) -> Result<Outcome, Failure> {
    check(args)?;
    let canonicalizer = args.canonical.canonicalizer();
    let made = match args.kind {
        Kind::HashBitmap if args.adopt => {
            StoredSet::adopt_hashed(&args.set, &args.functions, args.slots, &*canonicalizer)
        }
        _ if args.adopt => StoredSet::adopt(&args.set, &*canonicalizer),
        _ => StoredSet::create(&args.set, new_set(args)?, &*canonicalizer),
    };
    let set = made.map_err(|error| match &error {
        Error::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => {
            Failure::Io(format!("cannot make {}: {error}", args.set.display()))
        }
        Error::NotASet { .. } | Error::Unsupported { .. } => Failure::Io(format!("{}: {error}", args.set.display())),
        _ => seen_set::failure(&args.set, error),
    })?;
    tell(&set, &args.set, shared)?;
    set.close().map_err(|error| seen_set::failure(&args.set, error))?;
    Ok(Outcome::Done)
}

/// Refuses options that are another kind's.
fn check(args: &Args) -> Result<(), Failure> {
    let is_bloom = args.kind == Kind::Bloom;
    let is_filter = is_bloom || args.kind == Kind::Growing;
    let is_disk = args.kind == Kind::Disk;
    let is_hashed = args.kind == Kind::HashBitmap;
    if is_hashed && args.functions.is_empty() {
        return Err(Failure::Usage("say which functions with --functions, for instance bkdr,ap,djb".to_owned()));
    }
    let rows = [
        ("--bits", args.bits.is_some(), args.kind == Kind::Md5Bitmap && !args.adopt),
        ("--adopt", args.adopt, args.kind == Kind::Md5Bitmap || is_hashed),
        ("--functions", !args.functions.is_empty(), is_hashed),
        ("--slots", args.slots.is_some(), is_hashed),
        ("--urls", args.urls.is_some(), is_bloom),
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
        Some((option, ..)) => Err(Failure::Usage(format!("{option} says nothing of a set of this kind; leave it out"))),
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
        Kind::Bloom => {
            let Some(urls) = args.urls else {
                let what =
                    "give the number of URLs that are to come with --urls; where nobody knows it, --kind growing";
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

fn tell(set: &StoredSet, path: &Path, shared: &Shared) -> Result<(), Failure> {
    let mut out = Output::stdout(shared.json);
    if out.is_json() {
        out.json(&Value::Object(stat::fields(set, path)?))?;
    } else if !shared.quiet {
        words::say(format_args!("made {}: {}", path.display(), expected(set)));
    }
    out.finish()
}

/// What the set takes, and how often it errs.
fn expected(set: &StoredSet) -> String {
    let (kind, bytes) = (set.kind().name(), size(set.disk_bytes()));
    let rate = stat::rate;
    match set.any() {
        AnySet::Md5Bitmap(bitmap) => {
            let at = |urls| rate(bitmap.theoretical_rate(urls));
            let (low, middle, high) = (at(1_000_000), at(10_000_000), at(100_000_000));
            format!(
                "{kind} of 2^{} slots, {bytes}; errs at {low} with 1 million URLs, {middle} with 10 million, {high} with 100 million",
                bitmap.bits()
            )
        }
        AnySet::HashBitmap(bitmap) => {
            let at = |urls| rate(bitmap.theoretical_rate(urls));
            let (low, middle, high) = (at(1_000_000), at(10_000_000), at(100_000_000));
            format!(
                "{kind} of {} slots, {} functions, {bytes}; errs at {low} with 1 million URLs, {middle} with 10 million, {high} with 100 million",
                bitmap.slots(),
                bitmap.hashes().len()
            )
        }
        AnySet::Bloom(filter) => {
            let ((bits, probes), urls) = (filter.shape(), filter.capacity());
            let each = bits as f64 / urls as f64;
            let full = rate(filter.theoretical_rate(urls));
            format!("{kind}, {bytes}; errs at {full} with {urls} URLs ({each:.1} bits each, {probes} probes)")
        }
        AnySet::Growing(filter) => {
            // Within 1.3 times the bits of a Bloom filter made for just as many.
            let each = 1.3 * std::f64::consts::LOG2_E * -filter.rate().log2();
            let most = rate(filter.rate());
            format!("{kind}; errs at {most} at most, however many URLs come (about {each:.0} bits each)")
        }
        AnySet::Trie(_) => format!("{kind}, in memory while it is used; never errs"),
        AnySet::Disk(disk) => {
            let bits = disk.fingerprint_bits();
            let loss = |urls_per_host| loss(bits.expected_loss(1e9, urls_per_host));
            let age = disk.max_age().map_or(String::new(), |age| format!("; forgets after {}", length(age)));
            format!(
                "{kind}, fingerprints of {} bits; of a billion URLs it loses {} if each host has 1000, {} if one has all{age}",
                bits.bits(),
                loss(1e3),
                loss(1e9)
            )
        }
        _ => kind.to_owned(),
    }
}

/// A length of time, in the largest unit of which it has a whole number.
fn length(age: Duration) -> String {
    let units = [("d", 86_400), ("h", 3_600), ("m", 60)];
    let fits = units.into_iter().find(|(_, seconds)| age.as_secs().is_multiple_of(*seconds));
    let (unit, seconds) = fits.unwrap_or(("s", 1));
    format!("{}{unit}", age.as_secs() / seconds)
}

/// A number of URLs, or what is expected of it.
fn loss(urls: f64) -> String {
    if urls >= 100.0 { format!("{urls:.0}") } else { stat::rate(urls) }
}
