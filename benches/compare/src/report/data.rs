//! The raw results as read from their files: one JSON object a line, every line understood or refused with its place.
//!
//! A kind, engine or workload that nobody knows is an error and not skipped: a figure that silently fell out of the
//! report would look like one that was never lost. Rounds of the same engine and workload are gathered, from whichever
//! file they come.

use std::collections::{BTreeMap, BTreeSet};

use filemap_benches::drive::Outcome;
use serde::Deserialize;

use super::figures::{ENGINES, FIO, Figure, concerns, engine_of, figure, is_engine, is_stage, others, workload_of};
use super::markdown::number;

/// Where and how a file's results were measured.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Machine {
    /// When, as RFC 3339.
    pub date: String,
    /// The processor.
    pub cpu: String,
    /// Its cores.
    pub cores: u32,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// The kernel's version.
    pub kernel: String,
    /// The stores' file system.
    pub file_system: String,
    /// The commit of FileMap, or nothing.
    pub commit: String,
    /// The command line.
    pub command: String,
}

impl Machine {
    /// The machine itself, whichever run it was: results of two hosts do not compare.
    pub fn host(&self) -> String {
        let memory = number(self.memory_bytes as f64 / 1e9);
        let Machine { cpu, cores, kernel, file_system, .. } = self;
        format!("{cpu}, {cores} cores, {memory} GB of memory, Linux {kernel}, {file_system}")
    }
}

/// What stood in the comparison, and how.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Engine {
    /// Its name.
    pub engine: String,
    /// Versions of the store and of what binds it.
    pub version: String,
    /// Settings that differ from the defaults.
    pub settings: String,
    /// Who compresses, and how.
    pub compression: String,
}

/// What an engine cannot do.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Skipped {
    /// The engine.
    pub engine: String,
    /// The set.
    pub set: String,
    /// The workload.
    pub workload: String,
    /// The reason.
    pub why: String,
}

/// A wrong or missing answer, or a run that broke off.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Failure {
    /// The engine.
    pub engine: String,
    /// The set.
    pub set: String,
    /// The workload.
    pub workload: String,
    /// What was wrong.
    pub what: String,
}

#[derive(Debug, Deserialize)]
struct Sample {
    engine: String,
    set: String,
    pages: u64,
    raw_bytes: u64,
    workload: String,
    round: u32,
    figures: BTreeMap<String, f64>,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Line {
    Machine(Machine),
    Engine(Engine),
    Result(Sample),
    Skipped(Skipped),
    Failure(Failure),
}

/// The rounds of one figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rounds {
    /// The middle one, or the mean of the middle two.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// How many.
    pub count: usize,
}

impl Rounds {
    /// Of some values; none has no rounds.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let (below, above) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
        Some(Self { median: f64::midpoint(below, above), min, max, count: sorted.len() })
    }

    /// From the smallest to the largest, by the median; nothing if that is zero.
    pub fn spread(&self) -> Option<f64> {
        (self.median != 0.0).then(|| (self.max - self.min) / self.median.abs())
    }

    /// Could the order of the two be chance? Only several rounds can tell.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.count > 1 && other.count > 1 && self.min <= other.max && other.min <= self.max
    }
}

/// Everything that was read.
#[derive(Debug, Default, PartialEq)]
pub struct Data {
    /// One a file, in the order of the files.
    pub machines: Vec<Machine>,
    /// In the order of tables; several of one name only if they differ.
    pub engines: Vec<Engine>,
    /// What was left out.
    pub skipped: Vec<Skipped>,
    /// What went wrong.
    pub failures: Vec<Failure>,
    /// Files that do not say where they were measured.
    pub homeless: Vec<String>,
    sets: Vec<String>,
    values: BTreeMap<Key, BTreeMap<String, Vec<f64>>>,
    sizes: BTreeMap<(usize, &'static str), Size>,
    /// By set, places in `machines` of the runs that gave its results.
    runs: BTreeMap<usize, BTreeSet<usize>>,
}

/// Set (by its place in `sets`), engine, workload.
type Key = (usize, &'static str, &'static str);

/// What an engine was given of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Pages.
    pub pages: u64,
    /// Their bodies' bytes.
    pub raw_bytes: u64,
}

