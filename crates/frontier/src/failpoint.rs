//! Failpoints: faults that the tests must catch. Compiled out elsewhere.

filemap_io::failpoints! {
    test;
    /// A step that is left out or done in the wrong order.
    pub(crate) enum Mistake {
        /// A commit writes the journal and does not sync it.
        JournalNotSynced,
        /// A snapshot gets its name before it is synced.
        SnapshotNotSynced,
        /// A snapshot names URLs that are not synced.
        UrlsNotSynced,
        /// A snapshot names lists of links that are not synced.
        LinksNotSynced,
        /// The old journal is removed before the snapshot that replaces it is there.
        JournalRemovedFirst,
        /// The journal is told that a page is done, and not of its new links.
        LinksNotTold,
    }
}
