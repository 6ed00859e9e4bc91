//! The index of the WARC files of a dump, in CDXJ: a line a capture, by which a player finds its record.
//!
//! A line is the URL's SURT key, the time in 14 digits, and a JSON object with `url`, `mime`, `status`, `digest`, `length`,
//! `offset` and `filename`, all texts, as pywb writes them (cdxj-indexer puts the algorithm's name before the digest).
//! `length` and `offset` are those of the compressed member. Lines are sorted by their bytes: a file can be used as it is.

use std::io;

use serde::Serialize;

use super::sort::LineSorter;
use super::surt::surt;
use super::target::Target;
use crate::date;
use crate::spool::Spool;
use crate::warc::Entry;

/// Gathers the lines of an index.
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
}

impl CdxjIndex {
    /// An index that will be the file of this name.
    pub(super) fn new(name: String, spool: Spool) -> CdxjIndex {
        CdxjIndex { name, lines: LineSorter::new(spool) }
    }

    /// Adds a record that lies in `filename` from `offset` on.
    pub(crate) fn add(&mut self, entry: &Entry, filename: &str, offset: u64, length: u64) -> io::Result<()> {
        self.lines.push(&line(entry, filename, offset, length)?)
    }

    /// Writes the lines in order; the file's name.
    pub(crate) fn finish(self, target: &mut dyn Target) -> io::Result<String> {
        let mut out = target.create(&self.name)?;
        self.lines.finish(&mut out)?;
        out.close()?;
        Ok(self.name)
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
    };
    let mut line = surt(entry.uri.as_bytes());
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
        };
        let expected = concat!(
            r#"com,example)/a?b 20170306040206 {"url":"http://www.example.com/A?b","mime":"text/html","status":"200","#,
            r#""digest":"G7HRM7BGOKSKMSXZAHMUQTTV53QOFSMK","length":"12","offset":"34","filename":"x.warc.gz"}"#
        );
        assert_eq!(String::from_utf8(line(&entry, "x.warc.gz", 34, 12).unwrap()).unwrap(), expected);
    }
}
