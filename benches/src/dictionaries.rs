//! Compression dictionaries on the corpus: trained or raw, for all pages or one a group, of
//! several sizes and levels. No store is used; docs/DICTIONARIES.md has the figures.
//!
//! Invariants: training and measured pages are disjoint; every compressed page is decompressed and
//! compared.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::time::Instant;

use zstd::zstd_safe::{
    CCtx, CDict, CParameter, DCtx, DDict, DParameter, DictAttachPref, FrameFormat, compress_bound, train_from_buffer,
};

use crate::corpus::Corpus;
use crate::drive::Outcome;
use crate::random::Random;

/// A sample's pages in the corpus's order, each with the number of its group.
#[derive(Debug, Default)]
pub struct Sample {
    /// Bodies, or what else is compressed.
    pub pages: Vec<Vec<u8>>,
    /// The group of each page.
    pub groups: Vec<usize>,
    /// Bytes that `gzip -6` makes of each page, by zlib-rs.
    pub gzip_bytes: Vec<u64>,
}

/// The pages that share a dictionary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grouping {
    /// All of them.
    Global,
    /// Those of a host.
    Host,
    /// Those of a host and of one folder below its root.
    Folder,
}

/// The method that makes a dictionary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Making {
    /// By zstd's fast cover algorithm.
    Trained,
    /// Whole pages end to end, which zstd takes as raw content.
    Pages,
    /// A quarter trained, which brings entropy tables, then whole pages.
    Both,
}

/// Settings of compression.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// zstd level.
    pub level: i32,
    /// Copies the digested dictionary's tables for each page, or looks them up beside the page's
    /// own.
    pub attach: DictAttachPref,
    /// Without the frame's magic number.
    pub magicless: bool,
    /// With the dictionary's id in the frame.
    pub dictionary_id: bool,
    /// With the content's length in the frame.
    pub content_size: bool,
}

impl Settings {
    /// The shortest frames at a level, everything else as zstd has it.
    #[must_use]
    pub fn level(level: i32) -> Settings {
        Settings {
            level,
            attach: DictAttachPref::DefaultAttach,
            magicless: true,
            dictionary_id: false,
            content_size: false,
        }
    }
}

/// Result of a trial.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// Bytes of all frames.
    pub bytes: u64,
    /// Uncompressed MB/s of one thread.
    pub compress_mbps: f64,
    /// Uncompressed MB/s of one thread.
    pub expand_mbps: f64,
    /// Memory of the digested dictionaries.
    pub digest_bytes: u64,
}

impl Sample {
    /// Every `step`th page of the corpus from `first` on.
    #[must_use]
    pub fn of(corpus: &Corpus, first: u64, step: u64, grouping: Grouping) -> Sample {
        let mut numbers = HashMap::new();
        let mut sample = Sample::default();
        let mut url = Vec::new();
        // Groups are numbered over the whole corpus, so that two samples agree.
        for number in 0..corpus.len() {
            corpus.url(number, &mut url);
            let next = numbers.len();
            let group = *numbers.entry(group_of(&url, grouping).to_vec()).or_insert(next);
            if number % step == first {
                sample.pages.push(corpus.body(number).to_vec());
                sample.groups.push(group);
            }
        }
        sample
    }

    /// Headers of responses of eight servers, made up: the fields that real ones send, with values
    /// that differ from page to page where theirs do.
    #[must_use]
    pub fn of_headers(count: u64, first: u64) -> Sample {
        let mut sample = Sample::default();
        for number in first..first + count {
            let mut random = Random::of(23, number);
            let server = random.below(8);
            sample.groups.push(0);
            sample.pages.push(headers(server, &mut random).into_bytes());
        }
        sample
    }

