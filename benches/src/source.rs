//! The pages of a run: generator or corpus.

use std::io;
use std::path::Path;

use crate::corpus::Corpus;
use crate::generate::{Generator, Page};

/// An endless supply of pages by number.
#[derive(Debug)]
pub enum Source {
    /// Made up; see [`Generator`].
    Generated(Generator),
    /// Real; see [`Corpus`]. Starts over with other URLs after the last page.
    Corpus(Corpus),
}

impl Source {
    /// The corpus under `corpus`, or without one the generator of `seed`.
    ///
    /// # Errors
    /// If the corpus cannot be read.
    pub fn open(corpus: Option<&Path>, seed: u64) -> io::Result<Source> {
        match corpus {
            Some(dir) => Corpus::load(dir).map(Source::Corpus),
            None => Ok(Source::Generated(Generator::new(seed))),
        }
    }

    /// Writes page `number` over whatever `page` held.
    pub fn page(&self, number: u64, page: &mut Page) {
        match self {
            Source::Generated(generator) => generator.page(number, page),
            Source::Corpus(corpus) => corpus.page(number, page),
        }
    }

    /// Page `number`'s URL alone.
    pub fn url(&self, number: u64, out: &mut Vec<u8>) {
        match self {
            Source::Generated(generator) => generator.url(number, out),
            Source::Corpus(corpus) => corpus.url(number, out),
        }
    }

    /// Its description, for a report.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Source::Generated(_) => "generated pages".into(),
            Source::Corpus(corpus) => {
                format!("corpus of {} pages, {:.2} GB", corpus.len(), corpus.bytes() as f64 / 1e9)
            }
        }
    }
}
