//! Failpoints: planted faults that the tests must catch. Compiled out elsewhere.

filemap_io::failpoints! {
    test;
    /// A step left out or done in the wrong order.
    pub(crate) enum Failpoint {
        /// The manifest names a run before it is synced.
        RunNotSynced,
        /// The manifest names new files before their names are durable.
        NamesNotSynced,
        /// The old log is removed while the manifest names it.
        LogRemovedFirst,
        /// A sync does not sync the log.
        LogNotSynced,
        /// A log is noted as durable before it is synced.
        LogNotedFirst,
        /// Opening trusts a manifest whose name may not be durable.
        OpenNotSynced,
    }
}
