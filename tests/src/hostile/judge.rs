//! Judges a store's answers: the right value, nothing where that is legal, or damage with its
//! place.
//!
//! Never allowed: a panic, a value of another key or one that was never put, an error that is not
//! `Corrupt`.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use filemap_core::sim::{self, Limits};
use filemap_core::{Error, Event, Head, Options, Record, StorageError, Store, Value};
use filemap_io::Dir;

use super::golden::{self, Act, KEYS, Kept, TAIL, state};
use super::image::{Image, Scratch};
use super::layout::Cost;

/// Permitted answers for each key.
#[derive(Clone, Debug)]
pub struct Expect {
    /// Per key: the states that are allowed, each newest first.
    states: Vec<Vec<Vec<Kept>>>,
    /// Keys whose reads may fail.
    may_fail: BTreeSet<usize>,
    /// Keys with any answer permitted: their value records were forged.
    wild: BTreeSet<usize>,
    opening_may_fail: bool,
}

/// Result of looking for damage in a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// By opening, a read, a list or `verify`.
    pub told: bool,
    /// Opening failed.
    pub closed: bool,
}

/// The golden store's options, over maps as small as the store: a simulated map is memory.
fn options() -> Options {
    sim::with_limits(golden::options(), Limits { map_pages: 16, ..Limits::default() })
}

/// A broken promise, in words.
pub type Broken = String;

impl Expect {
    /// Returns what damage of this cost leaves.
    pub fn new(cost: &Cost) -> Expect {
        let states = (0..KEYS.len()).map(|key| {
            // Any of the damaged records may be judged whole or lost; those of other keys do not
            // matter.
            let acts: Vec<usize> = cost.acts.iter().copied().filter(|&act| TAIL[act].0 == key).collect();
            let mut allowed: Vec<Vec<Kept>> = Vec::new();
            for lost in 0..1usize << acts.len() {
                let counts = |act: usize| acts.iter().position(|&a| a == act).is_none_or(|nth| lost >> nth & 1 == 0);
                let state = state(key, &counts);
                if !allowed.contains(&state) {
                    allowed.push(state);
                }
            }
            allowed
        });
        let (mut states, mut may_fail): (Vec<_>, _) = (states.collect(), cost.keys.clone());
        // A reader does not know yet that recovery will drop a version whose body is lost: it
        // lists it, and cannot read it.
        for act in &cost.acts {
            let Act::Put(lost, bytes, _) = TAIL[*act].1 else { continue };
            let key = TAIL[*act].0;
            if bytes > 64 << 10 {
                may_fail.insert(key);
            }
            if TAIL.iter().any(|(of, act)| *of == key && matches!(act, Act::Same(_, body) if *body == lost)) {
                may_fail.insert(key);
                let mut dangling = state(key, &|_| true);
                dangling.retain(|v| v.time_ms != lost);
                states[key].push(dangling);
            }
        }
        Expect { states, may_fail, wild: BTreeSet::new(), opening_may_fail: cost.opening }
    }

    /// Any version that was ever put, nothing, or an error: for files whose checksums were forged,
    /// but not those of the value log, which is the truth.
    pub fn any_version() -> Expect {
        let mut expect = Expect::new(&Cost { opening: true, keys: (0..KEYS.len()).collect(), ..Cost::default() });
        for (key, states) in expect.states.iter_mut().enumerate() {
            let every = golden::every_version(key);
            *states = vec![Vec::new()];
            states.extend(every.into_iter().map(|version| vec![version]));
        }
        expect
    }

    fn read_only(&self, dir: Arc<dyn Dir>) -> Result<Told, Broken> {
        match sim::open_read_only(dir, options()) {
            Ok(store) => self.judge(&store),
            Err(e) => self.not_opened(&e),
        }
    }

    /// Judges all answers of a handle that writes, then puts a page and reads it back. Bytes that
    /// recovery reports as cut off or skipped are reported.
    fn writable(&self, dir: Arc<dyn Dir>) -> Result<Told, Broken> {
        let lost = Arc::new(AtomicU64::new(0));
        let seen = Arc::clone(&lost);
        let options = options().on_event(move |event| {
            if let Event::Recovered(r) = event {
                seen.store(r.skipped_bytes + r.truncated_bytes, Ordering::Relaxed);
            }
        });
        let store = match sim::open(dir, options) {
            Ok(store) => store,
            Err(e) => return self.not_opened(&e),
        };
        sim::fill_filter(&store);
        let mut told = self.judge(&store)?;
        told.told |= lost.load(Ordering::Relaxed) > 0;
        let (key, body) = (b"http://new.example/", b"a page that is put after all that");
        match store.put(&Record::new(key, body).time(1 << 50)).and_then(|_| store.get(key)) {
            Ok(Some(value)) if value.body == body => {}
            Ok(other) => return Err(format!("a new page reads as {other:?}")),
            // verify has checkpointed, which damage of the index stops.
            Err(e) => told.told |= check(&e, "a put")?,
        }
        Ok(told)
    }

