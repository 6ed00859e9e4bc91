//! The integration tests of a package are one program, `tests/main.rs`: each file is a module of
//! it or a program that the manifest names, so that none is left out in silence.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use filemap_tests::workspace;

/// Programs beside `tests/main.rs`; their headers say why.
const ALONE: [&str; 3] =
    ["crates/filemap-core/tests/concurrent.rs", "tests/tests/hostile_bombs.rs", "tests/tests/hostile_forged.rs"];

/// The paths of a manifest's `[[test]]` entries, from the root of the workspace; `None` when Cargo
/// finds the programs itself.
fn programs(folder: &Path, manifest: &str) -> Option<BTreeSet<PathBuf>> {
    let table: toml::Table = manifest.parse().unwrap();
    if table["package"].get("autotests").and_then(toml::Value::as_bool) != Some(false) {
        return None;
    }
    let entries = table.get("test").and_then(toml::Value::as_array)?;
    Some(entries.iter().map(|entry| folder.join(entry["path"].as_str().unwrap())).collect())
}

fn modules(folder: &Path, main: &str) -> impl Iterator<Item = PathBuf> {
    let names = main.lines().filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'));
    names.map(|name| folder.join(format!("{name}.rs")))
}

#[test]
fn every_file_of_integration_tests_is_run() {
    let files: BTreeMap<PathBuf, String> = workspace::rust_files().unwrap().into_iter().collect();
    let mut beside = BTreeSet::new();
    for (manifest, text) in workspace::manifests().unwrap() {
        let package = manifest.parent().unwrap();
        let folder = package.join("tests");
        let found: Vec<&PathBuf> = files.keys().filter(|path| path.parent() == Some(&folder)).collect();
        let Some(mut run) = programs(package, &text) else {
            assert!(found.len() <= 1, "{}: more than one program of tests", package.display());
            continue;
        };
        beside.extend(run.iter().filter(|path| **path != folder.join("main.rs")).cloned());
        run.extend(modules(&folder, &files[&folder.join("main.rs")]));
        for path in found {
            assert!(run.contains(path), "{} is neither a module of main.rs nor a program", path.display());
        }
    }
    assert_eq!(beside, ALONE.into_iter().map(PathBuf::from).collect());
}
