//! A place in a store's history, as text.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use filemap_core::changes::ChangeCursor;

use crate::error::{Error, Result};

/// Separates the place in the history from the place in the list of all keys.
const LISTED: char = '~';
/// Precedes the fingerprint of the access rules.
const RULES: char = '.';

/// A place in a store's history, as text that a client keeps. During the list of all versions it
/// also holds the place in that list.
///
/// ```
/// # use filemap::{Options, PageStore};
/// use filemap::store::ChangesPlace;
///
/// # let dir = tempfile::tempdir()?;
/// # let store = PageStore::create(dir.path().join("pages.fm"), Options::new())?;
/// let place = store.changes_end()?;
/// assert_eq!(place.to_string().parse::<ChangesPlace>()?, place);
/// assert!(!place.is_listing() && place.beginning().is_listing());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangesPlace {
    pub(super) since: ChangeCursor,
    /// The ordered form of the key listed last, empty before the first; `None` once all is listed.
    pub(super) listed: Option<Vec<u8>>,
    /// Fingerprint of the access rules that filtered the changes.
    pub(super) rules: Option<u64>,
}

impl ChangesPlace {
    /// Fingerprint of the access rules that filtered the changes before this place; `None` without
    /// rules.
    pub fn rules(&self) -> Option<u64> {
        self.rules
    }

    /// This place, for a client that these access rules filter changes for.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use filemap::{Options, PageStore};
    /// # use filemap::store::ChangesPlace;
    /// # let dir = tempfile::tempdir()?;
    /// # let store = PageStore::create(dir.path().join("pages.fm"), Options::new())?;
    /// let place = store.changes_end()?.under_rules(Some(7)).beginning();
    /// assert_eq!(place.to_string().parse::<ChangesPlace>()?, place);
    /// assert_eq!(place.rules(), Some(7));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn under_rules(self, rules: Option<u64>) -> ChangesPlace {
        ChangesPlace { rules, ..self }
    }

    /// Returns whether the list of all versions is still incomplete.
    pub fn is_listing(&self) -> bool {
        self.listed.is_some()
    }

    /// The start of a list of all versions; the changes since this place follow it.
    pub fn beginning(&self) -> ChangesPlace {
        ChangesPlace { listed: Some(Vec::new()), ..self.clone() }
    }

    /// Sequence of the next change: later puts have no lower one.
    pub fn next_sequence(&self) -> u64 {
        self.since.next_sequence()
    }

    /// Id of the store that the history belongs to.
    pub fn store_id(&self) -> [u8; 16] {
        self.since.store_id()
    }

    /// The ordered form of the key listed last, during the list.
    pub(crate) fn listed(&self) -> Option<&[u8]> {
        self.listed.as_deref()
    }
}

impl fmt::Display for ChangesPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.since)?;
        if let Some(listed) = &self.listed {
            write!(f, "{LISTED}{}", URL_SAFE_NO_PAD.encode(listed))?;
        }
        self.rules.map_or(Ok(()), |rules| write!(f, "{RULES}{rules:016x}"))
    }
}

impl FromStr for ChangesPlace {
    type Err = Error;

    /// # Errors
    ///
    /// [`Error::Cursor`] for any other text.
    fn from_str(text: &str) -> Result<ChangesPlace> {
        let none = || Error::Cursor { what: "it is not a place in a store's history" };
        let (text, rules) = match text.split_once(RULES) {
            Some((text, rules)) => (text, Some(u64::from_str_radix(rules, 16).map_err(|_| none())?)),
            None => (text, None),
        };
        let (since, listed) = match text.split_once(LISTED) {
            Some((since, listed)) => (since, Some(URL_SAFE_NO_PAD.decode(listed).map_err(|_| none())?)),
            None => (text, None),
        };
        Ok(ChangesPlace { since: since.parse().map_err(|_| none())?, listed, rules })
    }
}
