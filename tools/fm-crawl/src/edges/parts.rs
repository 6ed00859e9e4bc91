//! Edges as Parquet files: `edges.parquet` stands for `edges-1.parquet`, `edges-2.parquet` and so
//! on.
//!
//! A Parquet file is readable only when it is complete. Edges are therefore written as lines
//! first, to `edges-N.ndjson`; these become `edges-N.parquet` when they reach a size, and when the
//! run ends. A kill leaves the lines, and the next run continues with them.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::builder::{StringBuilder, TimestampMillisecondBuilder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef, TimeUnit};
use fm_cli::{Failure, sink};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;

use super::Line;
use crate::lines::Lines;

/// Rows that are converted at once.
const BATCH_ROWS: usize = 8192;
const LEVEL: i32 = 3;
const UTC: &str = "UTC";

/// A series of Parquet files, and the lines of the next one.
pub struct Parts {
    lines: Lines,
    /// The path that names the series.
    path: PathBuf,
    number: u64,
    /// Size of the lines that become a file, in bytes.
    most: u64,
}

impl Parts {
    /// Continues a series.
    ///
    /// # Errors
    /// The system's error.
    pub fn open(path: &Path, most: u64) -> Result<Parts, Failure> {
        let last = last(path).map_err(|error| Failure::io("list the folder of", path, &error))?;
        let (mut number, is_whole) = (last.max(1), named(path, last, "parquet").exists());
        if is_whole {
            // A kill may have come between completing the file and removing its lines.
            remove(&named(path, last, "ndjson"))?;
            number = last + 1;
        }
        let lines = super::lines(&named(path, number, "ndjson"))?;
        Ok(Parts { lines, path: path.to_owned(), number, most })
    }

    /// Adds a line.
    ///
    /// # Errors
    /// The system's error.
    pub fn write(&mut self, line: &[u8]) -> Result<(), Failure> {
        self.lines.write(line)
    }

    /// Syncs all lines to disk. Enough of them become a Parquet file.
    ///
    /// # Errors
    /// The system's error; damage of a line.
    pub fn sync(&mut self) -> Result<(), Failure> {
        self.lines.sync()?;
        if self.lines.bytes() < self.most {
            return Ok(());
        }
        self.finish()?;
        self.number += 1;
        self.lines = super::lines(&named(&self.path, self.number, "ndjson"))?;
        Ok(())
    }

    /// Makes a Parquet file of the lines, if there are any.
    ///
    /// # Errors
    /// As [`Parts::sync`].
    pub fn close(mut self) -> Result<(), Failure> {
        self.lines.sync()?;
        match self.lines.bytes() {
            0 => remove(self.lines.path()),
            _ => self.finish(),
        }
    }

    fn finish(&self) -> Result<(), Failure> {
        let (whole, open) = (named(&self.path, self.number, "parquet"), named(&self.path, self.number, "parquet.open"));
        let failed = |error: &io::Error| Failure::io("write", &open, error);
        let out = sink::create_anew(&open).map_err(|error| failed(&error))?;
        convert(self.lines.path(), out, &open)?;
        let folder = sink::folder_of(&whole);
        let renamed = fs::rename(&open, &whole).and_then(|()| File::open(folder)?.sync_all());
        renamed.map_err(|error| failed(&error))?;
        remove(self.lines.path())
    }
}

/// The path of a part.
fn named(path: &Path, number: u64, ending: &str) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{stem}-{number}.{ending}"))
}

/// The greatest number of a part, or 0.
fn last(path: &Path) -> io::Result<u64> {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let mut last = 0;
    for entry in fs::read_dir(sink::folder_of(path))? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| {
            let rest = name.strip_prefix(&stem)?.strip_prefix('-')?;
            let digits = rest.strip_suffix(".parquet").or_else(|| rest.strip_suffix(".ndjson"))?;
            digits.parse::<u64>().ok()
        });
        last = last.max(number.unwrap_or(0));
    }
    Ok(last)
}

fn remove(path: &Path) -> Result<(), Failure> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Failure::io("remove", path, &error)),
        _ => Ok(()),
    }
}

fn schema() -> SchemaRef {
    let text = |name, is_nullable| Field::new(name, DataType::Utf8, is_nullable);
    let time = Field::new("time", DataType::Timestamp(TimeUnit::Millisecond, Some(UTC.into())), false);
    let texts =
        [text("from", false), text("to", false), text("element", false), text("rel", true), text("text", false)];
    Arc::new(Schema::new([vec![time], texts.to_vec()].concat()))
}

/// The columns of some rows.
struct Columns {
    time: TimestampMillisecondBuilder,
    texts: [StringBuilder; 5],
    rows: usize,
}

