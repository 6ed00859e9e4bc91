//! What may be put: rules of erasures are held by whoever knows what they mean, and asked here.

use std::sync::Arc;

use crate::handle::writing::Writing;
use crate::record::Record;

/// Is asked about everything that is put through a handle; see [`Store::set_admission`](crate::Store::set_admission). It is
/// called on every put: it should take no lock, and little time.
pub trait Admission: Send + Sync {
    /// The id of the rule that refuses versions of this key and time, whatever their bodies are.
    fn refuses(&self, key: &[u8], time_ms: i64) -> Option<u32>;

    /// Whether any rule needs to see bodies. Then they are handed over whole, wherever they are known whole; a body that is
    /// put piece by piece ([`Store::put_stream`](crate::Store::put_stream)) its giver must judge.
    fn wants_bodies(&self) -> bool {
        false
    }

    /// The id of the rule that refuses a version by its body.
    fn refuses_body(&self, _record: &Record<'_>) -> Option<u32> {
        None
    }
}

impl Writing {
    /// Who is asked about everything that is put.
    pub(crate) fn admission(&self) -> Option<Arc<dyn Admission>> {
        self.admission.load().as_deref().map(Arc::clone)
    }

    pub(crate) fn set_admission(&self, admission: Option<Arc<dyn Admission>>) {
        self.admission.store(admission.map(Arc::new));
    }
}
