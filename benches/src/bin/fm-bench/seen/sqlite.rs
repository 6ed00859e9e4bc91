//! SQLite as a way to deduplicate, for `seen --kind table`; feature `sqlite`, on by default.

use std::path::{Path, PathBuf};

use filemap_benches::drive::Outcome;
use rusqlite::Connection;

use crate::seen::way::Way;

/// A table of texts.
pub struct Database {
    path: PathBuf,
    connection: Connection,
}

impl Database {
    /// An empty one.
    pub fn make(dir: &Path) -> Outcome<Box<dyn Way>> {
        let path = dir.join("urls.sqlite");
        let connection = Connection::open(&path)?;
        connection.execute("CREATE TABLE urls (url BLOB PRIMARY KEY) WITHOUT ROWID", [])?;
        Ok(Box::new(Database { path, connection }))
    }
}

impl Way for Database {
    fn pass(&mut self, urls: &[&[u8]]) -> Outcome<u64> {
        let transaction = self.connection.transaction()?;
        let mut new = 0;
        {
            let mut insert = transaction.prepare("INSERT OR IGNORE INTO urls VALUES (?1)")?;
            for url in urls {
                new += insert.execute([url])? as u64;
            }
        }
        transaction.commit()?;
        Ok(new)
    }

    fn bytes(&self) -> Outcome<(u64, u64)> {
        Ok((0, std::fs::metadata(&self.path)?.len()))
    }
}
