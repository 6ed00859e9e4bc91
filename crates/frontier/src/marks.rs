//! Status and marks of a page, two bytes.

use crate::outcome::FailureKind;

/// Status of a page. The numbers are on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Status {
    /// Never fetched; queued.
    Ready = 0,
    /// Never fetched; failed, waits for a retry.
    Waiting = 1,
    /// Never fetched; in flight.
    InFlight = 2,
    /// Fetched; waits for its recrawl, if any.
    Fetched = 3,
    /// Fetched; queued for its recrawl.
    Due = 4,
    /// Fetched; in flight again.
    Refreshing = 5,
    /// Given up.
    Gone = 6,
}

impl Status {
    pub(crate) const ALL: [Status; 7] = [
        Status::Ready,
        Status::Waiting,
        Status::InFlight,
        Status::Fetched,
        Status::Due,
        Status::Refreshing,
        Status::Gone,
    ];

    /// Returns whether its first fetch is still queued, waiting or in flight.
    pub(crate) fn is_new(self) -> bool {
        matches!(self, Status::Ready | Status::Waiting | Status::InFlight)
    }

    pub(crate) fn is_fetched(self) -> bool {
        matches!(self, Status::Fetched | Status::Due | Status::Refreshing)
    }

    /// Its queue: 0 for first fetches, 1 for refreshes.
    pub(crate) fn queue(self) -> Option<usize> {
        match self {
            Status::Ready => Some(0),
            Status::Due => Some(1),
            _ => None,
        }
    }
}

/// Status (3 bits), seed (1), failed attempts (4), last failure (4) and recrawl step (4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks(pub(crate) u16);

impl Marks {
    /// Marks of a newly discovered page.
    pub(crate) fn new(is_seed: bool, age: u8) -> Marks {
        Marks(u16::from(is_seed) << 3 | u16::from(age & 15) << 12)
    }

    /// Marks from disk; `None` if invalid.
    pub(crate) fn checked(bits: u16) -> Option<Marks> {
        (usize::from(bits & 7) < Status::ALL.len()).then_some(Marks(bits))
    }

    pub(crate) fn status(self) -> Status {
        Status::ALL[usize::from(self.0 & 7)]
    }

    pub(crate) fn is_seed(self) -> bool {
        self.0 & 8 != 0
    }

    pub(crate) fn attempts(self) -> u8 {
        (self.0 >> 4 & 15) as u8
    }

    pub(crate) fn failure(self) -> Option<FailureKind> {
        FailureKind::of_code((self.0 >> 8 & 15) as u8)
    }

    /// The step of the recrawl interval.
    pub(crate) fn age(self) -> u8 {
        (self.0 >> 12) as u8
    }

    pub(crate) fn with_status(self, status: Status) -> Marks {
        Marks(self.0 & !7 | status as u16)
    }

    pub(crate) fn with_seed(self) -> Marks {
        Marks(self.0 | 8)
    }

    pub(crate) fn with_failure(self, attempts: u8, failure: Option<FailureKind>) -> Marks {
        let code = failure.map_or(0, FailureKind::code);
        Marks(self.0 & !0x0ff0 | u16::from(attempts & 15) << 4 | u16::from(code) << 8)
    }

    pub(crate) fn with_age(self, age: u8) -> Marks {
        Marks(self.0 & 0x0fff | u16::from(age & 15) << 12)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_keep_what_they_are_given() {
        let marks = Marks::new(true, 9).with_status(Status::Due).with_failure(15, Some(FailureKind::Other)).with_age(3);
        assert_eq!((marks.status(), marks.is_seed(), marks.attempts()), (Status::Due, true, 15));
        assert_eq!((marks.failure(), marks.age()), (Some(FailureKind::Other), 3));
        let cleared = marks.with_failure(0, None).with_status(Status::Ready);
        assert_eq!((cleared.attempts(), cleared.failure(), cleared.age(), cleared.is_seed()), (0, None, 3, true));
        assert_eq!(Marks::checked(7), None);
        for kind in FailureKind::ALL {
            assert_eq!(Marks::new(false, 0).with_failure(1, Some(kind)).failure(), Some(kind));
        }
    }
}
