//! `seen stat`: prints the kind of a set, its URLs, size and error rate.

use std::path::{Path, PathBuf};

use fm_cli::{Failure, Outcome, Output, canonical, fields, plain, sizes};
use serde_json::{Map, Value, json};
use urlindex::SeenSet;
use urlindex::stored::{AnySet, StoredSet};

use crate::flags::Shared;
use crate::verbs::seen::sets::rate;
use crate::verbs::seen::{redis, sets};

/// Print the kind, size and error rate of a set
#[derive(clap::Args)]
#[command(
    after_help = "false_positive_rate is the share of new URLs that it would call seen now; expected_loss is how many it has called seen so \
    far. The set is read and checked as a whole, a set on disk only in its indexes and log; `add` and `check` print at their end how \
    many tests its table and cache answered, and the bytes read and written. Another process may be adding to it.\n\n\
    Example:\n  fm-tool seen stat seen.bloom --json"
)]
pub struct Args {
    /// The set's file
    set: PathBuf,
}

/// Runs the verb.
pub fn run(args: &Args, shared: &Shared) -> Result<Outcome, Failure> {
    let fields = match redis::location(&args.set) {
        Some(location) => redis::described(&redis::open(location, None)?.0),
        None => fields(&sets::to_read(&args.set)?, &args.set)?,
    };
    let mut out = Output::stdout(shared.flags);
    if out.is_json() {
        out.json(&Value::Object(fields))?;
    } else {
        let width = fields.keys().map(String::len).max().unwrap_or(0);
        for (name, value) in &fields {
            out.line(format!("{name:width$}  {}", shown(name, value)))?;
        }
    }
    out.end(Outcome::Done)
}

/// All fields, as one JSON object.
pub fn fields(set: &StoredSet, path: &Path) -> Result<Map<String, Value>, Failure> {
    let noted = set.canonicalizer().map_err(|error| sets::failure(path, error))?;
    let stats = set.stats();
    let about = fields!(stats;
        path = path.display().to_string(), kind = set.kind().name(),
        canonicalizer = noted.map(|noted| canonical::words(&*noted)), urls, memory_bytes, disk_bytes,
        false_positive_rate, expected_loss,
    );
    let parameters = match set.any() {
        AnySet::Md5Bitmap(bitmap) => json!({ "slots": 1_u64 << bitmap.bits(), "slots_log2": bitmap.bits() }),
        AnySet::HashBitmap(bitmap) => {
            let functions: Vec<&str> = bitmap.hashes().iter().map(|hash| hash.name()).collect();
            json!({ "slots": bitmap.slots(), "functions": functions.join(",") })
        }
        AnySet::Bloom(filter) => {
            let ((bits, probes), (family, seed)) = (filter.shape(), filter.hashing());
            json!({
                "capacity": filter.capacity(),
                "rate_at_capacity": filter.theoretical_rate(filter.capacity()),
                "bits": bits,
                "probes": probes,
                "layout": filter.layout().name(),
                "family": family.name(),
                "seed": seed,
                "known_false_positives": filter.known_false_positives(),
            })
        }
        AnySet::Disk(disk) => {
            let (age, about) = (disk.max_age(), disk.disk_stats());
            json!({
                "fingerprint_bits": disk.fingerprint_bits().bits(),
                "seed": disk.seed(),
                "max_age_ms": age.map(|age| age.as_millis() as u64),
                "ahead_ms": age.map(|_| about.ahead_ms),
                "runs": about.runs,
                "disk_bytes_per_url": (stats.urls > 0).then(|| stats.disk_bytes as f64 / stats.urls as f64),
            })
        }
        AnySet::Growing(filter) => json!({ "rate": filter.rate(), "seed": filter.seed() }),
        _ => json!({}),
    };
    // URLs that the set's server has answered and that are not in the set's files yet.
    let waiting = if set.waiting() > 0 { json!({ "waiting": set.waiting() }) } else { json!({}) };
    let objects = [about, parameters, waiting].into_iter().filter_map(|value| match value {
        Value::Object(fields) => Some(fields),
        _ => None,
    });
    Ok(objects.flatten().collect())
}

fn shown(name: &str, value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => plain(text.as_bytes()),
        Value::Number(number) => match (number.as_u64(), number.as_f64()) {
            (Some(bytes), _) if name.ends_with("_bytes") && bytes >= 1000 => {
                format!("{bytes} ({})", sizes::print(bytes))
            }
            (Some(whole), _) => whole.to_string(),
            (None, Some(loss)) if name == "expected_loss" && loss >= 100.0 => format!("{loss:.0}"),
            (None, Some(number)) => rate(number),
            _ => number.to_string(),
        },
        other => other.to_string(),
    }
}
