//! An iterator that fetches its items in batches, each by a task of the runtime while the caller
//! waits.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::core::Core;
use crate::error::Result;

/// A batch: the state for the next one, `None` at the end, and the items.
pub(crate) type Part<S, T> = (Option<S>, Vec<filemap::Result<T>>);

/// Fetches the next batch of a state.
pub(crate) type Step<S, T> = fn(Arc<Core>, S) -> BoxFuture<'static, Result<Part<S, T>>>;

/// Items fetched in batches. Ends after the first error of a whole batch.
pub(crate) struct Parts<S, T> {
    core: Arc<Core>,
    state: Option<S>,
    ready: VecDeque<filemap::Result<T>>,
    step: Step<S, T>,
}

impl<S, T> Parts<S, T> {
    pub(crate) fn new(core: &Arc<Core>, state: S, step: Step<S, T>) -> Parts<S, T> {
        Parts { core: Arc::clone(core), state: Some(state), ready: VecDeque::new(), step }
    }
}

impl<S: Send + 'static, T: Send + 'static> Iterator for Parts<S, T> {
    type Item = filemap::Result<T>;

    fn next(&mut self) -> Option<filemap::Result<T>> {
        while self.ready.is_empty() {
            let state = self.state.take()?;
            let work = (self.step)(Arc::clone(&self.core), state);
            match self.core.wait_for(work) {
                Ok((state, items)) => {
                    self.state = state;
                    self.ready.extend(items);
                }
                Err(error) => return Some(Err(error.into())),
            }
        }
        self.ready.pop_front()
    }
}