    /// As [`Expect::any_version`], after forging value records of this key: of that key anything
    /// may be read.
    pub fn any_version_but(key: usize) -> Expect {
        Expect { wild: BTreeSet::from([key]), ..Expect::any_version() }
    }

    /// Nothing is held but that errors tell their place and that lists end: after value records
    /// were forged, which are the truth.
    pub fn anything() -> Expect {
        Expect { wild: (0..KEYS.len()).collect(), ..Expect::any_version() }
    }

    fn not_opened(&self, e: &Error) -> Result<Told, Broken> {
        check(e, "opening")?;
        if self.opening_may_fail {
            return Ok(Told { told: true, closed: true });
        }
        Err(format!("it does not open, for damage that costs a record: {e}"))
    }

    fn judge(&self, store: &Store) -> Result<Told, Broken> {
        let mut told = false;
        for key in 0..KEYS.len() {
            told |= self.key(store, key)?;
        }
        told |= self.lists(store)?;
        match store.verify() {
            Ok(report) => {
                for problem in &report.problems {
                    if !is_file(&problem.file) {
                        return Err(format!("verify names no file: {problem:?}"));
                    }
                    told = true;
                }
            }
            Err(e) => told |= check(&e, "verify")?,
        }
        Ok(Told { told, closed: false })
    }

    /// Judges all reads of one key; whether one told damage.
    fn key(&self, store: &Store, key: usize) -> Result<bool, Broken> {
        let name = KEYS[key].as_bytes();
        let states = &self.states[key];
        let mut told = false;
        let mut failed = |e: &Error, what: &str| -> Result<(), Broken> {
            told |= check(e, what)?;
            let may = self.may_fail.contains(&key);
            if may { Ok(()) } else { Err(format!("{what} of {} fails, whose records are whole: {e}", KEYS[key])) }
        };
        let wild = self.wild.contains(&key);
        let wrong = |what: &str, found: String| {
            if wild { Ok(false) } else { Err(format!("{what} of {} is not allowed: {found}", KEYS[key])) }
        };
        match store.get(name) {
            Ok(value) if states.iter().any(|s| is_value(value.as_ref(), s.first())) => {}
            Ok(value) => return wrong("a get", format!("{value:?}")),
            Err(e) => failed(&e, "a get")?,
        }
        match store.head(name) {
            Ok(head) if states.iter().any(|s| is_head(head.as_ref(), s.first())) => {}
            Ok(head) => return wrong("a head", format!("{head:?}")),
            Err(e) => failed(&e, "a head")?,
        }
        match store.contains(name) {
            Ok(found) if states.iter().any(|s| s.is_empty() != found) => {}
            Ok(found) => return wrong("contains", found.to_string()),
            Err(e) => failed(&e, "contains")?,
        }
        let loose = states.iter().all(|s| s.len() <= 1) && self.may_fail.len() == KEYS.len();
        match store.history(name) {
            Ok(heads) if loose => {
                let known = |head: &Head| states.iter().any(|s| is_head(Some(head), s.first()));
                if !heads.iter().all(known) {
                    return wrong("a history", format!("{heads:?}"));
                }
            }
            Ok(heads) if states.iter().any(|s| is_history(&heads, s)) => {}
            Ok(heads) => return wrong("a history", format!("{heads:?}")),
            Err(e) => failed(&e, "a history")?,
        }
        for time in [999, 1000, 2500] {
            let at = |s: &Vec<Kept>| s.iter().find(|k| k.time_ms <= time).cloned();
            match store.get_at(name, time) {
                Ok(value) if states.iter().any(|s| is_value(value.as_ref(), at(s).as_ref())) => {}
                Ok(value) => return wrong("a get_at", format!("{time}: {value:?}")),
                Err(e) => failed(&e, "a get_at")?,
            }
        }
        Ok(told)
    }