impl Data {
    /// Takes in a file's text; its name is for the errors.
    ///
    /// # Errors
    /// A line that is no JSON object of a known kind, engine, set and workload.
    pub fn read(&mut self, name: &str, text: &str) -> Outcome<()> {
        let before = self.machines.len();
        for (number, line) in text.lines().enumerate() {
            if line.trim().is_empty() {
                continue;
            }
            let at = format!("{name}:{}", number + 1);
            let line: Line = serde_json::from_str(line)
                .map_err(|error| format!("{at}: {error}; it should be a line as `compare run` writes them"))?;
            let of_set = self.take(line).map_err(|why| format!("{at}: {why}"))?;
            if let (Some(set), true) = (of_set, self.machines.len() > before) {
                self.runs.entry(set).or_default().insert(self.machines.len() - 1);
            }
        }
        if self.machines.len() == before {
            self.homeless.push(name.to_owned());
        }
        Ok(())
    }

    /// The place of the set whose result it was.
    fn take(&mut self, line: Line) -> Result<Option<usize>, String> {
        match line {
            Line::Machine(machine) if self.machines.contains(&machine) => {
                return Err(format!("the run of {} is there already: give each file once", machine.date));
            }
            Line::Machine(machine) => self.machines.push(machine),
            Line::Engine(engine) => {
                known_engine(&engine.engine)?;
                if !self.engines.contains(&engine) {
                    self.engines.push(engine);
                    let place = |engine: &Engine| ENGINES.iter().position(|name| *name == engine.engine);
                    self.engines.sort_by_key(place);
                }
            }
            Line::Result(sample) => return self.take_sample(sample).map(Some),
            Line::Skipped(skipped) => {
                self.names(&skipped.engine, &skipped.set)?;
                known_stage(&skipped.workload)?;
                self.skipped.push(skipped);
            }
            Line::Failure(failure) => {
                self.names(&failure.engine, &failure.set)?;
                known_stage(&failure.workload)?;
                self.failures.push(failure);
            }
        }
        Ok(None)
    }

    fn take_sample(&mut self, sample: Sample) -> Result<usize, String> {
        let (set, engine) = self.names(&sample.engine, &sample.set)?;
        let workload = workload_of(&sample.workload).ok_or_else(|| unknown_workload(&sample.workload))?;
        if sample.round == 0 {
            return Err(format!("round 0 of {}: they count from 1", sample.workload));
        }
        let size = Size { pages: sample.pages, raw_bytes: sample.raw_bytes };
        let known = *self.sizes.entry((set, engine)).or_insert(size);
        if known != size {
            return Err(format!(
                "{engine} has {} pages of {} here and {} before: results of different sets cannot be put together",
                size.pages, sample.set, known.pages
            ));
        }
        let rounds = self.values.entry((set, engine, workload)).or_default();
        for (figure, value) in sample.figures {
            rounds.entry(figure).or_default().push(value);
        }
        Ok(set)
    }

    /// The set's place, and the engine's name as a constant.
    fn names(&mut self, engine: &str, set: &str) -> Result<(usize, &'static str), String> {
        let engine = known_engine(engine)?;
        if order_of(set).is_none() {
            return Err(format!("unknown set {set:?}: it is corpus or generated-N, with N as 1m, 10m or a count"));
        }
        let place = self.sets.iter().position(|known| known == set).unwrap_or_else(|| {
            self.sets.push(set.to_owned());
            self.sets.len() - 1
        });
        Ok((place, engine))
    }

    /// The sets that have results: the corpus, then the generated ones by their size.
    pub fn sets(&self) -> Vec<&str> {
        let mut places: Vec<usize> = self.sizes.keys().map(|(set, _)| *set).collect();
        places.sort_by_key(|place| order_of(&self.sets[*place]));
        places.dedup();
        places.into_iter().map(|place| self.sets[place].as_str()).collect()
    }

    /// The machines that a set's results are of, as far as their files say it.
    pub fn hosts(&self, set: &str) -> BTreeSet<String> {
        let place = self.sets.iter().position(|known| known == set);
        let runs = place.and_then(|place| self.runs.get(&place)).into_iter().flatten();
        runs.map(|run| self.machines[*run].host()).collect()
    }

