//! `dictionaries`: bytes and speed by dictionary size, level, training set and grouping, on the
//! corpus.

use std::path::PathBuf;
use std::time::Instant;

use clap::{Args, ValueEnum};
use filemap_benches::corpus::Corpus;
use filemap_benches::dictionaries::{Dictionaries, Grouping, Making, Sample, Settings};
use filemap_benches::drive::Outcome;
use filemap_benches::report::Report;
use zstd::zstd_safe::DictAttachPref;

/// Arguments of `fm-bench dictionaries`.
#[derive(Args)]
pub struct DictionariesArgs {
    /// Directory of the corpus (made by benches/corpus.sh)
    #[arg(long)]
    corpus: PathBuf,
    /// Measure with one page in this many, train on as many others
    #[arg(long, default_value_t = 8)]
    step: u64,
    /// The tables to fill [default: all]
    #[arg(long, value_enum)]
    table: Vec<Table>,
}

/// The varied parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Table {
    /// The dictionary's size, by how it is made and for whom
    Sizes,
    /// The level
    Levels,
    /// Number of pages it is made of
    Samples,
    /// Copying or attaching a digested dictionary
    Attach,
    /// Content of the frame's header
    Frames,
    /// Pages in folders, hosts and all together
    Groups,
    /// Sizes around those at which zstd changes its tables
    Steps,
    /// Metas: headers of responses, made up
    Metas,
}

struct Trials<'a> {
    corpus: &'a Corpus,
    step: u64,
    report: Report,
}

const KIB: usize = 1 << 10;

