//! Hooks, by which a caller of the library extends a crawl: a custom fetcher, custom link
//! extraction, a callback for each page.
//!
//! A hook blocks only its own visit: at most as many run at once as the crawl has connections. A
//! failure or panic loses nothing: the page is kept as if there were no hook, and the failure is
//! counted by name ([`crate::Reason::HookFailed`]) and reported with its message.

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

/// The hooks of a crawl; `fm-crawl` uses none of its own.
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
    /// Replaces the crawl's fetcher of pages.
    pub fetch: Option<Arc<dyn Fetch>>,
    /// Replaces the crawl's link extraction.
    pub parse: Option<Arc<dyn Parse>>,
    /// Called for each page, in this order.
    pub on_page: Vec<Arc<dyn OnPage>>,
    /// True if visits report the edges of their pages.
    pub edges: bool,
}

impl Hooks {
    /// The combined reply of all hooks about a page; and a message for each hook that fails, and
    /// each field with an invalid name.
    pub(crate) fn look(&self, capture: &Capture<'_>) -> (Reply, Vec<String>) {
        let (mut reply, mut failed) = (Reply::new(), Vec::new());
        let mut fields = capture.fields.clone();
        for hook in &self.on_page {
            match guarded(|| hook.on_page(&Capture { fields: &fields, ..*capture })) {
                Ok(mut said) => {
                    let unnamed = said.fields.extract_if(.., |name, _| !record::is_field_name(name));
                    failed.extend(unnamed.map(|(name, _)| format!("`{}` is not a field name", name.escape_debug())));
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
