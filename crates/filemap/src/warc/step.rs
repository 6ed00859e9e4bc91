//! How far the decoder of one member has come: what gzip and zstd tell the reader of members.

/// Why a member ended before its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Broken {
    pub(crate) what: &'static str,
    /// The file ended.
    pub(crate) is_cut: bool,
    /// All its data came out; only the check behind it is missing.
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

/// What a decoder did.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    More,
    End,
    Broken(Broken),
}
