//! Closes a handle in the middle of what a clone of it does, while a second writer opens the store
//! and writes. The first operation must end with `Closed`, or have been over, and change nothing.

use std::io::Write;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use filemap_core::prune::PruneRule;
use filemap_core::{Error, Result, StorageError, Store, sim};
use filemap_io::sim::SimDisk;

use crate::contents;
use crate::drive::{Driver, now, tell};
use crate::op::{Long, Op};
use crate::trouble::Trouble;
use filemap_oracle::{After, Pruning};

/// Closes the handle at one step of a long operation.
struct Between {
    /// Its handle is the one that is closed, and the second writer's then.
    driver: Driver,
    /// Steps that are left before that.
    left: usize,
    key: usize,
    trouble: Option<Trouble>,
    is_closed: bool,
}

impl Between {
    fn one(&mut self) {
        let may_close = self.driver.store.as_ref().is_some_and(sim::may_close);
        if self.is_closed || !may_close {
            return;
        }
        if self.left > 0 {
            self.left -= 1;
            return;
        }
        self.is_closed = true;
        self.trouble = self.close_and_write_on().err();
    }

    fn close_and_write_on(&mut self) -> std::result::Result<(), Trouble> {
        self.driver.reopen()?;
        let bytes = self.driver.rng.usize(..200);
        for op in
            [Op::Put { key: self.key, time_ms: 3, bytes }, Op::Roll, Op::Train { key: self.key }, Op::Compact, Op::Grow]
        {
            if self.driver.rng.bool() {
                self.driver.perform(&op)?;
            }
        }
        Ok(())
    }
}

impl Driver {
    pub(crate) fn close_inside(&mut self, long: Long, after: usize, key: usize) -> std::result::Result<(), Trouble> {
        let begun = now(&self.oracle).next();
        let rule = PruneRule { keep_versions: Some(1), ..PruneRule::default() };
        if long == Long::Prune {
            tell(&self.oracle, |o| o.prune(Pruning { keep: Some(1), since_ms: None }));
            self.list_may_lack();
        }
        let store = self.store()?.clone();
        let driver = self.guest();
        let between = Between { driver, left: after, key, trouble: None, is_closed: false };
        let between = Arc::new(Mutex::new(between));
        let steps = Arc::clone(&between);
        // What is done at a step has its own steps, which are not moments to close anything.
        let step = move || match steps.try_lock() {
            Ok(mut between) => between.one(),
            Err(TryLockError::Poisoned(between)) => between.into_inner().one(),
            Err(TryLockError::WouldBlock) => {}
        };
        let key = self.keys[key].clone();
        sim::at_steps(Some(Box::new(step.clone())));
        let result = match long {
            Long::Compact => store.compact().map(|_| ()),
            Long::Recompress => store.recompress(2).map(|_| ()),
            Long::CompactKeys => sim::empty_keys(&store, after),
            Long::ShrinkIndex => sim::shrink_index(&store),
            Long::Prune => store.prune(rule, &mut |_| ControlFlow::Continue(())).map(|_| ()),
            Long::Train => store.train().map(|_| ()),
            Long::Backup => sim::back_up(&store, &*SimDisk::new(7).dir()).map(|_| ()),
            Long::Stream => stream(&store, &key, step),
        };
        sim::at_steps(None);
        let mut between = between.lock().unwrap_or_else(PoisonError::into_inner);
        let trouble = between.trouble.take();
        if between.is_closed {
            // The second writer's, or none if there is no second one.
            self.store = between.driver.store.take();
            self.end_list()?;
            self.reader.take().into_iter().for_each(sim::abandon);
            if !matches!(store.sync(), Err(Error::Closed)) {
                return Err(Trouble::Wrong("a closed handle continues".into()));
            }
        }
        if let Some(trouble) = trouble {
            return Err(trouble);
        }
        match result {
            Ok(()) | Err(Error::Storage(StorageError::InvalidOption { .. })) => {}
            Err(Error::Closed) if between.is_closed => {}
            Err(e) if between.is_closed && !self.has_failed() => {
                return Err(Trouble::Wrong(format!("{long:?} continues through a closed handle: {e}")));
            }
            Err(e) => return Err(Trouble::Error(e)),
        }
        let shown = contents::contents(self.store()?, &now(&self.oracle), After::Kill);
        let shown = shown.map_err(|e| match e {
            Trouble::Wrong(what) => Trouble::Wrong(format!("after {long:?} was closed: {what}")),
            error => error,
        })?;
        if long == Long::Prune {
            tell(&self.oracle, |o| o.pruned(begun, &shown));
        }
        match self.store()?.verify()?.problems.first() {
            Some(problem) => Err(Trouble::Wrong(format!("after {long:?} was closed: {problem:?}"))),
            None => Ok(()),
        }
    }
}

/// A body that is not ended before the handle is closed, so that nothing is stored.
fn stream(store: &Store, key: &[u8], mut step: impl FnMut()) -> Result<()> {
    let mut writer = store.put_stream(key, b"", 0)?;
    for _ in 0..4 {
        let written = writer.write_all(&[9; 700]);
        let error = written.err().and_then(|e| e.into_inner()?.downcast::<Error>().ok());
        if let Some(error) = error {
            return Err(*error);
        }
        step();
    }
    Ok(())
}
