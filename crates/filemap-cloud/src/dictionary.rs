//! A dictionary in memory: compresses and expands bodies. Also expands the payloads of records
//! without one, so that all reading of payloads is here.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use zstd::dict::{CDict, DDict};
use zstd::zstd_safe::{CCtx, DCtx, compress_bound};

use crate::format::chunks;
use crate::format::dictionary::Facts;
use crate::format::record::{Codec, DictionaryId, Record};

/// Shorter bodies are compressed without a dictionary.
const SHORTEST: usize = 24;
/// So are bodies longer than this many times the dictionary: they gain nothing from it.
const LONGEST_IN_DICTIONARIES: usize = 6;

/// A dictionary that was read, or just trained.
pub(crate) struct Dictionary {
    pub(crate) id: DictionaryId,
    pub(crate) facts: Facts,
    content: Vec<u8>,
    expander: DDict<'static>,
    /// By level, each made when it is first needed.
    compressors: Mutex<BTreeMap<i32, Arc<CDict<'static>>>>,
    /// Set by an erasure: nothing new is stored with it.
    is_retired: AtomicBool,
}

impl fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dictionary").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Dictionary {
    /// Reads the object of this dictionary. An error describes the damage.
    pub(crate) fn decode(bytes: &[u8], id: DictionaryId) -> Result<Dictionary, &'static str> {
        let (facts, content) = Facts::decode(bytes, id)?;
        Dictionary::new(id, facts, content.to_vec())
    }

    /// A dictionary with this content.
    pub(crate) fn new(id: DictionaryId, facts: Facts, content: Vec<u8>) -> Result<Dictionary, &'static str> {
        let expander = DDict::try_create(&content).ok_or("zstd refuses the dictionary")?;
        let (compressors, is_retired) = (Mutex::default(), AtomicBool::new(false));
        Ok(Dictionary { id, facts, content, expander, compressors, is_retired })
    }

    pub(crate) fn content(&self) -> &[u8] {
        &self.content
    }

    /// The object.
    pub(crate) fn encode(&self) -> Vec<u8> {
        self.facts.encode(self.id, &self.content)
    }

    /// Its memory, without what compresses: only the few dictionaries in use have that.
    pub(crate) fn bytes(&self) -> u64 {
        (self.content.len() + self.expander.sizeof()) as u64
    }

    pub(crate) fn retire(&self) {
        self.is_retired.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_retired(&self) -> bool {
        self.is_retired.load(Ordering::Relaxed)
    }

    /// What compresses at a level; `None` if zstd refuses.
    fn compressor(&self, level: i32) -> Option<Arc<CDict<'static>>> {
        let mut compressors = self.compressors.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = compressors.get(&level) {
            return Some(Arc::clone(known));
        }
        let made = Arc::new(CDict::try_create(&self.content, level)?);
        compressors.insert(level, Arc::clone(&made));
        Some(made)
    }

    /// A body compressed with it at a level; `None` if that saves too little.
    pub(crate) fn compressed(&self, body: &[u8], level: i32) -> Option<Vec<u8>> {
        if body.len() < SHORTEST || body.len() > self.content.len().saturating_mul(LONGEST_IN_DICTIONARIES) {
            return None;
        }
        let compressor = self.compressor(level)?;
        let mut packed = Vec::with_capacity(compress_bound(body.len()));
        CCtx::try_create()?.compress_using_cdict(&mut packed, body, &compressor).ok()?;
        chunks::is_gain(packed.len(), body.len()).then_some(packed)
    }

    /// The body of `bytes` bytes in a frame. An error describes the damage.
    pub(crate) fn expanded(&self, frame: &[u8], bytes: usize) -> Result<Vec<u8>, String> {
        let mut body = Vec::new();
        body.try_reserve_exact(bytes).map_err(|error| format!("no memory for a body: {error}"))?;
        let mut context = DCtx::try_create().ok_or("no memory to decompress a body")?;
        let expanded = context.decompress_using_ddict(&mut body, frame, &self.expander);
        expanded.map_err(|_| "a body does not decompress with its dictionary".to_owned())?;
        Ok(body)
    }
}

/// The body in a record, which was compressed with `dictionary` if it names one. An error
/// describes the damage.
pub(crate) fn unpack(record: &Record<'_>, dictionary: Option<&Dictionary>) -> Result<Vec<u8>, String> {
    let bytes = usize::try_from(record.body_bytes).unwrap_or(usize::MAX);
    let bytes = bytes.min(filemap_core::Record::MAX_VALUE_BYTES as usize);
    let body = match record.codec {
        Codec::None => record.payload.to_vec(),
        Codec::Chunks => chunks::unpack(record.payload, record.body_bytes)?,
        Codec::Zstd => {
            let unpacked = zstd::bulk::decompress(record.payload, bytes);
            unpacked.map_err(|error| format!("a body does not decompress: {error}"))?
        }
        Codec::Dictionary => {
            let dictionary = dictionary.filter(|dictionary| record.dictionary() == Some(dictionary.id));
            dictionary.ok_or("a body that needs a dictionary")?.expanded(record.payload, bytes)?
        }
    };
    let is_whole = body.len() as u64 == record.body_bytes;
    if is_whole { Ok(body) } else { Err("length mismatch of a body".to_owned()) }
}

#[cfg(test)]
mod tests {
    use filemap_core::Version;

    use super::*;
    use crate::format::record::{Kind, NONE};

    fn dictionary(text: &str) -> Dictionary {
        let id = DictionaryId { epoch: 3, number: 1 };
        Dictionary::new(id, Facts::default(), text.repeat(20).into_bytes()).expect("raw content is always taken")
    }

    #[test]
    fn a_body_comes_back_by_its_dictionary_and_by_no_other() {
        let (own, other) = (dictionary("the navigation of a site, "), dictionary("something else, "));
        let body = b"the navigation of a site, and a page of it".to_vec();
        let packed = own.compressed(&body, 3).expect("it saves");
        assert!(packed.len() < body.len() && own.compressed(&body, 19).is_some());
        assert_eq!(own.expanded(&packed, body.len()).as_ref(), Ok(&body));
        assert!(other.expanded(&packed, body.len()).as_ref() != Ok(&body));
        assert!(own.expanded(&packed, body.len() - 1).is_err(), "no more memory than the record says");
        assert_eq!(own.compressed(b"short", 3), None);
        assert_eq!(own.compressed(&vec![b'x'; own.content().len() * 7], 3), None);
        let record = Record {
            kind: Kind::Page,
            codec: Codec::Dictionary,
            version: Version { time_ms: 1, sequence: 2 },
            other: NONE,
            key: b"http://a/",
            meta: b"",
            spill_bytes: 0,
            payload: &packed,
            body_bytes: body.len() as u64,
            digest: 0,
        }
        .naming(own.id);
        assert_eq!(unpack(&record, Some(&own)).as_ref(), Ok(&body));
        assert!(unpack(&record, None).is_err());
        assert!(unpack(&record.naming(DictionaryId { epoch: 3, number: 2 }), Some(&own)).is_err());
        let again = Dictionary::decode(&own.encode(), own.id).expect("whole");
        assert_eq!((again.content(), again.is_retired()), (own.content(), false));
    }

    #[test]
    fn a_dictionary_that_only_looks_trained_is_damage_and_no_panic() {
        let id = DictionaryId { epoch: 1, number: 1 };
        let content = [&[0x37, 0xa4, 0x30, 0xec][..], &[0xff; 600]].concat();
        assert!(Dictionary::new(id, Facts::default(), content).is_err());
    }
}
