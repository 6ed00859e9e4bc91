//! The device at each depth: fio's random reads past the page cache, of FileMap's mean bytes a
//! get, on its value segments.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use filemap_benches::drive::Outcome;
use serde_json::Value;

use crate::measure::lines::{Figures, put};
use crate::turn::Turn;

const ENGINES: [&str; 2] = ["io_uring", "libaio"];
const SECONDS: u32 = 3;
const BLOCK: u64 = 4096;

/// All depths; skipped with the reason where fio cannot run.
pub fn run(turn: &mut Turn<'_>, depths: &[usize], bytes_a_get: Option<f64>) -> Outcome<()> {
    let skipped = |why: &str| turn.lines.skipped_of("fio", "depth", why);
    let Some(bytes) = bytes_a_get.filter(|bytes| *bytes > 0.0) else {
        return skipped("the device's counters do not say how much a get reads");
    };
    if Command::new("fio").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
        return skipped("the program fio is not there");
    }
    let block = (bytes as u64).div_ceil(BLOCK) * BLOCK;
    let files = value_files(&turn.dir, block)?;
    if files.is_empty() {
        return skipped("no value segment is as long as one read");
    }
    let mut figures = Figures::new();
    put(&mut figures, "block_bytes", block as f64);
    for depth in depths {
        match ENGINES.iter().find_map(|engine| reads_per_s(engine, &files, block, *depth)) {
            Some(reads) => put(&mut figures, format!("fio_{depth}"), reads),
            None => return skipped("fio failed, with io_uring and with libaio"),
        }
    }
    turn.lines.result_of("fio", "depth", figures)
}

/// The value segments that are longer than one read.
fn value_files(dir: &Path, block: u64) -> Outcome<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with("value") && entry.metadata()?.len() > block {
            files.push(entry.path());
        }
    }
    files.sort();
    Ok(files)
}

fn reads_per_s(engine: &str, files: &[PathBuf], block: u64, depth: usize) -> Option<f64> {
    // A colon parts the names of files and must be escaped within one.
    let names: Vec<String> = files.iter().map(|file| file.to_string_lossy().replace(':', "\\:")).collect();
    let output = Command::new("fio")
        .args(["--name=reads", "--rw=randread", "--direct=1", "--readonly", "--time_based", "--output-format=json"])
        .args(["--norandommap", "--random_generator=tausworthe64", "--file_service_type=random"])
        .arg(format!("--filename={}", names.join(":")))
        .args([format!("--bs={block}"), format!("--ioengine={engine}"), format!("--iodepth={depth}")])
        .arg(format!("--runtime={SECONDS}"))
        .stderr(Stdio::null())
        .output()
        .ok()?;
    if output.status.success() { parse(&output.stdout) } else { None }
}

/// Reads a second from fio's JSON, before which it may print notes.
fn parse(output: &[u8]) -> Option<f64> {
    let start = output.iter().position(|byte| *byte == b'{')?;
    let json: Value = serde_json::from_slice(&output[start..]).ok()?;
    json["jobs"][0]["read"]["iops"].as_f64().filter(|iops| *iops > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_second_come_from_the_first_job() {
        let text = b"note: both\n{\"jobs\": [{\"read\": {\"iops\": 1234.5}}]}";
        assert_eq!(parse(text), Some(1234.5));
        assert_eq!(parse(b"{\"jobs\": []}"), None);
        assert_eq!(parse(b"fio: no such engine"), None);
    }
}
