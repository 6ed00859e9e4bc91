//! The edges of a crawl: JSON lines, or Parquet files made from such lines.
//!
//! Edges of a page are on disk before the page counts as fetched. After a kill, pages that did not
//! count yet are fetched again, and their edges may be recorded twice; a partial line at the end
//! is removed.

mod parts;

use std::borrow::Cow;
use std::path::Path;

use crawl::visit::{Told, Visit};
use fm_cli::{Failure, sink};
use serde::{Deserialize, Serialize};

use self::parts::Parts;
use crate::lines::Lines;

/// Beginning of every line.
const MARK: &[u8] = b"{\"time_ms\":";
/// Size of the lines that become one Parquet file, in bytes.
const PART_BYTES: u64 = 64 << 20;

/// A writer of edges, or none.
pub struct Edges(Option<Open>);

enum Open {
    Lines(Lines),
    Parts(Parts),
}

/// An edge, as stored in a line.
#[derive(Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct Line<'a> {
    time_ms: i64,
    #[serde(borrow)]
    from: Cow<'a, str>,
    #[serde(borrow)]
    to: Cow<'a, str>,
    #[serde(borrow)]
    element: Cow<'a, str>,
    #[serde(borrow)]
    rel: Option<Cow<'a, str>>,
    #[serde(borrow)]
    text: Cow<'a, str>,
}

impl Edges {
    /// A writer that records no edges.
    pub fn none() -> Edges {
        Edges(None)
    }

    /// Continues a file, or the Parquet files of that name; records no edges without a path.
    ///
    /// # Errors
    /// The system's error; a file that is not one of edges; a place in a store.
    pub fn open(path: Option<&Path>) -> Result<Edges, Failure> {
        let Some(path) = path else { return Ok(Edges(None)) };
        sink::refuse_store(sink::folder_of(path))?;
        Ok(Edges(Some(match path.extension().is_some_and(|ending| ending == "parquet") {
            true => Open::Parts(Parts::open(path, PART_BYTES)?),
            false => Open::Lines(lines(path)?),
        })))
    }

    /// Adds the edges of a visit.
    ///
    /// # Errors
    /// The system's error.
    pub fn visit(&mut self, visit: &Visit) -> Result<(), Failure> {
        let (Some(open), Told::Fetched(fetched)) = (&mut self.0, &visit.told) else { return Ok(()) };
        for edge in &visit.edges {
            let line = Line {
                time_ms: fetched.at_ms,
                from: Cow::from(&visit.key),
                to: Cow::from(&edge.to),
                element: Cow::from(edge.element),
                rel: edge.rel.as_deref().map(Cow::from),
                text: Cow::from(&edge.text),
            };
            let mut line = serde_json::to_vec(&line).map_err(|error| Failure::Io(error.to_string()))?;
            line.push(b'\n');
            match open {
                Open::Lines(lines) => lines.write(&line)?,
                Open::Parts(parts) => parts.write(&line)?,
            }
        }
        Ok(())
    }

    /// Syncs all edges to disk.
    ///
    /// # Errors
    /// The system's error; damage of lines that become a Parquet file.
    pub fn sync(&mut self) -> Result<(), Failure> {
        match &mut self.0 {
            None => Ok(()),
            Some(Open::Lines(lines)) => lines.sync(),
            Some(Open::Parts(parts)) => parts.sync(),
        }
    }

    /// Ends the run's edges: those that are not in a Parquet file yet are written to one.
    ///
    /// # Errors
    /// As [`Edges::sync`].
    pub fn close(&mut self) -> Result<(), Failure> {
        match self.0.take() {
            None => Ok(()),
            Some(Open::Lines(mut lines)) => lines.sync(),
            Some(Open::Parts(parts)) => parts.close(),
        }
    }
}

/// Opens a file of edges, and removes a partial line at its end.
fn lines(path: &Path) -> Result<Lines, Failure> {
    let mut lines = Lines::open(path)?;
    let torn = lines.torn()?;
    if !(torn.starts_with(MARK) || MARK.starts_with(&torn)) {
        let words = "it does not end like a file of edges; give another file";
        return Err(Failure::Usage(format!("--edges {}: {words}", path.display())));
    }
    if !torn.is_empty() {
        lines.cut(torn.len())?;
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_line_of_an_edge_is_cut_off_and_other_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("edges");
        let whole = "{\"time_ms\":1,\"from\":\"a\"}\n";
        for torn in ["", "{", "{\"time_ms\":", "{\"time_ms\":5,\"from\":\"http"] {
            std::fs::write(&path, format!("{whole}{torn}")).unwrap();
            let mut lines = lines(&path).unwrap();
            lines.write(b"{\"time_ms\":2}\n").unwrap();
            lines.sync().unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{whole}{{\"time_ms\":2}}\n"));
        }
        for other in ["a picture", "line\nno end"] {
            std::fs::write(&path, other).unwrap();
            assert!(matches!(lines(&path), Err(Failure::Usage(words)) if words.contains("give another file")));
            assert_eq!(std::fs::read_to_string(&path).unwrap(), other);
        }
    }
}
