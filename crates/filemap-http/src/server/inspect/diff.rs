//! Line diff of two texts: equal, changed, added and removed lines.
//!
//! Invariants: time and memory are bounded for any texts, and omissions are counted; pieces of the
//! texts are shown as escaped text.

use std::time::{Duration, Instant};

use maud::{Markup, html};
use similar::DiffOp;
use similar::algorithms::{Capture, Replace, myers};

use super::layout::number;

/// Time limit of a comparison.
const TIME: Duration = Duration::from_millis(500);
/// Maximum number of lines of a text that are compared, and of rows that are shown.
const LINES: usize = 40_000;
const ROWS: usize = 2_000;
/// Number of equal lines shown around a change.
const CONTEXT: usize = 3;
/// A longer line is compared in parts.
const LONG: usize = 200;
/// Longest part.
const LONGEST: usize = 2_000;

/// A line, or a part of a long one, with its line number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Line<'t> {
    number: usize,
    text: &'t str,
    is_first: bool,
}

/// A row of two columns.
enum Row<'t> {
    Equal(Line<'t>, Line<'t>),
    Changed(Option<Line<'t>>, Option<Line<'t>>),
    /// Equal lines that are not shown.
    Gap(usize),
}

/// Two texts, compared.
pub(super) struct Diff<'t> {
    rows: Vec<Row<'t>>,
    /// Number of lines, or of parts of long ones.
    removed: usize,
    added: usize,
    /// Number of lines of either text after those that were compared.
    left_out: usize,
    ran_out_of_time: bool,
    has_parts: bool,
}

impl<'t> Diff<'t> {
    /// Compares two texts.
    pub(super) fn of(old: &'t str, new: &'t str) -> Diff<'t> {
        Diff::until(old, new, Instant::now() + TIME)
    }

    fn until(old: &'t str, new: &'t str, deadline: Instant) -> Diff<'t> {
        let (mut old, mut new) = (lines(old), lines(new));
        let left_out = old.len().saturating_sub(LINES).max(new.len().saturating_sub(LINES));
        old.truncate(LINES);
        new.truncate(LINES);
        let has_parts = old.iter().chain(&new).any(|line| !line.is_first);
        let texts = |lines: &[Line<'t>]| lines.iter().map(|line| line.text).collect::<Vec<&str>>();
        let (of_old, of_new) = (texts(&old), texts(&new));
        let mut found = Replace::new(Capture::new());
        // Cannot fail: the hook accepts everything.
        let _ = myers::diff_deadline(
            &mut found,
            &of_old[..],
            0..of_old.len(),
            &of_new[..],
            0..of_new.len(),
            Some(deadline),
        );
        let ran_out_of_time = Instant::now() >= deadline;
        let mut diff = Diff { rows: Vec::new(), removed: 0, added: 0, left_out, ran_out_of_time, has_parts };
        let ops = found.into_inner().into_ops();
        for (at, op) in ops.iter().enumerate() {
            diff.add(*op, &old, &new, at == 0, at + 1 == ops.len());
        }
        diff
    }

    fn add(&mut self, op: DiffOp, old: &[Line<'t>], new: &[Line<'t>], is_first: bool, is_last: bool) {
        if let DiffOp::Equal { old_index, new_index, len } = op {
            let before = if is_first { 0 } else { CONTEXT };
            let after = if is_last { 0 } else { CONTEXT };
            let is_cut = len > before + after + 1;
            let (head, tail) = if is_cut { (before, len - after) } else { (len, len) };
            let equal = |at: usize| Row::Equal(old[old_index + at], new[new_index + at]);
            self.rows.extend((0..head).map(equal));
            if is_cut {
                self.rows.push(Row::Gap(tail - head));
            }
            self.rows.extend((tail..len).map(equal));
            return;
        }
        let (old, new) = (&old[op.old_range()], &new[op.new_range()]);
        self.removed += old.len();
        self.added += new.len();
        self.rows
            .extend((0..old.len().max(new.len())).map(|at| Row::Changed(old.get(at).copied(), new.get(at).copied())));
    }

    fn is_equal(&self) -> bool {
        self.removed == 0 && self.added == 0
    }

    /// The diff as a table; `label` names what was compared.
    pub(super) fn shown(&self, label: &str) -> Markup {
        let what = if self.has_parts { "lines and parts of lines" } else { "lines" };
        html! {
            @if self.is_equal() { p { "No " (what) " differ." } } @else {
                p { "Removed: " (number(self.removed as u64)) ", added: " (number(self.added as u64)) " " (what) "." }
            }
            @if self.has_parts { p class="quiet" { "Lines of over " (LONG) " bytes are compared in parts, which end after a tag or a sentence." } }
            @if self.left_out > 0 { p role="note" { "Only the first " (number(LINES as u64)) " of them are compared: " (number(self.left_out as u64)) " more are not." } }
            @if self.ran_out_of_time { p role="note" { "The comparison was stopped after " (TIME.as_millis()) " ms: the rest is shown as changed." } }
            @if self.rows.len() > ROWS { p role="note" { "The first " (number(ROWS as u64)) " rows; " (number((self.rows.len() - ROWS) as u64)) " more are left out." } }
            @if !self.is_equal() {
                div class="scroll" tabindex="0" role="region" aria-label=(label) {
                    table class="diff" {
                        thead { tr { th scope="col" class="n" { "Line" } th scope="col" { "Old" } th scope="col" class="n" { "Line" } th scope="col" { "New" } } }
                        tbody { @for row in self.rows.iter().take(ROWS) { (row.shown()) } }
                    }
                }
            }
        }
    }
}

