//! Reasons why a page of address.idx cannot be read: an error, or damage, which in the index of
//! another process may be a page that its writer has reused.

use crate::error::Error;
use crate::format::{Flaw, PAGE_BYTES, names};

/// A page that does not match the page that names it.
pub(super) struct Damage {
    pub(super) page: u32,
    pub(super) what: Flaw,
}

/// The reason why a page's content cannot be read.
pub(super) enum Trouble {
    Damage(Damage),
    Error(Error),
}

impl From<Error> for Trouble {
    fn from(e: Error) -> Trouble {
        Trouble::Error(e)
    }
}

impl Damage {
    pub(super) fn error(&self) -> Error {
        Error::corrupt(names::INDEX, u64::from(self.page) * PAGE_BYTES as u64, self.what)
    }
}

impl Trouble {
    pub(super) fn error(self) -> Error {
        match self {
            Trouble::Damage(damage) => damage.error(),
            Trouble::Error(e) => e,
        }
    }
}
