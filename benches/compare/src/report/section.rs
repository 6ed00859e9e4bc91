//! The section as a whole, and its place in the document: between two marker comments, where everything is generated.

use filemap_benches::drive::Outcome;

use super::bars;
use super::charts::Chart;
use super::data::Data;
use super::losses::{failures, losses, skipped};
use super::markdown::{count, number};
use super::preface::{preface, runs};
use super::tables::tables;

const BEGIN: &str = "<!-- compare: begin -->";
const END: &str = "<!-- compare: end -->";

/// The section: charts are linked from `folder`, which is empty or ends with a slash.
pub fn section(data: &Data, charts: &[Chart], folder: &str) -> String {
    let mut out = preface(data);
    for chart in charts {
        out.push_str(&format!("![{}]({folder}{})\n\n", chart.title, chart.file));
    }
    for set in data.sets() {
        let size = data.size(set).map_or(String::new(), |size| {
            format!(": {} pages, {} MB", count(size.pages), number(size.raw_bytes as f64 / 1e6))
        });
        out.push_str(&format!("### {set}{size}\n\n{}", tables(data, set)));
    }
    out.push_str(&format!("### The bars\n\n{}", bars::table(data)));
    out.push_str(&format!("### Where FileMap loses\n\n{}", losses(data)));
    out.push_str(&format!("*Failures*\n\n{}", failures(data)));
    out.push_str(&format!("*Left out*\n\n{}", skipped(data)));
    out.push_str(&format!("### The runs\n\n{}", runs(data)));
    out.truncate(out.trim_end().len());
    out.push('\n');
    out
}

/// The document with the section between its markers.
///
/// # Errors
/// The markers are not there, not once each, or not in order.
pub fn splice(document: &str, name: &str, section: &str) -> Outcome<String> {
    let once = |marker: &str| match document.matches(marker).count() {
        1 => document.find(marker).ok_or_else(String::new),
        found => Err(format!(
            "{name}: {marker:?} is there {found} times and must be there once: put {BEGIN} and below it {END}, \
             each on a line of its own, where the section belongs"
        )),
    };
    let (begin, end) = (once(BEGIN)? + BEGIN.len(), once(END)?);
    if end < begin {
        return Err(format!("{name}: {END} stands before {BEGIN}: change their order").into());
    }
    Ok(format!("{}\n\n{section}\n{}", &document[..begin], &document[end..]))
}

#[cfg(test)]
mod tests {
    use super::super::charts::charts;
    use super::super::synthetic::{data, engine, machine, result};
    use super::*;

    fn lines() -> Vec<String> {
        let mut lines = vec![machine(), engine("filemap"), engine("lmdb")];
        for (engine, rate) in [("filemap", 100.0), ("lmdb", 120.0)] {
            lines.push(result(engine, "corpus", "load", &[("mb_per_s", rate)]));
            lines.push(result(engine, "generated-10m", "warm", &[("per_s", rate)]));
        }
        lines
    }

    #[test]
    fn the_same_results_in_another_order_give_the_same_bytes() {
        let make = |lines: &[String]| {
            let data = data(lines);
            section(&data, &charts(&data), "")
        };
        let mut reversed = lines();
        // Behind the machine that they are of.
        reversed[1..].reverse();
        assert_eq!(make(&lines()), make(&reversed));
    }

    #[test]
    fn all_parts_are_there_in_order() {
        let data = data(&lines());
        let text = section(&data, &charts(&data), "pictures/");
        let parts = [
            "Machine of corpus and generated-10m: ",
            "| engine | version |",
            "](pictures/compare-load.svg)",
            "### corpus: 1,000 pages, 20 MB",
            "### generated-10m",
            "### The bars",
            "### Where FileMap loses",
            "*Failures*",
            "*Left out*",
            "### The runs",
        ];
        let places: Vec<_> = parts.iter().map(|part| text.find(part).unwrap_or_else(|| panic!("{part}"))).collect();
        assert!(places.is_sorted(), "{places:?}");
    }

    #[test]
    fn the_section_replaces_what_is_between_the_markers() {
        let document = format!("before\n{BEGIN}\nold\n{END}\nafter\n");
        let once = splice(&document, "D.md", "new\n").expect("both are there");
        assert_eq!(once, format!("before\n{BEGIN}\n\nnew\n\n{END}\nafter\n"));
        assert_eq!(splice(&once, "D.md", "new\n").expect("both are there"), once);
    }

    #[test]
    fn missing_doubled_or_turned_markers_are_refused() {
        let refused = |document: &str| splice(document, "D.md", "new").expect_err("must be refused").to_string();
        assert!(refused("nothing").starts_with("D.md: \"<!-- compare: begin -->\" is there 0 times"));
        assert!(refused(BEGIN).starts_with("D.md: \"<!-- compare: end -->\" is there 0 times"));
        assert!(refused(&format!("{BEGIN}{BEGIN}{END}")).contains("2 times"));
        assert!(refused(&format!("{END}{BEGIN}")).contains("change their order"));
    }
}
