//! Requests to a server and their errors. A missing page is not an error; a `Not Found` of another
//! server is one.

use std::io::{self, Read};
use std::time::Duration;

use filemap::{Error, Result};
use filemap_core::Error as EngineError;
use serde::de::DeserializeOwned;
use ureq::http::{Response, StatusCode, header};
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, Body, RequestBuilder, SendBody};

use super::options::ClientOptions;
use crate::wire::Problem;

/// Timeouts for connecting and for the head of a response.
const CONNECT: Duration = Duration::from_secs(30);
const ANSWER: Duration = Duration::from_secs(300);
/// Time to wait for `100 Continue` before the body is sent anyway.
const CONSENT: Duration = Duration::from_secs(5);
/// Longest silence within a response: a server that waits sends empty lines as keep-alives.
const SILENCE: Duration = Duration::from_secs(120);
/// Idle connections kept for reuse: this many threads may use one client without opening a
/// connection for each request.
const IDLE: usize = 128;
/// Longest response read into memory, such as a part of a list or a problem.
const MAX_JSON: u64 = 256 << 20;

/// HTTP access to one server.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    agent: Agent,
    location: String,
    authorization: Option<String>,
}

/// A successful response.
pub(super) struct Found {
    pub(super) body: Box<dyn Read + Send + 'static>,
}

/// A successful response, or the refusal of a request.
pub(super) enum Answered {
    Found(Found),
    /// The request was refused: status and reason.
    Refused(StatusCode, String),
}

/// Parses root certificates from PEM.
fn trusted(pem: &[u8], location: &str) -> Result<RootCerts> {
    let none = |detail: String| {
        let location = location.to_owned();
        Error::Remote { location, detail, is_damage: false, is_of_one_page: false }
    };
    let mut certificates = Vec::new();
    for item in parse_pem(pem) {
        match item.map_err(|error| none(format!("the certificates to trust: {error}")))? {
            PemItem::Certificate(certificate) => certificates.push(certificate),
            _ => return Err(none("the certificates to trust: not all of the PEM is certificates".to_owned())),
        }
    }
    if certificates.is_empty() {
        return Err(none("there are no certificates in PEM to trust".to_owned()));
    }
    Ok(RootCerts::new_with_certs(&certificates))
}

/// # Errors
///
/// [`Error::Remote`] for an address with a user or a password, which would end up in logs.
fn check_location(location: &str) -> Result<()> {
    let (scheme, rest) = location.split_once("://").unwrap_or(("", location));
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let Some((_, host)) = authority.rsplit_once('@') else { return Ok(()) };
    Err(Error::Remote {
        location: format!("{scheme}://{host}{path}"),
        detail: "an address must have no user and no password: give the token separately".to_owned(),
        is_damage: false,
        is_of_one_page: false,
    })
}

impl Connection {
    /// # Errors
    ///
    /// [`Error::Remote`] if the certificates to trust are invalid, or the address has a password.
    pub(super) fn new(location: &str, options: &ClientOptions) -> Result<Connection> {
        Connection::with_limit(location, options, None)
    }

