//! Read-ahead for a walk along the leaves: none for its first two leaves, so that a short list
//! reads only what it needs; then a window that doubles.

use std::ops::Range;

use super::format::{Child, PAGE_BYTES};
use super::run::Run;

/// Maximum number of pages requested at once.
const PAGES_MAX: u64 = (256 << 10) / PAGE_BYTES as u64;
/// Steps in one direction before anything is requested.
const STEPS: u32 = 2;

/// Read-ahead state of a walk.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    is_back: bool,
    steps: u32,
    window: u64,
    /// The first page, forwards, or the last, backwards, not requested yet.
    until: u64,
}

impl Ahead {
    /// Records that the walk came to this leaf from its neighbour.
    pub(super) fn step(&mut self, run: &Run, leaf: &Child, is_back: bool) {
        if let Some(pages) = self.next(leaf, is_back) {
            run.will_need(pages.start, pages.end - pages.start);
        }
    }

    /// Pages to request now.
    fn next(&mut self, leaf: &Child, is_back: bool) -> Option<Range<u64>> {
        if self.is_back != is_back {
            *self = Ahead { is_back, ..Ahead::default() };
        }
        self.steps = self.steps.saturating_add(1);
        if self.steps < STEPS {
            return None;
        }
        let at = if is_back { leaf.page } else { leaf.end() };
        if self.window == 0 {
            (self.window, self.until) = (2, at);
        }
        let left = if is_back { at.saturating_sub(self.until) } else { self.until.saturating_sub(at) };
        if left > self.window / 2 {
            return None;
        }
        self.window = (2 * self.window).min(PAGES_MAX);
        let pages = match is_back {
            // Page 0 is the header.
            true => at.saturating_sub(self.window).max(1)..self.until.min(at),
            false => self.until.max(at)..at + self.window,
        };
        self.until = if is_back { pages.start } else { pages.end };
        Some(pages).filter(|pages| !pages.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_is_asked_for_once_and_none_for_a_short_walk() {
        for is_back in [false, true] {
            let (mut ahead, mut asked, mut calls) = (Ahead::default(), Vec::new(), 0);
            for nth in 0..1_000 {
                let page = if is_back { 1_000 - nth } else { 1 + nth };
                let leaf = Child { page, pages: 1, ..Child::default() };
                let Some(pages) = ahead.next(&leaf, is_back) else { continue };
                assert!(nth > 0 && pages.end - pages.start <= 64);
                calls += 1;
                asked.extend(pages);
            }
            assert!(calls < 50, "{calls}");
            asked.sort_unstable();
            let (first, last) = (asked[0], asked[asked.len() - 1]);
            assert!(asked.iter().copied().eq(first..=last), "each once");
            let expected = if is_back { (1, 998) } else { (3, last.max(1_000)) };
            assert_eq!((first, last), expected);
        }
    }
}
