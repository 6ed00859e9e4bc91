//! The layers of `fm-cli`, on which every command line stands.

/// Lowest first.
pub const LAYERS: &[&[&str]] = &[
    &["amount", "canonical", "fields", "flags", "help", "plain"],
    &["sizes", "times", "words"],
    &["outcome"],
    &["credentials", "disk_cache", "interrupt", "sink"],
    &["output", "program", "progress"],
];