    /// A connection with a time limit for each call, its response included.
    pub(super) fn with_limit(location: &str, options: &ClientOptions, limit: Option<Duration>) -> Result<Connection> {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_connect(Some(CONNECT))
            .timeout_recv_response(Some(ANSWER))
            .timeout_per_call(limit)
            .timeout_per_read(Some(ANSWER))
            .max_redirects(0)
            .max_idle_connections(IDLE)
            .max_idle_connections_per_host(IDLE)
            .user_agent(concat!("filemap/", env!("CARGO_PKG_VERSION")));
        check_location(location)?;
        let location = location.trim_end_matches('/').to_owned();
        let config = match options.authorities.as_slice() {
            [] => config,
            pem => config.tls_config(TlsConfig::builder().root_certs(trusted(pem, &location)?).build()),
        };
        let authorization = options.token.as_ref().map(|token| format!("Bearer {token}"));
        Ok(Connection { agent: config.build().into(), location, authorization })
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.location)
    }

    fn with_token<B>(&self, request: RequestBuilder<B>) -> RequestBuilder<B> {
        self.authorization.iter().fold(request, |request, value| request.header(header::AUTHORIZATION, value))
    }

    /// `None` if there is no such page.
    pub(super) fn get(&self, path: &str) -> Result<Option<Found>> {
        let request = self.agent.get(self.url(path));
        let request = self.with_token(request);
        self.unless_absent(request.call())
    }

    /// Gets a long-running response with a silence timeout, or why the request was refused.
    pub(super) fn get_unless_refused(&self, path: &str) -> Result<Answered> {
        let request = self.agent.get(self.url(path)).config().timeout_per_read(Some(SILENCE)).build();
        let answer = self.with_token(request).call();
        self.unless_refused(answer)
    }

    pub(super) fn delete(&self, path: &str) -> Result<Option<Found>> {
        let request = self.agent.delete(self.url(path));
        let request = self.with_token(request);
        self.unless_absent(request.call())
    }

    pub(super) fn delete_unless_refused(&self, path: &str) -> Result<Answered> {
        let request = self.agent.delete(self.url(path));
        let answer = self.with_token(request).call();
        self.unless_refused(answer)
    }

    /// Puts a page; `bytes` is the length of `body`. With `asks`, sends the body after `100
    /// Continue`: the server may refuse it.
    pub(super) fn put(&self, path: &str, (kind, asks): (&str, bool), bytes: u64, body: &mut dyn Read) -> Result<Found> {
        let request = self.agent.put(self.url(path)).header(header::CONTENT_TYPE, kind);
        let request = request.header(header::CONTENT_LENGTH, bytes.to_string());
        let request = if asks { request.header(header::EXPECT, "100-continue") } else { request };
        let consent = asks.then_some(CONSENT);
        let request = self.with_token(request).config().timeout_await_100(consent).build();
        let mut body = body;
        self.found(request.send(SendBody::from_reader(&mut body)))
    }

    /// Puts a short JSON body.
    pub(super) fn put_json(&self, path: &str, json: &str) -> Result<Answered> {
        let request = self.agent.put(self.url(path)).header(header::CONTENT_TYPE, "application/json");
        let answer = self.with_token(request).send(json);
        self.unless_refused(answer)
    }

    pub(super) fn post(&self, path: &str) -> Result<Found> {
        let request = self.agent.post(self.url(path));
        let request = self.with_token(request);
        self.found(request.send_empty())
    }

    /// Posts a body of any length; waits for `100 Continue`, so that the server can refuse early.
    pub(super) fn post_file(&self, path: &str, kind: &str, body: &mut dyn Read) -> Result<Answered> {
        let request = self.agent.post(self.url(path)).header(header::CONTENT_TYPE, kind);
        let request = self.with_token(request.header(header::EXPECT, "100-continue"));
        let request = request.config().timeout_await_100(Some(CONSENT)).build();
        let mut body = body;
        let answer = request.send(SendBody::from_reader(&mut body));
        self.unless_refused(answer)
    }

    /// Posts lines; with an idempotency key they may be sent again.
    pub(super) fn post_lines(&self, path: &str, id: Option<&str>, lines: &[u8]) -> Result<Answered> {
        let request = self.agent.post(self.url(path)).header(header::CONTENT_TYPE, "text/plain; charset=utf-8");
        let request = id.into_iter().fold(request, |request, id| request.header("idempotency-key", id));
        let answer = self.with_token(request).send(lines);
        self.unless_refused(answer)
    }

    /// Separates refusals, which are final, from errors that a retry may overcome.
    fn unless_refused(&self, answer: std::result::Result<Response<Body>, ureq::Error>) -> Result<Answered> {
        let status = answer.as_ref().map_or(StatusCode::OK, Response::status);
        let may_pass = [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_MANY_REQUESTS];
        let is_final =
            (status.is_client_error() && !may_pass.contains(&status)) || status == StatusCode::NOT_IMPLEMENTED;
        if !is_final {
            return self.found(answer).map(Answered::Found);
        }
        match self.refused(answer)? {
            // Without a problem document, a proxy answered: the request can be retried.
            None => Err(self.other(format!("HTTP {status}; the answer is not from a FileMap server"))),
            Some(problem) => Ok(Answered::Refused(status, problem.detail)),
        }
    }

    /// An answer as JSON; `None` if the server has no such page.
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
        there.map_err(|problem| self.failed(problem))
    }

    /// The problem document of a refusal; `None` if it is not from a FileMap server.
    fn refused(&self, answer: std::result::Result<Response<Body>, ureq::Error>) -> Result<Option<Problem>> {
        let body = answer.map_err(|error| self.unreached(&error))?.into_body().into_reader();
        let mut text = Vec::new();
        let _ = body.take(MAX_JSON).read_to_end(&mut text);
        Ok(serde_json::from_slice(&text).ok())
    }

    /// The response, or the problem that the page is missing. Another `Not Found` is an error.
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
        match serde_json::from_slice::<Problem>(&text) {
            Ok(problem) if problem.is_absent => Ok(Err(problem)),
            Ok(problem) => Err(self.failed(problem)),
            Err(_) => Err(self.other(format!("HTTP {}; the answer is not from a FileMap server", head.status))),
        }
    }

    /// Maps a problem to an error. A refusal by a rule gives the same error as a local store.
    pub(super) fn failed(&self, problem: Problem) -> Error {
        let Problem { detail, is_damage, is_of_one_page, rule, .. } = problem;
        if let Some(rule) = rule {
            return EngineError::Refused { rule }.into();
        }
        Error::Remote { location: self.location.clone(), detail, is_damage, is_of_one_page }
    }

    /// The error for a refusal.
    pub(super) fn refused_for(&self, why: String) -> Error {
        self.other(why)
    }

    /// An error that no FileMap server reported.
    fn other(&self, detail: String) -> Error {
        self.failed(Problem { detail, ..Problem::default() })
    }

    fn unreached(&self, error: &ureq::Error) -> Error {
        self.other(error.to_string())
    }

    /// The error for a response that broke off.
    pub(super) fn broken(&self, error: &io::Error) -> Error {
        self.other(format!("the answer broke off: {error}"))
    }

    /// The error for a response that no FileMap server would send.
    pub(super) fn strange(&self, what: &str) -> Error {
        self.other(format!("not an answer of a FileMap server: {what}"))
    }
}