    /// Compresses every page with `gzip -6` for comparison; compressed and expanded MB/s.
    ///
    /// # Errors
    /// If a page does not come back.
    pub fn gzip(&mut self) -> Outcome<(f64, f64)> {
        let mut frames = Vec::new();
        let start = Instant::now();
        for page in &self.pages {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(6));
            encoder.write_all(page)?;
            frames.push(encoder.finish()?);
        }
        let compress_s = start.elapsed().as_secs_f64();
        let mut body = Vec::new();
        let start = Instant::now();
        for (page, frame) in self.pages.iter().zip(&frames) {
            body.clear();
            flate2::read::GzDecoder::new(&frame[..]).read_to_end(&mut body)?;
            if body != *page {
                return Err("a page did not come back".into());
            }
        }
        let expand_s = start.elapsed().as_secs_f64();
        self.gzip_bytes = frames.iter().map(|f| f.len() as u64).collect();
        let megabytes = self.bytes() as f64 / 1e6;
        Ok((megabytes / compress_s, megabytes / expand_s))
    }

    /// Only every `step`th of them.
    #[must_use]
    pub fn thinned(&self, step: usize) -> Sample {
        Sample {
            pages: self.pages.iter().step_by(step).cloned().collect(),
            groups: self.groups.iter().step_by(step).copied().collect(),
            gzip_bytes: self.gzip_bytes.iter().step_by(step).copied().collect(),
        }
    }

    /// Bytes of all pages.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.pages.iter().map(|p| p.len() as u64).sum()
    }

    fn of_group(&self, group: usize) -> Vec<&[u8]> {
        let mine = self.pages.iter().zip(&self.groups).filter(|(_, g)| **g == group);
        mine.map(|(page, _)| &page[..]).collect()
    }

    /// A dictionary for each group, of at most `bytes`, made of at most `pages` of its pages.
    /// Groups with fewer than `least` pages share the one that is made of all pages (the first).
    ///
    /// # Errors
    /// If training fails.
    pub fn dictionaries(&self, making: Making, bytes: usize, pages: usize, least: usize) -> Outcome<Dictionaries> {
        let mut all: Vec<&[u8]> = self.pages.iter().map(|p| &p[..]).collect();
        let mut made = Dictionaries { contents: vec![make(&mut all, making, bytes, pages)?], of_group: HashMap::new() };
        let groups = self.groups.iter().max().map_or(0, |g| g + 1);
        for group in 0..groups {
            let mut mine = self.of_group(group);
            if groups > 1 && mine.len() >= least {
                made.of_group.insert(group, made.contents.len());
                made.contents.push(make(&mut mine, making, bytes, pages)?);
            }
        }
        Ok(made)
    }

    /// Compresses and expands every page, with its group's dictionary.
    ///
    /// # Errors
    /// If zstd fails or a page does not come back.
    pub fn measure(&self, dictionaries: &Dictionaries, settings: Settings) -> Outcome<Measured> {
        let compressors: Vec<CDict<'_>> =
            dictionaries.contents.iter().map(|d| CDict::create(d, settings.level)).collect();
        let expanders: Vec<DDict<'_>> = dictionaries.contents.iter().map(|d| DDict::create(d)).collect();
        let digest_bytes =
            compressors.iter().map(CDict::sizeof).chain(expanders.iter().map(DDict::sizeof)).sum::<usize>();
        let mut context = CCtx::create();
        let format = if settings.magicless { FrameFormat::Magicless } else { FrameFormat::One };
        for parameter in [
            CParameter::CompressionLevel(settings.level),
            CParameter::Format(format),
            CParameter::ForceAttachDict(settings.attach),
            CParameter::DictIdFlag(settings.dictionary_id),
            CParameter::ContentSizeFlag(settings.content_size),
            CParameter::ChecksumFlag(false),
        ] {
            context.set_parameter(parameter).map_err(failed)?;
        }
        let mut frames: Vec<Vec<u8>> = self.pages.iter().map(|p| Vec::with_capacity(compress_bound(p.len()))).collect();
        let start = Instant::now();
        for ((page, group), frame) in self.pages.iter().zip(&self.groups).zip(&mut frames) {
            if !dictionaries.contents[0].is_empty() {
                context.ref_cdict(&compressors[dictionaries.of(*group)]).map_err(failed)?;
            }
            context.compress2(frame, page).map_err(failed)?;
        }
        let compress_s = start.elapsed().as_secs_f64();
        let mut context = DCtx::create();
        context.set_parameter(DParameter::Format(format)).map_err(failed)?;
        let mut page = Vec::new();
        let mut expand_s = 0.0;
        for ((expected, group), frame) in self.pages.iter().zip(&self.groups).zip(&frames) {
            page.clear();
            page.reserve(expected.len());
            let start = Instant::now();
            context.ref_ddict(&expanders[dictionaries.of(*group)]).map_err(failed)?;
            context.decompress(&mut page, frame).map_err(failed)?;
            expand_s += start.elapsed().as_secs_f64();
            if page != *expected {
                return Err("a page did not come back".into());
            }
        }
        let megabytes = self.bytes() as f64 / 1e6;
        Ok(Measured {
            bytes: frames.iter().map(|f| f.len() as u64).sum(),
            compress_mbps: megabytes / compress_s,
            expand_mbps: megabytes / expand_s,
            digest_bytes: digest_bytes as u64,
        })
    }
}

