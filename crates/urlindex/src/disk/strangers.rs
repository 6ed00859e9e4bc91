//! Unnamed files: runs and logs with the set's name that no manifest names. The set's own are
//! removed, others stay.
//!
//! A name proves nothing: `crawl.20240501.log` may be any program's. A file is the set's if its
//! first bytes have the kind, the set's random id and its number. Every run and log has them
//! durably before anything else; an interrupted creation leaves at most a piece of such a header.
//!
//! Invariants: a file is removed only if it is this set's or such a piece; when a set is created,
//! only if it holds no URL, or a copy of what is about to be put there. Files that stay do no
//! harm: numbers whose names are taken are skipped ([`Home::create`]).

use std::io;
use std::sync::Arc;

use filemap_io::Access;
use filemap_runs::fixed::Fixed;
use filemap_runs::{OWNER_BYTES, Run, first_header};

use super::key::Home;
use super::log;
use super::manifest::Manifest;
use crate::error::{Error, Result};
use crate::files::{self, Numbered, parse_numbered};

/// A file with a name of the set's runs or logs.
struct Candidate {
    name: String,
    kind: Numbered,
    number: u64,
}

impl Candidate {
    fn all(home: &Home) -> Result<Vec<Candidate>> {
        let names = home.dir.list().map_err(Error::io("list", &home.name))?;
        let of =
            |name: String| parse_numbered(&home.name, &name).map(|(kind, number)| Candidate { name, kind, number });
        Ok(names.into_iter().filter_map(of).collect())
    }

    /// The header that this set would give it.
    fn header(&self, home: &Home) -> Vec<u8> {
        match self.kind {
            Numbered::Run => first_header(home, self.number),
            Numbered::Log => log::header(home, self.number).to_vec(),
        }
    }

    /// The file's first bytes, up to the length of a header, and whether there are more; `None` if
    /// it may not be read.
    fn start(&self, home: &Home, header_bytes: usize) -> Result<Option<(Vec<u8>, bool)>> {
        let file = match home.dir.open(&self.name, Access::Read) {
            Ok(file) => file,
            Err(error) if is_no_file(error.kind()) => return Ok(None),
            Err(error) => return Err(Error::io("open", &self.name)(error)),
        };
        let mut start = vec![0; header_bytes];
        let read = file.read_at(&mut start, 0).map_err(Error::io("read", &self.name))?;
        start.truncate(read);
        let len = file.len().map_err(Error::io("length", &self.name))?;
        Ok(Some((start, len > header_bytes as u64)))
    }
}

/// Returns whether an error means a link, a directory, another user's file, or a file removed
/// meanwhile.
fn is_no_file(kind: io::ErrorKind) -> bool {
    use io::ErrorKind::{InvalidInput, NotFound, PermissionDenied};
    matches!(kind, InvalidInput | NotFound | PermissionDenied)
}

/// Removes what a crash left of the set of this manifest. A roll uses at most two numbers: files
/// beyond them are not the set's.
pub(super) fn remove_left(home: &Home, manifest: &Manifest) -> Result<()> {
    for file in Candidate::all(home)? {
        let is_alive = match file.kind {
            Numbered::Run => manifest.runs.iter().any(|run| run.info.number == file.number),
            Numbered::Log => manifest.log_number == file.number,
        };
        if is_alive || file.number > manifest.next_number + 1 {
            continue;
        }
        let header = file.header(home);
        let Some((start, has_more)) = file.start(home, header.len())? else { continue };
        let is_ours = is_of_same_owner(&start, &header);
        if is_ours || (!has_more && is_piece(&start, &header)) {
            files::remove(&*home.dir, &file.name)?;
        }
    }
    Ok(())
}

/// Returns whether these bytes are what a crash leaves of a header: each is the header's, or zero.
fn is_piece(start: &[u8], header: &[u8]) -> bool {
    start.iter().zip(header).all(|(byte, wanted)| *byte == 0 || byte == wanted)
}

/// Returns whether a file starts with the kind, set and number of this header, in any version.
fn is_of_same_owner(start: &[u8], header: &[u8]) -> bool {
    let same = |range: std::ops::Range<usize>| start[range.clone()] == header[range];
    start.len() >= OWNER_BYTES && same(0..8) && same(12..OWNER_BYTES)
}

/// Checks whether a set of copies of these runs may be created here, and removes what an
/// interrupted creation left.
///
/// # Errors
/// `Io`, of the kind [`io::ErrorKind::AlreadyExists`], if there is a file with URLs of a set whose
/// manifest is missing: nothing was removed then.
pub(super) fn make_room(home: &Home, copies: &[Arc<Run<Fixed>>]) -> Result<()> {
    let mut left = Vec::new();
    for file in Candidate::all(home)? {
        let header = file.header(home);
        let Some((start, has_more)) = file.start(home, header.len())? else { continue };
        let is_of_a_set = start.iter().zip(&header[..8]).all(|(byte, wanted)| byte == wanted);
        let copied = copies.iter().find(|run| file.kind == Numbered::Run && run.info().number == file.number);
        let copied = copied.map(|run| run.header()).transpose()?.unwrap_or_default();
        let is_begun = is_of_a_set || is_piece(&start, &header) || (!copied.is_empty() && is_piece(&start, &copied));
        if start == copied || (!has_more && is_begun) {
            left.push(file.name);
        } else if is_of_a_set {
            let there =
                io::Error::new(io::ErrorKind::AlreadyExists, "it holds URLs of a set whose manifest is missing");
            return Err(Error::io("create", &file.name)(there));
        }
    }
    Ok(left.iter().try_for_each(|name| files::remove(&*home.dir, name))?)
}
