//! Admission: a hook that refuses puts, used by the layer that interprets the erasure rules.

use std::sync::Arc;

use crate::handle::writing::Writing;
use crate::record::Record;

/// Judges every put of a handle; see [`Store::set_admission`](crate::Store::set_admission). Called
/// on every put: it should take no lock and little time.
///
/// ```
/// # let temp = tempfile::tempdir()?;
/// # let store = filemap_core::Store::create(temp.path().join("a"), filemap_core::Options::new())?;
/// # store.put(&filemap_core::Record::new(b"http://a.example/", b"A page.").time(7))?;
/// use std::sync::Arc;
/// use filemap_core::Record;
/// use filemap_core::erase::Admission;
/// struct No;
/// impl Admission for No {
///     fn refuses(&self, key: &[u8], _: i64) -> Option<u32> {
///         key.starts_with(b"http://b.example/").then_some(1)
///     }
/// }
/// store.set_admission(Some(Arc::new(No)));
/// assert!(store.put(&Record::new(b"http://b.example/", b"A page.")).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Admission: Send + Sync {
    /// Id of the rule that refuses versions of this key and time, whatever their bodies.
    fn refuses(&self, key: &[u8], time_ms: i64) -> Option<u32>;

    /// Returns true if a rule needs to see bodies. They are passed whole wherever known whole; the
    /// caller must judge a body put in pieces ([`Store::put_stream`](crate::Store::put_stream)).
    fn wants_bodies(&self) -> bool {
        false
    }

    /// Id of the rule that refuses a version by its body.
    fn refuses_body(&self, _record: &Record<'_>) -> Option<u32> {
        None
    }
}

impl Writing {
    pub(crate) fn admission(&self) -> Option<Arc<dyn Admission>> {
        self.admission.load().as_deref().map(Arc::clone)
    }

    pub(crate) fn set_admission(&self, admission: Option<Arc<dyn Admission>>) {
        self.admission.store(admission.map(Arc::new));
    }
}