    /// The rounds of a figure by its raw name, in raw units.
    pub fn raw(&self, set: &str, engine: &str, workload: &str, name: &str) -> Option<Rounds> {
        let set = self.sets.iter().position(|known| known == set)?;
        Rounds::of(self.values.get(&(set, engine, workload))?.get(name)?)
    }

    /// The rounds of a ranked figure, in raw units.
    pub fn rounds(&self, set: &str, engine: &str, figure: &Figure) -> Option<Rounds> {
        self.raw(set, engine, figure.workload, figure.name)
    }

    /// The median of a ranked figure, in raw units.
    pub fn median(&self, set: &str, engine: &str, workload: &str, name: &str) -> Option<f64> {
        self.rounds(set, engine, figure(workload, name)).map(|rounds| rounds.median)
    }

    /// The best median among what a user could pick instead of ours, and whose it is.
    pub fn best_other(&self, set: &str, workload: &str, name: &str) -> Option<(&'static str, f64)> {
        let better = figure(workload, name).better;
        let all = others().filter_map(|engine| Some((engine, self.median(set, engine, workload, name)?)));
        all.reduce(|best, next| if better.ahead(next.1, best.1) { next } else { best })
    }

    /// The best median among all engines, if there are two to choose from.
    pub fn best(&self, set: &str, figure: &Figure) -> Option<f64> {
        let engines = ENGINES.into_iter().filter(|engine| is_engine(engine));
        let all: Vec<f64> = engines.filter_map(|e| Some(self.rounds(set, e, figure)?.median)).collect();
        if all.len() < 2 { None } else { figure.better.best(all.into_iter()) }
    }

    /// What the set is: the most that any engine was given of it.
    pub fn size(&self, set: &str) -> Option<Size> {
        let place = self.sets.iter().position(|known| known == set)?;
        let of_set = self.sizes.iter().filter(|((set, _), _)| *set == place);
        of_set.map(|(_, size)| *size).max_by_key(|size| size.pages)
    }

    /// How many pages an engine was given, if fewer than the set has.
    pub fn fewer_pages(&self, set: &str, engine: &str) -> Option<u64> {
        let place = self.sets.iter().position(|known| known == set)?;
        let pages = self.sizes.get(&(place, engine))?.pages;
        (pages < self.size(set)?.pages).then_some(pages)
    }

    /// The fewest and the most rounds of any engine's workload of the set.
    pub fn rounds_of(&self, set: &str) -> (usize, usize) {
        let place = self.sets.iter().position(|known| known == set);
        let of_set = self.values.iter().filter(|((set, engine, _), _)| Some(*set) == place && *engine != FIO);
        let counts = of_set.flat_map(|(_, figures)| figures.values().map(Vec::len));
        let (least, most) = counts.fold((usize::MAX, 0), |(least, most), n| (least.min(n), most.max(n)));
        (least.min(most), most)
    }

    /// Did an engine answer wrongly there?
    pub fn failed(&self, set: &str, engine: &str, workload: &str) -> bool {
        self.failures.iter().any(|f| f.set == set && f.engine == engine && concerns(&f.workload, workload))
    }
}

fn known_engine(name: &str) -> Result<&'static str, String> {
    engine_of(name).ok_or_else(|| format!("unknown engine {name:?}: correct it or add it to ENGINES"))
}

fn known_stage(name: &str) -> Result<(), String> {
    if is_stage(name) { Ok(()) } else { Err(unknown_workload(name)) }
}

fn unknown_workload(name: &str) -> String {
    format!("unknown workload {name:?}: correct it or add it to WORKLOADS")
}

