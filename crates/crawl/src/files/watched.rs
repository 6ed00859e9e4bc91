//! Files that people write and change while a crawl runs: the text, and whether it has changed.

use std::io;
use std::path::Path;
use std::time::Duration;

use filemap_io::{Stamp, open_to_inspect};

/// A file may have been changed again within this time and look the same.
const SETTLES: Duration = Duration::from_secs(3);

/// How a file looks, and whether it has done so for a while; `None` if it cannot be looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look(Option<(Stamp, bool)>);

impl Look {
    /// Looks at a file.
    pub fn at(path: &Path) -> Look {
        let stamp = Stamp::of(path).ok();
        Look(stamp.map(|stamp| (stamp, stamp.modified().elapsed().is_ok_and(|age| age > SETTLES))))
    }

    /// Whether the file is as it was, so that it need not be read.
    pub fn is_as(&self, before: &Look) -> bool {
        self == before && self.0.as_ref().is_some_and(|(_, has_settled)| *has_settled)
    }
}

/// The text of a file, pipes and devices refused.
///
/// # Errors
/// The system's; `InvalidData` for what is no UTF-8.
pub fn text(path: &Path) -> io::Result<String> {
    let file = open_to_inspect(path)?;
    let mut bytes = vec![0; usize::try_from(file.len()?).map_err(io::Error::other)?];
    let read = file.read_at(&mut bytes, 0)?;
    bytes.truncate(read);
    String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}
