//! A run: the frontier assigns pages, tasks visit them, and their results are committed in groups.
//!
//! `Coordinator` alone holds the frontier, the seen set and the sequence note, on one thread;
//! visits run on the runtime's threads and send their results back.

mod backup;
mod claims;
pub mod control;
mod coordinator;
mod coverage;
mod fleet;
pub mod line;
pub mod list;
mod metrics;
mod observe;
pub mod opening;
mod pace;
mod patterns;
pub mod shards;
mod shared_set;
mod space;
mod start;
pub mod starts;
pub mod status;
mod tally;
pub mod view;
mod warc;

pub use self::backup::back_up;
pub use self::coordinator::{End, retry};
pub use self::coverage::Coverage;
pub use self::observe::{Event, Nobody, Observer, Pause};
pub use self::start::{LostSeed, Plan, Summary, run};
pub use self::tally::Tally;
pub use self::warc::Written;