impl Columns {
    fn new() -> Columns {
        let time = TimestampMillisecondBuilder::new().with_timezone(UTC);
        Columns { time, texts: std::array::from_fn(|_| StringBuilder::new()), rows: 0 }
    }

    fn add(&mut self, line: &Line<'_>) {
        self.time.append_value(line.time_ms);
        let values = [Some(&line.from), Some(&line.to), Some(&line.element), line.rel.as_ref(), Some(&line.text)];
        for (column, value) in self.texts.iter_mut().zip(values) {
            column.append_option(value);
        }
        self.rows += 1;
    }

    fn take(&mut self) -> Result<RecordBatch, ArrowError> {
        let mut columns: Vec<ArrayRef> = vec![Arc::new(self.time.finish())];
        columns.extend(self.texts.iter_mut().map(|column| Arc::new(column.finish()) as ArrayRef));
        self.rows = 0;
        RecordBatch::try_new(schema(), columns)
    }
}

/// Writes lines as a Parquet file, which is on disk on return.
fn convert(lines: &Path, out: File, to: &Path) -> Result<(), Failure> {
    let failed = |error: ParquetError| Failure::Io(format!("cannot write {}: {error}", to.display()));
    let level = ZstdLevel::try_new(LEVEL).map_err(failed)?;
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(level))
        .set_created_by(concat!("fm-crawl ", env!("CARGO_PKG_VERSION")).to_owned());
    let mut writer = ArrowWriter::try_new(out, schema(), Some(properties.build())).map_err(failed)?;
    let mut columns = Columns::new();
    let mut write = |columns: &mut Columns| {
        let batch = columns.take().map_err(|error| failed(error.into()))?;
        writer.write(&batch).map_err(failed)
    };
    let file = File::open(lines).map_err(|error| Failure::io("open", lines, &error))?;
    for (number, line) in BufReader::new(file).lines().enumerate() {
        let line = line.map_err(|error| Failure::io("read", lines, &error))?;
        let broken = |error| Failure::Damage(format!("{}:{}: {error}; remove that line", lines.display(), number + 1));
        columns.add(&serde_json::from_str::<Line<'_>>(&line).map_err(broken)?);
        if columns.rows == BATCH_ROWS {
            write(&mut columns)?;
        }
    }
    if columns.rows > 0 {
        write(&mut columns)?;
    }
    let mut out = writer.into_inner().map_err(failed)?;
    out.flush().and_then(|()| out.sync_all()).map_err(|error| Failure::io("write", to, &error))
}

#[cfg(test)]
mod tests {
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

    use super::*;

    fn line(number: u32) -> Vec<u8> {
        let rel = if number.is_multiple_of(2) { "null" } else { "\"nofollow\"" };
        format!("{{\"time_ms\":{number},\"from\":\"a\",\"to\":\"b\",\"element\":\"a\",\"rel\":{rel},\"text\":\"é\"}}\n")
            .into_bytes()
    }

    fn rows(path: &Path) -> usize {
        let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(path).unwrap()).unwrap().build().unwrap();
        reader.map(|batch| batch.unwrap().num_rows()).sum()
    }

    #[test]
    fn lines_become_parts_and_those_of_a_killed_run_are_gone_on_with() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("edges.parquet");
        let mut parts = Parts::open(&path, 500).unwrap();
        for number in 0..10 {
            parts.write(&line(number)).unwrap();
            parts.sync().unwrap();
        }
        // Killed: a partial line and an incomplete file are left.
        drop(parts);
        let open = named(&path, 2, "ndjson");
        let mut text = fs::read(&open).unwrap();
        text.extend_from_slice(b"{\"time_ms\":7,\"fr");
        fs::write(&open, text).unwrap();
        fs::write(named(&path, 2, "parquet.open"), "x").unwrap();
        let mut parts = Parts::open(&path, 500).unwrap();
        parts.write(&line(10)).unwrap();
        parts.close().unwrap();
        let whole = [1, 2].map(|number| rows(&named(&path, number, "parquet")));
        assert_eq!((whole.iter().sum::<usize>(), whole[0] > 1), (11, true));
        // Killed after the file was complete.
        fs::write(&open, line(1)).unwrap();
        let parts = Parts::open(&path, 500).unwrap();
        assert_eq!((parts.number, open.exists()), (3, false));
        parts.close().unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_line_that_is_damaged_is_named_and_nothing_is_lost() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("edges.parquet");
        let mut parts = Parts::open(&path, 500).unwrap();
        parts.write(&line(1)).unwrap();
        parts.write(b"{\"time_ms\":no\n").unwrap();
        let said = parts.close().unwrap_err();
        assert!(matches!(&said, Failure::Damage(words) if words.contains("edges-1.ndjson:2:")), "{said}");
        assert!(named(&path, 1, "ndjson").exists() && !named(&path, 1, "parquet").exists());
    }
}
