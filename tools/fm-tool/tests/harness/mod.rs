//! Runs the built `fm-tool` as a user does: with arguments; it checks the exit code, the output
//! and the messages.
//! Every test has its own folder, which is removed at the end. The WARC files come from the tests
//! package; the README's first command imports the same ones.

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

/// Pages of python-docs.warc.gz: 54 URLs of one host, and wget's two notes about its own run.
pub const PAGES: usize = 56;
/// A page of python-docs.warc.gz; another program computed its length and CRC-32.
pub const PAGE_URL: &str = "http://docs.python.localhost/3.11/tutorial/index.html";
/// The length of the body of [`PAGE_URL`].
pub const PAGE_BYTES: usize = 32_302;
/// The CRC-32 of the body of [`PAGE_URL`].
pub const PAGE_CRC: u32 = 0x17c4_4862;

/// The result of a run.
pub struct Ran {
    /// The exit code.
    pub code: i32,
    /// Standard output.
    pub out: Vec<u8>,
    /// Standard error.
    pub words: String,
}

impl Ran {
    /// Fails the test unless the exit code is `code`.
    #[track_caller]
    pub fn ended(self, code: i32) -> Ran {
        assert_eq!(self.code, code, "words: {}\nout: {}", self.words, String::from_utf8_lossy(&self.out));
        self
    }

    /// Fails the test unless standard error contains `words`.
    #[track_caller]
    pub fn said(self, words: &str) -> Ran {
        assert!(self.words.contains(words), "{:?} not said in: {}", words, self.words);
        self
    }

    /// Standard output as text.
    #[track_caller]
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.out).expect("the output is text")
    }

    /// Standard output as JSON Lines.
    #[track_caller]
    pub fn json(&self) -> Vec<serde_json::Value> {
        let parse = |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        self.text().lines().map(parse).collect()
    }
}

/// A folder for one test, with a path for a store.
pub struct Bench {
    folder: TempDir,
}

impl Bench {
    /// Creates an empty folder; the store does not exist yet.
    pub fn new() -> Bench {
        Bench { folder: tempfile::tempdir().expect("a temporary folder") }
    }

    /// Creates a store with the pages of these WARC files.
    #[track_caller]
    pub fn with(names: &[&str]) -> Bench {
        let bench = Bench::new();
        let files: Vec<PathBuf> = names.iter().map(|name| warc(name)).collect();
        bench.run("import", &files).ended(0);
        bench
    }

    /// The store's folder.
    pub fn store(&self) -> PathBuf {
        self.folder.path().join("pages.fm")
    }

    /// A path next to the store.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs `fm-tool VERB STORE ARGS...`.
    pub fn run<A: AsRef<OsStr>>(&self, verb: &str, args: &[A]) -> Ran {
        run(self.command(verb).args(args))
    }

    /// Runs the same with bytes on standard input.
    pub fn feed<A: AsRef<OsStr>>(&self, verb: &str, args: &[A], input: &[u8]) -> Ran {
        let mut command = self.command(verb);
        let mut child = command
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut stdin = child.stdin.take().expect("its input is a pipe");
        // A program that refuses its arguments may not read its input.
        let _ = stdin.write_all(input);
        drop(stdin);
        ran(child.wait_with_output().expect("it ends"))
    }

    /// The command `fm-tool VERB STORE`, to which arguments can be added.
    pub fn command(&self, verb: &str) -> Command {
        let mut command = tool();
        command.arg(verb).arg(self.store());
        command
    }
}

/// The program under test: the built one, or the one in `FM_TOOL`.
pub fn program() -> PathBuf {
    std::env::var_os("FM_TOOL").map_or_else(|| env!("CARGO_BIN_EXE_fm-tool").into(), PathBuf::from)
}

/// The program, with no input and without the user's settings.
pub fn tool() -> Command {
    let mut command = Command::new(program());
    command.stdin(Stdio::null()).env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE");
    command
}

/// Runs a command to its end.
pub fn run(command: &mut Command) -> Ran {
    ran(command.output().expect("it starts"))
}

fn ran(output: Output) -> Ran {
    let words = String::from_utf8(output.stderr).expect("words are text");
    Ran { code: output.status.code().expect("it was not killed"), out: output.stdout, words }
}

/// The path of a WARC file in the tests package.
#[track_caller]
pub fn warc(name: &str) -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/warc");
    let path = tests.join(name);
    assert!(path.is_file(), "{} is missing", path.display());
    path
}
