//! Many pages in one request, `POST /v1/pages/get`. A page that the response neither contains nor
//! calls missing is requested separately after the response is read to its end: so errors are
//! those of a single get, and no response waits for another.

use std::io::{BufRead, BufReader, Read};

use filemap::dump::jsonl;
use filemap::{Page, Result};
use serde_json::Value;

use super::call::{Answered, Connection};
use crate::wire::{self, Problem};

/// Longest line: a body of 64 MiB as JSON, where a control character takes six bytes, and the
/// description.
const MAX_LINE: u64 = ((6 * 64) << 20) + wire::MAX_DESCRIPTION;

/// The newest pages of `urls`, in order. `alone` gets a page that the response lacks, or finds out
/// why it is missing.
pub(super) fn get(
    connection: &Connection,
    urls: &[&[u8]],
    alone: impl Fn(&[u8]) -> Result<Option<Page>>,
) -> Result<Vec<Option<Page>>> {
    // The server answers an empty line with no line.
    let is_line = |url: &[u8]| url == url.trim_ascii_end() && !url.is_empty() && !url.contains(&b'\n');
    let lines: Vec<&[u8]> = urls.iter().copied().filter(|url| is_line(url)).collect();
    let mut answer = match lines.as_slice() {
        [] => None,
        lines => match connection.post_lines("/v1/pages/get", None, &lines.join(&b'\n'))? {
            Answered::Found(found) => Some(BufReader::with_capacity(64 << 10, found.body)),
            Answered::Refused(_, detail) => {
                return Err(connection.failed(Problem { detail, ..Problem::default() }));
            }
        },
    };
    let (mut pages, mut line) = (Vec::with_capacity(urls.len()), Vec::new());
    let mut left = Vec::new();
    for (at, url) in urls.iter().enumerate() {
        let Some(answer) = answer.as_mut().filter(|_| is_line(url)) else {
            left.push(at);
            pages.push(None);
            continue;
        };
        line.clear();
        let read = answer.take(MAX_LINE).read_until(b'\n', &mut line);
        read.map_err(|error| connection.broken(&error))?;
        if !line.ends_with(b"\n") {
            return Err(connection.broken(&std::io::ErrorKind::UnexpectedEof.into()));
        }
        pages.push(match jsonl::read(&line) {
            Ok(page) => Some(page),
            Err(error) => {
                let told: Value = serde_json::from_slice(&line).map_err(|_| connection.strange(&error.to_string()))?;
                left.extend((told["is_absent"] != true).then_some(at));
                None
            }
        });
    }
    // Read to its end, so that the connection can be reused.
    let more =
        answer.take().map_or(Ok(0), |mut answer| answer.read(&mut [0])).map_err(|error| connection.broken(&error))?;
    if more > 0 {
        return Err(connection.strange("more pages than were asked for"));
    }
    for at in left {
        pages[at] = alone(urls[at])?;
    }
    Ok(pages)
}
