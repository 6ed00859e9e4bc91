//! Over TLS, pages are fetched with HTTP/2 if the server offers it, and only from trusted servers.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::web::crawl::Bench;
use bytes::Bytes;
use filemap::page::HttpVersion;
use http_body_util::Full;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use rustls::pki_types::PrivatePkcs8KeyDer;
use tokio_rustls::TlsAcceptor;

/// A server for `secure.test` with this certificate; it runs as long as the process.
pub fn serve(certificate: &rcgen::CertifiedKey<rcgen::KeyPair>) -> SocketAddr {
    let key = PrivatePkcs8KeyDer::from(certificate.signing_key.serialize_der()).into();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let mut config = builder.with_no_client_auth().with_single_cert(vec![certificate.cert.der().clone()], key).unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            tell.send(listener.local_addr().unwrap()).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let builder = auto::Builder::new(TokioExecutor::new());
                    let _ = builder.serve_connection(TokioIo::new(stream), service_fn(answer)).await;
                });
            }
        });
    });
    told.recv().unwrap()
}

async fn answer(request: Request<hyper::body::Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (status, body) = match request.uri().path() {
        "/" => (200, "<a href=/second>x</a>"),
        "/second" => (200, "<p>the second page"),
        _ => (404, ""),
    };
    let answer = Response::builder().status(status).header("content-type", "text/html");
    Ok(answer.body(Full::from(body)).unwrap())
}

#[test]
fn pages_come_by_http_2_and_only_from_trusted_servers() {
    let certificate = rcgen::generate_simple_self_signed(["secure.test".to_owned()]).unwrap();
    let resolve = format!("--resolve=*:443:{}", serve(&certificate));
    let bench = Bench::new();
    std::fs::write(bench.path("root.pem"), certificate.cert.pem()).unwrap();
    let root = format!("--ca={}", bench.path("root.pem").display());
    let arguments = ["--seed=https://secure.test/", "--allow-private", "--rate=0", "--json", &resolve, &root];
    let end = bench.run("run", &arguments).ended(0).json();
    assert_eq!(end["fetched"], 2, "{end}");
    let page = &bench.pages()["https://secure.test/second"];
    assert_eq!(
        (page.http_version.as_ref(), page.body.as_slice()),
        (Some(&HttpVersion::Http2), &b"<p>the second page"[..])
    );

    let untrusting = Bench::new();
    let arguments = ["--seed=https://secure.test/", "--allow-private", "--patience=1s", "--json", &resolve];
    let end = untrusting.run("run", &arguments).ended(1).json();
    assert_eq!((&end["fetched"], &end["reasons"]["tls"]), (&0.into(), &1.into()), "{end}");
}
