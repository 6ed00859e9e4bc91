//! Vectors and heaps that grow by an eighth: doubling would copy a table of a hundred million rows
//! into twice its size.

use std::collections::BinaryHeap;

/// Appends to a vector. Growth copies each element about nine times in all.
#[inline]
pub(crate) fn push<T>(column: &mut Vec<T>, value: T) {
    if column.len() == column.capacity() {
        column.reserve_exact((column.len() / 8).max(64));
    }
    column.push(value);
}

/// Pushes onto a heap with the same growth.
#[inline]
pub(crate) fn push_heap<T: Ord>(heap: &mut BinaryHeap<T>, value: T) {
    if heap.len() == heap.capacity() {
        heap.reserve_exact((heap.len() / 8).max(4));
    }
    heap.push(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_is_never_more_than_an_eighth_empty() {
        let mut column = Vec::new();
        for i in 0..100_000u32 {
            push(&mut column, i);
            assert!(column.capacity() <= column.len() + (column.len() / 8).max(64));
        }
        assert!(column.iter().copied().eq(0..100_000));
    }
}
