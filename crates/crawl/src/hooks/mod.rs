//! Hooks: what a caller of the library adds to a crawl: its own fetcher, its own links, a look at
//! each page.
//!
//! A hook blocks only the visit that calls it: at most as many run at once as the crawl has
//! connections. One that fails or panics loses nothing: the page is kept as if there were no hook,
//! and the failure is counted by name ([`crate::Reason::HookFailed`]) and told with its words.

pub mod exec;
mod fetch;
pub mod fields;
mod guard;
pub(crate) mod page;
mod text;

use std::sync::Arc;

pub(crate) use self::fetch::get;
pub use self::fetch::{Blocking, Fetch, Fetching, Response};
pub(crate) use self::guard::guarded;
pub use self::page::{Capture, Fields, OnPage, Parse, Reply};
use crate::record;

/// The hooks of a crawl; without any it is what `fm-crawl` does.
///
/// ```
/// use crawl::hooks::Hooks;
/// use crawl::{BoxError, Capture, Reply};
/// fn count(page: &Capture<'_>) -> Result<Reply, BoxError> {
///     Ok(Reply::new().field("bytes", page.page.body.len().to_string()))
/// }
/// let hooks = Hooks { on_page: vec![std::sync::Arc::new(count)], ..Hooks::default() };
/// assert!(hooks.fetch.is_none() && hooks.parse.is_none() && !hooks.edges);
/// ```
#[derive(Clone, Default)]
pub struct Hooks {
    /// Fetches pages instead of the crawl.
    pub fetch: Option<Arc<dyn Fetch>>,
    /// Finds their links instead of the crawl.
    pub parse: Option<Arc<dyn Parse>>,
    /// Look at each page, in this order.
    pub on_page: Vec<Arc<dyn OnPage>>,
    /// Whether visits tell the edges of their pages.
    pub edges: bool,
}

impl Hooks {
    /// What all hooks say of a page; a word for each that fails, and for each field that no note
    /// can have.
    pub(crate) fn look(&self, capture: &Capture<'_>) -> (Reply, Vec<String>) {
        let (mut reply, mut failed) = (Reply::new(), Vec::new());
        let mut fields = capture.fields.clone();
        for hook in &self.on_page {
            match guarded(|| hook.on_page(&Capture { fields: &fields, ..*capture })) {
                Ok(mut said) => {
                    let unnamed = said.fields.extract_if(.., |name, _| !record::is_field_name(name));
                    failed.extend(unnamed.map(|(name, _)| format!("`{}` is no name of a field", name.escape_debug())));
                    fields.extend(said.fields.clone());
                    reply.add(said);
                }
                Err(why) => failed.push(why),
            }
        }
        reply.fields = fields;
        (reply, failed)
    }
}
