//! Tables as Parquet files: the columns of a table, compressed by zstd.
//!
//! Memory is bounded by a row group and a batch.

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::sync::Arc;

use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;

use super::column::{Column, schema};
use super::options::{OnDamage, TableOptions};
use super::reader::PageTable;
use super::report::TableReport;
use crate::error::{Error, Result};
use crate::store::{PageStore, joined};

/// Uncompressed bytes of a row group, which the writer holds in memory.
const ROW_GROUP_BYTES: usize = 64 << 20;
const LEVEL: i32 = 3;

/// An event of [`write_parquet`].
///
/// ```
/// use filemap::table::TableEvent;
/// let event = TableEvent::Progress(&Default::default());
/// assert!(format!("{event:?}").contains("rows: 0"));
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum TableEvent<'a> {
    /// A batch was written.
    Progress(&'a TableReport),
    /// Something cannot be read and is left out.
    Damage(&'a Error),
}

/// Writes the table selected by `options` to `out` as one Parquet file. `progress` gets an event
/// for every batch; `Break` cancels the work, and the output is then not a valid Parquet file.
/// Damage is reported and counted, but is not an error here.
///
/// # Errors
///
/// [`Error::Write`] if `out` fails, and those of the store, except damage.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use std::ops::ControlFlow;
/// # use filemap::{Options, Page, PageStore, table};
/// # let dir = tempfile::tempdir()?;
/// # let store = PageStore::create(dir.path().join("pages.fm"), Options::new())?;
/// store.put_page(&Page::new("http://example.com/", 1_700_000_000_000, 200, "hello"))?;
/// let options = table::TableOptions::new().columns(&table::Column::ALL);
/// let mut file = Vec::new();
/// let report = table::write_parquet(&store, &options, &mut file, &mut |_| ControlFlow::Continue(()))?;
/// assert_eq!((report.rows, &file[..4]), (1, &b"PAR1"[..]));
/// # Ok(())
/// # }
/// ```
pub fn write_parquet<W: Write + Send>(
    store: &PageStore,
    options: &TableOptions,
    out: W,
    progress: &mut dyn FnMut(TableEvent<'_>) -> ControlFlow<()>,
) -> Result<TableReport> {
    write_parquet_of_members(std::slice::from_ref(store), options, out, progress)
}

/// As [`write_parquet`], of a store over several folders, given its members in their order: the
/// rows of each in turn, in one file. A limit is one for all; parts of a store are of one member,
/// and not for this. Errors name the folder.
///
/// # Errors
///
/// As [`write_parquet`].
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use std::ops::ControlFlow;
/// # use std::sync::Arc;
/// # use filemap::canonical::Whatwg;
/// # use filemap::{Options, Page, sharded::ShardedStore, table};
/// # let dir = tempfile::tempdir()?;
/// # let disks = [dir.path().join("a.fm"), dir.path().join("b.fm")];
/// let store = ShardedStore::open_or_create(&disks, Arc::new(Whatwg), Options::new())?;
/// for url in ["http://example.com/", "http://example.org/"] {
///     store.put_page(&Page::new(url, 1_700_000_000_000, 200, "hello"))?;
/// }
/// let (options, mut file) = (table::TableOptions::new(), Vec::new());
/// let go_on = &mut |_: table::TableEvent<'_>| ControlFlow::Continue(());
/// let report = table::write_parquet_of_members(store.members(), &options, &mut file, go_on)?;
/// assert_eq!((report.rows, &file[..4]), (2, &b"PAR1"[..]));
/// # Ok(())
/// # }
/// ```
pub fn write_parquet_of_members<W: Write + Send>(
    stores: &[PageStore],
    options: &TableOptions,
    out: W,
    progress: &mut dyn FnMut(TableEvent<'_>) -> ControlFlow<()>,
) -> Result<TableReport> {
    let stores = &joined(stores)[..];
    let schema = Arc::new(schema(&options.columns));
    let mut writer = ArrowWriter::try_new(out, schema, Some(properties()?)).map_err(failed)?;
    let mut report = TableReport::default();
    for (number, store) in stores.iter().enumerate() {
        let limit = options.limit.map(|limit| limit.saturating_sub(report.rows));
        if report.is_cancelled || limit == Some(0) {
            break;
        }
        let named = |error: Error| match stores.len() {
            1 => error,
            _ => error.of_member(store.engine().path()),
        };
        let options = options.clone().on_damage(OnDamage::Count).limit(limit);
        let table = PageTable::new(store, &options).map_err(named)?.among(stores, number).keeping_errors();
        report = write(table, &mut writer, &report, &named, progress)?;
    }
    if !report.is_cancelled {
        let mut out = writer.into_inner().map_err(failed)?;
        out.flush().map_err(Error::Write)?;
    }
    Ok(report)
}

/// Writes the rows of one store. Returns the report with them; `before` has those of others.
fn write<W: Write + Send>(
    mut table: PageTable,
    writer: &mut ArrowWriter<W>,
    before: &TableReport,
    named: &dyn Fn(Error) -> Error,
    progress: &mut dyn FnMut(TableEvent<'_>) -> ControlFlow<()>,
) -> Result<TableReport> {
    let mut flow = ControlFlow::Continue(());
    loop {
        let batch = table.next_batch();
        for error in table.take_errors().into_iter().map(named) {
            let told = progress(TableEvent::Damage(&error));
            flow = if flow.is_break() { flow } else { told };
        }
        let Some(batch) = batch.filter(|_| flow.is_continue()) else { break };
        writer.write(&batch.map_err(named)?).map_err(failed)?;
        flow = progress(TableEvent::Progress(&before.and(&table.watch().report())));
        if flow.is_break() {
            break;
        }
    }
    Ok(TableReport { is_cancelled: flow.is_break(), ..before.and(&table.watch().report()) })
}

/// Bodies and headers are too long to benefit from dictionaries and statistics.
fn properties() -> Result<WriterProperties> {
    let level = ZstdLevel::try_new(LEVEL).map_err(failed)?;
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(level))
        .set_max_row_group_bytes(Some(ROW_GROUP_BYTES))
        .set_created_by(concat!("filemap ", env!("CARGO_PKG_VERSION")).to_owned());
    let body = ColumnPath::from(Column::Body.name());
    let header = |field: &str| {
        ColumnPath::new([Column::Headers.name(), "entries", field].iter().map(|name| (*name).to_owned()).collect())
    };
    for long in [body.clone(), header("key"), header("value")] {
        properties = properties.set_column_statistics_enabled(long, EnabledStatistics::None);
    }
    Ok(properties.set_column_dictionary_enabled(body, false).build())
}

/// Converts an error of the writer; an I/O error of the output is kept as it is.
fn failed(error: ParquetError) -> Error {
    Error::Write(match error {
        ParquetError::External(source) => match source.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(source) => io::Error::other(source),
        },
        error => io::Error::other(error),
    })
}
