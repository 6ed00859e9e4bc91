//! Failpoints: planted faults that the crash tests must catch. Compiled out elsewhere.

filemap_io::failpoints! {
    test;
    /// A step left out or done in the wrong order.
    pub(crate) enum Failpoint {
        /// What is answered is not synced.
        NotSynced,
        /// A new file gets its name before it is synced.
        FileNotSynced,
        /// A file is removed with links that wait.
        RemovedEarly,
        /// A new file does not say what was had of each crawl.
        SendersForgotten,
    }
}
