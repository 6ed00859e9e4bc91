//! Lost and wrong notes of members, written again where the others and the pages prove them.
//!
//! A note is lost with its record, or another was put over it by a merge of an earlier build. It
//! is written again only if all of this holds:
//!
//! - another folder has a note in its place that says that the set is made;
//! - the folder had this note before; or it has none, or one of the same set, and pages, and all
//!   of them belong to the member in its place.
//!
//! So neither a folder of another set nor a store that was given by mistake is taken into one.

use std::path::{Path, PathBuf};

use filemap_core::Options;

use super::note::{self, Note};
use super::{ShardedStore, named};
use crate::access::PageWrite;
use crate::error::{Error, Result};
use crate::page::key;
use crate::store::{PageStore, number_of};

impl ShardedStore {
    /// Writes the notes of these folders again that are lost or wrong, and returns the folders
    /// that have got one. Changes nothing if no folder says which set they are: opening them then
    /// says what is wrong. Keys are read of the folders without their note.
    ///
    /// # Errors
    ///
    /// [`Error::NotMembers`] if it is not proven which note a folder had: none is written then;
    /// those of [`PageStore::open`], with the path of the member.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::sync::Arc;
    /// use filemap::canonical::Whatwg;
    /// use filemap::{Options, PageWrite, sharded::ShardedStore};
    ///
    /// let dir = tempfile::tempdir()?;
    /// let disks = [dir.path().join("a.fm"), dir.path().join("b.fm")];
    /// ShardedStore::open_or_create(&disks, Arc::new(Whatwg), Options::new())?.close()?;
    /// assert!(ShardedStore::restore_notes(&disks, Options::new())?.is_empty(), "all are there");
    /// # Ok(())
    /// # }
    /// ```
    pub fn restore_notes<P: AsRef<Path>>(paths: &[P], options: Options) -> Result<Vec<PathBuf>> {
        let open = |path: &P| {
            let path = path.as_ref();
            PageStore::open(path, options.clone()).map_err(|error| error.of_member(path))
        };
        let members = paths.iter().map(open).collect::<Result<Vec<_>>>()?;
        let restored = restored(&members);
        let closed: Vec<_> = members.iter().map(|member| named(member, PageWrite::close(member))).collect();
        let restored = restored?;
        closed.into_iter().collect::<Result<()>>().map(|()| restored)
    }
}

/// The folders of these members that have got their note again.
fn restored(members: &[PageStore]) -> Result<Vec<PathBuf>> {
    let read = |member: &PageStore| named(member, note::read(member));
    let notes = members.iter().map(read).collect::<Result<Vec<_>>>()?;
    let is_in_place = |number: usize, note: &Note| (note.number as usize, note.of as usize) == (number, members.len());
    let mut of_made =
        notes.iter().enumerate().filter_map(|(number, note)| note.filter(|note| is_in_place(number, note)));
    let Some(set) = of_made.find(|note| note.is_made) else { return Ok(Vec::new()) };
    let mut wanting = Vec::new();
    for (number, (member, note)) in members.iter().zip(&notes).enumerate() {
        let wanted = Note { number: number as u32, ..set };
        if note.is_some_and(|note| note.is_of(&wanted)) {
            continue;
        }
        if let Some(what) = named(member, unproven(member, note.as_ref(), &wanted))? {
            let path = member.engine().path().to_owned();
            let what = format!("it is not proven to be member {} of {}: {what}", number + 1, set.of);
            return Err(Error::NotMembers { path, what });
        }
        wanting.push((member, wanted));
    }
    let write = |(member, wanted): (&PageStore, Note)| {
        named(member, note::write(member, &wanted)).map(|()| member.engine().path().to_owned())
    };
    wanting.into_iter().map(write).collect()
}

/// Why it is not proven that a store with this note, or with none, is the one wanted; `None` if it
/// is.
fn unproven(member: &PageStore, note: Option<&Note>, wanted: &Note) -> Result<Option<&'static str>> {
    if note::has_had(member, wanted)? {
        return Ok(None);
    }
    if note.is_some_and(|note| (note.set, note.of) != (wanted.set, wanted.of)) {
        return Ok(Some("it is a member of another store; give the path of the member, or restore a backup of it"));
    }
    let mut has_pages = false;
    for key in member.engine().keys_where(|key| !key::is_own(key)) {
        has_pages = true;
        if number_of(key::url(&key?), wanted.of as usize) != wanted.number as usize {
            return Ok(Some("it has pages of hosts that belong into another member; give the path of the member"));
        }
    }
    Ok((!has_pages).then_some("it has no page that shows it; restore a backup of the member"))
}
