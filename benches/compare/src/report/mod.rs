//! `compare report`: from raw results to a section of docs/BENCHMARKS.md and its charts.
//!
//! Everything between parsing and writing is a pure function of the results: the same files in the same order give the
//! same bytes, and nothing in the section is written by hand. Nothing is written before all of it is made.

mod bars;
mod charts;
mod data;
mod figures;
mod losses;
mod markdown;
mod preface;
mod section;
mod svg;
#[cfg(test)]
mod synthetic;
mod tables;

use std::fs;
use std::path::{Path, PathBuf};

use filemap_benches::drive::Outcome;

use data::Data;

/// Makes the tables and charts of the comparison from raw results.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Raw results (benches/results/*.jsonl); rounds of several files are put together
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Document that gets the section between its markers `<!-- compare: begin -->` and `<!-- compare: end -->`;
    /// standard output if not given
    #[arg(long, value_name = "DOC.md")]
    into: Option<PathBuf>,
    /// Folder that gets the charts, as SVG; none are made if not given
    #[arg(long, value_name = "DIR")]
    charts: Option<PathBuf>,
}

/// Runs it.
///
/// # Errors
/// A file that cannot be read or written, a line of results that is not understood, or a document without its markers.
pub fn run(arguments: &Arguments) -> Outcome<()> {
    let mut data = Data::default();
    for file in &arguments.files {
        data.read(&file.display().to_string(), &read(file)?)?;
    }
    let charts = if arguments.charts.is_some() { charts::charts(&data) } else { Vec::new() };
    let folder = link_folder(arguments.into.as_deref(), arguments.charts.as_deref());
    let section = section::section(&data, &charts, &folder);
    let document = match &arguments.into {
        Some(path) => Some((path, section::splice(&read(path)?, &path.display().to_string(), &section)?)),
        None => None,
    };
    if let Some(folder) = &arguments.charts {
        fs::create_dir_all(folder).map_err(|error| format!("{}: cannot make the folder: {error}", folder.display()))?;
        for chart in &charts {
            write(&folder.join(chart.file), &chart.svg)?;
        }
    }
    match document {
        Some((path, text)) => write(path, &text)?,
        None => print!("{section}"),
    }
    Ok(())
}

fn read(path: &Path) -> Outcome<String> {
    Ok(fs::read_to_string(path).map_err(|error| format!("{}: cannot read: {error}", path.display()))?)
}

fn write(path: &Path, text: &str) -> Outcome<()> {
    Ok(fs::write(path, text).map_err(|error| format!("{}: cannot write: {error}", path.display()))?)
}

/// The charts' folder as the document's links must name it: relative to the document if it lies below it.
fn link_folder(document: Option<&Path>, charts: Option<&Path>) -> String {
    let Some(charts) = charts else { return String::new() };
    let beside = document.and_then(Path::parent).unwrap_or(Path::new(""));
    let folder = charts.strip_prefix(beside).unwrap_or(charts).to_string_lossy().into_owned();
    match folder.as_str() {
        "" | "." => String::new(),
        _ => format!("{}/", folder.trim_end_matches('/')),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_written_into_a_document_without_markers() {
        let folder = std::env::temp_dir().join(format!("compare-report-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a temporary folder");
        let (results, document, charts) = (folder.join("a.jsonl"), folder.join("D.md"), folder.join("charts"));
        let lines = [synthetic::machine(), synthetic::result("lmdb", "corpus", "load", &[("mb_per_s", 711.0)])];
        fs::write(&results, lines.join("\n")).expect("written");
        fs::write(&document, "no markers").expect("written");
        let arguments = Arguments { files: vec![results], into: Some(document.clone()), charts: Some(charts.clone()) };
        let error = run(&arguments).expect_err("no markers").to_string();
        assert!(error.contains("D.md: \"<!-- compare: begin -->\" is there 0 times"), "{error}");
        assert!(!charts.exists());

        fs::write(&document, "<!-- compare: begin -->\n<!-- compare: end -->\n").expect("written");
        run(&arguments).expect("the markers are there");
        let text = fs::read_to_string(&document).expect("a document");
        assert!(text.contains("![Load](charts/compare-load.svg)") && charts.join("compare-load.svg").exists());
        fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn charts_are_linked_from_where_the_document_lies() {
        let folder = |document, charts| link_folder(Some(Path::new(document)), Some(Path::new(charts)));
        assert_eq!(folder("docs/BENCHMARKS.md", "docs"), "");
        assert_eq!(folder("docs/BENCHMARKS.md", "docs/pictures/"), "pictures/");
        assert_eq!(folder("BENCHMARKS.md", "."), "");
        assert_eq!(folder("docs/BENCHMARKS.md", "elsewhere"), "elsewhere/");
        assert_eq!(link_folder(None, None), "");
    }
}
