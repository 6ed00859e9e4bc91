//! Mistakes that tests plant, to show that they would be found. Outside of tests there are none.

/// A mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

#[cfg(test)]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Mistake>> = const { std::cell::Cell::new(None) };
}

/// Plants a mistake, in this thread.
#[cfg(test)]
pub(crate) fn plant(mistake: Option<Mistake>) {
    PLANTED.set(mistake);
}

/// Whether this is to be done wrongly.
#[inline]
pub(crate) fn has(mistake: Mistake) -> bool {
    #[cfg(test)]
    return PLANTED.get() == Some(mistake);
    #[cfg(not(test))]
    {
        let _ = mistake;
        false
    }
}
