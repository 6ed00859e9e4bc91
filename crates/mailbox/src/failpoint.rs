//! Failpoints: planted faults that the crash tests must catch. Compiled out elsewhere.

filemap_io::failpoints! {
    test;
    /// A step left out, or taken in the wrong order.
    pub(crate) enum Failpoint {
        /// A call returns before its record is synced.
        NotSynced,
        /// A new file is renamed to its name before it is synced.
        FileNotSynced,
        /// A file is removed while links in it still wait.
        RemovedEarly,
        /// A new file's state leaves out the number of links received from each crawl.
        SendersForgotten,
    }
}
