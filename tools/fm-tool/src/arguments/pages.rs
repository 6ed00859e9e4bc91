//! Arguments of verbs that look up pages by URL, and the store that they search.

use std::path::PathBuf;

use filemap::{PageRead, Variant};
use fm_cli::{Failure, interrupt};

use crate::arguments::urls::{UrlArgs, Urls};
use crate::arguments::variant::VariantArgs;
use crate::flags::Shared;
use crate::stores::opening;

/// A store, URLs, and their variant.
#[derive(clap::Args)]
pub struct PageArgs {
    /// The store's folder, or a server's address
    pub store: PathBuf,
    #[command(flatten)]
    urls: UrlArgs,
    #[command(flatten)]
    variant: VariantArgs,
}

/// The store, variant and URLs that [`PageArgs`] name, opened.
pub struct Asked {
    /// The store.
    pub store: Box<dyn PageRead>,
    /// The variant; none for the page itself.
    pub variant: Option<Variant>,
    /// The URLs.
    pub urls: Urls,
}

impl PageArgs {
    /// Opens the store to read, and listens for Ctrl-C. Wrong arguments are reported first.
    ///
    /// # Errors
    /// Errors of the arguments, of the list of URLs and of the store.
    pub fn open(&self, shared: &Shared) -> Result<Asked, Failure> {
        let variant = self.variant.of(&self.urls)?;
        let urls = self.urls.open()?;
        let store = opening::to_read(&self.store, shared)?;
        interrupt::listen();
        Ok(Asked { store, variant, urls })
    }
}
