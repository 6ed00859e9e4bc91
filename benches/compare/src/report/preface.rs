//! What stands before the figures: the machines, and the engines with their settings; and behind them, the runs with their dates
//! and command lines.

use std::collections::BTreeSet;

use super::data::{Data, Machine};
use super::figures::{CACHED, FILEMAP, LIMIT, PLAIN};
use super::markdown::{Table, count, number, plain};

/// Names that do not say by themselves what they stand for.
const NAMES: [(&str, &str); 4] = [
    (LIMIT, "is no engine but the floor: the same zstd level, an append, and a hash map in memory"),
    (FILEMAP, "has dictionaries"),
    (PLAIN, "has none"),
    (CACHED, "has dictionaries and a page cache of the size of the others' caches"),
];

/// The paragraph and the table of engines.
pub fn preface(data: &Data) -> String {
    let mut engines = Table::new(["engine", "version", "settings", "compression"]);
    for engine in &data.engines {
        engines.row([&engine.engine, &engine.version, &engine.settings, &engine.compression]);
    }
    format!("{}\n\n{}", paragraph(data), if engines.is_empty() { String::new() } else { engines.to_text() })
}

/// When, of which commit and by which command line each run was made.
pub fn runs(data: &Data) -> String {
    let mut runs = Table::new(["run of", "machine", "commit", "command"]);
    for Machine { date, cpu, commit, command, .. } in &data.machines {
        let commit = commit.get(..12).unwrap_or(commit);
        // A backtick would end the code it stands in.
        let command = format!("`{}`", command.replace('`', "'"));
        runs.row([date.as_str(), cpu, if commit.is_empty() { "not recorded" } else { commit }, &command]);
    }
    if runs.is_empty() { "None is known.\n\n".to_owned() } else { runs.to_text() }
}

fn paragraph(data: &Data) -> String {
    let mut sentences = machines(data);
    for name in &data.homeless {
        sentences.push(format!("**{} does not say where it was measured.**", plain(name)));
    }
    sentences.push(sizes(data));
    sentences.push("A figure is the median of its rounds, the best engine's is bold; MB are 10^6 bytes.".to_owned());
    for (name, says) in NAMES {
        if data.engines.iter().any(|engine| engine.engine == name) {
            sentences.push(format!("`{name}` {says}."));
        }
    }
    sentences.join(" ")
}

/// Which set was measured where, and what must not be compared for that.
fn machines(data: &Data) -> Vec<String> {
    let mut places: Vec<(BTreeSet<String>, Vec<&str>)> = Vec::new();
    for set in data.sets() {
        let hosts = data.hosts(set);
        match places.iter_mut().find(|(known, _)| *known == hosts) {
            Some((_, sets)) => sets.push(set),
            None => places.push((hosts, vec![set])),
        }
    }
    let mut sentences = Vec::new();
    for (hosts, sets) in places.iter().filter(|(hosts, _)| !hosts.is_empty()) {
        let hosts: Vec<String> = hosts.iter().map(|host| plain(host)).collect();
        sentences.push(format!("Machine of {}: {}.", sets.join(" and "), hosts.join("; ")));
        if hosts.len() > 1 {
            sentences.push("**These are several machines or kernels: their figures do not compare.**".to_owned());
        }
    }
    if places.len() > 1 && places.iter().all(|(hosts, _)| hosts.len() == 1) {
        sentences.push("Sets of different machines do not compare; engines within a set do.".to_owned());
    }
    sentences
}

fn sizes(data: &Data) -> String {
    let of_set = |set: &&str| {
        let size = data.size(set)?;
        let rounds = match data.rounds_of(set) {
            (1, 1) => "1 round".to_owned(),
            (least, most) if least == most => format!("{most} rounds"),
            (least, most) => format!("{least} to {most} rounds"),
        };
        Some(format!("{set} ({} pages, {} MB, {rounds})", count(size.pages), number(size.raw_bytes as f64 / 1e6)))
    };
    let sets: Vec<String> = data.sets().iter().filter_map(of_set).collect();
    if sets.is_empty() { "No results.".to_owned() } else { format!("Sets: {}.", sets.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::super::synthetic::{data, engine, machine, result};
    use super::*;

    #[test]
    fn the_paragraph_says_machine_and_sets_and_the_table_runs() {
        let data =
            data(&[machine(), engine("lmdb"), engine("filemap"), result("lmdb", "corpus", "warm", &[("per_s", 1.0)])]);
        let text = preface(&data);
        for words in [
            "Machine of corpus: AMD EPYC, 2 cores, 23 GB of memory, Linux 6.18.5, ext4.",
            "corpus (1,000 pages, 20 MB, 1 round)",
            "`filemap` has dictionaries.",
            "| lmdb | lmdb 1.0 | defaults | zstd -3 |",
        ] {
            assert!(text.contains(words), "{words} in {text}");
        }
        assert!(!text.contains("not compare") && !text.contains("filemap-cached"), "{text}");
        let text = runs(&data);
        assert!(text.contains("| 2026-11-21T20:00:00Z | AMD EPYC | abc1234 | `compare run --set corpus` |"), "{text}");
    }

    #[test]
    fn a_file_without_its_machine_is_named() {
        let text = preface(&data(&[result("lmdb", "corpus", "warm", &[("per_s", 1.0)])]));
        assert!(text.contains("**synthetic.jsonl does not say where it was measured.**"), "{text}");
    }

    #[test]
    fn a_set_of_several_machines_is_called_so_and_sets_of_different_ones_otherwise() {
        let other = machine().replace("EPYC", "Ryzen");
        let lines =
            |set| [machine(), result("lmdb", "corpus", "warm", &[]), other.clone(), result("lmdb", set, "warm", &[])];
        let one_set = preface(&data(&lines("corpus")));
        assert!(one_set.contains("**These are several machines"), "{one_set}");
        assert!(!one_set.contains("engines within a set do"), "{one_set}");
        let two_sets = preface(&data(&lines("generated-1m")));
        assert!(!two_sets.contains("several machines"), "{two_sets}");
        assert!(two_sets.contains("Sets of different machines do not compare"), "{two_sets}");
        assert!(two_sets.contains("Machine of generated-1m: AMD Ryzen"), "{two_sets}");
    }
}
