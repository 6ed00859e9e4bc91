//! The layers of the harnesses: this package itself, the oracle, the crash tests, the kernel
//! tests.

/// `filemap-tests`.
pub const TESTS: &[&[&str]] = &[
    &["source", "workspace", "layers", "hostile::image"],
    &["rules", "hostile::forge", "hostile::whole"],
    &["hostile::golden"],
    &["hostile::layout"],
    &["hostile::judge"],
];

/// `filemap-oracle`.
pub const ORACLE: &[&[&str]] = &[&["floor"], &["exact", "numbered"], &["string"]];

/// `filemap-crash`.
pub const CRASH: &[&[&str]] = &[
    &["count", "guard", "trouble", "world"],
    &["contents", "erase", "listing", "op", "vanish"],
    &["mend", "overtake"],
    &["judge"],
    &["drive"],
    &["closing", "lists", "one"],
    &["failing", "small"],
    &["hunt"],
];

/// `filemap-kernel`.
pub const KERNEL: &[&[&str]] = &[
    &["mounts", "random"],
    &["image", "ops"],
    &["oracle"],
    &["visitor", "writer"],
    &["aim"],
    &["disk"],
    &["system"],
    &["device", "differ", "full", "kill", "replay"],
];
