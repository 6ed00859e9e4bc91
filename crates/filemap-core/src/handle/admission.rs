//! What may be put: rules of erasures are held by whoever knows what they mean, and asked here.

use std::sync::Arc;

use crate::event::Event;
use crate::format::rules::RuleState;
use crate::handle::Shared;
use crate::record::Record;
use crate::sync::lock;

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

impl Shared {
    pub(crate) fn admission(&self) -> Option<Arc<dyn Admission>> {
        let admission = self.writer.as_ref()?.admission.load();
        admission.as_deref().map(Arc::clone)
    }

    /// Tells of erasures that were begun and did not end.
    pub(crate) fn tell_unfinished(&self) {
        let Some(writer) = &self.writer else { return };
        let rules = lock(&writer.rules);
        let unfinished = rules.list.iter().filter(|r| r.state == RuleState::Unfinished);
        let rules: Vec<u32> = unfinished.map(|r| r.id).collect();
        if !rules.is_empty() {
            self.emit(&Event::ErasureUnfinished { rules });
        }
    }
}
