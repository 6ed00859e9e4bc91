//! Removes single versions from a replica that were removed in the other store.

use filemap_core::Head;
use xxhash_rust::xxh3::xxh3_64;

use super::Replica;
use crate::date;
use crate::error::Result;
use crate::page::key;
use crate::store::Loader;

impl Replica {
    /// Removes the versions of this time that are stored alike. If the removed version was
    /// damaged, its stored form is unknown: then the only version of its time is removed, or none.
    pub(super) fn remove_version(&mut self, key: &[u8], time_ms: i64, print: Option<([u8; 16], u64)>) -> Result<()> {
        let mut own: Vec<Head> = Vec::new();
        for head in self.store.engine().history_iter(key) {
            match head {
                Ok(head) if head.version.time_ms == time_ms => own.push(head),
                Ok(_) => {}
                // It may be the removed version; nobody can read it as a page.
                Err(error) if error.is_corrupt() => self.notes.push(format!("skipped in a removal: {error}")),
                Err(error) => return Err(error.into()),
            }
        }
        match print {
            Some(print) => {
                let others = own.len();
                own.retain(|head| (head.digest, xxh3_64(&head.meta)) == print);
                if own.is_empty() && others > 0 {
                    // A version that was in place there is whole here, and cannot be identified.
                    self.note_kept(key, time_ms);
                }
            }
            None if own.len() > 1 => {
                self.note_kept(key, time_ms);
                return Ok(());
            }
            None => {}
        }
        for head in own {
            if self.store.engine().remove_version(key, head.version)? {
                self.counts.removed_versions += 1;
                self.loader = Loader::default();
            }
        }
        Ok(())
    }

    fn note_kept(&mut self, key: &[u8], time_ms: i64) {
        let (url, when) = (String::from_utf8_lossy(key::url(key)).into_owned(), date::format(time_ms));
        self.notes.push(format!("not removed: cannot tell which version of {url} of {when} was removed"));
    }
}
