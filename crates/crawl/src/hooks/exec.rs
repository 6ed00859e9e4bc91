//! Hooks run by another program: child processes that exchange lines of JSON, a line a page.
//!
//! A page's line has `url`, `key`, `depth`, `time_ms`, `status`, `headers` (pairs), `body` (or
//! `body_base64` if it is not UTF-8), `links` and `fields`. An answer may have `links`, `fields`,
//! `store`, `follow`, and `url`, which must then equal the page's. A child answers each page once
//! and in order; its standard error is passed through.
//!
//! A child that dies, answers late or answers invalidly is killed, and replaced for the next page.
//! After `FAILURES_MAX` failures in a row each further failure is followed by a rest without
//! questions. No page is lost: it is stored without the answer, and counted.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel, sync_channel};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::page::{Capture, OnPage, Reply};
use crate::error::BoxError;

/// Failures in a row after which the command rests, and for how long.
const FAILURES_MAX: u32 = 10;
const REST: Duration = Duration::from_secs(60);
/// The maximum length of an answer.
const ANSWER_BYTES: u64 = 16 << 20;
/// The time for a child to exit after the end of its input.
const END_WITHIN: Duration = Duration::from_secs(2);

/// A hook that runs child processes.
///
/// ```
/// use crawl::hooks::exec::Exec;
/// use crawl::hooks::Fields;
/// use crawl::{Capture, OnPage};
/// let script = r#"while read -r page; do echo '{"fields": {"seen": "yes"}}'; done"#;
/// let hook = Exec::new(script, 1, std::time::Duration::from_secs(20));
/// # let (url, fields) = ("http://example.com/", Fields::new());
/// # let page = filemap::Page::new(url, 0, 200, "<p>hello");
/// # let capture = Capture { url, key: url, depth: 0, page: &page, links: &[], fields: &fields };
/// assert_eq!(hook.on_page(&capture)?.fields["seen"], "yes");
/// # Ok::<(), crawl::BoxError>(())
/// ```
pub struct Exec {
    command: String,
    timeout: Duration,
    /// Idle children; `None` for one that is yet to be started.
    idle: Mutex<Vec<Option<Worker>>>,
    is_idle: Condvar,
    health: Mutex<Health>,
    rest: Duration,
}

/// The recent failures of the command, over all its processes.
#[derive(Default)]
struct Health {
    /// Failures in a row.
    failures: u32,
    /// The end of the current rest.
    rests_until: Option<Instant>,
}

/// A child, with a writer and a reader thread: neither waits for the other.
struct Worker {
    child: Child,
    pages: Option<Sender<String>>,
    answers: Receiver<std::io::Result<String>>,
}

/// An answer.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    url: Option<String>,
    #[serde(default)]
    links: Vec<String>,
    #[serde(default)]
    fields: Map<String, Value>,
    store: Option<bool>,
    follow: Option<bool>,
}

