//! Upload of an archive file: imported on a separate thread while it arrives, with one line of
//! response for each record.

use std::ops::ControlFlow;
use std::sync::Arc;

use axum::body::Body;
use axum::http::StatusCode;
use filemap::import::{self, ImportOptions, ImportProgress, ImportReport, ImportWatch, ImportedRecord};
use filemap::page::RecordKind;
use filemap::store::RevisitCount;
use filemap::{Error, PageStore, Result};
use serde_json::json;
use tokio::task::spawn_blocking;

use super::super::backend::Backend;
use super::super::pages::upload::{self, Upload};
use super::super::refusal::Refusal;
use super::arriving::Arriving;
use super::told::{self, Telling, Told};
use crate::query::Query;
use crate::wire::upload::{RecordLine, count, sums};

/// The name of the file in problems.
const NAME: &str = "the file sent";

/// Format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// WARC or ARC, read while it arrives.
    Warc,
    /// WACZ: its directory is at its end, so the file is spooled first.
    Wacz,
}

/// Import options from a query.
///
/// # Errors
///
/// The invalid parameter, as a message.
pub(super) fn options(query: &Query) -> std::result::Result<ImportOptions, String> {
    let mut options = ImportOptions::new();
    if query.switch("as_received")? == Some(true) {
        options = options.as_received();
    }
    let kinds = query.read("keep", "request, metadata or conversion, or several with commas between", |text| {
        let kinds: Option<Vec<RecordKind>> = text.split(',').map(RecordKind::named).collect();
        kinds.filter(|kinds| kinds.iter().all(|kind| !kind.is_page()))
    })?;
    Ok(kinds.into_iter().flatten().fold(options, ImportOptions::keep))
}

/// An uploaded file.
enum Sent {
    Arriving(Arriving),
    Aside(Upload),
}

/// Begins to import a file, and returns the response.
///
/// # Errors
///
/// Those of spooling a WACZ file; 415 if a WACZ file is called WARC.
pub(super) async fn take(
    backend: &Arc<Backend>,
    body: Body,
    form: Form,
    options: ImportOptions,
    is_durable: bool,
) -> std::result::Result<Body, Refusal> {
    let turn = || async {
        let closed = || Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "the server is shutting down");
        backend.upload().await.ok_or_else(closed)
    };
    let (sent, turn) = match form {
        Form::Wacz => {
            let file = upload::take(body).await?;
            (Sent::Aside(file), turn().await?)
        }
        Form::Warc => {
            let turn = turn().await?;
            let file = Arriving::begin(body, Arc::clone(backend)).await;
            if import::is_zip(file.first_bytes()) {
                let words = "this is a zip file, not a WARC file: send a WACZ file as `application/wacz`";
                return Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, words));
            }
            (Sent::Arriving(file), turn)
        }
    };
    let told = Arc::new(Told::new());
    let answer = told::body(Arc::clone(&told), Arc::clone(backend), is_durable);
    let backend = Arc::clone(backend);
    spawn_blocking(move || {
        let _turn = turn;
        let watch = Watch { backend, telling: Telling(told), so_far: ImportReport::default() };
        import_all(watch, sent, &options, is_durable);
    });
    Ok(answer)
}

/// Imports a file to the end, and reports on it.
fn import_all(mut watch: Watch, sent: Sent, options: &ImportOptions, is_durable: bool) {
    let store = watch.backend.direct();
    let imported = match sent {
        Sent::Arriving(file) => import::import_into(&mut |_| Ok(store.clone()), NAME, file, options, &mut watch),
        Sent::Aside(file) => import_aside(&store, file, options, &mut watch),
    };
    let counted = imported.and_then(|mut report| {
        let revisits = std::mem::take(&mut report.unresolved).count(&store)?;
        Ok((report, revisits))
    });
    let (mut report, revisits, is_whole) = match counted {
        Ok((report, revisits)) => {
            let is_whole = !report.is_cancelled;
            (report, revisits, is_whole)
        }
        Err(error) => {
            watch.backend.log(&format!("an upload was imported only in part: {error}"));
            watch.telling.0.tell(&json!({ "error": error.to_string() }));
            (std::mem::take(&mut watch.so_far), RevisitCount::default(), false)
        }
    };
    watch.telling.0.tell(&sums(&mut report, &revisits, is_whole, is_durable));
}

fn import_aside(
    store: &PageStore,
    mut file: Upload,
    options: &ImportOptions,
    watch: &mut Watch,
) -> Result<ImportReport> {
    let begin = file.begin(4).map_err(|source| Error::Read { what: NAME.to_owned(), offset: 0, source })?;
    let mut stores = |_: &[u8]| Ok(store.clone());
    if import::is_zip(&begin) {
        import::import_wacz_into(&mut stores, NAME, file, options, watch)
    } else {
        import::import_into(&mut stores, NAME, file, options, watch)
    }
}

/// Reports the outcome of each record.
struct Watch {
    backend: Arc<Backend>,
    telling: Telling,
    /// Counts for the sums, if the file is not read to its end.
    so_far: ImportReport,
}

impl ImportWatch for Watch {
    fn progress(&mut self, at: ImportProgress) -> ControlFlow<()> {
        (self.so_far.bytes_read, self.so_far.records) = (at.bytes_read, at.records);
        if self.backend.is_stopping() || self.telling.0.has_failed() {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    fn record(&mut self, record: &ImportedRecord<'_>) {
        count(&mut self.so_far, &record.fate);
        self.telling.0.tell(&RecordLine::new(record, NAME));
    }
}
