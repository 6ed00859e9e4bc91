//! The report of an import: what was stored, and every problem with its place.
//!
//! Damage is data here, not an error: an import continues after it. The list of problems is
//! bounded, their number is exact.

use std::collections::BTreeMap;

use crate::date::DateRule;
use crate::store::Unresolved;
use crate::warc::{DigestCount, Problem, ProblemKind};

/// Problems listed in a report; more are only counted.
pub const MAX_LISTED_PROBLEMS: usize = 10_000;

/// Result of one import, or of several ([`ImportReport::add`]).
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use std::ops::ControlFlow;
/// # use filemap::import::{ImportOptions, import};
/// # use filemap::{Options, PageStore};
/// # let dir = tempfile::tempdir()?;
/// # let store = PageStore::create(dir.path().join("pages.fm"), Options::new())?;
/// let file = b"WARC/1.1\r\nWARC-Type: resource\r\nContent-Length: 5\r\n\r\nhello\r\n\r\n";
/// let go_on = &mut |_| ControlFlow::Continue(());
/// let report = import(&store, "file.warc", &file[..], &ImportOptions::new(), go_on)?;
/// assert_eq!((report.records, report.unusable), (1, 1));
/// let no_url = |problem: &filemap::warc::Problem| problem.to_string().contains("WARC-Target-URI");
/// assert!(report.problems.iter().any(no_url));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImportReport {
    /// Bytes read from the file.
    pub bytes_read: u64,
    /// Whole WARC records, of every type.
    pub records: u64,
    /// Versions stored.
    pub stored: u64,
    /// Of these: versions with an unchanged body, which was not stored again.
    pub unchanged: u64,
    /// Of these: versions whose record was left in the file.
    pub in_place: u64,
    /// Of these: variants, that is, answers to requests other than a plain `GET`.
    pub variants: u64,
    /// Records that the store already had (same URL, time and digest).
    pub already_there: u64,
    /// Records of kinds that are not kept.
    pub ignored: u64,
    /// Stored versions whose content coding was undone.
    pub decoded: u64,
    /// Stored versions whose body does not decode and was kept as received.
    pub kept_as_received: u64,
    /// Bytes of the bodies stored, before compression.
    pub body_bytes: u64,
    /// The first [`MAX_LISTED_PROBLEMS`] problems, in the order of the file.
    pub problems: Vec<Problem>,
    /// Stored versions that are not pages: requests, metadata, conversions.
    pub beside: u64,
    /// Problems of kind [`ProblemKind::Damage`].
    pub damaged: u64,
    /// Problems of kind [`ProblemKind::Unusable`].
    pub unusable: u64,
    /// Of these: records that an erase rule refuses.
    pub refused: u64,
    /// Problems of kind [`ProblemKind::Misplaced`].
    pub misplaced: u64,
    /// Problems of kind [`ProblemKind::Segment`].
    pub segments: u64,
    /// Answers kept as pages that name another record whose request is not in the file: it is
    /// unknown whether that was a plain `GET`.
    pub without_request: u64,
    /// Requests other than a plain `GET` without an answer in the file: a page of their URL may be
    /// their answer.
    pub unanswered: u64,
    /// Problems of kind [`ProblemKind::Warning`]: each is reported once a file.
    pub warnings: u64,
    /// Number of records dated by a rule, by that rule.
    pub mended_dates: BTreeMap<DateRule, u64>,
    /// Results of checking the pages' payload digests.
    pub digests: DigestCount,
    /// The revisits among the pages: [`Unresolved::count`] returns the number without an original
    /// in the store. Call it after all files are in, since an original may come after its
    /// revisits.
    pub unresolved: Unresolved,
    /// The progress callback cancelled the import: what was stored stays, and repeating the import
    /// adds the rest.
    pub is_cancelled: bool,
}

impl ImportReport {
    /// Returns whether parts of the file are damaged.
    pub fn is_damaged(&self) -> bool {
        self.damaged > 0
    }

    /// Number of problems other than warnings.
    pub fn losses(&self) -> u64 {
        self.damaged + self.unusable + self.misplaced + self.segments
    }

    /// Adds another file's report to this one.
    pub fn add(&mut self, other: ImportReport) {
        self.bytes_read += other.bytes_read;
        self.records += other.records;
        self.stored += other.stored;
        self.unchanged += other.unchanged;
        self.in_place += other.in_place;
        self.variants += other.variants;
        self.already_there += other.already_there;
        self.ignored += other.ignored;
        self.decoded += other.decoded;
        self.kept_as_received += other.kept_as_received;
        self.body_bytes += other.body_bytes;
        self.beside += other.beside;
        self.damaged += other.damaged;
        self.unusable += other.unusable;
        self.refused += other.refused;
        self.misplaced += other.misplaced;
        self.segments += other.segments;
        self.without_request += other.without_request;
        self.unanswered += other.unanswered;
        self.warnings += other.warnings;
        for (rule, number) in other.mended_dates {
            *self.mended_dates.entry(rule).or_default() += number;
        }
        self.digests.add(other.digests);
        self.unresolved.add(other.unresolved);
        self.is_cancelled |= other.is_cancelled;
        let room = MAX_LISTED_PROBLEMS.saturating_sub(self.problems.len());
        self.problems.extend(other.problems.into_iter().take(room));
    }

    pub(super) fn problem(&mut self, problem: Problem) {
        match problem.kind {
            ProblemKind::Damage => self.damaged += 1,
            ProblemKind::Unusable => self.unusable += 1,
            ProblemKind::Misplaced => self.misplaced += 1,
            ProblemKind::Segment => self.segments += 1,
            ProblemKind::Warning => self.warnings += 1,
        }
        if self.problems.len() < MAX_LISTED_PROBLEMS {
            self.problems.push(problem);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::warc::Place;

    fn problem(at: u64) -> Problem {
        let place = Place { offset: at, inner: Some(7) };
        Problem { file: "a.warc.gz".into(), place, kind: ProblemKind::Damage, what: "cut".into() }
    }

    #[test]
    fn a_problem_says_file_offset_and_what() {
        assert_eq!(problem(3).to_string(), "a.warc.gz: offset 3 (+7 decompressed): cut");
    }

    #[test]
    fn more_problems_than_are_listed_are_counted() {
        let mut report = ImportReport::default();
        for at in 0..MAX_LISTED_PROBLEMS as u64 + 5 {
            report.problem(problem(at));
        }
        report.add(report.clone());
        assert_eq!(report.problems.len(), MAX_LISTED_PROBLEMS);
        assert_eq!(report.damaged, 2 * (MAX_LISTED_PROBLEMS as u64 + 5));
    }
}
