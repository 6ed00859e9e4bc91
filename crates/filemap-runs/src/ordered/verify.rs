//! Verification of a whole run: every block, the order of keys over leaves, separators, sums,
//! counts.

use std::sync::Arc;

use filemap_io::StorageError;

use super::ahead::Ahead;
use super::format::{Child, Info, PAGE_BYTES};
use super::inner::Inner;
use super::leaf::Leaf;
use super::run::Run;

/// State of a verification.
struct Pass<'a> {
    run: &'a Run,
    found: Info,
    leaf: Leaf,
    /// The last key.
    last: Vec<u8>,
    /// Separator between the previous leaf and the next one.
    separator: Vec<u8>,
    /// The page after the last block of each level.
    ends: Vec<u64>,
    ahead: Ahead,
}

impl Run {
    /// Reads the run from front to end and checks everything in it. Returns its own counts, which
    /// equal [`Run::info`].
    ///
    /// # Errors
    /// The first error: [`StorageError::Corrupt`]; [`StorageError::Io`].
    pub fn verify(&self) -> Result<Info, StorageError> {
        let (root, height) = self.root();
        let mut pass = Pass {
            run: self,
            found: Info { number: self.info().number, pages: 1, ..Info::default() },
            leaf: Leaf::default(),
            last: Vec::new(),
            separator: Vec::new(),
            ends: vec![1; height as usize + 1],
            ahead: Ahead::default(),
        };
        self.check_header()?;
        pass.block(&root, height)?;
        if pass.found != self.info() {
            return Err(self.damage(&root, "the run's blocks or entries differ from its header's counts"));
        }
        Ok(pass.found)
    }
}

impl Pass<'_> {
    /// Checks a block and everything below it.
    fn block(&mut self, child: &Child, level: u32) -> Result<(), StorageError> {
        let end = &mut self.ends[level as usize];
        if child.page < *end {
            return Err(self.run.damage(child, "the blocks of a level are not in order"));
        }
        *end = child.end();
        self.found.pages += u64::from(child.pages);
        if level == 0 {
            return self.leaf(child);
        }
        let inner: Arc<Inner> = self.run.inner(child, level)?;
        self.rest_is_zero(child, inner.rest())?;
        let mut separator = Vec::new();
        for nth in 0..inner.len() {
            if nth > 0 {
                inner.separator(nth, &mut separator);
                if separator <= self.last {
                    return Err(self.run.damage(child, "a separator is not above the keys before it"));
                }
                self.separator.clone_from(&separator);
            }
            self.block(&inner.child(nth), level - 1)?;
        }
        Ok(())
    }

    fn leaf(&mut self, child: &Child) -> Result<(), StorageError> {
        self.run.leaf(child, &mut self.leaf)?;
        self.rest_is_zero(child, self.leaf.rest())?;
        if self.leaf.first() < &self.separator[..] || self.leaf.first() <= &self.last[..] {
            return Err(self.run.damage(child, "the first key of a leaf is below its separator"));
        }
        self.ahead.step(self.run, child, false);
        self.last.clear();
        self.last.extend_from_slice(self.leaf.last());
        self.found.leaves += 1;
        self.found.added += child.tally.entries - child.tally.removed;
        self.found.removed += child.tally.removed;
        Ok(())
    }

    fn rest_is_zero(&self, child: &Child, rest: &[u8]) -> Result<(), StorageError> {
        debug_assert!(rest.len() < PAGE_BYTES);
        match rest.iter().all(|byte| *byte == 0) {
            true => Ok(()),
            false => Err(self.run.damage(child, "bytes after the last entry of a block are not zero")),
        }
    }
}
