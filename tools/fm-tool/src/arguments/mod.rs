//! Arguments that several verbs take, read alike by all of them: URLs, a choice of pages, a
//! variant.

pub mod pages;
pub mod selection;
pub mod urls;
pub mod variant;
