//! Holds the rules of the house: who may import whom, what a file may weigh, how it opens.
//!
//! The rules and their table are in the library of this package. Each is run twice: on the
//! workspace, where it must find nothing, and on a planted bad snippet, where it must find exactly
//! what was planted.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use filemap_tests::layers::{TABLES, Table};
use filemap_tests::source::SourceFile;
use filemap_tests::{layers, rules, workspace};

fn files() -> Vec<SourceFile> {
    let texts = workspace::rust_files().expect("the workspace can be read");
    let parse = |(path, text): &(PathBuf, String)| SourceFile::parse(path, text).expect("every file is Rust");
    let mut files: Vec<SourceFile> = texts.iter().map(parse).collect();
    SourceFile::mark_tests(&mut files);
    files
}

fn planted(path: &str, text: &str) -> SourceFile {
    SourceFile::parse(Path::new(path), text).expect("the planted snippet is Rust")
}

fn re_exports(files: &[SourceFile], table: &Table) -> BTreeMap<String, Vec<String>> {
    let source = Path::new(table.source);
    let is_root = |file: &&SourceFile| file.path == source.join("lib.rs") || file.path == source.join("main.rs");
    let root = files.iter().find(is_root).expect("every crate has a root");
    root.re_exports().into_iter().collect()
}

#[track_caller]
fn assert_none(broken: Vec<String>) {
    assert!(broken.is_empty(), "{} broken rules:\n{}", broken.len(), broken.join("\n"));
}

#[track_caller]
fn assert_one(broken: &[String], words: &str) {
    assert_eq!(broken.len(), 1, "one thing was planted, found: {broken:#?}");
    assert!(broken[0].contains(words), "{:?} does not say {words:?}", broken[0]);
}

#[test]
fn every_file_opens_by_saying_what_it_owns() {
    assert_none(files().iter().flat_map(rules::header).collect());
}

#[test]
fn files_and_functions_stay_small() {
    assert_none(files().iter().flat_map(rules::size).collect());
}

#[test]
fn the_median_file_of_the_crates_is_short() {
    let files = files();
    let library = files.iter().filter(|file| file.path.starts_with("crates") && !file.is_test());
    let mut lines: Vec<usize> = library.map(SourceFile::lines_without_tests).collect();
    lines.sort_unstable();
    let median = lines[lines.len() / 2];
    assert!(median < rules::FILE_LINES_MEDIAN, "the median file has {median} lines");
}

#[test]
fn no_module_has_a_name_that_fits_any_other() {
    assert_none(files().iter().flat_map(rules::names).collect());
}

#[test]
fn the_root_of_a_library_has_few_names() {
    assert_none(files().iter().flat_map(rules::root).collect());
}

#[test]
fn nothing_is_left_for_later() {
    assert_none(files().iter().flat_map(rules::finished).collect());
}

#[test]
fn comments_and_pages_are_narrow() {
    let texts = workspace::rust_files().expect("the workspace can be read");
    let pages = workspace::pages().expect("the pages can be read");
    assert!(pages.iter().any(|(path, _)| path == Path::new("README.md")), "the walk finds README");
    assert_none(texts.iter().chain(&pages).flat_map(|(path, text)| rules::width(path, text)).collect());
}

#[test]
fn libraries_do_not_print() {
    assert_none(files().iter().flat_map(rules::silent).collect());
}

#[test]
fn only_the_io_crate_touches_the_operating_systems_files() {
    assert_none(files().iter().flat_map(rules::io_seam).collect());
}

#[test]
fn unsafe_code_stands_only_where_the_table_says() {
    assert_none(files().iter().flat_map(rules::unsafe_code).collect());
}

#[test]
fn imports_go_downward_only_and_threads_start_where_the_table_says() {
    let files = files();
    let of_table = |table: &Table| -> Vec<String> {
        let names = re_exports(&files, table);
        let of_crate = files.iter().filter(|file| file.path.starts_with(table.source));
        of_crate.flat_map(|file| rules::imports(file, &names)).collect()
    };
    assert_none(TABLES.iter().flat_map(of_table).collect());
}

#[test]
fn every_entry_of_a_table_is_a_module_once() {
    let files = files();
    for table in TABLES {
        let modules: BTreeSet<String> = files
            .iter()
            .filter(|file| file.path.starts_with(table.source))
            .map(|file| file.module().join("::"))
            .collect();
        let mut seen = BTreeSet::new();
        for (entry, _) in table.entries() {
            assert!(modules.contains(entry), "{}: there is no module `{entry}`", table.source);
            assert!(seen.insert(entry), "{}: `{entry}` stands in two layers", table.source);
        }
    }
}

