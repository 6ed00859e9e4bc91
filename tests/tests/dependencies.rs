//! Holds deny.toml: the licences, sources and banned names of all packages, read from the lock
//! files and `cargo metadata`.
//!
//! cargo-deny checks the same and more, but takes longer to build than the rest of the gate's
//! tools together.

use std::collections::BTreeSet;
use std::process::Command;

use filemap_tests::workspace::root;
use toml::{Table, Value};

fn table(path: &str) -> Table {
    let text = std::fs::read_to_string(root().join(path)).expect("the file is there");
    text.parse().expect("the file is TOML")
}

/// The strings of a list in deny.toml, or the field `crate` of its tables.
fn list(section: &str, key: &str) -> BTreeSet<String> {
    let deny = table("deny.toml");
    let entries = deny[section][key].as_array().expect("it is a list");
    let text = |entry: &Value| entry.as_str().or_else(|| entry.get("crate")?.as_str()).map(str::to_owned);
    entries.iter().map(|entry| text(entry).expect("an entry is a string or names a crate")).collect()
}

/// Returns whether an SPDX expression can be met with the allowed licences. `AND` binds closer
/// than `OR`; `/` is an old `OR`.
fn allows(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ").replace(" WITH ", "+");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    let met = either(&mut rest, allowed);
    met && rest.is_empty()
}

fn either(words: &mut &[&str], allowed: &BTreeSet<String>) -> bool {
    let mut met = both(words, allowed);
    while let ["OR", rest @ ..] = *words {
        *words = rest;
        met |= both(words, allowed);
    }
    met
}

fn both(words: &mut &[&str], allowed: &BTreeSet<String>) -> bool {
    let mut met = term(words, allowed);
    while let ["AND", rest @ ..] = *words {
        *words = rest;
        met &= term(words, allowed);
    }
    met
}

fn term(words: &mut &[&str], allowed: &BTreeSet<String>) -> bool {
    let [first, rest @ ..] = *words else { return false };
    *words = rest;
    if *first != "(" {
        return allowed.contains(*first);
    }
    let met = either(words, allowed);
    let [")", rest @ ..] = *words else { return false };
    *words = rest;
    met
}

/// The packages of a lock file: name and, for those that are not ours, source.
fn locked(path: &str) -> Vec<(String, Option<String>)> {
    let text = |package: &Value, key: &str| package.get(key).and_then(Value::as_str).map(str::to_owned);
    let packages = table(path)["package"].as_array().expect("a lock file lists packages").clone();
    packages.iter().map(|p| (text(p, "name").expect("a package has a name"), text(p, "source"))).collect()
}

const LOCK_FILES: [&str; 3] = ["Cargo.lock", "fuzz/Cargo.lock", "benches/compare/Cargo.lock"];

#[test]
fn every_package_comes_from_an_allowed_source_and_none_is_banned() {
    let banned = list("bans", "deny");
    let mut registries = BTreeSet::new();
    for path in LOCK_FILES {
        for (name, source) in locked(path) {
            assert!(!banned.contains(&name), "{path}: {name} is banned by deny.toml");
            let Some(source) = source else { continue };
            assert!(source.starts_with("registry+"), "{path}: {name} comes from {source}");
            registries.insert(source);
        }
    }
    assert_eq!(registries.len(), 1, "all come from the default registry");
}

#[test]
fn every_package_has_an_allowed_licence() {
    // As `allows` writes an exception.
    let allowed = list("licenses", "allow").into_iter().map(|licence| licence.replace(" WITH ", "+")).collect();
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--locked", "--filter-platform", "x86_64-unknown-linux-gnu"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("cargo prints JSON");
    let packages = metadata["packages"].as_array().expect("there are packages");
    assert!(packages.len() > 100);
    for package in packages {
        let licence = package["license"].as_str().unwrap_or("");
        assert!(allows(licence, &allowed), "{} {}: licence `{licence}`", package["name"], package["version"]);
    }
}

#[test]
fn licence_expressions_are_met_only_with_what_is_allowed() {
    let allowed = ["MIT", "ISC"].map(str::to_owned).into();
    for met in ["MIT", "GPL-3.0 OR MIT", "Unlicense/MIT", "MIT AND ISC", "(GPL-3.0 OR MIT) AND ISC", "A WITH B OR MIT"]
    {
        assert!(allows(met, &allowed), "{met}");
    }
    for refused in ["", "GPL-3.0", "MIT AND GPL-3.0", "MIT WITH B", "(MIT", "MIT ISC", "MIT AND (A OR B)", "AND MIT"] {
        assert!(!allows(refused, &allowed), "{refused}");
    }
}
