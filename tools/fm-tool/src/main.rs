//! fm-tool
fn main() {}
