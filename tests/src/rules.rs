//! The rules, one function each: a file or a manifest in, the violations out. A violation is a
//! sentence that begins with `file:line` and says what to do. No rule stops at the first.

use std::collections::BTreeMap;
use std::path::Path;

use crate::layers::{self, Table};
use crate::source::{SourceFile, UsedPath};

/// Lines that a file may have, its tests not counted.
pub const FILE_LINES_MAX: usize = 500;
/// Lines that the median file of `crates/` may have.
pub const FILE_LINES_MEDIAN: usize = 200;
/// Lines that a function may have.
pub const FUNCTION_LINES_MAX: usize = 70;
/// Public names that a library may have at its root.
pub const ROOT_NAMES_MAX: usize = 30;
/// Characters that a line of a comment or of Markdown may have.
pub const LINE_CHARACTERS_MAX: usize = 99;
/// Words that the opening `//!` block must have: what the file owns and why does not fit into
/// fewer.
pub const HEADER_WORDS_MIN: usize = 8;

/// Names that say nothing about what a module owns.
const EMPTY_NAMES: [&str; 8] = ["utils", "util", "common", "manager", "helpers", "helper", "misc", "shared"];

/// Every file opens with `//!` and says there what it is for.
pub fn header(file: &SourceFile) -> Vec<String> {
    let block = file.text.lines().take_while(|line| line.starts_with("//!"));
    let words: usize = block.map(|line| line[3..].split_whitespace().count()).sum();
    if words >= HEADER_WORDS_MIN {
        return Vec::new();
    }
    vec![format!(
        "{}:1: opens with {words} words of `//!`; say what the file owns, why, and its invariants",
        file.path.display()
    )]
}

/// Files and functions stay small.
pub fn size(file: &SourceFile) -> Vec<String> {
    let mut broken = Vec::new();
    let lines = file.lines_without_tests();
    if !file.is_test() && lines >= FILE_LINES_MAX {
        broken.push(format!(
            "{}:1: {lines} lines without tests, {FILE_LINES_MAX} is the limit; split it by what it owns",
            file.path.display()
        ));
    }
    for function in file.functions() {
        if function.lines >= FUNCTION_LINES_MAX {
            broken.push(format!(
                "{}:{}: `{}` takes {} lines, {FUNCTION_LINES_MAX} is the limit",
                file.path.display(),
                function.line,
                function.name,
                function.lines
            ));
        }
    }
    broken
}

/// No module is called by a name that would fit any other.
pub fn names(file: &SourceFile) -> Vec<String> {
    let is_empty = |name: &str| EMPTY_NAMES.iter().any(|empty| name == *empty || name.ends_with(&format!("_{empty}")));
    let parts: Vec<String> = file.path.iter().map(|part| part.to_string_lossy().replace(".rs", "")).collect();
    let bad = parts.iter().find(|part| is_empty(part));
    bad.map(|name| format!("{}:1: `{name}` names nothing; call it what it owns", file.path.display()))
        .into_iter()
        .collect()
}

/// The root of a library has few names.
pub fn root(file: &SourceFile) -> Vec<String> {
    if !file.path.starts_with("crates") || !file.path.ends_with("src/lib.rs") {
        return Vec::new();
    }
    let names = file.public_names();
    if names.len() <= ROOT_NAMES_MAX {
        return Vec::new();
    }
    vec![format!(
        "{}:1: {} public names, {ROOT_NAMES_MAX} is the limit; move what belongs together into a module: {}",
        file.path.display(),
        names.len(),
        Vec::from_iter(names).join(", ")
    )]
}

/// Nothing is left for later: no unfinished macro, no note to do it some day.
pub fn finished(file: &SourceFile) -> Vec<String> {
    let mut broken = Vec::new();
    for (name, line) in file.macro_calls() {
        if matches!(name.as_str(), "todo" | "unimplemented" | "dbg") {
            broken.push(format!("{}:{line}: `{name}!`; finish it", file.path.display()));
        }
    }
    for (number, line) in file.text.lines().enumerate() {
        let comment = line.find("//").map_or("", |at| &line[at..]);
        if ["TODO", "FIXME", "XXX"].iter().any(|mark| comment.contains(mark)) {
            broken.push(format!("{}:{}: a note for later; do it or file it", file.path.display(), number + 1));
        }
    }
    broken
}

/// Comments of a Rust file and lines of a page of Markdown are narrow. Tables, blocks of code and
/// single words that are longer may be wide.
pub fn width(path: &Path, text: &str) -> Vec<String> {
    let is_page = path.extension().is_some_and(|end| end == "md");
    let (mut is_code, mut broken) = (false, Vec::new());
    for (number, line) in text.lines().enumerate() {
        let Some(prose) = (if is_page { Some(line) } else { line.trim_start().strip_prefix("//") }) else {
            is_code = false;
            continue;
        };
        let prose = prose.trim_start_matches(['/', '!']).trim();
        is_code ^= prose.starts_with("```");
        let characters = line.chars().count();
        let is_table = prose.starts_with('|');
        let can_break = prose.trim_start_matches(['-', '*']).trim().contains(' ');
        if characters > LINE_CHARACTERS_MAX && !is_code && !is_table && can_break {
            broken.push(format!(
                "{}:{}: {characters} characters, {LINE_CHARACTERS_MAX} is the limit; wrap it",
                path.display(),
                number + 1
            ));
        }
    }
    broken
}

/// Libraries do not print: words are for the tools.
pub fn silent(file: &SourceFile) -> Vec<String> {
    if !file.path.starts_with("crates") || file.is_test() || !file.path.iter().any(|p| p == "src") {
        return Vec::new();
    }
    let prints = |name: &str| matches!(name, "println" | "eprintln" | "print" | "eprint");
    let calls = file.macro_calls().into_iter().filter(|(name, _)| prints(name));
    calls
        .map(|(name, line)| format!("{}:{line}: `{name}!` in a library; return it instead", file.path.display()))
        .collect()
}