    /// Judges the lists; whether one told damage. They end, each names no key twice, and none
    /// leaves out a whole key.
    fn lists(&self, store: &Store) -> Result<bool, Broken> {
        let mut told = false;
        let mut listed = BTreeSet::new();
        for (nth, key) in store.keys().enumerate() {
            if nth > 10_000 {
                return Err("the list of keys does not end".into());
            }
            match key {
                Ok(key) => listed.extend(self.listed(&key, &listed, "a list of keys")?),
                Err(e) => told |= check(&e, "a list of keys")?,
            }
        }
        let mut paged = BTreeSet::new();
        for (nth, page) in store.pages().enumerate() {
            if nth > 10_000 {
                return Err("the list of pages does not end".into());
            }
            match page {
                Ok((key, value)) => {
                    let Some(key) = self.listed(&key, &paged, "a list of pages")? else { continue };
                    if !self.states[key].iter().any(|s| is_value(Some(&value), s.first())) {
                        return Err(format!("a list has for {} what is not allowed: {value:?}", KEYS[key]));
                    }
                    paged.insert(key);
                }
                Err(e) => told |= check(&e, "a list of pages")?,
            }
        }
        for (key, states) in self.states.iter().enumerate() {
            let must = states.iter().all(|s| !s.is_empty()) && !self.may_fail.contains(&key);
            if must && !(listed.contains(&key) && paged.contains(&key)) {
                return Err(format!("a list leaves out {}, whose records are whole", KEYS[key]));
            }
        }
        Ok(told)
    }

    /// The number of a key that a list names, if it may; `None` for one of a forged record.
    fn listed(&self, key: &[u8], before: &BTreeSet<usize>, what: &str) -> Result<Option<usize>, Broken> {
        let known = KEYS.iter().position(|k| k.as_bytes() == key);
        if !self.wild.is_empty() && known.is_none_or(|number| self.wild.contains(&number)) {
            return Ok(None);
        }
        let number =
            known.ok_or_else(|| format!("{what} names {:?}, which no one put", String::from_utf8_lossy(key)))?;
        if before.contains(&number) && self.may_fail.len() < KEYS.len() {
            return Err(format!("{what} names {} twice", KEYS[number]));
        }
        if self.states[number].iter().all(Vec::is_empty) {
            return Err(format!("{what} names {}, which is missing", KEYS[number]));
        }
        Ok(Some(number))
    }
}

fn is_value(value: Option<&Value>, kept: Option<&Kept>) -> bool {
    match (value, kept) {
        (Some(v), Some(k)) => v.body == k.body && is_head(Some(&v.head), Some(k)),
        (value, kept) => value.is_none() && kept.is_none(),
    }
}

fn is_head(head: Option<&Head>, kept: Option<&Kept>) -> bool {
    match (head, kept) {
        (Some(h), Some(k)) => h.version.time_ms == k.time_ms && h.meta == k.meta && h.body_bytes == k.body.len() as u64,
        (head, kept) => head.is_none() && kept.is_none(),
    }
}

fn is_history(heads: &[Head], kept: &[Kept]) -> bool {
    heads.len() == kept.len() && heads.iter().zip(kept).all(|(h, k)| is_head(Some(h), Some(k)))
}

fn is_file(name: &str) -> bool {
    let is_segment = name.starts_with("value") || name.starts_with("key");
    matches!(name, "SUPERBLOCK" | "RULES" | "address.idx") || (is_segment && name.ends_with(".dat"))
}

/// Returns whether an error names damage and its place, as it must.
fn check(e: &Error, what: &str) -> Result<bool, Broken> {
    match e {
        Error::Storage(StorageError::Corrupt { file, .. }) if is_file(file) => Ok(true),
        Error::NotAStore { .. } if what == "opening" => Ok(true),
        Error::Storage(StorageError::NewerFormat { .. }) if what == "opening" => Ok(true),
        Error::Storage(StorageError::Poisoned { .. }) | Error::Storage(StorageError::Full { .. })
            if what == "a put" || what == "verify" =>
        {
            Ok(true)
        }
        e => Err(format!("{what} fails without saying where: {e:?}")),
    }
}

impl Expect {
    /// Judges an image through a handle that only reads.
    ///
    /// # Errors
    /// What was promised and is not so.
    pub fn reading(&self, image: &Image, scratch: &mut Scratch) -> Result<Told, Broken> {
        scratch.hold(image);
        self.read_only(scratch.dir())
    }

    /// Judges an image through a handle that writes.
    ///
    /// # Errors
    /// What was promised and is not so.
    pub fn writing(&self, image: &Image, scratch: &mut Scratch) -> Result<Told, Broken> {
        scratch.hold(image);
        scratch.forget();
        self.writable(scratch.dir())
    }

    /// Judges an image both ways.
    ///
    /// # Errors
    /// What was promised and is not so.
    pub fn both(&self, image: &Image, scratch: &mut Scratch) -> Result<Told, Broken> {
        let (reader, writer) = (self.reading(image, scratch)?, self.writing(image, scratch)?);
        Ok(Told { told: reader.told || writer.told, closed: reader.closed && writer.closed })
    }
}
