//! A cursor over an ordered run: from any key, forwards and backwards.
//!
//! It holds the path down to its leaf, so the next leaf costs one read. Keys rise along a walk in
//! either direction whatever the file holds: a leaf that does not continue after the last one is
//! damage.

use std::sync::Arc;

use filemap_io::StorageError;

use super::ahead::Ahead;
use super::change::Entry;
use super::format::Child;
use super::inner::Inner;
use super::leaf::Leaf;
use super::run::Run;

/// No entry is held.
const NONE: usize = usize::MAX;

/// An inner block on the path, and the child taken in it.
#[derive(Debug)]
struct Step {
    inner: Arc<Inner>,
    nth: usize,
}

/// A position between two entries of a run. An error leaves the position unchanged.
///
/// ```
/// use std::sync::Arc;
/// use filemap_runs::ordered::{Change, Cursor};
///
/// # let dir = filemap_io::sim::SimDisk::new(1).dir();
/// # use filemap_runs::ordered::{Home, Run, Writer};
/// # let home = Home::new(dir, "keys", [7; 16], ());
/// # let mut writer = Writer::create(&home, 1).unwrap();
/// # writer.push(b"com,example)/", Change::Added).unwrap();
/// # writer.push(b"org,example)/", Change::Added).unwrap();
/// # let written = writer.end().unwrap().expect("not empty");
/// let run = Arc::new(Run::open(&home, written.info()).unwrap());
/// let mut cursor = Cursor::before(run, b"org,").unwrap();
/// assert_eq!(cursor.forward().unwrap(), Some((&b"org,example)/"[..], Change::Added)));
/// assert_eq!(cursor.forward().unwrap(), None);
/// cursor.seek(b"org,").unwrap();
/// assert_eq!(cursor.back().unwrap(), Some((&b"com,example)/"[..], Change::Added)));
/// ```
#[derive(Debug)]
pub struct Cursor {
    run: Arc<Run>,
    path: Vec<Step>,
    leaf: Leaf,
    /// Buffer for the next leaf.
    spare: Leaf,
    /// The entry of the leaf whose key is in `key`, or `NONE`.
    held: usize,
    key: Vec<u8>,
    /// Index of the entry after the position.
    at: usize,
    ahead: Ahead,
}

impl Cursor {
    /// A cursor before the first entry.
    ///
    /// # Errors
    /// [`StorageError::Corrupt`]; [`StorageError::Io`].
    pub fn first(run: Arc<Run>) -> Result<Cursor, StorageError> {
        Cursor::new(run, |_| 0)
    }

    /// A cursor after the last entry.
    ///
    /// # Errors
    /// [`StorageError::Corrupt`]; [`StorageError::Io`].
    pub fn last(run: Arc<Run>) -> Result<Cursor, StorageError> {
        let mut cursor = Cursor::new(run, |inner| inner.len() - 1)?;
        cursor.at = cursor.leaf.len();
        Ok(cursor)
    }

    /// A cursor before the first entry whose key is `key` or greater.
    ///
    /// # Errors
    /// [`StorageError::Corrupt`]; [`StorageError::Io`].
    pub fn before(run: Arc<Run>, key: &[u8]) -> Result<Cursor, StorageError> {
        let mut cursor = Cursor::new(run, |inner| inner.find(key))?;
        cursor.at = cursor.leaf.below(key);
        Ok(cursor)
    }

    fn new(run: Arc<Run>, choose: impl Fn(&Inner) -> usize) -> Result<Cursor, StorageError> {
        let (leaf, spare, ahead) = (Leaf::default(), Leaf::default(), Ahead::default());
        let mut cursor = Cursor { run, path: Vec::new(), leaf, spare, held: NONE, key: Vec::new(), at: 0, ahead };
        cursor.jump(choose)?;
        Ok(cursor)
    }

    /// The run.
    pub fn run(&self) -> &Arc<Run> {
        &self.run
    }

    /// Moves before the first entry whose key is `key` or greater.
    ///
    /// # Errors
    /// [`StorageError::Corrupt`]; [`StorageError::Io`].
    pub fn seek(&mut self, key: &[u8]) -> Result<(), StorageError> {
        self.jump(|inner| inner.find(key))?;
        self.at = self.leaf.below(key);
        Ok(())
    }