/// The corpus, then the generated ones by their pages; nothing for a name that is none of them.
fn order_of(set: &str) -> Option<u64> {
    if set == "corpus" {
        return Some(0);
    }
    let count = set.strip_prefix("generated-")?;
    let (digits, unit) = match count.as_bytes().last()? {
        b'k' => (&count[..count.len() - 1], 1_000),
        b'm' => (&count[..count.len() - 1], 1_000_000),
        _ => (count, 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::super::synthetic::{machine, result};
    use super::*;

    fn read(text: &str) -> Outcome<Data> {
        let mut data = Data::default();
        data.read("a.jsonl", text)?;
        Ok(data)
    }

    fn refused(text: &str) -> String {
        read(text).expect_err("this must be refused").to_string()
    }

    #[test]
    fn medians_are_the_middle_or_the_mean_of_the_middle_two() {
        let of = |values: &[f64]| Rounds::of(values).map(|rounds| rounds.median);
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(of(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        let rounds = Rounds::of(&[90.0, 110.0, 100.0]).expect("three");
        assert_eq!((rounds.min, rounds.max, rounds.count, rounds.spread()), (90.0, 110.0, 3, Some(0.2)));
    }

    #[test]
    fn rounds_are_gathered_from_all_files() {
        let mut data = Data::default();
        for (file, per_s) in [("a", 10.0), ("b", 30.0), ("c", 20.0)] {
            data.read(file, &result("lmdb", "corpus", "warm", &[("per_s", per_s)])).expect("a good line");
        }
        assert_eq!(data.median("corpus", "lmdb", "warm", "per_s"), Some(20.0));
        assert_eq!(data.rounds_of("corpus"), (3, 3));
    }

    #[test]
    fn a_set_is_of_the_machines_whose_files_have_its_results() {
        let of = |machine: String, set| [machine, result("lmdb", set, "warm", &[("per_s", 1.0)])].join("\n");
        let mut data = Data::default();
        data.read("a", &of(machine(), "corpus")).expect("good lines");
        data.read("b", &of(machine().replace("EPYC", "Ryzen"), "generated-1m")).expect("good lines");
        data.read("c", &result("lmdb", "generated-1m", "warm", &[("per_s", 1.0)])).expect("a good line");
        let hosts = |set| data.hosts(set).into_iter().collect::<Vec<_>>();
        assert_eq!(hosts("corpus"), ["AMD EPYC, 2 cores, 23 GB of memory, Linux 6.18.5, ext4"]);
        assert_eq!(hosts("generated-1m"), ["AMD Ryzen, 2 cores, 23 GB of memory, Linux 6.18.5, ext4"]);
        assert_eq!(hosts("generated-10m"), [""; 0]);
    }

    #[test]
    fn an_unknown_line_is_refused_with_its_file_and_line() {
        let good = result("lmdb", "corpus", "warm", &[("per_s", 1.0)]);
        let error = refused(&format!("{good}\n\n{{\"kind\":\"guess\"}}\n"));
        assert!(error.starts_with("a.jsonl:3: unknown variant `guess`"), "{error}");
        let error = refused("not json");
        assert!(error.starts_with("a.jsonl:1: "), "{error}");
        let error = refused(&result("oracle", "corpus", "warm", &[]));
        assert!(error.starts_with("a.jsonl:1: unknown engine \"oracle\""), "{error}");
        let error = refused(&result("lmdb", "corpus", "sleep", &[]));
        assert!(error.starts_with("a.jsonl:1: unknown workload \"sleep\""), "{error}");
        let error = refused(&result("lmdb", "other", "warm", &[]));
        assert!(error.starts_with("a.jsonl:1: unknown set \"other\""), "{error}");
    }

    #[test]
    fn a_failure_may_be_laid_to_a_whole_turn() {
        let line = r#"{"kind":"failure","engine":"lmdb","set":"corpus","workload":"turn","what":"killed"}"#;
        let data = read(line).expect("a good line");
        assert!(data.failed("corpus", "lmdb", "warm") && !data.failed("corpus", "redb", "warm"));
        assert!(refused(&line.replace("\"turn\"", "\"sleep\"")).contains("unknown workload"));
    }

    #[test]
    fn a_file_given_twice_is_refused() {
        let error = refused(&format!("{0}\n{0}", machine()));
        assert!(error.contains("give each file once"), "{error}");
    }

    #[test]
    fn one_engine_cannot_have_two_sizes_of_a_set() {
        let line = result("lmdb", "corpus", "warm", &[]);
        let other = line.replace("\"pages\":1000", "\"pages\":999");
        assert!(refused(&format!("{line}\n{other}")).contains("999 pages of corpus here and 1000 before"));
    }

    #[test]
    fn sets_stand_by_their_size() {
        let sets = ["generated-10m", "generated-5000", "corpus", "generated-1m"];
        let lines: Vec<String> = sets.iter().map(|set| result("lmdb", set, "warm", &[])).collect();
        let data = read(&lines.join("\n")).expect("good lines");
        assert_eq!(data.sets(), ["corpus", "generated-5000", "generated-1m", "generated-10m"]);
    }
}
