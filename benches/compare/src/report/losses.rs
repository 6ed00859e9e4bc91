//! What speaks against FileMap, whole and generated: every ranked figure in which another engine is ahead of one of
//! ours, what failed, and what was left out with its reason.

use super::data::{Data, Rounds};
use super::figures::{Better, CACHED, ENGINES, FIGURES, FILEMAP, Figure, PLAIN, others};
use super::markdown::{Table, number, with_unit};

/// One figure in which somebody is ahead.
#[derive(Debug, PartialEq)]
struct Loss {
    figure: &'static Figure,
    ours: (&'static str, Rounds),
    ahead: Vec<(&'static str, Rounds)>,
}

/// The list, set by set.
pub fn losses(data: &Data) -> String {
    let (mut compared, mut lost, mut tables) = (0, 0, String::new());
    for set in data.sets() {
        let (of_set, losses) = losses_of(data, set);
        compared += of_set;
        lost += losses.len();
        let mut table = Table::new(["figure", "ours", "", "ahead of it"]);
        for loss in &losses {
            let (whose, ours) = &loss.ours;
            let words = with_unit(ours.median / loss.figure.per, loss.figure.unit);
            table.row([loss.figure.says, *whose, &words, &ahead_words(loss)]);
        }
        if !table.is_empty() {
            tables.push_str(&format!("*{set}*\n\n{}", table.to_text()));
        }
    }
    format!(
        "Every figure of every set in which another engine (the limit is none) is ahead of one of ours: {lost} of \
         {compared} compared. In brackets how many times better the other is; `~` where the rounds of the two overlap, \
         so that it may be chance.\n\n{tables}"
    )
}

/// How many figures of ours were compared with at least one other, and those that lost.
fn losses_of(data: &Data, set: &str) -> (usize, Vec<Loss>) {
    let (mut compared, mut losses) = (0, Vec::new());
    for figure in FIGURES {
        let theirs: Vec<(&str, Rounds)> =
            others().filter_map(|other| Some((other, data.rounds(set, other, figure)?))).collect();
        for engine in [FILEMAP, PLAIN, CACHED] {
            let Some(ours) = data.rounds(set, engine, figure).filter(|_| !theirs.is_empty()) else { continue };
            compared += 1;
            let is_ahead = |other: &&(&str, Rounds)| figure.better.ahead(other.1.median, ours.median);
            let mut ahead: Vec<_> = theirs.iter().filter(is_ahead).copied().collect();
            ahead.sort_by(|a, b| match figure.better {
                Better::More => b.1.median.total_cmp(&a.1.median),
                Better::Less => a.1.median.total_cmp(&b.1.median),
            });
            if !ahead.is_empty() {
                losses.push(Loss { figure, ours: (engine, ours), ahead });
            }
        }
    }
    (compared, losses)
}

fn ahead_words(loss: &Loss) -> String {
    let one = |(whose, theirs): &(&str, Rounds)| {
        let ours = &loss.ours.1;
        let (more, less) = match loss.figure.better {
            Better::More => (theirs.median, ours.median),
            Better::Less => (ours.median, theirs.median),
        };
        let value = number(theirs.median / loss.figure.per);
        // Nothing is so many times better than 0.
        if less <= 0.0 {
            return format!("{whose} {value}");
        }
        let chance = if theirs.overlaps(ours) { "~" } else { "" };
        format!("{whose} {value} ({chance}{:.2}x)", more / less)
    };
    loss.ahead.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// Wrong answers, broken runs, and what a kill -9 cost although it was synced.
pub fn failures(data: &Data) -> String {
    let mut table = Table::new(["engine", "set", "workload", "what"]);
    for set in data.sets() {
        for engine in ENGINES {
            let lost = data.raw(set, engine, "kill", "lost").map_or(0.0, |rounds| rounds.max);
            if lost > 0.0 {
                let what = format!("lost {} pages that were acknowledged and synced", number(lost));
                table.row([engine, set, "kill", &what]);
            }
        }
    }
    for failure in &data.failures {
        table.row([&failure.engine, &failure.set, &failure.workload, &failure.what]);
    }
    if table.is_empty() { "None was recorded.\n\n".to_owned() } else { table.to_text() }
}

/// What was left out; workloads of one engine, set and reason together.
pub fn skipped(data: &Data) -> String {
    let mut rows: Vec<(&str, &str, &str, Vec<&str>)> = Vec::new();
    for skipped in &data.skipped {
        let (engine, set, why) = (skipped.engine.as_str(), skipped.set.as_str(), skipped.why.as_str());
        match rows.iter_mut().find(|row| (row.0, row.1, row.2) == (engine, set, why)) {
            Some(row) if row.3.contains(&skipped.workload.as_str()) => {}
            Some(row) => row.3.push(&skipped.workload),
            None => rows.push((engine, set, why, vec![&skipped.workload])),
        }
    }
    let mut table = Table::new(["engine", "set", "left out", "why"]);
    for (engine, set, why, workloads) in rows {
        table.row([engine, set, &workloads.join(", "), why]);
    }
    if table.is_empty() { "Nothing.\n\n".to_owned() } else { table.to_text() }
}

#[cfg(test)]
mod tests {
    use super::super::synthetic::{data, result};
    use super::*;

    #[test]
    fn every_loss_of_every_variant_is_listed_with_the_best_first() {
        let warm = |engine, rate, p99| result(engine, "corpus", "warm", &[("per_s", rate), ("p99_us", p99)]);
        let lines = [
            warm("limit", 900.0, 1.0),
            warm("filemap", 100.0, 10.0),
            warm("filemap-plain", 300.0, 40.0),
            warm("lmdb", 150.0, 20.0),
            warm("redb", 200.0, 20.0),
        ];
        let text = losses(&data(&lines));
        assert!(text.contains("2 of 4 compared"), "{text}");
        assert!(text.contains("| warm get | filemap | 100/s | redb 200 (2.00x), lmdb 150 (1.50x) |"), "{text}");
        assert!(text.contains("| warm get p99 | filemap-plain | 40 us | lmdb 20 (2.00x), redb 20 (2.00x) |"));
        assert!(!text.contains("limit 900"), "{text}");
    }

    #[test]
    fn overlapping_rounds_are_marked_as_maybe_chance() {
        let warm = |engine, rate| result(engine, "corpus", "warm", &[("per_s", rate)]);
        let lines = [warm("filemap", 100.0), warm("filemap", 120.0), warm("lmdb", 110.0), warm("lmdb", 130.0)];
        let text = losses(&data(&lines));
        assert!(text.contains("lmdb 120 (~1.09x)"), "{text}");
    }

    #[test]
    fn where_nobody_is_ahead_nothing_is_listed() {
        let warm = |engine, rate| result(engine, "corpus", "warm", &[("per_s", rate)]);
        let text = losses(&data(&[warm("filemap", 2.0), warm("lmdb", 2.0)]));
        assert!(text.contains("0 of 1 compared") && !text.contains('|'), "{text}");
    }

    #[test]
    fn failures_and_what_was_left_out_are_shown() {
        let skip = |workload: &str| {
            format!(r#"{{"kind":"skipped","engine":"warc","set":"corpus","workload":"{workload}","why":"no deletes"}}"#)
        };
        let failure = r#"{"kind":"failure","engine":"lmdb","set":"corpus","workload":"kill","what":"3 pages gone"}"#;
        let lost = result("redb", "corpus", "kill", &[("open_ms", 1.0), ("lost", 7.0)]);
        let data = data(&[skip("delete"), skip("overwrite"), failure.to_owned(), lost]);
        assert!(skipped(&data).contains("| warc | corpus | delete, overwrite | no deletes |"));
        assert!(failures(&data).contains("| lmdb | corpus | kill | 3 pages gone |"));
        assert!(failures(&data).contains("| redb | corpus | kill | lost 7 pages"));
        assert_eq!(failures(&Data::default()), "None was recorded.\n\n");
    }
}