impl Row<'_> {
    fn shown(&self) -> Markup {
        match self {
            Row::Equal(old, new) => html! {
                tr { (number_of(Some(old))) td { (old.text) } (number_of(Some(new))) td { (new.text) } }
            },
            Row::Gap(lines) => html! {
                tr class="gap" { td colspan="4" { (number(*lines as u64)) @if *lines == 1 { " equal line" } @else { " equal lines" } } }
            },
            Row::Changed(old, new) => {
                let texts = (old.map_or("", |line| line.text), new.map_or("", |line| line.text));
                let ends = if old.is_some() && new.is_some() { shared_ends(texts.0, texts.1) } else { (0, 0) };
                html! { tr {
                    (number_of(old.as_ref())) (changed(*old, ends, true))
                    (number_of(new.as_ref())) (changed(*new, ends, false))
                } }
            }
        }
    }
}

fn number_of(line: Option<&Line<'_>>) -> Markup {
    html! { td class="n" { @if let Some(line) = line.filter(|line| line.is_first) { (line.number) } } }
}

/// One side of a change; the common start and end of both sides are not marked.
fn changed(line: Option<Line<'_>>, (head, tail): (usize, usize), is_old: bool) -> Markup {
    let Some(line) = line else { return html! { td class="none" {} } };
    let end = line.text.len() - tail;
    let (class, begin, middle, rest) =
        (if is_old { "old" } else { "new" }, &line.text[..head], &line.text[head..end], &line.text[end..]);
    html! {
        td class=(class) {
            (begin)
            @if !middle.is_empty() { @if is_old { del { (middle) } } @else { ins { (middle) } } }
            (rest)
        }
    }
}

/// Number of bytes of the common start and of the common end of two texts; they do not overlap.
fn shared_ends(old: &str, new: &str) -> (usize, usize) {
    let head: usize =
        old.chars().zip(new.chars()).take_while(|(old, new)| old == new).map(|(old, _)| old.len_utf8()).sum();
    let (old, new) = (&old[head..], &new[head..]);
    let same = old.chars().rev().zip(new.chars().rev()).take_while(|(old, new)| old == new);
    (head, same.map(|(old, _)| old.len_utf8()).sum())
}

/// Splits a text into lines, and long lines into parts.
fn lines(text: &str) -> Vec<Line<'_>> {
    let mut found = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let mut rest = line;
        loop {
            let end = if line.len() <= LONG { rest.len() } else { end_of_part(rest) };
            let (part, behind) = rest.split_at(end);
            found.push(Line { number: at + 1, text: part, is_first: rest.len() == line.len() });
            rest = behind;
            if rest.is_empty() {
                break;
            }
        }
    }
    found
}

