//! The order of a leaf's keys, which are stored as they came, and where to cut a full leaf.
//!
//! The order follows from the shape, without comparing keys: children that leave an entry's path
//! with a lesser byte come before it, those that leave early before those that leave late;
//! children with a greater byte come after it, in the reverse order.

use super::code::Code;
use super::leaf::{Entry, Leaf, ROOT};

/// Minimum part of the bytes on either side of a cut.
const NEAR: (usize, usize) = (3, 8);

/// Entry numbers in the order of their keys, each with the bytes that its key shares with the one
/// before, not counting the leaf's prefix.
pub(super) fn order(leaf: &Leaf<'_>, code: &Code) -> Vec<(usize, usize)> {
    let entries: Vec<(Entry, &[u8])> = leaf.entries().collect();
    let (mut texts, mut spans) = (Vec::new(), vec![None; leaf.len]);
    let mut ranked = Vec::with_capacity(leaf.len);
    for (number, (entry, _)) in entries.iter().enumerate() {
        // The parent's byte where this entry leaves it; each parent's edge is decoded once.
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

/// The place to cut the order, never before the first key: near the middle by bytes, where
/// neighbours share least, for short separators and leaves with more in common.
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
    // None if one key is longer than all others.
    best.map_or_else(|| middle(order, &bytes), |(.., at)| at)
}

/// Rank of a child among those of its parent: before the parent, by rising `shared`; or after it,
/// by falling. `byte` is the parent's where the child leaves; `None` at its end.
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

/// The point of an order with as many bytes before as after; never the first.
fn middle(order: &[(usize, usize)], bytes: &[usize]) -> usize {
    let (mut before, all) = (0, bytes.iter().sum::<usize>());
    let is_before_half = |(number, _): &&(usize, usize)| {
        before += bytes[*number];
        before * 2 < all
    };
    order.iter().take_while(is_before_half).count().clamp(1, order.len() - 1)
}

/// A step of the walk.
enum Step {
    /// The keys from this edge on, and the most that they share with earlier ones.
    Into(usize, usize),
    Itself(usize),
    /// Later keys share at most this with earlier ones.
    OutOf(usize),
}

/// Walks entries sorted by parent and rank. Returns their numbers in key order, each with the
/// bytes that it shares with the one before.
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
