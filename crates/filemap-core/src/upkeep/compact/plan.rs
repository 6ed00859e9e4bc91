//! Chooses the segments to compact, or tells why none is: a pure function of the segment table.
//!
//! Greedy cleaning: the segment with the least live share costs the least copying per byte freed.
//! (M. Rosenblum and J. K. Ousterhout, The Design and Implementation of a Log-Structured File
//! System, ACM TOCS 10(1), 1992.)

use crate::event::Reason;

/// One segment, as the plan sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) id: u16,
    pub(crate) floor: u64,
    /// Bytes of records, without the file header.
    pub(crate) bytes: u64,
    pub(crate) live_bytes: u64,
    pub(crate) tombstone_bytes: u64,
    /// Level at which its pages were recompressed; 0 if they are stored as put.
    pub(crate) level: u8,
    pub(crate) created_ms: i64,
    /// True if its tombstones are too young to be dropped.
    pub(crate) keeps_removals: bool,
    /// True if it may be chosen: it lies below the last checkpoint, and no put in progress will
    /// refer to it.
    pub(crate) is_eligible: bool,
}

impl Candidate {
    pub(crate) fn dead_bytes(&self) -> u64 {
        self.bytes.saturating_sub(self.live_bytes + self.tombstone_bytes)
    }

    fn kept_bytes(&self) -> u64 {
        self.live_bytes + self.tombstone_bytes
    }
}

/// Everything that a plan depends on.
#[derive(Clone, Debug)]
pub(crate) struct View {
    /// In order of ordinal.
    pub(crate) segments: Vec<Candidate>,
    /// Bytes of the log beyond the last checkpoint, whose live share is unknown.
    pub(crate) unindexed_bytes: u64,
    /// Dead bytes tolerated beyond the bound, so that small stores are not compacted.
    pub(crate) slack_bytes: u64,
    /// Greatest number of bytes copied in one run.
    pub(crate) run_bytes: u64,
}

impl View {
    pub(crate) fn live_bytes(&self) -> u64 {
        self.segments.iter().map(|s| s.live_bytes).sum()
    }

    /// The total that the bound allows, less room for what is copied and put during a run.
    pub(crate) fn target_bytes(&self, bound: f64) -> u64 {
        // Tombstones that must stay are not garbage.
        let young = |s: &&Candidate| s.keeps_removals;
        let live = self.live_bytes() + self.segments.iter().filter(young).map(|s| s.tombstone_bytes).sum::<u64>();
        let garbage = (live as f64 * bound) as u64 - live.min((live as f64 * bound) as u64);
        live.saturating_add(garbage - (self.run_bytes / 2).min(garbage / 3))
    }

    /// Bytes of records, including those beyond the last checkpoint.
    pub(crate) fn total_bytes(&self) -> u64 {
        self.segments.iter().map(|s| s.bytes).sum::<u64>() + self.unindexed_bytes
    }
}

/// The goal of a plan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Want {
    /// Total bytes at most this many times the live ones.
    Bound(f64),
    /// No dead bytes.
    NoGarbage,
    /// All pages compressed at least at this level, in segments begun before this time.
    Level(u8, i64),
}

/// The result of planning.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Plan {
    /// Numbers of the segments to empty; none if there is nothing to do.
    pub(crate) victims: Vec<u16>,
    pub(crate) reason: Reason,
}

/// Bytes of tombstones for which no segment is rewritten, beside this many live bytes. A caller
/// who wants no garbage asks for the copying.
pub(crate) fn bearable_tombstones(want: Want, live_bytes: u64) -> u64 {
    live_bytes / if want == Want::NoGarbage { 32 } else { 16 }
}

