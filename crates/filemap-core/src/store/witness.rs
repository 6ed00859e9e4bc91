//! Evidence for a repair: the live versions according to index and key log. Lost segments may have
//! held tombstones; without these, the versions that they removed would come back.

use std::sync::Arc;

use filemap_io::Dir;

use crate::error::{Error, Result, StorageError};
use crate::format::names;
use crate::options::Options;
use crate::sequences::Sequences;
use crate::store::{Store, Threads};
use crate::upkeep::repair::rebuild::Living;
use crate::upkeep::repair::survey::Survey;

/// The live versions, if segments are missing and index and key log are intact; otherwise the
/// reason why they are unknown. One pass over the key log.
pub(super) fn living(source: &Arc<dyn Dir>, survey: &Survey, options: &Options) -> (Option<Living>, Option<String>) {
    if survey.missing.is_empty() {
        return (None, None);
    }
    let Some(superblock) = survey.superblock.as_ref().filter(|_| survey.is_last) else {
        return (None, Some("versions removed in a lost segment may come back: the superblock is not intact".into()));
    };
    match look(source, options) {
        Ok(sequences) => (Some(Living { sequences, below: superblock.next_sequence }), None),
        Err(e) => (None, Some(format!("versions removed in a lost segment may come back: {e}"))),
    }
}

fn look(source: &Arc<dyn Dir>, options: &Options) -> Result<Sequences> {
    let store = Store::open_read_only_in(Arc::clone(source), options.clone(), Threads::None)?;
    let is_key = |file: &str| names::parse_keys(file).is_some();
    if let Some(gone) = store.absent().iter().find(|a| is_key(&a.file)) {
        return Err(gone.error());
    }
    let mut sequences = Sequences::default();
    for key in store.keys() {
        let key = match key {
            // Errors of value segments: their content is lost anyway.
            Err(Error::Storage(StorageError::Corrupt { file, .. })) if names::parse_segment(&file).is_some() => {
                continue;
            }
            key => key?,
        };
        let spots = store.reading.all_spots(&key, store.reading.hash(&key))?;
        spots.iter().for_each(|s| sequences.insert(s.version.sequence));
    }
    Ok(sequences)
}
