//! Options of a table: columns, rows and versions, and the size of batches.

use filemap_core::list::Split;

use super::column::Column;
use crate::dump::Selection;
use crate::page::key;
use crate::store::UrlPart;

/// Handling of damaged versions, which are left out in any case.
///
/// ```
/// use filemap::table::OnDamage;
/// assert_eq!(OnDamage::default(), OnDamage::Fail);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDamage {
    /// After all rows, the table ends with an error that states how many were left out.
    #[default]
    Fail,
    /// They are only counted in the report.
    Count,
}

/// The records that are rows.
///
/// ```
/// use filemap::table::Records;
/// assert_eq!(Records::default(), Records::Pages);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Records {
    /// Pages, as in [`PageStore::pages`](crate::PageStore::pages).
    #[default]
    Pages,
    /// Pages and their variants.
    Variants,
    /// Pages, variants, and the requests, metadata and conversions beside them.
    All,
}

/// Text offsets of a batch have 31 bits; a row may exceed the limit.
const MAX_BATCH_BYTES: usize = 1 << 30;

filemap_io::options! {
    /// Options of a table; the defaults are the newest version of every page, without its body.
    ///
    /// ```
    /// use filemap::dump::Selection;
    /// use filemap::table::{Column, TableOptions};
    /// let options = TableOptions::new()
    ///     .columns(&[Column::Url, Column::FetchTime, Column::Body])
    ///     .selection(Selection::new().host_with_subdomains("example.com"));
    /// ```
    #[derive(Clone, Debug)]
    pub struct TableOptions {
        /// Only these versions. Host, prefix and time are tested before anything else of a version
        /// is read, status and type before its body is decompressed. Default: all.
        pub(super) selection: Selection = Selection::new(),

        /// The records that are rows. Default: pages.
        pub(super) records: Records = Records::Pages,

        /// Only the versions of this part of the store, as of the time it was made. Default: the
        /// whole current store.
        pub(super) split: Option<Split> = None,

        /// Only the pages of this part, looked up one by one in the order of their URLs, as of the
        /// time it was made. A split then has no effect, and records other than pages are refused.
        /// Pages whose lookup finds damage are searched for by a pass over the value log as of
        /// that time. Default: the versions that a pass over the value log finds.
        pub(super) urls: Option<UrlPart> = None,

        /// At most this many rows. Default: no limit.
        pub(super) limit: Option<u64> = None,

        /// Handling of damaged versions. Default: an error after the last row.
        pub(super) on_damage: OnDamage = OnDamage::Fail,
    } by hand {
        pub(super) columns: Vec<Column> = Column::without_body(),
        pub(super) batch_bytes: usize = 16 << 20,
        pub(super) batch_rows: usize = 1 << 16,
        pub(super) all_versions: bool = false,
    }
}

impl TableOptions {
    /// These columns, in this order. Default: all that need no body.
    pub fn columns(mut self, columns: &[Column]) -> TableOptions {
        self.columns = columns.to_vec();
        self
    }

    /// Size of a batch in bytes, at most 1 GiB: it ends with the row that reaches this size.
    /// Default: 16 MiB.
    pub fn batch_bytes(mut self, bytes: usize) -> TableOptions {
        self.batch_bytes = bytes.clamp(1, MAX_BATCH_BYTES);
        self
    }

    /// Maximum number of rows in a batch. Default: 65,536.
    pub fn batch_rows(mut self, rows: usize) -> TableOptions {
        self.batch_rows = rows.max(1);
        self
    }

    /// Every version, not only the newest.
    pub fn all_versions(mut self) -> TableOptions {
        self.all_versions = true;
        self
    }
}

impl Records {
    /// Returns whether a key's versions are rows.
    pub(super) fn takes(self, key: &[u8]) -> bool {
        match self {
            Records::Pages => key::is_page(key),
            Records::Variants => key::is_page(key) || key::is_variant(key),
            Records::All => !key::is_hidden(key),
        }
    }
}
