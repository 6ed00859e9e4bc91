//! `count`: how many pages, or versions, there are now. Reads key.dat from front to back, and no value.

use std::path::PathBuf;

use serde_json::json;

use crate::cli::Shared;
use crate::outcome::{Failure, Outcome};
use crate::output::Output;
use crate::progress::Progress;
use crate::selection::Selection;
use crate::{interrupt, opening, words};

/// Count pages, or their versions
#[derive(clap::Args)]
#[command(
    after_help = "Reads key.dat once, some 100 bytes a page, whatever is chosen, and no page; --versions adds one\n\
    small read for each version. `stat` tells about how many keys there are without reading anything.\n\n\
    Example:\n  fm-tool count pages.fm --host example.com"
)]
pub struct Args {
    /// The store's folder
    store: PathBuf,
    #[command(flatten)]
    selection: Selection,
    /// Count every version of a page
    #[arg(long)]
    versions: bool,
}

/// Runs the verb.
pub fn run(args: &Args, shared: &Shared) -> Result<Outcome, Failure> {
    let store = opening::to_read(&args.store, shared)?;
    interrupt::listen();
    let expected = args.selection.expected(&store);
    let progress = Progress::records(shared, expected, "pages");
    let (mut pages, mut versions, mut outcome) = (0_u64, 0_u64, Outcome::Done);
    for url in store.urls_where(args.selection.filter()) {
        if interrupt::asked() {
            drop(progress);
            let met = words::count(pages, "page");
            return Ok(interrupt::outcome(format_args!("{met} met so far, of an unknown number; count again")));
        }
        let counted = url.and_then(|url| if args.versions { store.version_count(&url) } else { Ok(1) });
        match counted.map_err(Failure::from) {
            // Removed since it was listed.
            Ok(0) => {}
            Ok(number) => {
                pages += 1;
                versions += number;
            }
            Err(failure) => progress.pass_over(failure, &mut outcome)?,
        }
        progress.add();
    }
    drop(progress);
    let mut out = Output::stdout(shared.json);
    match (out.is_json(), args.versions) {
        (true, true) => out.json(&json!({ "pages": pages, "versions": versions }))?,
        (true, false) => out.json(&json!({ "pages": pages }))?,
        (false, true) => out.line(versions.to_string())?,
        (false, false) => out.line(pages.to_string())?,
    }
    out.finish()?;
    Ok(outcome)
}