/// The dictionaries of a trial; the first is for groups that have none of their own.
#[derive(Debug)]
pub struct Dictionaries {
    contents: Vec<Vec<u8>>,
    of_group: HashMap<usize, usize>,
}

impl Dictionaries {
    /// No dictionary.
    #[must_use]
    pub fn none() -> Dictionaries {
        Dictionaries { contents: vec![Vec::new()], of_group: HashMap::new() }
    }

    fn of(&self, group: usize) -> usize {
        self.of_group.get(&group).copied().unwrap_or(0)
    }

    /// Number of dictionaries, and their bytes.
    #[must_use]
    pub fn size(&self) -> (usize, usize) {
        (self.contents.len(), self.contents.iter().map(Vec::len).sum())
    }
}

fn headers(server: u64, random: &mut Random) -> String {
    let day = |random: &mut Random| {
        let names = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
        let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
        let mut below = |n| random.below(n) as usize;
        let (name, month) = (names[below(7)], months[below(12)]);
        let (day, year, hour, minute, second) = (below(28) + 1, below(6) + 2019, below(24), below(60), below(60));
        format!("{name}, {day:02} {month} {year} {hour:02}:{minute:02}:{second:02} GMT")
    };
    let mut text =
        format!("date: {}\nserver: {}\n", day(random), ["nginx", "Apache", "cloudflare", "ATS"][server as usize % 4]);
    text += ["content-type: text/html\n", "content-type: text/html; charset=utf-8\n"][server as usize % 2];
    text += &format!("content-length: {}\nlast-modified: {}\n", random.below(200_000), day(random));
    text += &format!("etag: \"{:x}-{:x}\"\n", random.next() >> 24, random.next() >> 40);
    text += "vary: Accept-Encoding\naccept-ranges: bytes\n";
    if server >= 2 {
        text += &format!("cache-control: public, max-age={}\nage: {}\n", 300 * server, random.below(90_000));
        text += "strict-transport-security: max-age=31536000; includeSubDomains; preload\nx-content-type-options: nosniff\n";
    }
    if server >= 4 {
        text += &format!("x-cache: HIT\nx-request-id: {:016x}{:016x}\n", random.next(), random.next());
        text += "x-frame-options: SAMEORIGIN\nreferrer-policy: strict-origin-when-cross-origin\n";
    }
    if server >= 6 {
        text += &format!("set-cookie: session={:016x}; path=/; expires={}; secure\n", random.next(), day(random));
        text += "content-security-policy: default-src 'self'; img-src * data:; style-src 'self' 'unsafe-inline'\n";
    }
    text
}

fn group_of(url: &[u8], grouping: Grouping) -> &[u8] {
    let slashes = match grouping {
        Grouping::Global => return b"",
        Grouping::Host => 3,
        Grouping::Folder => 6,
    };
    let ends = url.iter().enumerate().filter(|(_, b)| **b == b'/').map(|(at, _)| at);
    let end = ends.take(slashes).last().unwrap_or(url.len());
    &url[..end]
}

fn make(pages: &mut Vec<&[u8]>, making: Making, bytes: usize, most: usize) -> Outcome<Vec<u8>> {
    Random::of(3, pages.len() as u64).shuffle(pages);
    pages.truncate(most);
    let whole = |bytes: usize| {
        let mut out: Vec<u8> = Vec::with_capacity(bytes);
        for page in pages.iter() {
            let room = bytes - out.len();
            out.extend_from_slice(&page[..page.len().min(room)]);
        }
        out
    };
    match making {
        Making::Trained => train(pages, bytes),
        Making::Pages => Ok(whole(bytes)),
        Making::Both => {
            let mut out = train(pages, bytes / 4)?;
            let rest = whole(bytes - out.len());
            out.extend_from_slice(&rest);
            Ok(out)
        }
    }
}

fn train(pages: &[&[u8]], bytes: usize) -> Outcome<Vec<u8>> {
    let lengths: Vec<usize> = pages.iter().map(|p| p.len()).collect();
    let mut out = Vec::with_capacity(bytes);
    train_from_buffer(&mut out, &pages.concat(), &lengths).map_err(failed)?;
    Ok(out)
}

fn failed(code: usize) -> String {
    format!("zstd: {}", zstd::zstd_safe::get_error_name(code))
}
