//! Mistakes that tests plant, to show that they would be found. Outside of tests there are none.

/// A mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// A filter in front of a set is said to cover it before the filter is durable.
    StampFirst,
    /// A filter is written in place while its stamp says that it is whole.
    SavingNotMarked,
    /// A stamp vouches for whatever filter is there.
    AnyFilterTrusted,
    /// Opening gives the filter what is in the log, and not what is in newer runs than it covers.
    RunsNotTold,
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
