//! Runs the commands of the sessions in docs/GUIDE.md and docs/COMMANDS.md in a shell, and
//! compares the output with the text under them.
//! Numbers that depend on a store's salt (such as the number of index pages) are compared by their
//! shape.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::harness::{self, Bench};

/// The commands in a document's first `text` block, each with the output under it.
fn session(document: &str) -> Vec<(String, String)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(document);
    let text = std::fs::read_to_string(path).expect("the document is there");
    let block = text.split("```text\n").nth(1).and_then(|rest| rest.split("```").next());
    let mut steps: Vec<(String, String)> = Vec::new();
    for line in block.expect("the document has a session").lines() {
        match (line.strip_prefix("$ "), steps.last_mut()) {
            (Some(command), _) => steps.push((command.to_owned(), String::new())),
            (None, Some((_, printed))) => *printed += &format!("{line}\n"),
            (None, None) => panic!("the session begins with a command, not with {line}"),
        }
    }
    steps
}

/// Replaces sizes in kB by `#`, and ends lines as in a Markdown file.
fn shape(text: &str) -> String {
    let text = text.replace('\r', "");
    let word =
        |word: &str| if word.parse::<f64>().is_ok() && word.contains('.') { "#".into() } else { word.to_owned() };
    let line = |line: &str| line.split(' ').map(word).collect::<Vec<_>>().join(" ");
    text.trim_end().lines().map(line).collect::<Vec<_>>().join("\n")
}

#[track_caller]
fn prints_what_it_says(document: &str, bench: &Bench) {
    let program = harness::program();
    let programs = program.parent().expect("it is in a folder");
    let path = std::env::var("PATH").unwrap_or_default();
    let steps = session(document);
    assert!(steps.len() >= 5);
    for (command, printed) in steps {
        let ran = Command::new("sh")
            .arg("-c")
            .arg(format!("{{ {command} ; }} 2>&1"))
            .current_dir(bench.path(""))
            .env("PATH", format!("{}:{path}", programs.display()))
            .stdin(Stdio::null())
            .output()
            .expect("there is a shell");
        assert_eq!(shape(&String::from_utf8_lossy(&ran.stdout)), shape(&printed), "$ {command}");
    }
}

#[test]
fn the_guides_session_prints_what_it_says() {
    let files = ["IAH-urls-wget.warc.gz", "cc.warc.gz", "example.warc.gz", "python-docs.warc.gz"];
    prints_what_it_says("docs/GUIDE.md", &Bench::with(&files));
}

#[test]
fn the_session_of_the_seen_sets_prints_what_it_says() {
    prints_what_it_says("docs/COMMANDS.md", &Bench::new());
}