impl Trials<'_> {
    fn samples(&mut self, grouping: Grouping) -> Outcome<(Sample, Sample)> {
        let train = Sample::of(self.corpus, 0, self.step, grouping);
        let mut test = Sample::of(self.corpus, self.step / 2, self.step, grouping);
        let (compress_mbps, expand_mbps) = test.gzip()?;
        self.report.note("gzip -6", format!("{compress_mbps:.0} MB/s in {expand_mbps:.0} MB/s out"));
        Ok((train, test))
    }

    fn row(&mut self, name: String, test: &Sample, with: &Dictionaries, set: Settings) -> Outcome<()> {
        let m = test.measure(with, set)?;
        let gzip = test.gzip_bytes.iter().sum::<u64>() as f64;
        let (count, bytes) = with.size();
        let row = format!(
            "{:.4} of gzip -6  {:6.0} MB/s in  {:6.0} MB/s out  {count} of {} KiB, digested {} KiB",
            m.bytes as f64 / gzip,
            m.compress_mbps,
            m.expand_mbps,
            bytes / KIB,
            m.digest_bytes as usize / KIB
        );
        eprintln!("{name}: {row}");
        self.report.note(name, row);
        Ok(())
    }

    fn sizes(&mut self) -> Outcome<()> {
        for grouping in [Grouping::Global, Grouping::Host] {
            let (train, test) = self.samples(grouping)?;
            for making in [Making::Trained, Making::Pages, Making::Both] {
                for kib in [32, 64, 110, 256, 512, 1024, 2048, 4096] {
                    let start = Instant::now();
                    let made = train.dictionaries(making, kib * KIB, usize::MAX, 1)?;
                    let s = start.elapsed().as_secs_f64();
                    for level in [3, 9] {
                        let test = if level > 3 { test.thinned(4) } else { test.thinned(1) };
                        let name = format!("{grouping:?} {making:?} {kib} KiB level {level} (made in {s:.1} s)");
                        self.row(name, &test, &made, Settings::level(level))?;
                    }
                }
            }
        }
        Ok(())
    }

    fn levels(&mut self) -> Outcome<()> {
        let (train, test) = self.samples(Grouping::Host)?;
        // The slowest take minutes with all pages.
        let few = test.thinned(8);
        for level in [1, 3, 5, 6, 7, 9, 12, 15, 19] {
            self.row(format!("none level {level}"), &few, &Dictionaries::none(), Settings::level(level))?;
            for (making, kib) in [(Making::Trained, 110), (Making::Trained, 512), (Making::Both, 1024)] {
                let made = train.dictionaries(making, kib * KIB, usize::MAX, 1)?;
                let name = format!("Host {making:?} {kib} KiB level {level}");
                self.row(name, &few, &made, Settings::level(level))?;
            }
        }
        Ok(())
    }

    fn numbers(&mut self) -> Outcome<()> {
        let (train, test) = self.samples(Grouping::Host)?;
        for pages in [10, 30, 100, 300, 1000] {
            for (making, kib) in [(Making::Trained, 110), (Making::Trained, 512), (Making::Both, 512)] {
                let start = Instant::now();
                let made = train.dictionaries(making, kib * KIB, pages, 1)?;
                let s = start.elapsed().as_secs_f64();
                let name = format!("Host {making:?} {kib} KiB of {pages} pages (made in {s:.1} s)");
                self.row(name, &test, &made, Settings::level(3))?;
            }
        }
        Ok(())
    }

    /// The same for the dictionary of all keys.
    fn global_numbers(&mut self) -> Outcome<()> {
        let (train, test) = self.samples(Grouping::Global)?;
        for pages in [250, 850, 2000] {
            for (making, kib) in
                [(Making::Trained, 512), (Making::Both, 512), (Making::Trained, 1024), (Making::Both, 1024)]
            {
                let start = Instant::now();
                let made = train.dictionaries(making, kib * KIB, pages, 1)?;
                let s = start.elapsed().as_secs_f64();
                let name = format!("Global {making:?} {kib} KiB of {pages} pages (made in {s:.2} s)");
                self.row(name, &test, &made, Settings::level(3))?;
            }
        }
        Ok(())
    }

    fn attach(&mut self) -> Outcome<()> {
        let (train, test) = self.samples(Grouping::Host)?;
        for kib in [110, 512, 1024] {
            let made = train.dictionaries(Making::Trained, kib * KIB, usize::MAX, 1)?;
            for level in [3, 6, 9] {
                for attach in [DictAttachPref::DefaultAttach, DictAttachPref::ForceAttach, DictAttachPref::ForceCopy] {
                    let settings = Settings { attach, ..Settings::level(level) };
                    let name = format!("Host Trained {kib} KiB level {level} {attach:?}");
                    self.row(name, &test, &made, settings)?;
                }
            }
        }
        Ok(())
    }

    fn frames(&mut self) -> Outcome<()> {
        let (train, test) = self.samples(Grouping::Host)?;
        let made = train.dictionaries(Making::Trained, 110 * KIB, usize::MAX, 1)?;
        let short = Settings::level(3);
        let all = [
            ("shortest", short),
            ("with magic", Settings { magicless: false, ..short }),
            ("with dictionary id", Settings { dictionary_id: true, ..short }),
            ("with content size", Settings { content_size: true, ..short }),
            ("with all", Settings { magicless: false, dictionary_id: true, content_size: true, ..short }),
        ];
        for (name, settings) in all {
            self.row(format!("Host Trained 110 KiB {name}"), &test, &made, settings)?;
        }
        Ok(())
    }

    fn steps(&mut self) -> Outcome<()> {
        let (train, test) = self.samples(Grouping::Host)?;
        for kib in [100, 126, 130, 254, 258] {
            let made = train.dictionaries(Making::Both, kib * KIB, usize::MAX, 1)?;
            for level in [3, 9] {
                let name = format!("Host Both {kib} KiB level {level}");
                self.row(name, &test, &made, Settings::level(level))?;
            }
        }
        Ok(())
    }

    fn metas(&mut self) -> Outcome<()> {
        let (train, mut test) = (Sample::of_headers(4000, 0), Sample::of_headers(4000, 4000));
        test.gzip()?;
        self.report.number("mean meta", test.bytes() as f64 / test.pages.len() as f64, "B");
        for level in [1, 3, 9] {
            let none = format!("none level {level}");
            self.row(none, &test, &Dictionaries::none(), Settings { magicless: false, ..Settings::level(level) })?;
            for kib in [1, 4, 16, 64] {
                for making in [Making::Trained, Making::Pages] {
                    let made = train.dictionaries(making, kib * KIB, 1000, usize::MAX)?;
                    let name = format!("Global {making:?} {kib} KiB level {level}");
                    self.row(name, &test, &made, Settings { magicless: false, ..Settings::level(level) })?;
                }
            }
        }
        Ok(())
    }

    fn groups(&mut self) -> Outcome<()> {
        for grouping in [Grouping::Global, Grouping::Host, Grouping::Folder] {
            let (train, test) = self.samples(grouping)?;
            for kib in [110, 512] {
                let made = train.dictionaries(Making::Trained, kib * KIB, usize::MAX, 60)?;
                let name = format!("{grouping:?} Trained {kib} KiB level 3");
                self.row(name, &test, &made, Settings::level(3))?;
            }
        }
        Ok(())
    }
}

pub fn run(args: &DictionariesArgs) -> Outcome<Report> {
    let corpus = Corpus::load(&args.corpus)?;
    let mut trials = Trials { corpus: &corpus, step: args.step, report: Report::default() };
    let wanted = |table| args.table.is_empty() || args.table.contains(&table);
    for table in Table::value_variants() {
        if wanted(*table) {
            trials.report.section(format!("{table:?}"));
            match table {
                Table::Sizes => trials.sizes()?,
                Table::Levels => trials.levels()?,
                Table::Samples => trials.numbers().and_then(|()| trials.global_numbers())?,
                Table::Attach => trials.attach()?,
                Table::Frames => trials.frames()?,
                Table::Groups => trials.groups()?,
                Table::Steps => trials.steps()?,
                Table::Metas => trials.metas()?,
            }
        }
    }
    Ok(trials.report)
}