#[test]
fn every_crate_has_a_table_or_says_why_not() {
    for (path, text) in workspace::manifests().expect("the manifests can be read") {
        let manifest: toml::Table = text.parse().expect("a manifest");
        let Some(package) = manifest.get("package") else { continue };
        let (name, folder) = (package["name"].as_str().expect("a name"), path.parent().expect("a folder"));
        let has_table = TABLES.iter().any(|table| Path::new(table.source) == folder.join("src"));
        let says_why = layers::WITHOUT_TABLE.iter().any(|(listed, _)| *listed == name);
        assert!(has_table != says_why, "{name}: a table in tests/src/layers, or a reason for none");
    }
}

#[test]
fn crates_depend_on_the_crates_below_them_only() {
    let manifests = workspace::manifests().expect("the manifests can be read");
    assert!(manifests.len() >= layers::CRATES.len(), "found {} manifests", manifests.len());
    let check = |(path, text): &(PathBuf, String)| rules::manifest(&path.display().to_string(), text);
    assert_none(manifests.iter().flat_map(check).collect());
}

#[test]
fn planted_upward_imports_are_found_however_they_are_written() {
    let names = BTreeMap::from([("Store".to_owned(), ["crate", "store", "Store"].map(str::to_owned).to_vec())]);
    let ways = [
        ("logs/scan.rs", "use crate::store::Store;"),
        ("logs/scan.rs", "use crate::{error::Error, store::Store};"),
        ("logs/scan.rs", "use crate::Store;"),
        ("logs/scan/page.rs", "use super::super::super::store::Store;"),
        ("error.rs", "use super::store;"),
        ("logs/scan.rs", "fn f() { let s = crate::store::open(); }"),
        ("logs/scan.rs", "mod inner { use super::super::super::store::Store; }"),
        ("logs/scan.rs", "fn f(x: &[crate::store::Store; 3]) {}"),
        ("index/memtable.rs", "use crate::index::address::Index;"),
        ("logs/segments/make.rs", "use crate::logs::values::VALUES;"),
        ("handle/recover/replay.rs", "use crate::handle::reading::Reading;"),
        ("error.rs", "pub use crate::store::{self as s};"),
        ("logs/scan.rs", "#[cfg(test)] mod tests { use crate::Store; }"),
        ("logs/scan/tests.rs", "use crate::Store;"),
    ];
    for (path, text) in ways {
        let path = format!("{}/{path}", layers::ENGINE_SOURCE);
        let broken = rules::imports(&planted(&path, text), &names);
        assert_one(&broken, "not below it");
    }
}

#[test]
fn downward_imports_comments_and_strings_are_let_pass() {
    let names = BTreeMap::new();
    let text = r#"
        //! use crate::store::Store;
        use crate::error::Error;
        use self::head::Head;
        use super::super::format;
        use super::segments::Segment;
        // crate::store::Store
        const WORDS: &str = "crate::store::Store";
        #[cfg(test)]
        mod tests { use super::*; use crate::format::names; }
    "#;
    let path = format!("{}/logs/keys/mod.rs", layers::ENGINE_SOURCE);
    assert_none(rules::imports(&planted(&path, text), &names));
}

#[test]
fn a_file_declared_as_a_test_module_is_a_test_and_its_neighbours_are_not() {
    let declaring = "#[cfg(test)]\nmod spec;\nmod key;\n#[cfg(test)]\npub(crate) mod sim;";
    let mut files = vec![
        planted("crates/filemap-core/src/format/mod.rs", declaring),
        planted("crates/filemap-core/src/format/spec.rs", ""),
        planted("crates/filemap-core/src/format/key.rs", ""),
        planted("crates/filemap-core/src/format/sim/disk.rs", ""),
        planted("crates/filemap-core/src/spec.rs", ""),
    ];
    SourceFile::mark_tests(&mut files);
    let tests: Vec<bool> = files.iter().map(SourceFile::is_test).collect();
    assert_eq!(tests, [false, true, false, true, false]);
}

#[test]
fn a_planted_module_without_a_layer_is_found() {
    let in_engine = [("novelty.rs", ""), ("logs/novelty.rs", ""), ("logs/mod.rs", "use crate::error::Error;")];
    let in_engine = in_engine.map(|(at, text)| (layers::ENGINE_SOURCE, at, text));
    let elsewhere = TABLES.iter().map(|table| (table.source, "novelty.rs", ""));
    for (source, at, text) in in_engine.into_iter().chain(elsewhere) {
        let path = format!("{source}/{at}");
        assert_one(&rules::imports(&planted(&path, text), &BTreeMap::new()), "has no layer");
    }
}

