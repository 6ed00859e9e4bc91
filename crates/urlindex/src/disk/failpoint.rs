//! Failpoints: faults that the tests must catch. Compiled out elsewhere.

filemap_io::failpoints! {
    test;
    /// A step that is left out or done in the wrong order.
    pub(crate) enum Mistake {
        /// A run is named by the manifest before it is synced.
        RunNotSynced,
        /// New files are named by the manifest before their names are durable.
        NamesNotSynced,
        /// The old log is removed before the manifest no longer names it.
        LogRemovedFirst,
        /// A sync writes the log and does not sync it.
        LogNotSynced,
        /// A log is said to be durable before it is synced.
        LogNotedFirst,
        /// Opening trusts a manifest whose name may not be durable.
        OpenNotSynced,
    }
}
