//! The server that an application would write over SQLite: pages behind axum, compressed by zstd.
//! `benches/serving.py` measures it beside `fm-serve`.
//!
//!     sqlite_http DATABASE ADDRESS [--group]
//!
//! `GET` and `PUT` of `/v1/page?url=` as in `fm-serve`. SQLite runs with a write-ahead log, a map
//! of the file and prepared statements; a read is done where the request is, as `fm-serve` does.
//! A `PUT` is answered when it is durable (`synchronous=FULL`): one transaction each, or with
//! `--group` one for all that wait.

use std::cell::RefCell;
use std::error::Error;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use rusqlite::{Connection, OptionalExtension, params};
use tokio::sync::oneshot;

type Failure = Box<dyn Error + Send + Sync>;

/// The level of the engine's own default.
const LEVEL: i32 = 3;
/// Most puts of one transaction.
const GROUP: usize = 256;

/// A connection for reading, and a decompressor.
type Reader = (Connection, zstd::bulk::Decompressor<'static>);

thread_local! {
    static READER: RefCell<Option<Reader>> = const { RefCell::new(None) };
}

#[derive(serde::Deserialize)]
struct Asked {
    url: String,
}

struct NewPage {
    url: String,
    bytes: usize,
    body: Vec<u8>,
    kind: String,
    done: oneshot::Sender<bool>,
}

struct Server {
    database: String,
    puts: Sender<NewPage>,
}

fn open(database: &str) -> rusqlite::Result<Connection> {
    let connection = Connection::open(database)?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "synchronous", "full")?;
    connection.pragma_update(None, "mmap_size", 1_i64 << 32)?;
    connection.execute_batch(
        "create table if not exists pages (url text primary key, kind text, bytes integer, body blob)",
    )?;
    Ok(connection)
}

/// The type and body of a page.
type Page = (String, Vec<u8>);

fn find(database: &str, url: &str) -> Result<Option<Page>, Failure> {
    READER.with_borrow_mut(|reader| {
        if reader.is_none() {
            *reader = Some((open(database)?, zstd::bulk::Decompressor::new()?));
        }
        let Some((connection, decompressor)) = reader else { return Ok(None) };
        let mut select = connection.prepare_cached("select kind, bytes, body from pages where url = ?")?;
        let found = select.query_row([url], |row| {
            let body = row.get_ref(2)?.as_blob()?;
            let body = decompressor.decompress(body, row.get::<_, i64>(1)? as usize);
            Ok((row.get(0)?, body))
        });
        let Some((kind, body)) = found.optional()? else { return Ok(None) };
        Ok(Some((kind, body?)))
    })
}

async fn read(State(server): State<Arc<Server>>, Query(asked): Query<Asked>) -> Response {
    match find(&server.database, &asked.url) {
        Ok(Some((kind, body))) => ([(CONTENT_TYPE, kind)], body).into_response(),
        Ok(None) => StatusCode::NOT_FOUND.into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

async fn write(State(server): State<Arc<Server>>, Query(asked): Query<Asked>, body: Bytes) -> StatusCode {
    let Ok(compressed) = zstd::bulk::compress(&body, LEVEL) else { return StatusCode::INTERNAL_SERVER_ERROR };
    let (done, written) = oneshot::channel();
    let page = NewPage { url: asked.url, bytes: body.len(), body: compressed, kind: "text/html".to_owned(), done };
    if server.puts.send(page).is_err() {
        return StatusCode::INTERNAL_SERVER_ERROR;
    }
    match written.await {
        Ok(true) => StatusCode::CREATED,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// The one connection that writes.
fn put_all(mut connection: Connection, puts: &Receiver<NewPage>, most: usize) -> rusqlite::Result<()> {
    while let Ok(first) = puts.recv() {
        let mut pages = vec![first];
        while pages.len() < most
            && let Ok(page) = puts.try_recv()
        {
            pages.push(page);
        }
        let transaction = connection.transaction()?;
        {
            let mut insert = transaction.prepare_cached("insert or replace into pages values (?, ?, ?, ?)")?;
            for page in &pages {
                insert.execute(params![page.url, page.kind, page.bytes as i64, page.body])?;
            }
        }
        transaction.commit()?;
        for page in pages {
            // Its client may have left.
            let _ = page.done.send(true);
        }
    }
    Ok(())
}

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let (Some(database), Some(address)) = (arguments.next(), arguments.next()) else {
        return Err("usage: sqlite_http DATABASE ADDRESS [--group]".into());
    };
    let most = if arguments.next().as_deref() == Some("--group") { GROUP } else { 1 };
    let connection = open(&database)?;
    let (puts, waiting) = channel();
    std::thread::spawn(move || {
        if let Err(error) = put_all(connection, &waiting, most) {
            eprintln!("sqlite_http: {error}");
        }
    });
    let server = Arc::new(Server { database, puts });
    let router = Router::new().route("/v1/page", get(read).put(write)).with_state(server);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind(address).await?;
        axum::serve(listener, router).await
    })?;
    Ok(())
}
