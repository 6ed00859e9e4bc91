//! Result of one decoding step, returned by gzip and zstd to the reader of members.

/// Reason why a member ended early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Broken {
    pub(crate) what: &'static str,
    /// The file ended.
    pub(crate) is_cut: bool,
    /// All data was decoded; only the checksum after it is missing.
    pub(crate) complete: bool,
}

impl Broken {
    pub(crate) fn cut(what: &'static str) -> Broken {
        Broken { what, is_cut: true, complete: false }
    }

    pub(crate) fn damaged(what: &'static str) -> Broken {
        Broken { what, is_cut: false, complete: false }
    }
}

/// State of a member after a step.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    More,
    End,
    Broken(Broken),
}
