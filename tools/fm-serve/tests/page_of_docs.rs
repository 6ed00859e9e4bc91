//! Runs every command of docs/HTTP.md, in order, against a server. That needs bash and curl;
//! without them the test prints a note and passes, but fails in CI.

use std::process::Command;

use crate::program::Program;

const PAGE: &str = include_str!("../../../docs/HTTP.md");
const ADDRESS: &str = "http://127.0.0.1:8640";

#[test]
fn every_command_of_the_page_does_what_it_says() {
    if Command::new("curl").arg("--version").output().is_err() {
        assert!(std::env::var_os("CI").is_none(), "curl is missing");
        eprintln!("skipped: there is no curl");
        return;
    }
    let dir = tempfile::tempdir().expect("a folder");
    let sets = dir.path().join("sets");
    let links = dir.path().join("links");
    let arguments = ["--write", "--seen-dir", sets.to_str().expect("text"), "--links", links.to_str().expect("text")];
    let server = Program::start(&dir.path().join("pages.fm"), &arguments);
    let mut commands = 0;
    for block in PAGE.split("```sh\n").skip(1) {
        let block = block.split("```").next().expect("an end").replace(ADDRESS, &server.location);
        let run = Command::new("bash").args(["-euo", "pipefail", "-c", &block]).output().expect("bash runs");
        let (out, words) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
        assert!(run.status.success(), "{block}\n{words}\n{out}");
        assert!(!out.is_empty(), "{block} printed nothing");
        commands += block.matches("curl ").count();
    }
    assert!(commands > 20, "only {commands} commands were found");
}

#[test]
fn the_page_names_every_route() {
    let routes = include_str!("../../../crates/filemap-http/src/server/routes.rs");
    let named = |route: &str| match route.split_once('{') {
        Some((begin, _)) => PAGE.contains(begin),
        None => ["`", "?", "\n", " ", "**"].iter().any(|end| PAGE.contains(&format!("{route}{end}"))),
    };
    let missing: Vec<&str> = routes
        .split(".route(\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .filter(|route| !named(route))
        .collect();
    assert!(missing.is_empty(), "docs/HTTP.md lacks {missing:?}");
}
