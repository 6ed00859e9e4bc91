//! A request to add URLs, and its answers.

use xxhash_rust::xxh3::Xxh3;

use crate::request_id::RequestId;
use crate::seen::Verdict;
use crate::stored::{Keys, StoredSet};

/// URLs to add to a set, under an id if the request may be sent again. Made by
/// [`crate::idempotent::IdempotentSet::request`], for that set.
///
/// ```
/// use urlindex::Whatwg;
/// use urlindex::idempotent::{IdempotentSet, RequestOptions};
/// use urlindex::stored::{NewSet, StoredSet};
///
/// # let folder = tempfile::tempdir()?;
/// let set = StoredSet::create(folder.path().join("seen"), NewSet::Trie, &Whatwg)?;
/// let set = IdempotentSet::new(set, RequestOptions::new())?;
/// let mut request = set.request(None);
/// assert!(request.is_empty());
/// set.push(&mut request, Some(b"http://example.com/"));
/// set.push(&mut request, None);
/// assert_eq!(request.len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct AddRequest {
    pub(super) id: Option<RequestId>,
    pub(super) keys: Keys,
    /// Identifies the sets that have such keys.
    pub(super) keys_of: u64,
    /// Positions of entries that are not URLs, in order.
    invalid: Vec<u32>,
}

impl AddRequest {
    pub(super) fn new(id: Option<RequestId>, set: &StoredSet, keys_of: u64) -> AddRequest {
        AddRequest { id, keys: set.keys(), keys_of, invalid: Vec::new() }
    }

    pub(super) fn push(&mut self, set: &StoredSet, url: Option<&[u8]>) {
        if !url.is_some_and(|url| set.push_key(&mut self.keys, url)) {
            self.invalid.push(self.len() as u32);
        }
    }

    /// Number of URLs, invalid ones included.
    pub fn len(&self) -> usize {
        self.keys.len() + self.invalid.len()
    }

    /// Returns whether the request is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn digest(&self) -> u128 {
        let mut hash = Xxh3::new();
        self.keys.digest(&mut hash);
        hash.update(b"invalid");
        self.invalid.iter().for_each(|place| hash.update(&place.to_le_bytes()));
        hash.digest128()
    }

    /// All answers in order of arrival, from those to the keys.
    pub(super) fn verdicts(&self, of_keys: impl IntoIterator<Item = Verdict>) -> Verdicts {
        let (mut invalid, mut of_keys) = (self.invalid.iter().peekable(), of_keys.into_iter());
        let verdict = |place: usize| match invalid.next_if(|next| **next as usize == place) {
            Some(_) => None,
            None => of_keys.next(),
        };
        (0..self.len()).map(verdict).collect()
    }
}

/// The answers to a request, in the order of its URLs: `None` for an entry that is not a URL.
///
/// ```
/// use urlindex::idempotent::{IdempotentSet, RequestOptions};
/// use urlindex::stored::{NewSet, StoredSet};
/// use urlindex::{Verdict, Whatwg};
///
/// # let folder = tempfile::tempdir()?;
/// let set = StoredSet::create(folder.path().join("seen"), NewSet::Trie, &Whatwg)?;
/// let set = IdempotentSet::new(set, RequestOptions::new())?;
/// let mut request = set.request(None);
/// set.push(&mut request, Some(b"http://example.com/"));
/// set.push(&mut request, None);
/// let answers = set.answer(&[request]).remove(0)?;
/// assert_eq!(answers.iter().collect::<Vec<_>>(), [Some(Verdict::New), None]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdicts {
    /// Two bits each, the lowest first.
    pub(super) packed: Vec<u8>,
    pub(super) len: u32,
}

impl Verdicts {
    fn push(&mut self, verdict: Option<Verdict>) {
        let bits = match verdict {
            None => 0,
            Some(Verdict::New) => 1,
            Some(Verdict::Seen) => 2,
            Some(Verdict::ProbablySeen) => 3,
        };
        match (self.len % 4, self.packed.last_mut()) {
            (1.., Some(last)) => *last |= bits << (self.len % 4 * 2),
            _ => self.packed.push(bits),
        }
        self.len += 1;
    }

    /// Number of answers.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The answer at this position; `None` also past the last.
    pub fn get(&self, place: usize) -> Option<Verdict> {
        match self.packed.get(place / 4)? >> (place % 4 * 2) & 3 {
            1 => Some(Verdict::New),
            2 => Some(Verdict::Seen),
            3 => Some(Verdict::ProbablySeen),
            _ => None,
        }
    }

    /// The answers in order.
    pub fn iter(&self) -> impl Iterator<Item = Option<Verdict>> + '_ {
        (0..self.len()).map(|place| self.get(place))
    }
}

impl FromIterator<Option<Verdict>> for Verdicts {
    fn from_iter<I: IntoIterator<Item = Option<Verdict>>>(verdicts: I) -> Verdicts {
        let mut all = Verdicts::default();
        for verdict in verdicts {
            all.push(verdict);
        }
        all
    }
}
