//! What an import found: how much came in, and every place where something was wrong.
//!
//! Damage is data here, not an error: an import goes on behind it. The list of problems is
//! bounded, their number is always exact.

use std::collections::BTreeMap;

use crate::date::DateRule;
use crate::store::Unresolved;
use crate::warc::DigestCount;
use crate::warc::{Problem, ProblemKind};

/// Problems listed one by one; more are only counted.
pub const MAX_LISTED_PROBLEMS: usize = 10_000;

/// What came of one import, or of several ([`ImportReport::add`]).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImportReport {
    /// Bytes read from the file, as they lie on disk.
    pub bytes_read: u64,
    /// Whole WARC records found, of every type.
    pub records: u64,
    /// Versions stored, those of `unchanged` included.
    pub stored: u64,
    /// Of these: versions whose body was the same as before and was not stored again.
    pub unchanged: u64,
    /// Of these: answers to other requests than a plain `GET`, which are kept apart from their
    /// URL's page.
    pub variants: u64,
    /// Records that the store held already (same URL, time and digest): nothing was added.
    pub already_there: u64,
    /// Records of types that make no page, or were not asked for.
    pub ignored: u64,
    /// Stored versions whose content coding was undone.
    pub decoded: u64,
    /// Stored versions whose body was kept as received because it did not decode.
    pub kept_as_received: u64,
    /// Bytes of the bodies stored, before compression.
    pub body_bytes: u64,
    /// The first [`MAX_LISTED_PROBLEMS`] problems, in the order of the file.
    pub problems: Vec<Problem>,
    /// Number of problems that are damage.
    pub damaged: u64,
    /// Number of problems that are records which cannot be kept.
    pub unusable: u64,
    /// Of these: records that a rule of an erasure refuses.
    pub refused: u64,
    /// Number of problems that are answers to other requests than a plain `GET`, kept as pages:
    /// see [`ProblemKind::Misplaced`].
    pub misplaced: u64,
    /// Number of problems that are segments of records: see [`ProblemKind::Segment`].
    pub segments: u64,
    /// Answers kept as pages that name another record as theirs, and whose request was not met in
    /// the file: whether that was a plain `GET` is not known.
    pub without_request: u64,
    /// Number of problems that are warnings: each is said once a file.
    pub warnings: u64,
    /// Records kept whose date was found by a rule, by that rule.
    pub mended_dates: BTreeMap<DateRule, u64>,
    /// What the payload digests of the pages are worth.
    pub digests: DigestCount,
    /// The revisits among the pages, stored or there already: [`Unresolved::count`] says how many
    /// have no original in the store. It may be asked after several files, since an original may
    /// come later than its revisits.
    pub unresolved: Unresolved,
    /// Whether it was stopped before the end: see
    /// [`ImportOptions::stop`](crate::import::ImportOptions::stop).
    pub stopped: bool,
}

impl ImportReport {
    /// Whether bytes of the file are wrong or missing.
    pub fn is_damaged(&self) -> bool {
        self.damaged > 0
    }

    /// Number of problems that cost something: all but warnings.
    pub fn losses(&self) -> u64 {
        self.damaged + self.unusable + self.misplaced + self.segments
    }

    /// Adds another file's report to this one.
    pub fn add(&mut self, other: ImportReport) {
        self.bytes_read += other.bytes_read;
        self.records += other.records;
        self.stored += other.stored;
        self.unchanged += other.unchanged;
        self.variants += other.variants;
        self.already_there += other.already_there;
        self.ignored += other.ignored;
        self.decoded += other.decoded;
        self.kept_as_received += other.kept_as_received;
        self.body_bytes += other.body_bytes;
        self.damaged += other.damaged;
        self.unusable += other.unusable;
        self.refused += other.refused;
        self.misplaced += other.misplaced;
        self.segments += other.segments;
        self.without_request += other.without_request;
        self.warnings += other.warnings;
        for (rule, number) in other.mended_dates {
            *self.mended_dates.entry(rule).or_default() += number;
        }
        self.digests.add(other.digests);
        self.unresolved.add(other.unresolved);
        self.stopped |= other.stopped;
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
