//! Connections: accepting, TLS, serving, draining.
//!
//! HTTP/1.1 only: newer versions need a proxy in front. Limits of a connection: the time for a
//! request's head, for the next part of its body, and for taking the next part of a response while
//! sending nothing; bytes and number of its headers.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::backend::Backend;
use super::hour;
use super::patient::Patient;
use super::routes::Server;

/// The longest head of a request, in bytes, and the most headers in it.
const MAX_HEAD: usize = 128 << 10;
const MAX_HEADERS: usize = 256;
/// Time limit for running requests when the server stops.
const DRAIN: Duration = Duration::from_secs(30);
/// Number of points of the last hour between two samples of the value log, and bytes of a sample.
const SAMPLED: u32 = 60;
const SAMPLE_BYTES: u64 = 16 << 20;
/// Pause when no connection can be accepted for lack of file descriptors.
const PAUSE: Duration = Duration::from_millis(50);

impl Server {
    /// Serves connections until `stop` resolves. Then accepts no more, waits up to 30 s for
    /// running requests, and closes the store and the seen sets.
    ///
    /// # Errors
    ///
    /// Those of closing the store.
    pub async fn serve(
        self,
        listener: TcpListener,
        tls: Option<Arc<ServerConfig>>,
        stop: impl Future<Output = ()>,
    ) -> filemap::Result<()> {
        let backend = Arc::clone(&self.backend);
        let router = self.router();
        let tls = tls.map(TlsAcceptor::from);
        let graceful = GracefulShutdown::new();
        let room = Arc::new(Semaphore::new(backend.options.max_connections));
        let mut stop = pin!(stop);
        let keeping = tokio::spawn(keep_hour(Arc::clone(&backend)));
        loop {
            let accepted = async {
                let place = Arc::clone(&room).acquire_owned().await;
                (listener.accept().await, place)
            };
            let (accepted, place) = tokio::select! {
                () = &mut stop => break,
                accepted = accepted => accepted,
            };
            let stream = match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    backend.log(&format!("a connection could not be accepted: {error}"));
                    sleep(PAUSE).await;
                    continue;
                }
            };
            let (service, tls) = (TowerToHyperService::new(router.clone()), tls.clone());
            let (watched, idle) = (graceful.watcher(), backend.options.idle);
            let _ = stream.set_nodelay(true);
            match tls {
                None => drop(tokio::spawn(connection(stream, service, watched, idle).map(|_| drop(place)))),
                Some(tls) => drop(tokio::spawn(async move {
                    let _place = place;
                    // A client that fails here has sent no request.
                    if let Ok(Ok(stream)) = timeout(idle, tls.accept(stream)).await {
                        let _ = Box::pin(connection(stream, service, watched, idle)).await;
                    }
                })),
            }
        }
        drop(listener);
        keeping.abort();
        backend.drain();
        if timeout(DRAIN, graceful.shutdown()).await.is_err() {
            backend.log(&format!("requests still running after {} s were cut off", DRAIN.as_secs()));
        }
        // An upload still running has lost its client.
        backend.stop();
        backend.uploads_ended().await;
        let (closed, seen) = (backend.whole.clone().close().await, Arc::clone(&backend.options.seen));
        // The sets log their own failures.
        let _ = spawn_blocking(move || seen.close()).await;
        closed
    }
}

/// Adds a point of the last hour every ten seconds, and sometimes samples compression.
async fn keep_hour(backend: Arc<Backend>) {
    let mut ticks = interval(hour::EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for tick in 0_u32.. {
        ticks.tick().await;
        if tick.is_multiple_of(SAMPLED) {
            let sample = backend.whole.call(|store| Ok(store.engine().sample_compression(SAMPLE_BYTES)?)).await;
            match sample {
                Ok(sample) => backend.note_sample(sample),
                Err(error) => backend.log(&format!("sampling of body compression failed: {error}")),
            }
        }
        // A store that fails gets no point; requests to it report the error.
        if let Ok(stats) = backend.whole.call(|store| Ok(store.engine().stats())).await {
            backend.hour.note(&stats);
        }
    }
}

/// Serves a connection. Fails if the client disconnects, is too slow, or does not speak HTTP;
/// hyper responds where it can.
///
/// Not an `async fn`: its future would hold each of these several times, 3 KB per idle connection.
fn connection<S>(
    stream: S,
    service: TowerToHyperService<axum::Router>,
    watcher: Watcher,
    idle: Duration,
) -> impl Future<Output = hyper::Result<()>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(idle).max_buf_size(MAX_HEAD).max_headers(MAX_HEADERS);
    // A read waits for the next request without a timeout: the builder has one.
    watcher.watch(builder.serve_connection(TokioIo::new(Patient::new(stream, idle)), service))
}