/// Chooses the victims of one run.
pub(crate) fn plan(view: &View, want: Want) -> Plan {
    let nothing = |reason| Plan { victims: Vec::new(), reason };
    let sum = |of: fn(&Candidate) -> u64| view.segments.iter().map(of).sum::<u64>();
    let (live, dead) = (view.live_bytes(), sum(Candidate::dead_bytes));
    let tombstones = sum(|s| s.tombstone_bytes);
    // Records beyond the checkpoint may have replaced as many bytes.
    let excess = match want {
        Want::Level(level, before_ms) => return recompression(view, level, before_ms),
        Want::NoGarbage => dead,
        Want::Bound(bound) => view.total_bytes().saturating_sub(view.target_bytes(bound)),
    };
    let mut eligible: Vec<&Candidate> = view.segments.iter().filter(|s| s.is_eligible).collect();
    // Segments with nothing to keep cost nothing.
    let empty: Vec<u16> = eligible.iter().filter(|s| s.bytes > 0 && s.kept_bytes() == 0).map(|s| s.id).collect();
    if !empty.is_empty() {
        return Plan { victims: empty, reason: Reason::Garbage };
    }
    if dead == 0 && tombstones == 0 {
        return nothing(Reason::AllLive);
    }
    let reason = match want {
        Want::NoGarbage | Want::Level(..) => Reason::Garbage,
        Want::Bound(_) if excess <= view.slack_bytes => return nothing(Reason::WithinBound),
        Want::Bound(_) => Reason::OverBound,
    };
    // A victim must pay: at least a twentieth of it is dead.
    eligible.retain(|s| s.dead_bytes() > 0 && (want == Want::NoGarbage || s.dead_bytes() >= s.bytes / 20));
    eligible.sort_by(|a, b| (a.kept_bytes() * b.bytes.max(1)).cmp(&(b.kept_bytes() * a.bytes.max(1))));
    let (mut victims, mut copied, mut freed) = (Vec::new(), 0, 0);
    for segment in eligible {
        if !victims.is_empty() && (copied + segment.kept_bytes() > view.run_bytes || freed >= excess) {
            break;
        }
        copied += segment.kept_bytes();
        freed += segment.dead_bytes();
        victims.push(segment.id);
    }
    if !victims.is_empty() {
        return Plan { victims, reason };
    }
    let may_go = |s: &&Candidate| s.is_eligible && !s.keeps_removals;
    let droppable = view.segments.iter().filter(may_go).map(|s| s.tombstone_bytes).sum::<u64>();
    if droppable > dead.max(bearable_tombstones(want, live))
        && let Some(oldest) = view.segments.iter().filter(|s| s.is_eligible).min_by_key(|s| s.floor)
    {
        return Plan { victims: vec![oldest.id], reason: Reason::Tombstones };
    }
    nothing(if dead == 0 { Reason::AllLive } else { Reason::NotYet })
}

/// Chooses the oldest segments whose pages are to be recompressed.
fn recompression(view: &View, level: u8, before_ms: i64) -> Plan {
    let due = |s: &&Candidate| s.is_eligible && s.level < level && s.created_ms < before_ms && s.live_bytes > 0;
    let (mut victims, mut copied) = (Vec::new(), 0);
    for segment in view.segments.iter().filter(due) {
        if !victims.is_empty() && copied + segment.kept_bytes() > view.run_bytes {
            break;
        }
        copied += segment.kept_bytes();
        victims.push(segment.id);
    }
    let reason = if victims.is_empty() { Reason::WithinBound } else { Reason::Recompression };
    Plan { victims, reason }
}

