//! The crawl: the frontier assigns pages, tasks visit them, and their results are committed in
//! groups.
//!
//! [`Coordinator`] alone holds the frontier, the seen set, the sequence note and the log, on one
//! thread; visits run on the runtime's threads and send their results back.

mod claims;
pub mod control;
mod coordinator;
mod discovery;
mod hops;
mod log;
mod pace;
mod parts;
mod patterns;
mod sitemaps;
mod space;
mod tally;
pub mod view;
mod visit;

pub use self::claims::Claims;
pub use self::coordinator::{Coordinator, End, State, Watch, retry};
pub use self::log::Log;
pub use self::parts::{Crawl, token};
pub use self::sitemaps::Sitemaps;
pub use self::space::Space;
pub use self::tally::Tally;
