//! Code that FileMap's command lines share, so that a flag, an exit code and the spelling of a
//! size mean the same in each: flags of every verb, outcomes and exit codes, Ctrl-C, messages,
//! sizes, times, progress and output.
//!
//! A message never fails a program: a closed standard error is ignored. Messages and text for
//! people contain no terminal escape sequence, whatever URL or file name is in them.

mod amount;
pub mod canonical;
pub mod credentials;
pub mod disk_cache;
mod fields;
mod flags;
mod help;
pub mod interrupt;
mod outcome;
mod output;
mod plain;
mod program;
mod progress;
pub mod sink;
pub mod sizes;
pub mod times;
pub mod words;

pub use flags::Flags;
pub use help::VALUES_AND_EXIT_CODES;
pub use outcome::{Failure, Outcome};
pub use output::Output;
pub use plain::plain;
pub use program::main;
pub use progress::Progress;