/// Finds the end of a part. It depends only on the part's content, so that an insertion moves no
/// end.
fn end_of_part(text: &str) -> usize {
    let mut last = '\0';
    for (at, char) in text.char_indices() {
        let ends = matches!(last, '>' | ';' | '}') || (char == ' ' && matches!(last, '.' | '?' | '!'));
        if ends || at >= LONGEST {
            return at;
        }
        last = char;
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both texts, reassembled from all rows.
    fn both(diff: &Diff<'_>) -> (Vec<String>, Vec<String>) {
        let (mut old, mut new) = (Vec::new(), Vec::new());
        for row in &diff.rows {
            match row {
                Row::Equal(a, b) => {
                    old.push(a.text.to_owned());
                    new.push(b.text.to_owned());
                }
                Row::Changed(a, b) => {
                    old.extend(a.map(|line| line.text.to_owned()));
                    new.extend(b.map(|line| line.text.to_owned()));
                }
                Row::Gap(lines) => {
                    for side in [&mut old, &mut new] {
                        side.extend(vec!["gap".to_owned(); *lines]);
                    }
                }
            }
        }
        (old, new)
    }

    #[test]
    fn what_differs_is_shown_with_what_is_around_it() {
        let old = "gap\ngap\ngap\na\nb\nc\nold <b>\nd\ne\nf\ngap\ngap\n";
        let new = "gap\ngap\ngap\na\nb\nc\nnew <b>\nmore\nd\ne\nf\ngap\ngap\n";
        let diff = Diff::of(old, new);
        assert_eq!((diff.removed, diff.added, diff.ran_out_of_time), (1, 2, false));
        assert_eq!(both(&diff), (old.lines().map(str::to_owned).collect(), new.lines().map(str::to_owned).collect()));
        assert_eq!(diff.rows.iter().filter(|row| matches!(row, Row::Gap(_))).count(), 2);
        let shown = diff.shown("Bodies").into_string();
        assert!(shown.contains("<td class=\"old\"><del>old</del> &lt;b&gt;</td>"), "{shown}");
        assert!(shown.contains("<td class=\"n\">7</td><td class=\"new\"><ins>new</ins> &lt;b&gt;</td>"), "{shown}");
        assert!(shown.contains("Removed: 1, added: 2 lines."), "{shown}");
        assert!(Diff::of(old, old).shown("Bodies").into_string().contains("No lines differ"));
        for (old, new) in [("", "x"), ("x", ""), ("é", "è"), ("aa", "a"), ("aba", "a")] {
            let diff = Diff::of(old, new);
            assert_eq!(
                both(&diff),
                (old.lines().map(str::to_owned).collect(), new.lines().map(str::to_owned).collect())
            );
            diff.shown("Bodies");
        }
    }

    #[test]
    fn a_page_on_one_line_is_compared_in_parts() {
        let old = format!("<ul>{}</ul>", "<li>word. word</li>".repeat(60));
        let new = old.replacen("word", "other words that are longer", 1);
        let diff = Diff::of(&old, &new);
        assert_eq!((diff.removed, diff.added), (1, 1));
        assert_eq!(lines(&new).iter().map(|line| line.text).collect::<String>(), new);
        let long = "x".repeat(5 * LONGEST);
        assert_eq!(lines(&long).len(), 5);
    }

    #[test]
    fn what_was_not_compared_in_time_is_shown_as_changed_and_said() {
        let (old, new) = ("a\nb\nc\nd\n", "c\nx\na\ny\n");
        let diff = Diff::until(old, new, Instant::now());
        assert!(diff.ran_out_of_time);
        assert_eq!(both(&diff), (old.lines().map(str::to_owned).collect(), new.lines().map(str::to_owned).collect()));
        assert!(diff.shown("Bodies").into_string().contains("was stopped after"));
    }

    #[test]
    fn of_hostile_texts_a_bounded_part_is_compared_and_shown() {
        let random = |mut state: u64, of: u64| {
            let mut text = String::new();
            for _ in 0..120_000 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                text.push_str(&format!("{}\n", (state >> 33) % of));
            }
            text
        };
        let empty = "\n".repeat(250_000);
        for (old, new) in
            [(random(1, 3), random(2, 3)), (random(1, 1 << 30), random(2, 1 << 30)), (empty, random(3, 2))]
        {
            let diff = Diff::of(&old, &new);
            assert!(diff.left_out > 0);
            let shown = diff.shown("Bodies").into_string();
            assert!(shown.contains("more are left out") && shown.contains("more are not"), "{}", &shown[..500]);
            assert_eq!(shown.matches("<tr").count(), ROWS + 1);
        }
    }
}