/// Only the I/O crate touches the operating system's files.
pub fn io_seam(file: &SourceFile) -> Vec<String> {
    let library = file.path.starts_with("crates") && file.path.iter().any(|part| part == "src");
    if !library || file.path.starts_with(layers::IO_CRATE) || file.is_test() {
        return Vec::new();
    }
    let past_the_seam = |used: &UsedPath| {
        layers::IO_PATHS
            .iter()
            .any(|path| used.segments.len() >= path.len() && path.iter().zip(&used.segments).all(|(a, b)| a == b))
    };
    let broken = file.used_paths().into_iter().filter(past_the_seam);
    broken
        .map(|used| {
            format!(
                "{}:{}: `{}` goes past the I/O seam; use filemap-io",
                file.path.display(),
                used.line,
                used.segments.join("::")
            )
        })
        .collect()
}

/// `unsafe` stands only where the table says, each with a `SAFETY:` comment.
pub fn unsafe_code(file: &SourceFile) -> Vec<String> {
    let lines = file.lines_with_word("unsafe");
    let allowed = layers::UNSAFE_FILES.iter().any(|listed| file.path == std::path::Path::new(listed));
    let mut broken: Vec<String> = Vec::new();
    if !allowed {
        let each = lines.iter();
        broken.extend(
            each.map(|line| format!("{}:{line}: `unsafe` outside the files that may hold it", file.path.display())),
        );
    } else if !lines.is_empty() && file.text.matches("SAFETY:").count() < lines.len() {
        broken.push(format!(
            "{}:{}: fewer SAFETY comments than `unsafe`; each needs its proof",
            file.path.display(),
            lines[0]
        ));
    }
    broken
}

/// Inside a layered crate imports go downward only, those of unit tests too, and threads start
/// where its table says.
///
/// `re_exports` are the names of the crate's root, with the paths they stand for (from `lib.rs` or
/// `main.rs`).
pub fn imports(file: &SourceFile, re_exports: &BTreeMap<String, Vec<String>>) -> Vec<String> {
    let module = file.module();
    let Some(table) = Table::of(&file.path).filter(|_| !module.is_empty()) else { return Vec::new() };
    let at = |line: usize| format!("{}:{line}", file.path.display());
    let used = file.all_used_paths();
    let Some((own, own_layer)) = table.layer(&module) else {
        if table.is_folder(&module) && used.iter().all(|used| used.segments[0] != "crate") {
            return Vec::new();
        }
        let module = module.join("::");
        return vec![format!(
            "{}: module `{module}` has no layer; give it one in the table of its crate, tests/src/layers",
            at(1)
        )];
    };
    let mut broken = Vec::new();
    if let Some(only) = table.spawning.filter(|only| own != *only && !file.is_test()) {
        for used in file.used_paths().into_iter().filter(|used| starts_thread(&used.segments)) {
            broken.push(format!("{}: starts a thread; only `{only}` does", at(used.line)));
        }
    }
    for used in used {
        let Some(target) = imported_path(&used.segments, re_exports) else { continue };
        match table.layer(target).or_else(|| table.highest_in(target)) {
            Some((target, layer)) if target == own || layer < own_layer => {}
            Some((target, _)) => {
                broken.push(format!("{}: `{own}` imports `{target}`, which is not below it", at(used.line)));
            }
            None => broken.push(format!(
                "{}: `{}` is neither a module with a layer nor a name of the crate's root",
                at(used.line),
                used.segments.join("::")
            )),
        }
    }
    broken
}

/// The item that a path names inside its own crate, from the crate's root on, through the root's
/// re-exports if need be.
fn imported_path<'p>(segments: &'p [String], re_exports: &'p BTreeMap<String, Vec<String>>) -> Option<&'p [String]> {
    let inside = segments.strip_prefix(["crate".to_owned()].as_slice())?;
    let behind = re_exports.get(inside.first()?).map_or(inside, Vec::as_slice);
    Some(behind.strip_prefix(["crate".to_owned()].as_slice()).unwrap_or(behind))
}

fn starts_thread(segments: &[String]) -> bool {
    let pairs = segments.windows(2);
    pairs.into_iter().any(|pair| pair[0] == "thread" && matches!(pair[1].as_str(), "spawn" | "scope" | "Builder"))
}

/// A crate depends on the workspace's crates below it only, and takes its lints from the
/// workspace.
pub fn manifest(path: &str, text: &str) -> Vec<String> {
    let table: toml::Table = match text.parse() {
        Ok(table) => table,
        Err(error) => return vec![format!("{path}:1: not TOML: {error}")],
    };
    let of = |key: &str| table.get(key).and_then(toml::Value::as_table);
    let name = of("package").and_then(|package| package.get("name")?.as_str()).unwrap_or("");
    let Some(allowed) = layers::allowed_dependencies(name) else {
        return vec![format!("{path}:1: crate `{name}` is not in the table; place it in tests/src/layers.rs")];
    };
    let mut broken = Vec::new();
    let ours = |name: &&String| layers::CRATES.iter().any(|(listed, _)| listed == name);
    let dependencies = of("dependencies").into_iter().flat_map(toml::Table::keys);
    for dependency in dependencies.filter(ours) {
        if !allowed.contains(&dependency.as_str()) {
            broken.push(format!("{path}:1: `{name}` depends on `{dependency}`, which is not below it"));
        }
    }
    let inherits = of("lints").and_then(|lints| lints.get("workspace")?.as_bool());
    if inherits != Some(true) {
        broken.push(format!("{path}:1: the workspace's lints are not taken over"));
    }
    broken
}
