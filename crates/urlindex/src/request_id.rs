//! Ids of requests: UUIDs of version 7 (RFC 9562), which begin with their creation time. From it a
//! set knows whether it may have forgotten an id that it does not have.

use std::fmt;
use std::str::FromStr;

use uuid::{Builder, Uuid, Version};

/// The id of a request.
///
/// ```
/// use urlindex::idempotent::RequestId;
///
/// let id = RequestId::new(1_700_000_000_000, [7; 10]);
/// assert_eq!(id.to_string(), "018bcfe5-6800-7707-8707-070707070707");
/// assert_eq!("018bcfe5-6800-7707-8707-070707070707".parse(), Ok(id));
/// assert_eq!(id.time_ms(), 1_700_000_000_000);
/// assert!("9b2f1f8c-f5d9-4a44-8c0c-000000000000".parse::<RequestId>().unwrap_err().contains("version 7"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(Uuid);

impl RequestId {
    /// Makes a unique id of the current time.
    ///
    /// ```
    /// use urlindex::idempotent::RequestId;
    ///
    /// assert!(RequestId::now() < RequestId::now());
    /// ```
    pub fn now() -> RequestId {
        RequestId(Uuid::now_v7())
    }

    /// Makes an id of this time, in milliseconds since 1970, with these random bytes.
    pub fn new(time_ms: u64, random: [u8; 10]) -> RequestId {
        RequestId(Builder::from_unix_timestamp_millis(time_ms, &random).into_uuid())
    }

    /// Creation time, in milliseconds since 1970.
    pub fn time_ms(self) -> u64 {
        time_of(self.0.as_u128())
    }

    /// Its 128 bits.
    pub fn to_u128(self) -> u128 {
        self.0.as_u128()
    }

    /// The id of these bits; `None` if they are not a UUID of version 7.
    ///
    /// ```
    /// use urlindex::idempotent::RequestId;
    ///
    /// let id = RequestId::now();
    /// assert_eq!((RequestId::from_u128(id.to_u128()), RequestId::from_u128(7)), (Some(id), None));
    /// ```
    pub fn from_u128(bits: u128) -> Option<RequestId> {
        let id = Uuid::from_u128(bits);
        (id.get_version() == Some(Version::SortRand)).then_some(RequestId(id))
    }
}

/// Milliseconds since 1970 at the start of an id of version 7 (RFC 9562, 5.7).
pub(crate) fn time_of(id: u128) -> u64 {
    (id >> 80) as u64
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl FromStr for RequestId {
    type Err = String;

    fn from_str(text: &str) -> Result<RequestId, String> {
        let id = Uuid::try_parse(text).ok().filter(|id| id.get_version() == Some(Version::SortRand));
        id.map(RequestId).ok_or_else(|| format!("`{text}` is not a request id, a UUID of version 7"))
    }
}
