//! Tables of SQLite files: `Dict` of Python's `dbm.sqlite3`, `responses` of requests-cache.
//! Nothing is written.

use std::path::Path;

use filemap::import::cache::scrapy_dbm_entry;
use fm_cli::Failure;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Row};

use super::{Taking, requests};

/// Opens a file for reading.
fn open(path: &Path) -> Result<Connection, Failure> {
    // SQLite opens these too, of whatever type they are.
    for end in ["-journal", "-wal", "-shm"] {
        let mut beside = path.as_os_str().to_owned();
        beside.push(end);
        if std::fs::metadata(&beside).is_ok_and(|about| !about.is_file()) {
            let beside = Path::new(&beside).display();
            return Err(Failure::Usage(format!("{beside} is not a regular file, so {} is not opened", path.display())));
        }
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(path, flags)
        .map_err(|error| Failure::Io(format!("cannot open {}: {error}", path.display())))
}

/// A value of any type, as bytes.
fn bytes(row: &Row<'_>, column: usize) -> rusqlite::Result<Vec<u8>> {
    use rusqlite::types::ValueRef;
    Ok(match row.get_ref(column)? {
        ValueRef::Blob(bytes) | ValueRef::Text(bytes) => bytes.to_vec(),
        ValueRef::Integer(number) => number.to_string().into_bytes(),
        ValueRef::Real(number) => number.to_string().into_bytes(),
        ValueRef::Null => Vec::new(),
    })
}

/// Returns whether a file has a table.
fn has_table(connection: &Connection, table: &str) -> rusqlite::Result<bool> {
    let found = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?1";
    connection.query_row(found, [table], |_| Ok(())).optional().map(|found| found.is_some())
}

/// Returns whether a table, one of the names above, has no row.
fn is_empty(connection: &Connection, table: &str) -> rusqlite::Result<bool> {
    let first = format!("SELECT 1 FROM {table} LIMIT 1");
    connection.query_row(&first, [], |_| Ok(())).optional().map(|found| found.is_none())
}

/// Imports the entries of `DbmCacheStorage` over `dbm.sqlite3`. Returns false once the work must
/// stop.
pub fn scrapy(taking: &mut Taking<'_, '_>, path: &Path, spider: Option<&str>) -> Result<bool, Failure> {
    let named = taking.name_of(path);
    let connection = match open(path) {
        Err(Failure::Usage(what)) => {
            taking.damaged(&named, what);
            return Ok(true);
        }
        connection => connection?,
    };
    let mut ended = Ok(true);
    let read = (|| {
        if !has_table(&connection, "Dict")? {
            taking.refused(&named, "it is a file of SQLite without the table Dict, so none of dbm.sqlite3");
            return Ok(());
        }
        taking.is_cache |= is_empty(&connection, "Dict")?;
        let mut values = connection.prepare("SELECT value FROM Dict WHERE key = CAST(?1 AS BLOB) OR key = ?1")?;
        let mut all = connection.prepare("SELECT key, value FROM Dict ORDER BY rowid")?;
        let (mut rows, mut foreign) = (all.query([])?, 0u64);
        while let Some(row) = rows.next()? {
            let key = bytes(row, 0)?;
            let key = String::from_utf8_lossy(&key);
            let Some(fingerprint) = key.strip_suffix("_data") else {
                match key.strip_suffix("_time") {
                    Some(fingerprint) if !values.exists([format!("{fingerprint}_data")])? => {
                        taking.damaged(&format!("{named}: {fingerprint}"), "its response is not in the file");
                    }
                    Some(_) => {}
                    None => foreign += 1,
                }
                continue;
            };
            let data = bytes(row, 1)?;
            let time = values.query_row([format!("{fingerprint}_time")], |row| bytes(row, 0)).optional()?;
            let entry = format!("{named}: {fingerprint}");
            match time.map(|time| scrapy_dbm_entry(spider, fingerprint, &data, &time)) {
                Some(Ok(page)) => ended = taking.put(&entry, page).map(|()| true),
                Some(Err(error)) => taking.damaged(&entry, error),
                None => taking.damaged(&entry, "its time is not in the file"),
            }
            if ended.is_ok() && !taking.goes_on(data.len() as u64) {
                ended = Ok(false);
            }
            if !matches!(ended, Ok(true)) {
                return Ok(());
            }
        }
        if foreign > 0 {
            taking.foreign(&named, format_args!("it has {foreign} keys that are not a cache's: left out"));
        }
        Ok(())
    })();
    settle(taking, &named, read)?;
    ended
}

/// Imports the responses of requests-cache.
pub fn requests(taking: &mut Taking<'_, '_>, path: &Path) -> Result<(), Failure> {
    let (connection, mut ended) = (open(path)?, Ok(()));
    let read = (|| {
        if !has_table(&connection, "responses")? {
            ended = Err(Failure::Usage(format!(
                "{} has no table responses, so it is not a cache of requests-cache from version 0.6 on",
                path.display()
            )));
            return Ok(());
        }
        taking.is_cache |= is_empty(&connection, "responses")?;
        let mut all = connection.prepare("SELECT key, value FROM responses ORDER BY rowid")?;
        let mut rows = all.query([])?;
        while let Some(row) = rows.next()? {
            let (key, value) = (bytes(row, 0)?, bytes(row, 1)?);
            ended = requests::take(taking, &String::from_utf8_lossy(&key), &value);
            if ended.is_err() || !taking.goes_on(value.len() as u64) {
                break;
            }
        }
        Ok(())
    })();
    let named = "table responses";
    settle(taking, named, read)?;
    ended
}

/// Counts damage of a file; any other failure ends the import.
fn settle(taking: &mut Taking<'_, '_>, named: &str, read: rusqlite::Result<()>) -> Result<(), Failure> {
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
    match read {
        Err(error) if matches!(error.sqlite_error_code(), Some(DatabaseCorrupt | NotADatabase)) => {
            taking.damaged(named, format_args!("SQLite says: {error}; `sqlite3 FILE .recover` may save more"));
            Ok(())
        }
        read => read.map_err(|error| Failure::Io(format!("{}: {named}: {error}", taking.root.display()))),
    }
}
