//! What stands before the figures: the machine, the runs with their dates and command lines, and the engines with their
//! settings.

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

fn paragraph(data: &Data) -> String {
    let mut hosts: Vec<(String, Vec<&Machine>)> = Vec::new();
    for machine in &data.machines {
        let host = host(machine);
        match hosts.iter_mut().find(|(known, _)| *known == host) {
            Some((_, runs)) => runs.push(machine),
            None => hosts.push((host, vec![machine])),
        }
    }
    let mut sentences = Vec::new();
    for (host, runs) in &hosts {
        sentences.push(format!("Machine: {host}."));
        let runs: Vec<String> = runs.iter().map(|run| run_words(run)).collect();
        sentences.push(format!("Runs: {}.", runs.join("; ")));
    }
    for name in &data.homeless {
        sentences.push(format!("**{} does not say where it was measured.**", plain(name)));
    }
    if hosts.len() > 1 {
        sentences.push("**These runs are of different machines or kernels: their figures do not compare.**".to_owned());
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

fn host(machine: &Machine) -> String {
    let memory = number(machine.memory_bytes as f64 / 1e9);
    plain(&format!(
        "{}, {} cores, {memory} GB of memory, Linux {}, {}",
        machine.cpu, machine.cores, machine.kernel, machine.file_system
    ))
}

fn run_words(machine: &Machine) -> String {
    let commit = match machine.commit.as_str() {
        "" => "a commit that was not recorded".to_owned(),
        commit => format!("commit {}", commit.get(..12).unwrap_or(commit)),
    };
    // A backtick would end the code it stands in.
    let command = machine.command.replace('`', "'");
    plain(&format!("{}, {commit}, `{command}`", machine.date))
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
    fn the_paragraph_says_machine_runs_and_sets() {
        let text = preface(&data(&[
            machine(),
            engine("lmdb"),
            engine("filemap"),
            result("lmdb", "corpus", "warm", &[("per_s", 1.0)]),
        ]));
        for words in [
            "AMD EPYC, 2 cores, 23 GB of memory, Linux 6.18.5, ext4",
            "2026-11-21T20:00:00Z, commit abc1234, `compare run --set corpus`",
            "corpus (1,000 pages, 20 MB, 1 round)",
            "`filemap` has dictionaries.",
            "| lmdb | lmdb 1.0 | defaults | zstd -3 |",
        ] {
            assert!(text.contains(words), "{words} in {text}");
        }
        assert!(!text.contains("do not compare") && !text.contains("filemap-cached"), "{text}");
    }

    #[test]
    fn a_file_without_its_machine_is_named() {
        let text = preface(&data(&[result("lmdb", "corpus", "warm", &[("per_s", 1.0)])]));
        assert!(text.contains("**synthetic.jsonl does not say where it was measured.**"), "{text}");
    }

    #[test]
    fn runs_of_different_machines_are_called_so() {
        let other = machine().replace("EPYC", "Ryzen");
        let text = preface(&data(&[machine(), other]));
        assert!(text.contains("different machines"), "{text}");
    }
}
