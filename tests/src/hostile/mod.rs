//! Code shared by the tests and fuzz targets of damaged and hostile stores.
//!
//! * [`image`]: a store's files in memory, and where they lie while a test has them open;
//! * [`golden`]: the committed store, and its contents;
//! * [`forge`]: checksums over changed bytes, written after docs/FORMAT.md and not with the
//!   engine's code;
//! * [`layout`]: which bytes of the golden store matter to which keys;
//! * [`judge`]: the right value, nothing where that is legal, or damage with its place;
//! * [`whole`]: another store, of many small files, and harm done to whole files of it.

pub mod forge;
pub mod golden;
pub mod image;
pub mod judge;
pub mod layout;
pub mod whole;
