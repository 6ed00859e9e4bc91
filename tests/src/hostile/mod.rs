//! What the tests and fuzz targets of damaged and hostile stores share: the golden store, the tools that change its bytes,
//! and the judge that says whether what a store then answers is allowed.
//!
//! * [`image`]: a store's files in memory, and where they lie while a test has them open;
//! * [`golden`]: the committed store, and what must be in it;
//! * [`forge`]: checksums over bytes that were changed, written after docs/FORMAT.md and not with the engine's code;
//! * [`layout`]: which bytes of the golden store matter to which keys;
//! * [`judge`]: the right value, nothing where that is legal, or damage that is told with its place;
//! * [`whole`]: another store, of many small files, and whole files of it that are not what they were.

pub mod forge;
pub mod golden;
pub mod image;
pub mod judge;
pub mod layout;
pub mod whole;
