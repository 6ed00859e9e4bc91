//! `import --in-place` and `import --adopt`: keep records in the files of an archive, and copy
//! them into the store later.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Instant;

use filemap::PageStore;
use filemap::archives::is_remote;
use filemap::import::{AdoptStep, ImportOptions, ImportProgress, adopt, cdxj};
use fm_cli::words::{self, count};
use fm_cli::{Failure, Outcome, Output, Progress, fields, interrupt, sizes};

use super::report::Brought;
use super::source::{Content, Source};
use crate::flags::Shared;
use crate::stores::{opening, remote, shards};

/// Refuses sources whose records cannot stay in place. `archive` is the value of `--archive` of an
/// import in place.
pub fn check(store: &Path, archive: Option<Option<&str>>, sources: &[Source]) -> Result<(), Failure> {
    let index = sources.iter().find(|source| source.content == Content::Index);
    let Some(archive) = archive else {
        let Some(index) = index else { return Ok(()) };
        let words =
            "is the index of an archive: --in-place describes what it lists, and leaves the records where they are";
        return Err(Failure::Usage(format!("{} {words}", index.name)));
    };
    if remote::is_server(store) {
        let words = "--in-place needs a local store: give it to the machine of the server";
        return Err(Failure::Usage(words.to_owned()));
    }
    let words = "--in-place is for a store in one folder: leave it out, and the pages are stored with their bodies";
    shards::refuse_as(store, words)?;
    if archive.is_some() && index.is_none() {
        let words = "--archive is for an index: a WARC file is where it is";
        return Err(Failure::Usage(words.to_owned()));
    }
    for source in sources {
        let words = match source.content {
            Content::Warc | Content::Index if !source.is_endless => continue,
            Content::Wacz => "WACZ files are imported whole: unpack it, or leave --in-place out",
            Content::Warc | Content::Index | Content::Unknown => "records can stay in a file only, not in a stream",
            Content::JsonLines | Content::Cache(_) => {
                "only records of WARC files and of their indexes can stay in place"
            }
        };
        return Err(Failure::Usage(format!("{}: {words}", source.name)));
    }
    Ok(())
}

/// Import options by which a file's records stay in it.
pub fn options(options: ImportOptions, path: &Path) -> Result<ImportOptions, Failure> {
    let path = path.canonicalize().map_err(|error| Failure::io("find", path, &error))?;
    Ok(options.in_place(text(&path)?))
}

/// Imports the captures that an index lists.
pub fn index(
    stores: &mut dyn FnMut(&[u8]) -> filemap::Result<PageStore>,
    (name, path): (&str, &Path),
    source: impl Read + Send,
    archive: Option<&str>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Brought, Failure> {
    let places = Places::of(path, archive)?;
    let progress = &mut |at: ImportProgress| {
        progress(at.bytes_read, at.pages);
        interrupt::go_on()
    };
    Ok(cdxj::import_into(stores, name, source, &|file| places.locate(file), progress)?.into())
}

/// Places where the files of an index may be.
struct Places {
    /// Folders, the first the default, or one address.
    places: Vec<String>,
}

impl Places {
    /// The place `archive`; without it the index's folder, or the folder `archive` beside that, as
    /// in collections of pywb.
    fn of(index: &Path, archive: Option<&str>) -> Result<Places, Failure> {
        if let Some(address) = archive.filter(|archive| is_remote(archive)) {
            return Ok(Places { places: vec![address.trim_end_matches('/').to_owned()] });
        }
        let whole = |path: &Path| path.canonicalize().map_err(|error| Failure::io("find", path, &error));
        if let Some(folder) = archive {
            // The root becomes the empty text: all paths are below it.
            let folder = text(&whole(Path::new(folder))?)?;
            return Ok(Places { places: vec![folder.trim_end_matches('/').to_owned()] });
        }
        let beside = whole(index)?.parent().map(Path::to_path_buf).unwrap_or_default();
        let collection = beside.parent().map(|parent| parent.join("archive"));
        let places: Vec<PathBuf> = [Some(beside), collection].into_iter().flatten().collect();
        Ok(Places { places: places.iter().map(|path| text(path)).collect::<Result<_, _>>()? })
    }

    /// Finds a file of the index below the places. Others are refused: an index may come from
    /// anywhere, and a server passes on what it reads.
    fn locate(&self, file: &str) -> Result<String, String> {
        let is_whole = is_remote(file) || file.starts_with('/');
        let below = |place: &String| file.strip_prefix(place.as_str()).is_some_and(|rest| rest.starts_with('/'));
        let leaves = |file: &str| file.split(['/', '\\']).any(|part| part == "..");
        if leaves(file) || is_whole && !self.places.iter().any(|place| place.is_empty() || below(place)) {
            let places = self.places.join(" or ");
            return Err(format!("its file is outside of {places}: {file}; --archive gives another place"));
        }
        let location = |place: &String| match is_remote(place) {
            _ if is_whole => file.to_owned(),
            true => format!("{place}/{}", escaped(file)),
            false => format!("{place}/{file}"),
        };
        let mut locations = self.places.iter().map(location);
        let is_there = |location: &String| is_remote(location) || Path::new(location).exists();
        let first = locations.clone().next().unwrap_or_default();
        Ok(locations.find(is_there).unwrap_or(first))
    }
}

/// A file's name, escaped for a URL path.
fn escaped(file: &str) -> String {
    let mut out = String::with_capacity(file.len());
    for c in file.chars() {
        match c {
            ' ' | '"' | '#' | '%' | '<' | '>' | '?' => out.push_str(&format!("%{:02X}", c as u32)),
            c => out.push(c),
        }
    }
    out
}

/// A path as text, the form that a store keeps.
pub fn text(path: &Path) -> Result<String, Failure> {
    let words = || Failure::Usage(format!("{}: the path is not UTF-8, which a location must be", path.display()));
    path.to_str().map(str::to_owned).ok_or_else(words)
}

/// Copies the bodies that are in place into the store.
pub fn adopted(path: &Path, shared: &Shared) -> Result<Outcome, Failure> {
    interrupt::listen();
    let store = opening::local_to_change(path, shared)?;
    let (mut out, started) = (Output::stdout(shared.flags), Instant::now());
    let bar = Progress::records(&shared.flags, None, "pages");
    let adopted = adopt(&store, &mut |step| {
        match step {
            AdoptStep::Page(_) => bar.add(),
            AdoptStep::Lost(error) => bar.aside(|| words::complain(error)),
        }
        interrupt::go_on()
    });
    drop(bar);
    let closed = store.close();
    let adopted = adopted?;
    closed?;
    let lost = match adopted.lost {
        0 => String::new(),
        lost => format!(", {lost} that cannot be and stay as they are"),
    };
    let (bytes, seconds) = (sizes::print(adopted.body_bytes), started.elapsed().as_secs_f64());
    let words =
        format!("{} copied into the store{lost}; {bytes} of bodies in {seconds:.1} s", count(adopted.pages, "page"));
    out.report(&fields!(adopted; pages, body_bytes, lost, stopped = adopted.is_cancelled), words)?;
    out.finish()?;
    let outcome = if adopted.lost > 0 { Outcome::Damaged } else { Outcome::Done };
    if adopted.is_cancelled {
        let copied = count(adopted.pages, "page");
        return Ok(outcome.and(interrupt::stopped(format_args!("{copied} copied; the same command copies the rest"))));
    }
    Ok(outcome)
}
