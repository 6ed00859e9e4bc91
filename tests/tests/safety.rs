//! Names in the documents exist: tests behind the promises of docs/SAFETY.md and docs/RECOVERY.md,
//! and each section names some; files in docs/ARCHITECTURE.md.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests stand in the workspace").to_owned()
}

/// The functions that are marked as tests in all Rust files under a folder.
fn tests_under(folder: &Path, found: &mut HashSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("target") {
            tests_under(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let after = text.split("#[test]").skip(1);
            let names =
                after.filter_map(|rest| rest.split_once("fn ")?.1.split_once('(').map(|(name, _)| name.to_owned()));
            found.extend(names);
        }
    }
}

/// Texts between backticks that can be a test's name.
fn named(text: &str) -> Vec<&str> {
    let is_name = |word: &&str| {
        word.matches('_').count() >= 3
            && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
    };
    text.split('`').skip(1).step_by(2).filter(is_name).collect()
}

#[test]
fn every_test_that_the_documents_name_exists() {
    let mut tests = HashSet::new();
    for folder in ["crates", "tools", "tests"] {
        tests_under(&root().join(folder), &mut tests);
    }
    for document in ["docs/SAFETY.md", "docs/RECOVERY.md"] {
        let text = fs::read_to_string(root().join(document)).unwrap();
        let absent: Vec<&str> = named(&text).into_iter().filter(|name| !tests.contains(*name)).collect();
        assert!(absent.is_empty(), "{document} names tests that do not exist: {absent:?}");
    }
}

#[test]
fn each_case_of_recovery_has_its_letter_and_its_test() {
    let text = fs::read_to_string(root().join("docs/RECOVERY.md")).unwrap();
    let cases = text.split("\n## The cases\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows: Vec<&str> = cases.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    for (row, letter) in rows.iter().zip('a'..) {
        assert!(row.starts_with(&format!("| {} |", letter.to_ascii_uppercase())), "out of order: {row}");
        assert!(
            named(row).iter().any(|name| name.starts_with(&format!("case_{letter}_"))),
            "no test of its own: {row}"
        );
    }
    let mut tests = HashSet::new();
    tests_under(&root().join("tests/crash"), &mut tests);
    assert_eq!(tests.iter().filter(|name| name.starts_with("case_")).count(), rows.len());
}

#[test]
fn every_section_of_promises_names_the_tests_that_hold_it() {
    let text = fs::read_to_string(root().join("docs/SAFETY.md")).unwrap();
    for section in text.split("\n## ").skip(1) {
        let title = section.lines().next().unwrap();
        if title != "Reporting a problem" {
            assert!(!named(section).is_empty(), "no test stands behind: {title}");
        }
    }
    let promises = text.split("\n## Promises at every level\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let items: Vec<&str> = promises.split("\n- **").skip(1).collect();
    assert!(items.len() >= 19, "promises are items that begin with their situation in bold");
    for item in items {
        assert!(!named(item).is_empty(), "no test stands behind: {item}");
    }
}

#[test]
fn every_file_that_the_architecture_names_stands_where_it_says() {
    let text = fs::read_to_string(root().join("docs/ARCHITECTURE.md")).unwrap();
    let section = text.split("\n## Where is what\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let mut absent = Vec::new();
    for part in section.split("\n### `").skip(1) {
        let folder = root().join(part.split('`').next().unwrap());
        for row in part.lines().filter(|line| line.starts_with("| ")).skip(1) {
            let mut before = folder.clone();
            for name in row.rsplit_once(" | ").unwrap().1.split('`').skip(1).step_by(2) {
                // A bare name stands beside the file that is named before it, or in the folder
                // itself.
                match [before.join(name), folder.join(name)].into_iter().find(|path| path.exists()) {
                    Some(path) => before = path.parent().unwrap().to_owned(),
                    None => absent.push(folder.join(name)),
                }
            }
        }
    }
    assert!(absent.is_empty(), "docs/ARCHITECTURE.md names files that do not exist: {absent:#?}");
}
