//! The CDXJ index of the WARC files of a dump: one line a capture, with the position of its
//! record.
//!
//! A line is the URL's SURT key, the time in 14 digits, and a JSON object with `url`, `mime`,
//! `status`, `digest`, `length`, `offset` and `filename`, all texts, as pywb writes them
//! (cdxj-indexer puts the algorithm's name before the digest). A variant has its request in the
//! key (`__wb_method=POST&...`, see [`crate::Variant`]) and in `method` and `requestBody`, as
//! cdxj-indexer and pywb write it with `--post-append`. `length` and `offset` are those of the
//! compressed member. Lines are sorted by their bytes, as readers require.

use std::io;

use serde::Serialize;

use super::sort::LineSorter;
use super::surt::surt;
use super::target::{OutputFile, Target};
use crate::date;
use crate::page::variant::Variant;
use crate::spool::Spool;
use crate::warc::write::Entry;

/// Collects the lines of an index.
pub(crate) struct CdxjIndex {
    name: String,
    lines: LineSorter,
}

#[derive(Serialize)]
struct Fields<'a> {
    url: &'a str,
    mime: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<String>,
    digest: &'a str,
    length: String,
    offset: String,
    filename: &'a str,
    #[serde(rename = "requestBody", skip_serializing_if = "Option::is_none")]
    request_body: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<&'a str>,
}

impl CdxjIndex {
    /// An index for the file of this name.
    pub(super) fn new(name: String, spool: Spool) -> CdxjIndex {
        CdxjIndex { name, lines: LineSorter::new(spool) }
    }

    /// Adds a record at `offset` of `filename`.
    pub(crate) fn add(&mut self, entry: &Entry, filename: &str, offset: u64, length: u64) -> io::Result<()> {
        self.lines.push(&line(entry, filename, offset, length)?)
    }

    /// Writes the lines in order. Returns the file's name, and the file to close.
    pub(crate) fn write(self, target: &mut dyn Target) -> io::Result<(String, Box<dyn OutputFile>)> {
        let mut out = target.create(&self.name)?;
        self.lines.finish(&mut out)?;
        Ok((self.name, out))
    }
}

fn line(entry: &Entry, filename: &str, offset: u64, length: u64) -> io::Result<Vec<u8>> {
    let fields = Fields {
        url: &entry.uri,
        mime: &entry.mime,
        status: entry.status.map(|status| status.to_string()),
        digest: &entry.digest,
        length: length.to_string(),
        offset: offset.to_string(),
        filename,
        request_body: entry.variant.as_ref().and_then(Variant::query),
        method: entry.variant.as_ref().and_then(Variant::method),
    };
    let mut line = match &entry.variant {
        Some(variant) => surt(&variant.index_url(entry.uri.as_bytes())),
        None => surt(entry.uri.as_bytes()),
    };
    line.extend_from_slice(format!(" {} ", date::stamp(entry.time_ms)).as_bytes());
    serde_json::to_writer(&mut line, &fields)?;
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_what_players_read() {
        let entry = Entry {
            uri: "http://www.example.com/A?b".to_owned(),
            time_ms: 1_488_772_926_123,
            mime: "text/html".to_owned(),
            status: Some(200),
            digest: "G7HRM7BGOKSKMSXZAHMUQTTV53QOFSMK".to_owned(),
            variant: None,
        };
        let expected = concat!(
            r#"com,example)/a?b 20170306040206 {"url":"http://www.example.com/A?b","mime":"text/html","status":"200","#,
            r#""digest":"G7HRM7BGOKSKMSXZAHMUQTTV53QOFSMK","length":"12","offset":"34","filename":"x.warc.gz"}"#
        );
        assert_eq!(String::from_utf8(line(&entry, "x.warc.gz", 34, 12).unwrap()).unwrap(), expected);
        let variant = Variant::of_request("POST", Some(b"text/plain"), b"hello");
        let line = String::from_utf8(line(&Entry { variant, ..entry }, "x.warc.gz", 34, 12).unwrap()).unwrap();
        assert!(
            line.starts_with("com,example)/a?__wb_method=post&__wb_post_data=agvsbg8=&b 20170306040206 {"),
            "{line}"
        );
        assert!(
            line.ends_with(r#""filename":"x.warc.gz","requestBody":"__wb_post_data=aGVsbG8=","method":"POST"}"#),
            "{line}"
        );
    }
}
