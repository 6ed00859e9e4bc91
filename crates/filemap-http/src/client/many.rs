//! Many pages in one request, `POST /v1/pages/get`. A page that its answer does not have, for
//! whatever reason, is asked for by itself: so errors are those of a single get.

use std::io::{BufRead, BufReader, Read};

use filemap::dump::jsonl;
use filemap::{Page, Result};
use serde_json::Value;

use super::call::{Answered, Connection};
use crate::wire::{self, Problem};

/// The longest line: a body of 64 MiB in base 64, and the description.
const MAX_LINE: u64 = (128 << 20) + wire::MAX_DESCRIPTION;

/// The newest pages of `urls`, in their order; `alone` gets one that the answer does not have, or
/// finds out why.
pub(super) fn get(
    connection: &Connection,
    urls: &[&[u8]],
    alone: impl Fn(&[u8]) -> Result<Option<Page>>,
) -> Result<Vec<Option<Page>>> {
    // The answer has no line for an empty one.
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
    for url in urls {
        let Some(answer) = answer.as_mut().filter(|_| is_line(url)) else {
            pages.push(alone(url)?);
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
                if told["is_absent"] == true { None } else { alone(url)? }
            }
        });
    }
    // Read to its end, the connection serves the next request.
    let more = answer.map_or(Ok(0), |mut answer| answer.read(&mut [0])).map_err(|error| connection.broken(&error))?;
    if more == 0 { Ok(pages) } else { Err(connection.strange("more pages than were asked for")) }
}
