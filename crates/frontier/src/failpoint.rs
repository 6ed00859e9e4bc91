//! Failpoints: planted faults that the tests must catch. Compiled out elsewhere.

filemap_io::failpoints! {
    test;
    /// A step left out, or taken in the wrong order.
    pub(crate) enum Failpoint {
        /// A commit does not sync the journal.
        JournalNotSynced,
        /// A snapshot is renamed to its name before it is synced.
        SnapshotNotSynced,
        /// A snapshot names URLs that are not synced.
        UrlsNotSynced,
        /// A snapshot names lists of links that are not synced.
        LinksNotSynced,
        /// A snapshot names rows of pages that are not synced.
        BlocksNotSynced,
        /// A block of rows is overwritten in the slot that a snapshot names.
        BlocksInPlace,
        /// A snapshot names runs that are not synced.
        RunsNotSynced,
        /// Runs are removed before a snapshot without them replaces the one that names them.
        RunsRemovedFirst,
        /// The old journal is removed before the snapshot that replaces it exists.
        JournalRemovedFirst,
        /// A new journal omits the open claims of the old one.
        ClaimsDropped,
        /// Parts written before a commit count without it.
        PartCounts,
        /// A new journal omits the rests of hosts of the old one.
        RestsDropped,
        /// A snapshot omits the current round.
        RoundDropped,
        /// A snapshot does not record that some timers were left out of memory.
        LeftOutDropped,
        /// The journal omits the new links of a fetched page.
        LinksNotTold,
    }
}
