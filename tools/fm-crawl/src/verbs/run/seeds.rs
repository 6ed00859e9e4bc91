//! Start pages of a run: from `--seed`, and from lists with one a line.
//!
//! All bad ones are listed; then nothing is started.

use std::collections::HashSet;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crawl::is_web;
use crawl::settings::Settings;
use filemap::canonical::{Canonicalizer, Whatwg};
use fm_cli::{Failure, words};

/// The path that stands for standard input.
const STANDARD_INPUT: &str = "-";
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Start pages, parsed by the URL standard.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// Those of `--seed`.
    pub named: Vec<String>,
    /// Those of lists, with the name of each list.
    pub listed: Vec<(String, Vec<String>)>,
}

impl Given {
    /// Returns whether there are no start pages.
    pub fn is_empty(&self) -> bool {
        self.named.is_empty() && self.listed.iter().all(|(_, urls)| urls.is_empty())
    }
}

/// Reads and checks all start pages.
///
/// # Errors
/// A list that cannot be read; bad start pages, which have been listed by then.
pub fn read(named: &[String], lists: &[PathBuf], url_bytes: usize) -> Result<Given, Failure> {
    let (mut given, mut bad) = (Given::default(), Vec::new());
    for seed in named {
        match check(seed.as_bytes(), url_bytes) {
            Ok(url) => given.named.push(url),
            Err(why) => bad.push(format!("{seed}: {why}")),
        }
    }
    for list in lists {
        let (name, text) = text(list)?;
        let urls = lines(&name, &text, url_bytes, &mut bad);
        given.listed.push((name, urls));
    }
    match bad.as_slice() {
        [] => Ok(given),
        [one] => Err(Failure::Usage(one.clone())),
        many => {
            many.iter().for_each(words::complain);
            Err(Failure::Usage(format!(
                "{} are not valid start URLs; nothing was started",
                words::count(many.len() as u64, "start page")
            )))
        }
    }
}

/// Name and text of a list.
fn text(list: &Path) -> Result<(String, Vec<u8>), Failure> {
    if list == Path::new(STANDARD_INPUT) {
        let mut text = Vec::new();
        let read = std::io::stdin().lock().read_to_end(&mut text);
        read.map_err(|error| Failure::Io(format!("cannot read standard input: {error}")))?;
        return Ok(("standard input".to_owned(), text));
    }
    let text = std::fs::read(list).map_err(|error| Failure::io("read", list, &error))?;
    Ok((list.display().to_string(), text))
}

/// The start pages of a list. Blank lines, and those that begin with `#`, are skipped.
fn lines(name: &str, text: &[u8], url_bytes: usize, bad: &mut Vec<String>) -> Vec<String> {
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    let mut urls = Vec::new();
    for (at, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let line = line.trim_ascii();
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        match check(line, url_bytes) {
            Ok(url) => urls.push(url),
            Err(why) => bad.push(format!("{name}:{}: {}: {why}", at + 1, shown(line))),
        }
    }
    urls
}

/// The beginning of a line, for a message.
fn shown(line: &[u8]) -> String {
    let most = 200;
    let end = if line.len() > most { "..." } else { "" };
    format!("{}{end}", String::from_utf8_lossy(&line[..line.len().min(most)]))
}

/// Parses a start page by the URL standard.
fn check(seed: &[u8], url_bytes: usize) -> Result<String, String> {
    let url = Whatwg.canonicalize(seed).map_err(|error| error.to_string())?;
    if !is_web(&url) {
        return Err("only http and https are crawled".to_owned());
    }
    if url.len() > url_bytes {
        return Err(format!("it is longer than {url_bytes} bytes"));
    }
    String::from_utf8(url).map_err(|_| "it is not UTF-8".to_owned())
}

/// Adds new start pages to the settings. Returns the message for each list.
pub fn enter(given: Given, settings: &mut Settings) -> Vec<String> {
    let mut known: HashSet<String> = settings.starts().cloned().collect();
    settings.seeds.extend(given.named.into_iter().filter(|url| known.insert(url.clone())));
    let mut said = Vec::new();
    for (name, urls) in given.listed {
        let all = words::count(urls.len() as u64, "start page");
        let new: Vec<String> = urls.into_iter().filter(|url| known.insert(url.clone())).collect();
        said.push(format!("{name}: {all}, {} new", new.len()));
        Arc::make_mut(&mut settings.listed).extend(new);
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_a_start_page_a_line_and_every_bad_one_is_named() {
        let text = b"\xef\xbb\xbf# ours\r\n\r\nHTTP://A.example\r\n  http://a.example/b#c \nftp://a/\nno url\n\xff://\nhttp://a/\
            aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
        let mut bad = Vec::new();
        let urls = lines("list", text, 50, &mut bad);
        assert_eq!(urls, ["http://a.example/", "http://a.example/b"]);
        let starts = ["list:5: ftp://a/: only", "list:6: no url: ", "list:7: ", "list:8: http://a/"];
        assert_eq!(bad.len(), starts.len(), "{bad:?}");
        assert!(bad.iter().zip(starts).all(|(said, start)| said.starts_with(start)), "{bad:?}");
    }

    #[test]
    fn each_start_page_is_entered_once() {
        let mut settings = Settings::new(0);
        let given = |named: &[&str], listed: &[&str]| Given {
            named: named.iter().map(|url| (*url).to_owned()).collect(),
            listed: vec![("list".to_owned(), listed.iter().map(|url| (*url).to_owned()).collect())],
        };
        enter(given(&["http://a/", "http://a/"], &["http://a/", "http://b/"]), &mut settings);
        let said = enter(given(&["http://b/"], &["http://b/", "http://c/", "http://c/"]), &mut settings);
        assert_eq!(
            (settings.seeds.len(), settings.listed.as_slice()),
            (1, &["http://b/".into(), "http://c/".into()][..])
        );
        assert_eq!(said, ["list: 3 start pages, 1 new"]);
    }
}
