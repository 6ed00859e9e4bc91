//! Finds the workspace's own files: every member's manifest and every Rust file.
//!
//! The walk is by folder, never by a list of names, so that a new crate is under the rules from
//! its first commit. Build output and test data are left out.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Folders of the workspace that hold Rust code.
const CODE_FOLDERS: [&str; 5] = ["crates", "tools", "tests", "benches", "fuzz"];

/// Folders that hold no code of ours, wherever they stand.
const SKIPPED_FOLDERS: [&str; 4] = ["target", "data", "corpus", "artifacts"];

/// The workspace's root folder.
pub fn root() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().expect("the tests package stands in the workspace").to_path_buf()
}

/// Every Rust file of the workspace, as (path relative to the root, text), sorted by path.
///
/// # Errors
/// Whatever reading a folder or a file returns.
pub fn rust_files() -> io::Result<Vec<(PathBuf, String)>> {
    read_all(|name| name.ends_with(".rs"))
}

/// Every page of Markdown, but the archives of bench runs, as (path relative to the root, text).
///
/// # Errors
/// Whatever reading a folder or a file returns.
pub fn pages() -> io::Result<Vec<(PathBuf, String)>> {
    let root = root();
    let is_page = |name: &str| name.ends_with(".md");
    let mut pages = read_all(is_page)?;
    let mut paths = Vec::new();
    walk(&root.join("docs"), &is_page, &mut paths)?;
    for entry in fs::read_dir(&root)? {
        paths.extend(Some(entry?.path()).filter(|path| path.extension().is_some_and(|end| end == "md")));
    }
    for path in paths {
        let text = fs::read_to_string(&path)?;
        pages.push((path.strip_prefix(&root).expect("the walk began at the root").to_path_buf(), text));
    }
    pages.retain(|(path, _)| !path.starts_with("benches/results"));
    Ok(pages)
}

/// Every member's `Cargo.toml`, as (path relative to the root, text), sorted by path.
///
/// # Errors
/// Whatever reading a folder or a file returns.
pub fn manifests() -> io::Result<Vec<(PathBuf, String)>> {
    read_all(|name| name == "Cargo.toml")
}

fn read_all(wanted: impl Fn(&str) -> bool) -> io::Result<Vec<(PathBuf, String)>> {
    let root = root();
    let mut paths = Vec::new();
    for folder in CODE_FOLDERS {
        let folder = root.join(folder);
        if folder.is_dir() {
            walk(&folder, &wanted, &mut paths)?;
        }
    }
    paths.sort();
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path)?;
        let relative = path.strip_prefix(&root).expect("the walk began at the root").to_path_buf();
        Ok((relative, text))
    };
    paths.into_iter().map(read).collect()
}

fn walk(folder: &Path, wanted: &impl Fn(&str) -> bool, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type()?.is_dir() {
            if !SKIPPED_FOLDERS.contains(&name.as_str()) && !name.starts_with('.') {
                walk(&entry.path(), wanted, found)?;
            }
        } else if wanted(&name) {
            found.push(entry.path());
        }
    }
    Ok(())
}
