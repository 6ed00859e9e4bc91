//! External merge sort of lines by their bytes, as `LC_ALL=C sort`: sorted runs on disk, merged at
//! the end.
//!
//! Readers bisect a capture index, so it must be sorted; it has a line for each page of the dump.
//!
//! Invariants: memory is bounded by the spool's limit, open files by [`MAX_RUNS`].

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, BufRead, BufReader, BufWriter, Seek, SeekFrom, Write};

use tempfile::SpooledTempFile;

use crate::spool::Spool;

/// Number of runs merged into one.
const MAX_RUNS: usize = 64;

/// Sorts lines.
pub(super) struct LineSorter {
    spool: Spool,
    max_runs: usize,
    /// Lines, each with its line end.
    text: Vec<u8>,
    /// The end of each line in `text`.
    ends: Vec<usize>,
    runs: Vec<SpooledTempFile>,
}

impl LineSorter {
    pub(super) fn new(spool: Spool) -> LineSorter {
        LineSorter { spool, max_runs: MAX_RUNS, text: Vec::new(), ends: Vec::new(), runs: Vec::new() }
    }

    /// Adds a line, which must not contain a line end.
    pub(super) fn push(&mut self, line: &[u8]) -> io::Result<()> {
        self.text.extend_from_slice(line);
        self.text.push(b'\n');
        self.ends.push(self.text.len());
        if self.text.len() + self.ends.len() * size_of::<usize>() < self.spool.memory_bytes {
            return Ok(());
        }
        self.set_aside()?;
        if self.runs.len() < self.max_runs {
            return Ok(());
        }
        let runs = std::mem::take(&mut self.runs);
        let mut merged = self.new_run();
        merge(runs, &mut merged)?;
        self.runs.push(finished(merged)?);
        Ok(())
    }

    /// Writes all lines, sorted.
    pub(super) fn finish(mut self, out: &mut dyn Write) -> io::Result<()> {
        if self.runs.is_empty() {
            return self.sorted(out);
        }
        self.set_aside()?;
        merge(self.runs, out)
    }

    fn new_run(&self) -> BufWriter<SpooledTempFile> {
        BufWriter::with_capacity(1 << 20, tempfile::spooled_tempfile_in(0, &self.spool.dir))
    }

    fn set_aside(&mut self) -> io::Result<()> {
        let mut run = self.new_run();
        self.sorted(&mut run)?;
        self.runs.push(finished(run)?);
        self.text.clear();
        self.ends.clear();
        Ok(())
    }

    fn sorted(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut from = 0;
        let mut lines: Vec<&[u8]> = Vec::with_capacity(self.ends.len());
        for &end in &self.ends {
            lines.push(&self.text[from..end]);
            from = end;
        }
        // Compares without the line end, which sorts after some control characters.
        lines.sort_unstable_by_key(|line| &line[..line.len() - 1]);
        lines.into_iter().try_for_each(|line| out.write_all(line))
    }
}

fn finished(run: BufWriter<SpooledTempFile>) -> io::Result<SpooledTempFile> {
    let mut run = run.into_inner().map_err(io::IntoInnerError::into_error)?;
    run.seek(SeekFrom::Start(0))?;
    Ok(run)
}

fn merge(runs: Vec<SpooledTempFile>, out: &mut dyn Write) -> io::Result<()> {
    let mut readers: Vec<_> = runs.into_iter().map(|run| BufReader::with_capacity(256 << 10, run)).collect();
    let mut heads = BinaryHeap::with_capacity(readers.len());
    for (nth, reader) in readers.iter_mut().enumerate() {
        let mut line = Vec::new();
        if next_line(reader, &mut line)? {
            heads.push(Reverse((line, nth)));
        }
    }
    while let Some(Reverse((mut line, nth))) = heads.pop() {
        line.push(b'\n');
        out.write_all(&line)?;
        if next_line(&mut readers[nth], &mut line)? {
            heads.push(Reverse((line, nth)));
        }
    }
    Ok(())
}

/// Reads a line without its line end. Returns false at the end.
fn next_line(reader: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    let is_there = reader.read_until(b'\n', line)? > 0;
    if line.last() == Some(&b'\n') {
        line.pop();
    }
    Ok(is_there)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sorted(lines: &[Vec<u8>], memory_bytes: usize, max_runs: usize) -> Vec<u8> {
        let mut sorter = LineSorter::new(Spool::default().memory_bytes(memory_bytes));
        sorter.max_runs = max_runs;
        for line in lines {
            sorter.push(line).expect("room");
            assert!(sorter.runs.len() < max_runs.max(2), "runs are merged before they are too many");
        }
        let mut out = Vec::new();
        sorter.finish(&mut out).expect("room");
        out
    }

    proptest! {
        #[test]
        fn lines_come_back_in_the_order_of_their_bytes(
            lines in proptest::collection::vec("[a-c\t]{0,4}", 0..80), memory_bytes in 0usize..300, max_runs in 2usize..5
        ) {
            let mut lines: Vec<Vec<u8>> = lines.into_iter().map(String::into_bytes).collect();
            let out = sorted(&lines, memory_bytes, max_runs);
            lines.sort();
            let expected: Vec<u8> = lines.iter().flat_map(|line| [line, &b"\n"[..]].concat()).collect();
            prop_assert_eq!(out, expected);
        }
    }

    #[test]
    fn no_lines_are_an_empty_file() {
        assert_eq!(sorted(&[], 0, 2), b"");
    }
}