    /// Moves past the next entry and returns it; `None` at the end.
    ///
    /// # Errors
    /// [`StorageError::Corrupt`]; [`StorageError::Io`].
    #[inline]
    pub fn forward(&mut self) -> Result<Option<Entry<'_>>, StorageError> {
        if self.at == self.leaf.len() && !self.next_leaf()? {
            return Ok(None);
        }
        self.hold(self.at);
        self.at += 1;
        Ok(Some((&self.key, self.leaf.change(self.held))))
    }

    /// Moves before the previous entry and returns it; `None` at the beginning.
    ///
    /// # Errors
    /// [`StorageError::Corrupt`]; [`StorageError::Io`].
    #[inline]
    pub fn back(&mut self) -> Result<Option<Entry<'_>>, StorageError> {
        if self.at == 0 && !self.previous_leaf()? {
            return Ok(None);
        }
        self.hold(self.at - 1);
        self.at -= 1;
        Ok(Some((&self.key, self.leaf.change(self.held))))
    }

    /// The entry returned last, unless the cursor has moved since by a seek.
    #[inline]
    pub(super) fn held(&self) -> Option<Entry<'_>> {
        (self.held != NONE).then(|| (&self.key[..], self.leaf.change(self.held)))
    }

    /// The key of [`Cursor::held`].
    #[inline]
    pub(super) fn held_key(&self) -> Option<&[u8]> {
        (self.held != NONE).then_some(&self.key[..])
    }

    /// Makes `key` the key of entry `nth` of the leaf.
    #[inline]
    fn hold(&mut self, nth: usize) {
        let known = match self.held {
            held if held == nth => return,
            NONE => 0,
            held if held + 1 == nth => self.leaf.shared(nth),
            held if held == nth + 1 => self.leaf.shared(held),
            _ => 0,
        };
        self.leaf.key(nth, known, &mut self.key);
        self.held = nth;
    }

    /// Descends from the root to the leaf that `choose` selects, before its first entry.
    fn jump(&mut self, choose: impl Fn(&Inner) -> usize) -> Result<(), StorageError> {
        let (mut child, mut path) = (self.run.root().0, Vec::new());
        if let Some(top) = self.run.top() {
            let nth = choose(top);
            child = top.child(nth);
            path.push(Step { inner: Arc::clone(top), nth });
        }
        self.descend(child, &mut path, 0, choose)?;
        self.path = path;
        self.ahead = Ahead::default();
        self.arrive();
        Ok(())
    }

    /// Descends from a child of the last step to a leaf, into the spare one, and adds the inner
    /// blocks to `path`, which lacks the first `above` steps.
    fn descend(
        &mut self,
        mut child: Child,
        path: &mut Vec<Step>,
        above: usize,
        choose: impl Fn(&Inner) -> usize,
    ) -> Result<(), StorageError> {
        let height = self.run.root().1 as usize;
        while above + path.len() < height {
            let inner = self.run.inner(&child, (height - above - path.len()) as u32)?;
            let nth = choose(&inner);
            child = inner.child(nth);
            path.push(Step { inner, nth });
        }
        self.run.leaf(&child, &mut self.spare)
    }

    /// Makes the spare leaf the current one, with the position before its first entry.
    fn arrive(&mut self) {
        std::mem::swap(&mut self.leaf, &mut self.spare);
        (self.held, self.at) = (NONE, 0);
    }

    /// Moves before the first entry of the next leaf; false if there is none.
    #[inline(never)]
    fn next_leaf(&mut self) -> Result<bool, StorageError> {
        let Some(depth) = self.path.iter().rposition(|step| step.nth + 1 < step.inner.len()) else {
            return Ok(false);
        };
        let step = &self.path[depth];
        let (child, mut path) = (step.inner.child(step.nth + 1), Vec::new());
        self.descend(child, &mut path, depth + 1, |_| 0)?;
        if self.leaf.last() >= self.spare.first() {
            return Err(self.run.damage(&self.spare.child, "a leaf does not follow the one before"));
        }
        self.path[depth].nth += 1;
        self.path.truncate(depth + 1);
        self.path.append(&mut path);
        self.arrive();
        self.ahead.step(&self.run, &self.leaf.child, false);
        Ok(true)
    }

    /// Moves after the last entry of the previous leaf; false if there is none.
    #[inline(never)]
    fn previous_leaf(&mut self) -> Result<bool, StorageError> {
        let Some(depth) = self.path.iter().rposition(|step| step.nth > 0) else { return Ok(false) };
        let step = &self.path[depth];
        let (child, mut path) = (step.inner.child(step.nth - 1), Vec::new());
        self.descend(child, &mut path, depth + 1, |inner| inner.len() - 1)?;
        if self.spare.last() >= self.leaf.first() {
            return Err(self.run.damage(&self.spare.child, "a leaf does not precede the one behind"));
        }
        self.path[depth].nth -= 1;
        self.path.truncate(depth + 1);
        self.path.append(&mut path);
        self.arrive();
        self.at = self.leaf.len();
        self.ahead.step(&self.run, &self.leaf.child, true);
        Ok(true)
    }
}
