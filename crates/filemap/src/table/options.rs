//! Options of a table: which columns, rows and versions, and the size of batches.

use filemap_core::list::Split;

use super::column::Column;
use crate::dump::Selection;
use crate::page::key;
use crate::store::UrlPart;

/// What becomes of damaged versions, which are left out in any case.
///
/// ```
/// use filemap::table::OnDamage;
/// assert_eq!(OnDamage::default(), OnDamage::Fail);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDamage {
    /// After all rows, the table ends with an error that says how many were left out.
    #[default]
    Fail,
    /// They are counted in the report alone.
    Count,
}

/// Which records are rows.
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
    /// With requests, metadata and conversions beside them.
    All,
}

/// Text offsets of a batch have 31 bits; a row may go beyond the limit.
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

        /// Which records are rows. Default: pages.
        pub(super) records: Records = Records::Pages,

        /// Only the versions of this part of the store, as of when it was made. Default: the whole
        /// store as of now.
        pub(super) split: Option<Split> = None,

        /// Only the pages of this part, looked up one by one in the order of their URLs, as of
        /// when it was made; then a split has no effect, and records other than pages are refused.
        /// Pages whose look-up meets damage are searched by a pass over the value log of then.
        /// Default: what a pass over the value log meets.
        pub(super) urls: Option<UrlPart> = None,

        /// At most this many rows. Default: no limit.
        pub(super) limit: Option<u64> = None,

        /// What becomes of damaged versions. Default: an error after the last row.
        pub(super) on_damage: OnDamage = OnDamage::Fail,
    } by hand {
        pub(super) columns: Vec<Column> = Column::without_body(),
        pub(super) batch_bytes: usize = 16 << 20,
        pub(super) batch_rows: usize = 1 << 16,
        pub(super) all_versions: bool = false,
    }
}

impl TableOptions {
    /// These columns, in this order. Default: all for which no body is read.
    pub fn columns(mut self, columns: &[Column]) -> TableOptions {
        self.columns = columns.to_vec();
        self
    }

    /// A batch ends with the row that brings it to this many bytes, at most 1 GiB. Default: 16
    /// MiB.
    pub fn batch_bytes(mut self, bytes: usize) -> TableOptions {
        self.batch_bytes = bytes.clamp(1, MAX_BATCH_BYTES);
        self
    }

    /// Most rows of a batch. Default: 65,536.
    pub fn batch_rows(mut self, rows: usize) -> TableOptions {
        self.batch_rows = rows.max(1);
        self
    }

    /// Every version, not the newest only.
    pub fn all_versions(mut self) -> TableOptions {
        self.all_versions = true;
        self
    }
}

impl Records {
    /// Whether a key's versions are rows.
    pub(super) fn takes(self, key: &[u8]) -> bool {
        match self {
            Records::Pages => key::is_page(key),
            Records::Variants => key::is_page(key) || key::is_variant(key),
            Records::All => !key::is_hidden(key),
        }
    }
}
