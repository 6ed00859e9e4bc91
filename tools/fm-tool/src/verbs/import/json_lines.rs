//! Import of JSON Lines: how pages move between stores, machines and canonicalisers.
//!
//! Lines may be compressed with gzip. A line that is not a page is reported with its number and
//! offset, and skipped. A version that the store has is not added again, so an interrupted import
//! continues when it is run again. A whole line is held in memory.

use std::io::{self, BufRead, BufReader, Read};

use flate2::bufread::MultiGzDecoder;

use filemap::access::PutRule;
use filemap::dump::jsonl;
use filemap::store::BodyForm;
use filemap::{Page, Put};
use fm_cli::{Failure, interrupt};

use super::report::{BadLine, Brought};

/// Longest line in gzip, in bytes: there, few bytes can expand to a line of any length.
const LONGEST_PACKED_LINE: u64 = 1 << 30;

/// Puts the page of a line.
pub type PutPage<'a> = dyn FnMut(&Page, PutRule) -> filemap::Result<Option<Put>> + 'a;

/// Imports every line of `source` with `put`; `progress` gets bytes read and versions stored.
pub fn import(
    put: &mut PutPage<'_>,
    name: &str,
    source: impl Read,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Brought, Failure> {
    let fail = |error: io::Error| Failure::Io(format!("reading {name} failed: {error}"));
    let mut source = BufReader::with_capacity(1 << 20, source);
    let is_packed = is_gzip(source.fill_buf().map_err(fail)?);
    let mut source: Box<dyn BufRead> = match is_packed {
        true => Box::new(BufReader::with_capacity(1 << 20, MultiGzDecoder::new(source))),
        false => Box::new(source),
    };
    let mut brought = Brought::default();
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let longest = if is_packed { LONGEST_PACKED_LINE } else { u64::MAX };
        let length = match source.by_ref().take(longest).read_until(b'\n', &mut line) {
            Ok(length) if length as u64 == longest && line.last() != Some(&b'\n') => {
                let what =
                    format!("reading {name} failed: line {number} is over {longest} bytes long; unpack it first");
                return Err(Failure::Io(what));
            }
            Err(_) if interrupt::asked() => 0,
            Err(error) if is_packed && is_damage(&error) => {
                brought.report.damaged += 1;
                brought.list_line(number, BadLine::Damaged, &format!("the gzip data is damaged or ends here: {error}"));
                break;
            }
            length => length.map_err(fail)?,
        };
        // Interrupted input may end within a line.
        brought.report.is_cancelled = interrupt::asked();
        if length == 0 || brought.report.is_cancelled {
            break;
        }
        if !line.trim_ascii().is_empty() {
            take(put, &line, number, &mut brought)?;
        }
        brought.report.bytes_read += length as u64;
        progress(brought.report.bytes_read, brought.report.stored);
    }
    Ok(brought)
}

/// Returns whether these are the first bytes of a gzip file.
pub fn is_gzip(head: &[u8]) -> bool {
    head.starts_with(&[0x1f, 0x8b])
}

/// Returns whether an error concerns the content rather than reading it.
fn is_damage(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput | io::ErrorKind::UnexpectedEof)
}

fn take(put: &mut PutPage<'_>, line: &[u8], number: u64, brought: &mut Brought) -> Result<(), Failure> {
    let (page, form) = match jsonl::read_stored(line) {
        Ok(read) => read,
        Err(error) => {
            brought.report.damaged += 1;
            brought.list_line(number, BadLine::Damaged, &error);
            return Ok(());
        }
    };
    brought.report.records += 1;
    // A line without `unchanged` is an ordinary visit.
    let rule = match form {
        Some(BodyForm::Reference) => PutRule::RestoreUnchanged,
        Some(_) => PutRule::Restore,
        None => PutRule::IfNew,
    };
    let report = &mut brought.report;
    match put(&page, rule) {
        Ok(None) => report.already_there += 1,
        Ok(Some(put)) => {
            report.stored += 1;
            report.unchanged += u64::from(matches!(put, Put::Unchanged(_)));
            report.body_bytes += page.body.len() as u64;
        }
        Err(error) if error.concerns_one_page() => {
            report.unusable += 1;
            report.refused += u64::from(error.refused_by().is_some());
            brought.list_line(number, BadLine::Unusable, &error);
        }
        Err(error) => return Err(error.into()),
    }
    Ok(())
}
