//! Failpoints: planted faults that the tests must catch. Compiled out elsewhere.

filemap_io::failpoints! {
    test;
    /// A step left out or done in the wrong order.
    pub(crate) enum Failpoint {
        /// A commit does not sync the journal.
        JournalNotSynced,
        /// A snapshot gets its name before it is synced.
        SnapshotNotSynced,
        /// A snapshot names URLs that are not synced.
        UrlsNotSynced,
        /// A snapshot names lists of links that are not synced.
        LinksNotSynced,
        /// A snapshot names rows of pages that are not synced.
        BlocksNotSynced,
        /// A block of rows is written over the one that a snapshot names.
        BlocksInPlace,
        /// A snapshot names runs that are not synced.
        RunsNotSynced,
        /// Runs are removed before the snapshot that does not name them is there.
        RunsRemovedFirst,
        /// The old journal is removed before its snapshot is there.
        JournalRemovedFirst,
        /// A new journal does not have the claims that the old one has.
        ClaimsDropped,
        /// What is written before a commit counts without it.
        PartCounts,
        /// A new journal does not have the rests of hosts that the old one has.
        RestsDropped,
        /// A snapshot does not have the round that is under way.
        RoundDropped,
        /// A snapshot does not say that there are timers which it does not have.
        LeftOutDropped,
        /// The journal omits the new links of a fetched page.
        LinksNotTold,
    }
}