#[test]
fn a_planted_thread_is_found() {
    let path = format!("{}/store.rs", layers::ENGINE_SOURCE);
    for text in ["fn f() { std::thread::spawn(g); }", "use std::thread::{self, Builder};"] {
        let broken = rules::imports(&planted(&path, text), &BTreeMap::new());
        assert_one(&broken, "starts a thread");
    }
    let worker = format!("{}/upkeep/worker.rs", layers::ENGINE_SOURCE);
    let file = planted(&worker, "fn f() { std::thread::spawn(g); }");
    assert_none(rules::imports(&file, &BTreeMap::new()));
}

#[test]
fn a_planted_file_access_is_found() {
    let ways = ["use std::{fs, io};", "fn f() { std::fs::read(p); }", "use memmap2::MmapMut;"];
    for text in ways {
        assert_one(&rules::io_seam(&planted("crates/filemap-core/src/logs/scan.rs", text)), "seam");
        assert_none(rules::io_seam(&planted("crates/filemap-io/src/file.rs", text)));
    }
}

#[test]
fn planted_bad_files_are_found() {
    let at = "crates/filemap/src/page.rs";
    assert_one(&rules::header(&planted(at, "//! page\n")), "opens with 1 words");
    assert_one(
        &rules::header(&planted(at, "use a::b;\n//! late, and it has more than eight words of text\n")),
        "opens with 0",
    );
    assert_one(&rules::names(&planted("crates/filemap/src/page_utils.rs", "")), "names nothing");
    let root =
        "pub mod a; pub use b::{c::C, d::{D, e as E}, f::F}; pub const fn g() {} pub struct H(u8); use i::I; fn j() {}";
    let names = planted("crates/filemap/src/lib.rs", root).public_names();
    assert_eq!(names, ["a", "C", "D", "E", "F", "g", "H"].map(str::to_owned).into());
    let many: String = (0..31).map(|number| format!("pub struct N{number};")).collect();
    assert_one(&rules::root(&planted("crates/filemap/src/lib.rs", &many)), "31 public names");
    assert_one(&rules::finished(&planted(at, "fn f() { todo!() }")), "finish it");
    let note = format!("// {}: some day", ["TO", "DO"].concat());
    assert_one(&rules::finished(&planted(at, &note)), "a note for later");
    let (wide, page) = ("word ".repeat(20), Path::new("docs/A.md"));
    assert_one(&rules::width(Path::new(at), &format!("fn f() {{}}\n    /// {wide}")), ":2: 108 characters");
    assert_one(&rules::width(page, &format!("{wide}\n")), ":1: 100 characters");
    let allowed = format!("| {wide} |\n```\n{wide}\n```\n{}\n{}", &wide[..99], wide.replace(' ', "_"));
    assert_none(rules::width(page, &allowed));
    assert_none(rules::width(Path::new(at), &format!("let a = \"{wide}\";")));
    assert_one(&rules::silent(&planted(at, "fn f() { println!(\"x\") }")), "in a library");
    assert_one(&rules::unsafe_code(&planted(at, "fn f() { unsafe { g() } }")), "outside the files");
}

#[test]
fn planted_long_files_and_functions_are_found_and_tests_are_not_counted() {
    let lines = "const A: u8 = 0;\n".repeat(rules::FILE_LINES_MAX);
    assert_one(&rules::size(&planted("crates/filemap/src/page.rs", &lines)), "split it");
    let tests = format!("#[cfg(test)]\nmod tests {{\n{lines}}}\n");
    assert_none(rules::size(&planted("crates/filemap/src/page.rs", &tests)));
    let body = "    g();\n".repeat(rules::FUNCTION_LINES_MAX);
    let function = format!("fn long() {{\n{body}}}\n");
    assert_one(&rules::size(&planted("crates/filemap/src/page.rs", &function)), "`long` takes 72");
}

#[test]
fn planted_bad_manifests_are_found() {
    let lints = "[lints]\nworkspace = true\n";
    let upward = format!("[package]\nname = \"filemap-core\"\n[dependencies]\nfilemap = \"1\"\n{lints}");
    assert_one(&rules::manifest("Cargo.toml", &upward), "not below it");
    let own_lints = "[package]\nname = \"filemap-core\"\n";
    assert_one(&rules::manifest("Cargo.toml", own_lints), "lints");
    let stranger = format!("[package]\nname = \"stranger\"\n{lints}");
    assert_one(&rules::manifest("Cargo.toml", &stranger), "place it");
}
