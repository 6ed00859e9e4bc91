//! Sets on Redis: creates, opens and describes them.

use std::path::Path;
use std::sync::Arc;

use fm_cli::canonical::{self, Canonical};
use fm_cli::{Failure, Output, credentials, fields, words};
use serde_json::{Map, Value};
use urlindex::canonical::named;
use urlindex::{Canonicalizer, SeenSet};
use urlindex_redis::{Error, NewRedisSet, RedisOptions, RedisUrlSet, is_location};

use super::sets::{self, rate};
use crate::flags::Shared;

/// The location of a set on Redis; `None` if the path is not one.
pub fn location(path: &Path) -> Option<&str> {
    path.to_str().filter(|text| is_location(text))
}

fn options() -> Result<RedisOptions, Failure> {
    let password = credentials::redis_password()?;
    Ok(password.into_iter().fold(RedisOptions::new(), RedisOptions::password))
}

/// A failure of a set on Redis. An operation that the set does not support is a usage error.
pub fn failure(error: Error) -> Failure {
    match error {
        Error::Location { .. } | Error::Option { .. } => Failure::Usage(error.to_string()),
        _ => Failure::Io(error.to_string()),
    }
}

/// Opens a set, and returns the canonicaliser of its URLs. Fails if another one is asked for.
pub fn open(location: &str, asked: Option<&Canonical>) -> Result<(RedisUrlSet, Arc<dyn Canonicalizer>), Failure> {
    let set = RedisUrlSet::open(location, &options()?).map_err(failure)?;
    let (name, version) = set.rules();
    let unknown = || {
        Failure::Usage(format!("this program does not know the rules {name} version {version} of {}", set.location()))
    };
    let rules = named(name, version).ok_or_else(unknown)?;
    if let Some(other) = asked.map(Canonical::canonicalizer).filter(|other| !sets::is_same(&**other, &*rules)) {
        let (rules, other) = (canonical::words(&*rules), canonical::words(&*other));
        let words = format!("{} has the rules `{rules}`, not `{other}`; leave --canonicalizer out", set.location());
        return Err(Failure::Usage(words));
    }
    Ok((set, rules))
}

/// Creates a set, and prints its expected error rate.
pub fn create(location: &str, new: NewRedisSet, rules: &dyn Canonicalizer, shared: &Shared) -> Result<(), Failure> {
    let set = RedisUrlSet::create(location, new, rules, &options()?).map_err(failure)?;
    let mut out = Output::stdout(shared.flags);
    if out.is_json() {
        out.json(&Value::Object(described(&set)))?;
    } else if !shared.flags.quiet {
        words::say(format_args!("made {}: {}", set.location(), expected(new)));
    }
    out.finish()
}

/// The error rate of the set.
fn expected(new: NewRedisSet) -> String {
    match new {
        NewRedisSet::Exact { urls } => {
            let (bytes, lost) = (new.bytes(urls) as f64 / urls as f64, rate(new.expected_loss(urls)));
            format!("exact, {bytes:.1} bytes a URL; expected loss of {urls} URLs: {lost}")
        }
        NewRedisSet::Bitmap { bits } => {
            let at = |urls| rate(new.false_positive_rate(urls));
            let (low, high) = (at(1_000_000), at(10_000_000));
            format!("bitmap of 2^{bits} bits; false positive rate {low} with 1 million URLs, {high} with 10 million")
        }
        NewRedisSet::Bloom { urls } => {
            let full = rate(new.false_positive_rate(urls));
            format!("Bloom filter of 10 bits a URL; false positive rate {full} with {urls} URLs")
        }
        _ => new.name().to_owned(),
    }
}

/// All fields of a set, as one JSON object.
pub fn described(set: &RedisUrlSet) -> Map<String, Value> {
    let (stats, (name, version)) = (set.stats(), set.rules());
    let rules =
        named(name, version).map_or_else(|| format!("{name} version {version}"), |rules| canonical::words(&*rules));
    let about = fields!(stats;
        path = set.location(), kind = set.kind().name(), canonicalizer = rules, urls, memory_bytes, disk_bytes,
        false_positive_rate, expected_loss,
    );
    let (name, value) = match set.kind() {
        NewRedisSet::Exact { urls } | NewRedisSet::Bloom { urls } => ("capacity", urls),
        NewRedisSet::Bitmap { bits } => ("slots_log2", u64::from(bits)),
        _ => ("capacity", 0),
    };
    let Value::Object(mut about) = about else { return Map::new() };
    about.insert(name.to_owned(), value.into());
    about
}
