//! Reading ahead of a walk along the leaves: nothing for its first two, so that a short list reads
//! what it needs; then a window that doubles.

use super::format::{Child, PAGE_BYTES};
use super::run::Run;

/// Most pages that are asked for at once.
const PAGES_MAX: u64 = (256 << 10) / PAGE_BYTES as u64;
/// Steps in one direction before anything is asked for.
const STEPS: u32 = 2;

/// How far a walk has asked for.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    is_back: bool,
    steps: u32,
    window: u64,
    /// The first page forwards, or the last back, that was not asked for.
    until: u64,
}

impl Ahead {
    /// The walk came to this leaf from the one beside it.
    pub(super) fn step(&mut self, run: &Run, leaf: &Child, is_back: bool) {
        if self.is_back != is_back {
            *self = Ahead { is_back, ..Ahead::default() };
        }
        self.steps = self.steps.saturating_add(1);
        if self.steps < STEPS {
            return;
        }
        let at = if is_back { leaf.page } else { leaf.end() };
        if self.window == 0 {
            (self.window, self.until) = (2, at);
        }
        let left = if is_back { at.saturating_sub(self.until) } else { self.until.saturating_sub(at) };
        if left > self.window / 2 {
            return;
        }
        self.window = (2 * self.window).min(PAGES_MAX);
        if is_back {
            // Page 0 is the header.
            let (end, start) = (self.until.min(at), at.saturating_sub(self.window).max(1));
            run.will_need(start, end.saturating_sub(start));
            self.until = start;
        } else {
            let (start, end) = (self.until.max(at), at + self.window);
            run.will_need(start, end.saturating_sub(start));
            self.until = end;
        }
    }
}
