//! Revisits without a body: the last message of `import` and `verify`.

use filemap::store::RevisitCount;
use fm_cli::plain;
use fm_cli::words::{self, complain};

/// Reports revisits that have no body because their original is not in the store.
pub fn say_unresolved(count: Option<&RevisitCount>) {
    let Some(count) = count.filter(|count| count.unresolved > 0) else { return };
    let urls: Vec<String> = count.urls.iter().take(3).map(|url| plain(url)).collect();
    complain(format_args!(
        "no body for {} of {}: the original is missing from the store: {}{}; import the files that have it",
        count.unresolved,
        words::count(count.revisits, "revisit"),
        urls.join(" "),
        if count.unresolved > urls.len() as u64 { " ..." } else { "" },
    ));
}
