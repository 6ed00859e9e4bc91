//! A store of pages: the engine, and the canonicaliser that makes its keys.
//!
//! Invariant: every key of the store was made by this canonicaliser and the key scheme of
//! `page::key`.

mod access;
mod admit;
mod among;
mod by_key;
mod changes;
mod chosen;
mod count;
mod given;
pub(crate) mod handle;
mod hosts;
mod in_place;
mod known;
mod list;
mod listing;
mod load;
pub(crate) mod prune;
mod put;
mod read;
mod remove;
mod revisit;
pub(crate) mod rules;
mod unresolved;
mod url_parts;
mod variants;

pub use crate::page::version::{BodyForm, StoredVersion};
pub use admit::MaybeOriginal;
pub(crate) use among::{Origin, joined, number_of, original_among};
pub use changes::{Beside, ChangesPlace, PageChange, PageChanges};
pub(crate) use handle::PageStore;
pub use handle::page_options;
pub use in_place::Archive;
#[cfg(feature = "import")]
pub(crate) use in_place::{Held, kept_digest, unknown};
pub(crate) use known::Known;
pub use list::{Urls, VersionSize};
pub use listing::Listing;
pub use load::Loader;
pub(crate) use load::{Arrival, Sameness};
pub use prune::PruneStep;
pub(crate) use put::BodySource;
pub use read::PageReader;
pub(crate) use revisit::{Resolver, take_body};
pub(crate) use unresolved::FoundRevisit;
pub use unresolved::{RevisitCount, Unresolved};
#[cfg(feature = "arrow")]
pub(crate) use url_parts::Found;
pub use url_parts::UrlPart;
pub use variants::Variants;

pub use filemap_core::body::SharedBody;
pub use filemap_core::{Event, Stats};
