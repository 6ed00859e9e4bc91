//! A running `fm-serve` on a free port: started, signalled, waited for, and killed at the end of
//! its test.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use filemap_http::{Client, ClientOptions};

/// A running server; killed when this is dropped.
pub struct Program {
    child: Child,
    errors: BufReader<std::process::ChildStderr>,
    pub location: String,
}

impl Program {
    /// Serves `store` on a free port.
    pub fn start(store: &Path, arguments: &[&str]) -> Program {
        let mut child = command(store, arguments).stderr(Stdio::piped()).spawn().expect("started");
        let mut errors = BufReader::new(child.stderr.take().expect("piped"));
        let mut line = String::new();
        while !line.contains("serving ") {
            line.clear();
            assert!(errors.read_line(&mut line).expect("text") > 0, "it ended before it served");
        }
        let location = line.trim().rsplit(' ').next().expect("an address").to_owned();
        Program { child, errors, location }
    }

    pub fn client(&self) -> Client {
        Client::open(&self.location, &ClientOptions::new()).expect("a server")
    }

    /// The process id.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal such as `TERM`.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([format!("-{name}"), self.child.id().to_string()]).status();
        assert!(sent.expect("kill").success());
    }

    /// Waits for the end; returns the exit status and the output until then.
    pub fn end(mut self) -> (ExitStatus, String) {
        let mut words = String::new();
        self.errors.read_to_string(&mut words).expect("text");
        (self.child.wait().expect("ended"), words)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the command `fm-serve` with these arguments.
pub fn command(store: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fm-serve"));
    command.arg(store);
    if !arguments.contains(&"--listen") {
        command.args(["--listen", "127.0.0.1:0"]);
    }
    command.args(arguments);
    command
}
