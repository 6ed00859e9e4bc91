//! Tables: a store as Arrow record batches, with the column names of Common Crawl's index.
//!
//! [`PageStore::table`] reads a store, or one of its [`PageStore::splits`], in the order of the
//! log as [`PageTable`], a `RecordBatchReader`, for any program that reads Arrow. With feature
//! `parquet`, `write_parquet` writes the same columns to a file, and `write_parquet_of_members`
//! those of a store over several folders.
//!
//! Invariants:
//! - memory is bounded by one batch, the bodies of two more, the largest page, and a bit for each
//!   version;
//! - a body is decompressed only for a column that needs it, and after the row was selected;
//! - the value of a column does not depend on the other columns read;
//! - damaged versions are left out, counted, and an error at the end unless the caller reads the
//!   count.

mod bodies;
mod column;
mod going;
mod options;
#[cfg(feature = "parquet")]
mod parquet;
mod reader;
mod report;
mod rows;
mod url;

pub use column::Column;
pub use options::{OnDamage, Records, TableOptions};
#[cfg(feature = "parquet")]
pub use parquet::{TableEvent, write_parquet, write_parquet_of_members};
pub use reader::PageTable;
pub use report::{TableReport, TableWatch};

use filemap_core::list::Split;

use crate::error::Result;
use crate::store::PageStore;

impl PageStore {
    /// The rows selected by `options`, in the order of the log, as record batches.
    ///
    /// # Errors
    ///
    /// Those of [`filemap_core::Store::pages_in`], if the options name a split.
    pub fn table(&self, options: &TableOptions) -> Result<PageTable> {
        PageTable::new(self, options)
    }

    /// The current store in `number` disjoint parts that take about equal time to read, for
    /// [`TableOptions::split`]; see [`filemap_core::Store::splits`].
    ///
    /// # Errors
    ///
    /// As [`filemap_core::Store::splits`].
    pub fn splits(&self, number: usize) -> Result<Vec<Split>> {
        Ok(self.engine().splits(number)?)
    }
}

#[cfg(test)]
mod tests;