/// Chooses the victims of all runs in succession, as if nothing changed meanwhile.
pub(crate) fn whole(view: &View, want: Want) -> Plan {
    let mut view = view.clone();
    let mut all = plan(&view, want);
    let mut next = all.clone();
    while !next.victims.is_empty() {
        let (chosen, others): (Vec<_>, Vec<_>) = view.segments.iter().partition(|s| next.victims.contains(&s.id));
        let sum = |of: fn(&Candidate) -> u64| chosen.iter().copied().map(of).sum::<u64>();
        let (live_bytes, tombstone_bytes) = (sum(|s| s.live_bytes), sum(|s| s.tombstone_bytes));
        // No later run selects their output.
        let output = Candidate {
            floor: u64::MAX,
            bytes: live_bytes + tombstone_bytes,
            live_bytes,
            tombstone_bytes,
            is_eligible: false,
            ..*chosen[0]
        };
        view.segments = others.into_iter().copied().chain([output]).collect();
        if next.reason == Reason::Tombstones {
            // Only the run itself determines which tombstones can be dropped.
            break;
        }
        next = plan(&view, want);
        all.victims.extend(&next.victims);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_compressed_anew_once_the_oldest_first() {
        let mut some = view(vec![segment(0, 600, 0), segment(1, 600, 0), segment(2, 300, 0), segment(3, 0, 0)]);
        some.segments[1].level = 9;
        some.segments[2].created_ms = 50;
        let level = |level, before_ms| plan(&some, Want::Level(level, before_ms)).victims;
        assert_eq!(level(9, 10), [0]);
        assert_eq!(level(9, 100), [0, 2]);
        assert_eq!(level(12, 10), [0], "a run copies about a segment");
        assert_eq!(level(9, 0), [] as [u16; 0]);
    }

    fn segment(id: u16, live_bytes: u64, tombstone_bytes: u64) -> Candidate {
        let (level, created_ms, bytes, floor) = (0, 1, 1000, u64::from(id));
        let (keeps_removals, is_eligible) = (false, true);
        Candidate { id, floor, bytes, live_bytes, tombstone_bytes, level, created_ms, keeps_removals, is_eligible }
    }

    fn view(segments: Vec<Candidate>) -> View {
        View { segments, unindexed_bytes: 0, slack_bytes: 0, run_bytes: 1000 }
    }

    #[test]
    fn a_store_in_which_all_is_live_is_left_alone() {
        let all = view((0..9).map(|id| segment(id, 1000, 0)).collect());
        for want in [Want::Bound(1.25), Want::Bound(1.01), Want::NoGarbage] {
            assert_eq!(plan(&all, want), Plan { victims: vec![], reason: Reason::AllLive });
        }
    }

    #[test]
    fn the_emptiest_segments_are_taken_until_the_bound_holds() {
        let mut some = view(vec![segment(0, 900, 0), segment(1, 300, 0), segment(2, 500, 0), segment(3, 1000, 0)]);
        // 4000 bytes for 2700 live ones: 625 too many, and 225 as room for the run; the second and
        // third segment free that much.
        assert_eq!(plan(&some, Want::Bound(1.25)), Plan { victims: vec![1, 2], reason: Reason::OverBound });
        assert_eq!(plan(&some, Want::NoGarbage).victims, [1, 2], "what one run copies is bounded");
        assert_eq!(plan(&some, Want::Bound(1.4)).victims, [1]);
        assert_eq!(plan(&some, Want::Bound(1.8)).reason, Reason::WithinBound);
        some.unindexed_bytes = 400;
        assert_eq!(plan(&some, Want::Bound(1.25)).victims, [1, 2], "what is not known yet may have replaced as much");
        some.slack_bytes = 2000;
        assert_eq!(plan(&some, Want::Bound(1.25)).reason, Reason::WithinBound);
    }

    #[test]
    fn all_runs_together_leave_no_garbage_that_can_be_had() {
        let mut some = view((0..9).map(|id| segment(id, 100 * u64::from(id), 0)).collect());
        assert!(plan(&some, Want::NoGarbage).victims.len() < 9);
        let mut victims = whole(&some, Want::NoGarbage).victims;
        victims.sort_unstable();
        assert_eq!(victims, (0..9).collect::<Vec<u16>>());
        some.segments[3].is_eligible = false;
        assert_eq!(whole(&some, Want::NoGarbage).victims.len(), 8);
        assert_eq!(whole(&some, Want::Bound(100.0)).victims, [0], "what is wholly dead goes in any case");
    }

    #[test]
    fn what_is_in_use_is_not_taken_and_what_is_empty_always_is() {
        let mut some = view(vec![segment(0, 100, 0), segment(1, 1000, 0), segment(2, 0, 0)]);
        some.segments[0].is_eligible = false;
        assert_eq!(plan(&some, Want::Bound(9.0)).victims, [2]);
        some.segments.truncate(2);
        assert_eq!(plan(&some, Want::NoGarbage), Plan { victims: vec![], reason: Reason::NotYet });
    }

    #[test]
    fn the_oldest_segment_goes_when_it_keeps_too_many_removals_alive() {
        let mut some = view(vec![segment(0, 1000, 0), segment(1, 0, 1000), segment(2, 100, 900)]);
        assert_eq!(plan(&some, Want::Bound(1.25)), Plan { victims: vec![0], reason: Reason::Tombstones });
        some.segments.iter_mut().for_each(|s| s.keeps_removals = true);
        assert_eq!(plan(&some, Want::NoGarbage), Plan { victims: vec![], reason: Reason::AllLive }, "they are young");
    }

    #[test]
    fn a_twentieth_of_removals_goes_when_no_garbage_is_wanted() {
        // Twenty thousand live bytes, and a thousand of tombstones in a segment of their own.
        let some = view((0..20).map(|id| segment(id, 1000, 0)).chain([segment(20, 0, 1000)]).collect());
        assert_eq!(plan(&some, Want::NoGarbage), Plan { victims: vec![0], reason: Reason::Tombstones });
        assert_eq!(plan(&some, Want::Bound(1.25)).victims, [] as [u16; 0], "in the background it would not pay");
        let few = view((0..20).map(|id| segment(id, 1000, 0)).chain([segment(20, 400, 600)]).collect());
        assert_eq!(plan(&few, Want::NoGarbage).victims, [] as [u16; 0]);
    }

    proptest::proptest! {
        #[test]
        fn a_plan_takes_only_what_it_may_and_what_gives_something_back(
            segments in proptest::collection::vec((0u64..=1000, 0u64..=1000, proptest::bool::ANY), 0..12),
            bound in 1.0f64..3.0,
        ) {
            let all: Vec<Candidate> = segments.iter().enumerate().map(|(id, &(live, tombstones, eligible))| {
                Candidate { is_eligible: eligible, ..segment(id as u16, live, tombstones.min(1000 - live)) }
            }).collect();
            let made = plan(&view(all.clone()), Want::Bound(bound));
            for id in &made.victims {
                let victim = all[usize::from(*id)];
                proptest::prop_assert!(victim.is_eligible);
                proptest::prop_assert!(victim.dead_bytes() > 0 || made.reason == Reason::Tombstones);
            }
            let (live, total) = (all.iter().map(|s| s.live_bytes).sum::<u64>(), all.len() as u64 * 1000);
            let can = all.iter().any(|s| s.is_eligible && s.dead_bytes() >= 50);
            if total as f64 > live as f64 * bound + 1.0 && can {
                proptest::prop_assert!(!made.victims.is_empty());
            }
        }
    }
}
