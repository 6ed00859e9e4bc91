//! Arguments that several verbs take: URLs, a selection of pages, a variant.

pub mod pages;
pub mod selection;
pub mod urls;
pub mod variant;
