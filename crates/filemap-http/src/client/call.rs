//! Requests to a server, and what failed about them: an absent page is no failure, another
//! server's `Not Found` is one.

use std::io::{self, Read};
use std::time::Duration;

use filemap::{Error, Result};
use serde::de::DeserializeOwned;
use ureq::http::{Response, header};
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, Body, SendBody};

use super::options::ClientOptions;
use crate::wire::Problem;

/// How long is waited for a connection, and for the head of an answer.
const CONNECT: Duration = Duration::from_secs(30);
const ANSWER: Duration = Duration::from_secs(300);
/// The longest answer that is read into memory: a part of a list, a problem.
const MAX_JSON: u64 = 256 << 20;

/// The way to one server.
#[derive(Debug)]
pub(super) struct Connection {
    agent: Agent,
    location: String,
    authorization: Option<String>,
}

/// An answer that is none of an absent page.
pub(super) struct Found {
    pub(super) body: Box<dyn Read + Send + 'static>,
}

/// The certificates of a text in PEM.
fn trusted(pem: &[u8], location: &str) -> Result<RootCerts> {
    let none = |detail: String| Error::Remote { location: location.to_owned(), status: None, detail };
    let mut certificates = Vec::new();
    for item in parse_pem(pem) {
        match item.map_err(|error| none(format!("the certificates to trust: {error}")))? {
            PemItem::Certificate(certificate) => certificates.push(certificate),
            _ => return Err(none("the certificates to trust: something else is among them".to_owned())),
        }
    }
    if certificates.is_empty() {
        return Err(none("there are no certificates in PEM to trust".to_owned()));
    }
    Ok(RootCerts::new_with_certs(&certificates))
}

impl Connection {
    /// # Errors
    ///
    /// [`Error::Remote`] if the certificates to trust are none.
    pub(super) fn new(location: &str, options: &ClientOptions) -> Result<Connection> {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_connect(Some(CONNECT))
            .timeout_recv_response(Some(ANSWER))
            .max_redirects(0)
            .user_agent(concat!("filemap/", env!("CARGO_PKG_VERSION")));
        let location = location.trim_end_matches('/').to_owned();
        let config = match options.authorities.as_slice() {
            [] => config,
            pem => config.tls_config(TlsConfig::builder().root_certs(trusted(pem, &location)?).build()),
        };
        let authorization = options.token.as_ref().map(|token| format!("Bearer {token}"));
        Ok(Connection { agent: config.build().into(), location, authorization })
    }

    pub(super) fn location(&self) -> &str {
        &self.location
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.location)
    }

    /// `None` if there is no such page.
    pub(super) fn get(&self, path: &str) -> Result<Option<Found>> {
        let request = self.agent.get(self.url(path));
        let request =
            self.authorization.iter().fold(request, |request, value| request.header(header::AUTHORIZATION, value));
        self.unless_absent(request.call())
    }

    pub(super) fn delete(&self, path: &str) -> Result<Option<Found>> {
        let request = self.agent.delete(self.url(path));
        let request =
            self.authorization.iter().fold(request, |request, value| request.header(header::AUTHORIZATION, value));
        self.unless_absent(request.call())
    }

    /// A body of `bytes`.
    pub(super) fn put(&self, path: &str, kind: &str, bytes: u64, body: &mut dyn Read) -> Result<Found> {
        let request = self.agent.put(self.url(path)).header(header::CONTENT_TYPE, kind);
        let request = request.header(header::CONTENT_LENGTH, bytes.to_string());
        let request =
            self.authorization.iter().fold(request, |request, value| request.header(header::AUTHORIZATION, value));
        let mut body = body;
        self.found(request.send(SendBody::from_reader(&mut body)))
    }

    pub(super) fn post(&self, path: &str) -> Result<Found> {
        let request = self.agent.post(self.url(path));
        let request =
            self.authorization.iter().fold(request, |request, value| request.header(header::AUTHORIZATION, value));
        self.found(request.send_empty())
    }

    /// An answer as JSON; `None` if there is no such page.
    pub(super) fn json<T: DeserializeOwned>(&self, path: &str) -> Result<Option<T>> {
        self.get(path)?.map(|found| self.read_json(found)).transpose()
    }

    pub(super) fn read_json<T: DeserializeOwned>(&self, found: Found) -> Result<T> {
        let mut bytes = Vec::new();
        found.body.take(MAX_JSON).read_to_end(&mut bytes).map_err(|error| self.broken(&error))?;
        serde_json::from_slice(&bytes).map_err(|error| self.strange(&error.to_string()))
    }

    fn unless_absent(&self, answer: std::result::Result<Response<Body>, ureq::Error>) -> Result<Option<Found>> {
        self.answered(answer).map(|answer| answer.ok())
    }

    fn found(&self, answer: std::result::Result<Response<Body>, ureq::Error>) -> Result<Found> {
        let there = self.answered(answer)?;
        there.map_err(|problem| self.failed(problem.status, problem.detail))
    }

    /// The answer, or that the page is absent. Another server's `Not Found` is neither.
    fn answered(
        &self,
        answer: std::result::Result<Response<Body>, ureq::Error>,
    ) -> Result<std::result::Result<Found, Problem>> {
        let (head, body) = answer.map_err(|error| self.unreached(&error))?.into_parts();
        let body: Box<dyn Read + Send> = Box::new(body.into_reader());
        if head.status.is_success() {
            return Ok(Ok(Found { body }));
        }
        let mut text = Vec::new();
        let _ = body.take(MAX_JSON).read_to_end(&mut text);
        let detail = match serde_json::from_slice::<Problem>(&text) {
            Ok(problem) if problem.is_absent => return Ok(Err(problem)),
            Ok(problem) => problem.detail,
            Err(_) => format!("it answers {}, and in no words of a store's server", head.status),
        };
        Err(self.failed(head.status.as_u16(), detail))
    }

    /// What the server said.
    pub(super) fn failed(&self, status: u16, detail: String) -> Error {
        Error::Remote { location: self.location.clone(), status: Some(status), detail }
    }

    fn unreached(&self, error: &ureq::Error) -> Error {
        Error::Remote { location: self.location.clone(), status: None, detail: error.to_string() }
    }

    /// An answer broke off.
    pub(super) fn broken(&self, error: &io::Error) -> Error {
        let detail = format!("the answer breaks off: {error}");
        Error::Remote { location: self.location.clone(), status: None, detail }
    }

    /// An answer is not what a server of a store sends.
    pub(super) fn strange(&self, what: &str) -> Error {
        let detail = format!("this is no answer of a store's server: {what}");
        Error::Remote { location: self.location.clone(), status: None, detail }
    }
}
