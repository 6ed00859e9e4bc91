//! Runs the program under test in a separate folder.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use filemap::{Options, Page, PageStore};
use serde_json::Value;
use tempfile::TempDir;

/// A folder for one store and its crawl.
pub struct Bench {
    folder: TempDir,
}

/// The result of a run of the program.
pub struct Ran {
    /// The exit code.
    pub code: i32,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub words: String,
}

impl Ran {
    /// Checks the exit code.
    #[track_caller]
    pub fn ended(self, code: i32) -> Ran {
        assert_eq!(self.code, code, "{}\n{}", self.out, self.words);
        self
    }

    /// The output, as one JSON value.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {}\n{}", self.out, self.words))
    }
}

impl Bench {
    /// A bench with an empty folder.
    pub fn new() -> Bench {
        Bench { folder: tempfile::tempdir().expect("a folder") }
    }

    /// A path in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The path of the store.
    pub fn store(&self) -> PathBuf {
        self.path("pages.fm")
    }

    /// A command with this verb, and the store as its first argument.
    pub fn command(&self, verb: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fm-crawl"));
        command.arg(verb).arg(self.store()).args(arguments).stdin(Stdio::null());
        command
    }

    /// Runs a verb to its end.
    pub fn run(&self, verb: &str, arguments: &[&str]) -> Ran {
        let output = self.command(verb, arguments).output().expect("the program starts");
        ran(output)
    }

    /// Starts a verb; its output is kept for [`Bench::finish`].
    pub fn start(&self, verb: &str, arguments: &[&str]) -> Child {
        let mut command = self.command(verb, arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts")
    }

    /// Waits for a process that [`Bench::start`] has started.
    pub fn finish(child: Child) -> Ran {
        ran(child.wait_with_output().expect("it ran"))
    }

    /// The newest version of every page, by URL, without robots.txt.
    pub fn pages(&self) -> BTreeMap<String, Page> {
        let store = PageStore::open_read_only(self.store(), Options::new()).expect("a store");
        let mut pages = BTreeMap::new();
        for page in store.pages() {
            let url = String::from_utf8(page.expect("whole").url).expect("text");
            if !url.ends_with("/robots.txt") {
                let page = store.get(&url).expect("whole").expect("it is listed");
                pages.insert(url, page);
            }
        }
        pages
    }

    /// The number of versions of a page in the store.
    pub fn versions(&self, url: &str) -> usize {
        let store = PageStore::open_read_only(self.store(), Options::new()).expect("a store");
        store.history(url).expect("whole").len()
    }
}

fn ran(output: Output) -> Ran {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    Ran { code: output.status.code().unwrap_or(-1), out: text(output.stdout), words: text(output.stderr) }
}