impl Exec {
    /// A hook of this shell command, in at most `jobs` processes; an answer must come within
    /// `timeout`. The first process starts with the first page.
    pub fn new(command: impl Into<String>, jobs: usize, timeout: Duration) -> Exec {
        let idle = (0..jobs.max(1)).map(|_| None).collect();
        Exec {
            command: command.into(),
            timeout,
            idle: Mutex::new(idle),
            is_idle: Condvar::new(),
            health: Mutex::default(),
            rest: REST,
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Option<Worker>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn health(&self) -> MutexGuard<'_, Health> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a slot, which may already hold a child.
    fn take(&self) -> Option<Worker> {
        let mut idle = self.idle();
        loop {
            // Prefers a running child to one that is yet to be started.
            let at = idle.iter().position(Option::is_some).or_else(|| idle.len().checked_sub(1));
            match at {
                Some(at) => return idle.swap_remove(at),
                None => idle = self.is_idle.wait(idle).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    fn give_back(&self, worker: Option<Worker>) {
        self.idle().push(worker);
        self.is_idle.notify_one();
    }

    fn answer(&self, worker: &mut Option<Worker>, capture: &Capture<'_>) -> Result<Reply, BoxError> {
        let Health { failures, rests_until } = *self.health();
        if let Some(left) = rests_until.and_then(|until| until.checked_duration_since(Instant::now())) {
            let left = left.as_secs() + 1;
            return Err(format!("{} failed {failures} times in a row and rests for {left} s", self.command).into());
        }
        // A child that exited after its last answer has not failed.
        if worker.as_mut().map_or(Ok(true), Worker::has_ended)? {
            worker.take().into_iter().for_each(Worker::kill);
        }
        let running = match worker {
            Some(running) => running,
            None => worker.insert(Worker::start(&self.command)?),
        };
        running.ask(capture, self.timeout)
    }
}

impl Health {
    /// Counts a failure; during a rest further ones do not count.
    fn failed(&mut self, rest: Duration) {
        if self.rests_until.is_some_and(|until| until > Instant::now()) {
            return;
        }
        self.failures = self.failures.saturating_add(1);
        self.rests_until = (self.failures >= FAILURES_MAX).then(|| Instant::now() + rest);
    }
}

impl OnPage for Exec {
    fn on_page(&self, capture: &Capture<'_>) -> Result<Reply, BoxError> {
        let mut worker = self.take();
        let answered = self.answer(&mut worker, capture);
        match answered {
            Ok(_) => *self.health() = Health::default(),
            Err(_) => {
                self.health().failed(self.rest);
                // A later answer would belong to no page.
                worker.take().into_iter().for_each(Worker::kill);
            }
        }
        self.give_back(worker);
        answered
    }
}

impl Drop for Exec {
    fn drop(&mut self) {
        let workers = std::mem::take(&mut *self.idle());
        let mut workers: Vec<Worker> = workers.into_iter().flatten().collect();
        workers.iter_mut().for_each(|worker| worker.pages = None);
        let until = Instant::now() + END_WITHIN;
        for mut worker in workers {
            while Instant::now() < until && matches!(worker.child.try_wait(), Ok(None)) {
                std::thread::sleep(Duration::from_millis(5));
            }
            worker.kill();
        }
    }
}

impl Worker {
    fn start(command: &str) -> Result<Worker, BoxError> {
        // Own process group: Ctrl-C reaches the crawl alone, which finishes what is in flight.
        let mut shell = Command::new("/bin/sh");
        let shell = shell.args(["-c", command]).process_group(0);
        let child = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.map_err(|error| format!("/bin/sh -c '{command}' cannot be started: {error}"))?;
        let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("a child has no standard input or output".into());
        };
        let (pages, lines) = channel::<String>();
        // Bounded: a child that prints without end blocks until somebody asks.
        let (tell, answers) = sync_channel(1);
        // Both threads end with the child and its worker.
        std::thread::spawn(move || lines.iter().try_for_each(|line| input.write_all(line.as_bytes())));
        std::thread::spawn(move || {
            let mut output = BufReader::new(output);
            loop {
                let mut line = String::new();
                let read = Read::by_ref(&mut output).take(ANSWER_BYTES).read_line(&mut line);
                let is_last = !matches!(read, Ok(1..));
                if tell.send(read.map(|_| line)).is_err() || is_last {
                    return;
                }
            }
        });
        Ok(Worker { child, pages: Some(pages), answers })
    }

    /// Returns whether it has exited, with nothing left to read.
    fn has_ended(&mut self) -> Result<bool, BoxError> {
        match self.answers.try_recv() {
            Err(TryRecvError::Empty) => Ok(false),
            Ok(Ok(line)) if !line.is_empty() => Err("extra output after the answer".into()),
            _ => Ok(true),
        }
    }

    fn ask(&mut self, capture: &Capture<'_>, timeout: Duration) -> Result<Reply, BoxError> {
        // If the child has exited, no answer comes either.
        let _ = self.pages.as_ref().map(|pages| pages.send(line(capture)));
        let answer = match self.answers.recv_timeout(timeout) {
            Ok(answer) => answer?,
            Err(RecvTimeoutError::Timeout) => return Err(format!("no answer within {timeout:?}").into()),
            Err(RecvTimeoutError::Disconnected) => return Err("the child exited".into()),
        };
        if answer.is_empty() {
            return Err("the child exited without an answer".into());
        }
        if !answer.ends_with('\n') {
            return Err("the child exited within an answer, or its answer is too long".into());
        }
        reply(&answer, capture.url)
    }

    fn kill(mut self) {
        // The shell leads a process group with its children. A shell that has exited needs no
        // kill.
        let group = format!("kill -KILL -{}", self.child.id());
        let _ = Command::new("/bin/sh").args(["-c", &group]).stderr(Stdio::null()).status();
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Encodes a page as a line.
fn line(capture: &Capture<'_>) -> String {
    let page = capture.page;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let headers: Vec<[String; 2]> =
        page.headers.iter().map(|header| [text(&header.name), text(&header.value)]).collect();
    let mut line = json!({
        "url": capture.url, "key": capture.key, "depth": capture.depth, "time_ms": page.fetched_at_ms,
        "status": page.status, "headers": headers, "links": capture.links, "fields": capture.fields,
    });
    match std::str::from_utf8(&page.body) {
        Ok(text) => line["body"] = text.into(),
        Err(_) => line["body_base64"] = STANDARD.encode(&page.body).into(),
    }
    format!("{line}\n")
}

/// Decodes the answer about the page at a URL.
fn reply(answer: &str, url: &str) -> Result<Reply, BoxError> {
    let answer: Answer =
        serde_json::from_str(answer).map_err(|error| format!("its answer is not valid JSON: {error}"))?;
    if let Some(other) = answer.url.filter(|answered| answered != url) {
        return Err(format!("it answered for {other}").into());
    }
    let value = |value: Value| if let Value::String(text) = value { text } else { value.to_string() };
    Ok(Reply {
        links: answer.links,
        fields: answer.fields.into_iter().map(|(name, one)| (name, value(one))).collect(),
        stores: answer.store.unwrap_or(true),
        follows: answer.follow.unwrap_or(true),
        ..Reply::default()
    })
}

#[cfg(test)]
mod tests {
    use filemap::Page;

    use super::super::page::Fields;
    use super::*;

    fn ask(exec: &Exec, url: &str) -> Result<Reply, String> {
        let (page, fields) = (Page::new(url, 7, 200, "caf\u{e9}"), Fields::new());
        let capture = Capture { url, key: url, depth: 1, page: &page, links: &[], fields: &fields };
        exec.on_page(&capture).map_err(|error| error.to_string())
    }

    fn exec(script: &str) -> Exec {
        Exec::new(script, 1, Duration::from_secs(120))
    }

    #[test]
    fn a_child_answers_page_after_page() {
        let exec =
            exec(r#"n=0; while read -r line; do n=$((n+1)); echo "{\"links\":[\"/$n\"],\"fields\":{\"n\":$n}}"; done"#);
        for n in 1..=3 {
            let reply = ask(&exec, "http://a/").unwrap();
            assert_eq!((reply.links, reply.fields["n"].clone()), (vec![format!("/{n}")], n.to_string()));
            assert!(reply.stores && reply.follows);
        }
        let refuses = self::exec(r#"while read -r line; do echo '{"store":false,"follow":false}'; done"#);
        assert_eq!(ask(&refuses, "http://a/").unwrap(), Reply::new().not_stored().not_followed());
    }

    #[test]
    fn a_child_that_fails_is_named_and_another_answers_the_next_page() {
        let once = |what: &str| {
            // The first child in each folder fails.
            let folder = tempfile::tempdir().unwrap();
            let mark = folder.path().join("mark").display().to_string();
            let script =
                format!("if [ ! -e {mark} ]; then touch {mark}; {what}; fi; while read -r line; do echo '{{}}'; done");
            let within = if what.starts_with("exec sleep") { 1 } else { 120 };
            let mut exec = Exec::new(script, 1, Duration::from_secs(within));
            let failed = ask(&exec, "http://a/").unwrap_err();
            exec.timeout = Duration::from_secs(120);
            assert_eq!(ask(&exec, "http://a/"), Ok(Reply::new()), "{what}");
            failed
        };
        for (what, words) in [
            ("read -r line; exit 3", "the child exited without an answer"),
            ("exec sleep 600", "no answer within"),
            ("read -r line; echo rubbish; cat > /dev/null", "its answer is not valid JSON"),
            ("read -r line; echo '{\"link\": []}'; cat > /dev/null", "its answer is not valid JSON"),
            ("read -r line; printf '{'; exit", "within an answer"),
            ("read -r line; echo '{\"url\": \"http://b/\"}'; cat > /dev/null", "it answered for http://b/"),
        ] {
            let failed = once(what);
            assert!(failed.contains(words), "{what}: {failed}");
        }
    }

    #[test]
    fn what_a_command_has_started_ends_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let note = folder.path().join("pid");
        let exec = exec(&format!("sleep 600 & echo $! > {}; read -r line; exit 3", note.display()));
        ask(&exec, "http://a/").unwrap_err();
        let pid = std::fs::read_to_string(&note).unwrap();
        let state = || std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
        // An exited process is a zombie until it is waited for.
        let is_there = || !state().is_empty() && !state().contains(") Z ");
        (0..6000).take_while(|_| is_there()).for_each(|_| std::thread::sleep(Duration::from_millis(10)));
        assert!(!is_there(), "{}", state());
    }

    #[test]
    fn a_command_that_always_fails_rests_and_is_tried_again() {
        let folder = tempfile::tempdir().unwrap();
        let well = folder.path().join("well");
        let script = format!("[ -e {} ] || exit 1; while read -r line; do echo '{{}}'; done", well.display());
        let mut exec = exec(&script);
        let words: Vec<String> = (0..=FAILURES_MAX + 1).map(|_| ask(&exec, "http://a/").unwrap_err()).collect();
        assert!(words[FAILURES_MAX as usize - 1].contains("the child exited"), "{words:?}");
        for rests in &words[FAILURES_MAX as usize..] {
            assert!(rests.contains("failed 10 times in a row and rests"), "{words:?}");
        }
        std::fs::write(&well, "").unwrap();
        assert!(ask(&exec, "http://a/").is_err(), "it rests");
        exec.rest = Duration::ZERO;
        exec.health().rests_until = Some(Instant::now());
        assert_eq!(ask(&exec, "http://a/"), Ok(Reply::new()));
        assert_eq!(exec.health().failures, 0);
    }

    #[test]
    fn a_program_that_prints_without_end_takes_no_memory_and_fails() {
        let folder = tempfile::tempdir().unwrap();
        let mark = folder.path().join("mark");
        // More than a pipe and the reader's buffer hold.
        let script =
            format!("while read -r page; do echo '{{}}'; yes | head -c 1000000; touch {}; yes; done", mark.display());
        let exec = exec(&script);
        assert_eq!(ask(&exec, "http://a/"), Ok(Reply::new()));
        std::thread::sleep(Duration::from_secs(1));
        assert!(!mark.exists(), "all of it was read, though nobody asked");
        // On a busy machine nothing of it may have come yet; then it is taken for the answer.
        let failed = ask(&exec, "http://b/").unwrap_err();
        assert!(failed.contains("extra output") || failed.contains("not valid JSON"), "{failed}");
    }

    #[test]
    fn bodies_that_are_no_text_are_in_base64() {
        let (mut page, fields) = (Page::new("http://a/", 7, 200, ""), Fields::new());
        page.body = vec![0xff, 0];
        let capture =
            Capture { url: "http://a/", key: "http://a/", depth: 0, page: &page, links: &[], fields: &fields };
        let value: Value = serde_json::from_str(&line(&capture)).unwrap();
        assert_eq!((&value["body_base64"], value.get("body")), (&json!("/wA="), None));
    }
}
