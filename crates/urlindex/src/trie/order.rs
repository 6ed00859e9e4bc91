//! The order of the keys in a leaf, which stand there as they came, and where a leaf that is too
//! long is cut.
//!
//! The order follows from the shape: what leaves the path of an entry early with a lesser byte
//! comes before what leaves it later, and that before the entry itself; what leaves it with a
//! greater byte comes after it, the later the earlier it leaves. No keys are compared.

use super::code::Code;
use super::leaf::{Entry, Leaf, ROOT};

/// A leaf is cut where at least this part of its bytes is on either side.
const NEAR: (usize, usize) = (3, 8);

/// The numbers of the entries in the order of their keys, each with how many bytes its key shares
/// with the one before, of those that are in the leaf.
pub(super) fn order(leaf: &Leaf<'_>, code: &Code) -> Vec<(usize, usize)> {
    let entries: Vec<(Entry, &[u8])> = leaf.entries().collect();
    let (mut texts, mut spans) = (Vec::new(), vec![None; leaf.len]);
    let mut ranked = Vec::with_capacity(leaf.len);
    for (number, (entry, _)) in entries.iter().enumerate() {
        // What the parent has where this entry leaves it; of parents the edges are decoded, once.
        let byte = entries.get(entry.parent).and_then(|(parent, edge)| {
            let span = spans[entry.parent].get_or_insert_with(|| {
                let start = texts.len();
                code.decode(edge, &mut texts);
                start..texts.len()
            });
            texts[span.clone()].get(entry.shared - parent.shared - 1).copied()
        });
        ranked.push((entry.parent as u64) << 40 | u64::from(rank(entry, byte)) << 8 | number as u64);
    }
    ranked.sort_unstable();
    in_order(&ranked, |number| entries[number].0.shared)
}

/// The place in the order of its keys to cut it before; never the first. Near the middle, by
/// bytes, and where keys share least: that makes short separators, and leaves whose keys have more
/// in common.
pub(super) fn cutting_place(leaf: &Leaf<'_>, order: &[(usize, usize)]) -> usize {
    let bytes: Vec<usize> = leaf.entries().map(|(entry, _)| leaf.entry_bytes(&entry)).collect();
    let (mut before, all) = (0usize, bytes.iter().sum::<usize>());
    let mut best: Option<(usize, usize, usize)> = None;
    for (at, (number, shared)) in order.iter().enumerate() {
        let rank = (*shared, before.abs_diff(all - before), at);
        let is_near = before * NEAR.1 >= all * NEAR.0 && before * NEAR.1 <= all * (NEAR.1 - NEAR.0);
        if at > 0 && is_near && best.is_none_or(|best| rank < best) {
            best = Some(rank);
        }
        before += bytes[*number];
    }
    // There is none if one is longer than all others.
    best.map_or_else(|| middle(order, &bytes), |(.., at)| at)
}

/// Where a child's keys stand among those of its parent: before the parent itself, the less they
/// share with it the earlier; or after it, the less the later. `byte` is the parent's where the
/// child leaves it; `None` if it is over there.
fn rank(entry: &Entry, byte: Option<u8>) -> u32 {
    let head = entry.head.map_or(0, |head| u32::from(head) + 1);
    let is_before = byte.map_or(entry.parent == ROOT, |byte| head <= u32::from(byte));
    if is_before {
        (entry.shared as u32) << 9 | head
    } else {
        PARENT_RANK | (u32::from(u16::MAX) - entry.shared as u32) << 9 | head
    }
}

const PARENT_RANK: u32 = 1 << 31;

/// The place in an order about which there are as many bytes before as after; never the first.
fn middle(order: &[(usize, usize)], bytes: &[usize]) -> usize {
    let (mut before, all) = (0, bytes.iter().sum::<usize>());
    let is_before_half = |(number, _): &&(usize, usize)| {
        before += bytes[*number];
        before * 2 < all
    };
    order.iter().take_while(is_before_half).count().clamp(1, order.len() - 1)
}

/// What is still to do on a walk.
enum Step {
    /// The keys on the edges from this one on, and what they share with all that come before.
    Into(usize, usize),
    Itself(usize),
    /// All that come now share no more than this with what was before.
    OutOf(usize),
}

/// Walks through entries that are given in the order of their parents, and under each in that of
/// their ranks. Gives their numbers, and what each shares with the one before.
fn in_order(ranked: &[u64], shared_of: impl Fn(usize) -> usize) -> Vec<(usize, usize)> {
    let children = |parent: usize| {
        let start = ranked.partition_point(|child| (child >> 40) < parent as u64);
        let end = start + ranked[start..].partition_point(|child| (child >> 40) == parent as u64);
        &ranked[start..end]
    };
    let is_after = |child: &u64| (child >> 8) as u32 & PARENT_RANK != 0;
    let (mut order, mut steps, mut shared) = (Vec::with_capacity(ranked.len()), Vec::new(), 0);
    // The next one last.
    let push = |children: &[u64], steps: &mut Vec<Step>| {
        for child in children.iter().rev() {
            let number = (child & 0xff) as usize;
            if is_after(child) {
                steps.push(Step::Into(number, shared_of(number)));
            } else {
                steps.push(Step::OutOf(shared_of(number)));
                steps.push(Step::Into(number, usize::MAX));
            }
        }
    };
    push(children(ROOT), &mut steps);
    while let Some(step) = steps.pop() {
        match step {
            Step::Into(number, most) => {
                shared = shared.min(most);
                let all = children(number);
                let (before, after) = all.split_at(all.partition_point(|child| !is_after(child)));
                push(after, &mut steps);
                steps.push(Step::Itself(number));
                push(before, &mut steps);
            }
            Step::Itself(number) => {
                order.push((number, shared));
                shared = usize::MAX;
            }
            Step::OutOf(most) => shared = shared.min(most),
        }
    }
    order
}
