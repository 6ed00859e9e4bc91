//! A URL as it stands on the command line: bytes, which need not be text.
//!
//! The store says what a URL is (its canonicaliser), so that nothing is refused or re-coded before it gets there.

use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::OsStringExt;

/// A URL as it was given.
#[derive(Clone, Debug)]
pub struct Address(OsString);

impl Address {
    /// A URL that was read somewhere else than on the command line.
    pub fn from_bytes(bytes: Vec<u8>) -> Self {
        Self(OsString::from_vec(bytes))
    }

    /// Its bytes, as given.
    pub fn bytes(&self) -> &[u8] {
        self.0.as_encoded_bytes()
    }
}

impl AsRef<[u8]> for Address {
    fn as_ref(&self) -> &[u8] {
        self.bytes()
    }
}

impl From<OsString> for Address {
    fn from(given: OsString) -> Self {
        Self(given)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.to_string_lossy())
    }
}
