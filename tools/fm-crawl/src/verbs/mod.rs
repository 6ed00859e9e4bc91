//! The verbs, one file each: their arguments, what they do, what they print.

pub mod opening;
pub mod run;
pub mod status;
pub mod why;
