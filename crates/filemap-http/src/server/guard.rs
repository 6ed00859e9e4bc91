//! Checks of every request: host name, origin of a browser's page, and token; and the headers of
//! every response.
//!
//! A page in an operator's browser must neither read nor write the store. DNS rebinding can point
//! the page's own name at this server: so the name in `Host` must be one of the server's, or an IP
//! address. The page can submit a form or fetch cross-site: so `Origin` must be the server's, and
//! `Sec-Fetch-Site` `same-origin` or `none`. A plain cross-site link may open a page of the
//! inspector: the operator sees it, the page with the link does not.

use std::net::IpAddr;

use axum::extract::Request;
use axum::http::header::{
    ACCESS_CONTROL_ALLOW_ORIGIN, AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, HeaderName, HeaderValue,
    ORIGIN, REFERRER_POLICY, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, Method, StatusCode, Version};

use super::backend::Backend;
use super::refusal::{Answer, Refusal};
use super::tokens::Right;

/// Rights of the sender; an extension of the request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allowed(Right);

impl Allowed {
    /// # Errors
    ///
    /// 403 if the token does not allow it.
    pub(super) fn needs(self, right: Right) -> Result<(), Refusal> {
        if self.0 >= right {
            return Ok(());
        }
        let name = match right {
            Right::Read => "read",
            Right::Write => "write",
            Right::Admin => "admin",
        };
        Err(Refusal::new(StatusCode::FORBIDDEN, format!("this token does not allow it: a token of `{name}` does")))
    }
}

impl Allowed {
    /// Returns whether the sender has an `admin` token: always false if the server requires no
    /// token.
    pub(super) fn has_admin_token(self, backend: &Backend) -> bool {
        backend.options.tokens.is_some() && self.0 >= Right::Admin
    }
}

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");
/// A replay tool forwards its browser's headers, and so the origin of the replayed page. Nothing
/// is written here, and a browser shows a page no response of another origin.
const REPLAY: &str = "/web/";
/// Routes without a token: they show whether the process is alive, and nothing about the store.
const OPEN: [&str; 2] = ["/healthz", "/readyz"];

/// Completes the headers of a response.
pub(super) fn restrict(headers: &mut HeaderMap) {
    let mut set = |name, value| {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    };
    set(X_CONTENT_TYPE_OPTIONS, "nosniff");
    // Stored bytes run no scripts, and are a document without an origin.
    set(CONTENT_SECURITY_POLICY, "sandbox; default-src 'none'; frame-ancestors 'none'");
    set(REFERRER_POLICY, "no-referrer");
    set(HeaderName::from_static("cross-origin-resource-policy"), "same-origin");
    set(CACHE_CONTROL, "no-cache");
    headers.remove(ACCESS_CONTROL_ALLOW_ORIGIN);
}

/// Admits a request.
///
/// # Errors
///
/// The refusal: 505, 400, 421, 403, 401.
pub(super) fn admitted(backend: &Backend, request: &Request) -> Result<Allowed, Refusal> {
    let headers = request.headers();
    if request.version() < Version::HTTP_11 {
        let words =
            "use HTTP/1.1: an HTTP/1.0 client cannot tell that an answer was cut (nginx: `proxy_http_version 1.1`)";
        return Err(Refusal::new(StatusCode::HTTP_VERSION_NOT_SUPPORTED, words));
    }
    let host = host_of(headers)?;
    if !name_of(host).is_some_and(|name| is_ours(name, &backend.options.names)) {
        return Err(Refusal::new(
            StatusCode::MISDIRECTED_REQUEST,
            format!("this server is not called `{host}`; start it with `--name` and that name, if it is"),
        ));
    }
    if !request.uri().path().starts_with(REPLAY) {
        check_origin(request.method(), headers, host)?;
    }
    let Some(tokens) = &backend.options.tokens else { return Ok(Allowed(Right::Admin)) };
    if OPEN.contains(&request.uri().path()) {
        return Ok(Allowed(Right::Read));
    }
    let right = headers.get(AUTHORIZATION).and_then(|value| tokens.right_of(value.as_bytes()));
    let challenge = HeaderValue::from_static("Bearer realm=\"filemap\", Basic realm=\"filemap\", charset=\"UTF-8\"");
    right.map(Allowed).ok_or_else(|| {
        Refusal::new(StatusCode::UNAUTHORIZED, "this server requires a token: `Authorization: Bearer TOKEN`")
            .header(WWW_AUTHENTICATE, challenge)
    })
}

fn host_of(headers: &HeaderMap) -> Result<&str, Refusal> {
    let mut hosts = headers.get_all(HOST).iter();
    match (hosts.next().and_then(|host| host.to_str().ok()), hosts.next()) {
        (Some(host), None) => Ok(host),
        _ => Err(Refusal::bad("a request must have one `Host` header")),
    }
}

/// A host without its port; `None` if the name is followed by anything but a port.
fn name_of(host: &str) -> Option<&str> {
    let (name, rest) = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let port = if rest.is_empty() { rest } else { rest.strip_prefix(':')? };
    port.bytes().all(|byte| byte.is_ascii_digit()).then_some(name)
}

fn is_ours(name: &str, names: &[String]) -> bool {
    let is = |own: &str| name.eq_ignore_ascii_case(own);
    is("localhost") || name.parse::<IpAddr>().is_ok() || names.iter().any(|own| is(own))
}

fn check_origin(method: &Method, headers: &HeaderMap, host: &str) -> Result<(), Refusal> {
    let text = |name: &HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let foreign = |what| Err(Refusal::new(StatusCode::FORBIDDEN, format!("a page of another site sent this: {what}")));
    if let Some(origin) = text(&ORIGIN) {
        let own = origin.split_once("://").is_some_and(|(_, authority)| authority.eq_ignore_ascii_case(host));
        if !own {
            return foreign(format!("`Origin: {origin}`"));
        }
    }
    match text(&FETCH_SITE) {
        None | Some("same-origin" | "none") => Ok(()),
        Some(_) if is_link(method, text(&FETCH_MODE), text(&FETCH_DEST)) => Ok(()),
        Some(site) => foreign(format!("`Sec-Fetch-Site: {site}`")),
    }
}

/// Returns whether the request follows a link in a top-level window.
fn is_link(method: &Method, mode: Option<&str>, dest: Option<&str>) -> bool {
    *method == Method::GET && mode == Some("navigate") && dest == Some("document")
}

/// Refuses a route that needs `--write`.
pub(super) fn check_writes(backend: &Backend) -> Result<(), Refusal> {
    if backend.options.writes {
        return Ok(());
    }
    Err(Refusal::new(StatusCode::FORBIDDEN, "this server only reads: start it with `--write`"))
}

/// The answer to an unknown path.
pub(super) async fn no_route(request: Request) -> Answer {
    let path = request.uri().path();
    Err(Refusal::new(StatusCode::NOT_FOUND, format!("unknown route `{path}`; docs/HTTP.md has the routes")))
}

/// The answer to a method that the route does not support.
pub(super) async fn no_method(request: Request) -> Answer {
    let (method, path) = (request.method(), request.uri().path());
    Err(Refusal::new(
        StatusCode::METHOD_NOT_ALLOWED,
        format!("`{path}` does not support {method}; `Allow` lists its methods"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_names_and_addresses_are_answered() {
        let names = ["pages.example.com".to_owned()];
        for host in
            ["localhost:8640", "LOCALHOST", "127.0.0.1:1", "[::1]:8640", "[::1]", "10.0.0.7", "Pages.Example.com"]
        {
            assert!(name_of(host).is_some_and(|name| is_ours(name, &names)), "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example:8640",
            "127.0.0.1.evil.example",
            "",
            "pages.example.com.",
            "[x]:1",
            "localhost:@evil.example",
            "[::1]evil.example",
            "localhost:80:80",
        ] {
            assert!(!name_of(host).is_some_and(|name| is_ours(name, &names)), "{host}");
        }
    }

    #[test]
    fn a_page_of_another_site_neither_reads_nor_writes() {
        let check = |method: Method, fields: &[(HeaderName, &'static str)]| {
            let headers = fields.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect();
            check_origin(&method, &headers, "localhost:8640").is_ok()
        };
        assert!(check(Method::GET, &[]) && check(Method::PUT, &[(ORIGIN, "http://localhost:8640")]));
        assert!(check(Method::POST, &[(FETCH_SITE, "same-origin")]) && check(Method::GET, &[(FETCH_SITE, "none")]));
        for origin in ["http://evil.example", "null", "http://localhost:9999", "localhost:8640"] {
            assert!(!check(Method::POST, &[(ORIGIN, origin)]), "{origin}");
        }
        for site in ["cross-site", "same-site", "?"] {
            assert!(!check(Method::GET, &[(FETCH_SITE, site)]), "{site}");
        }
        let link = [(FETCH_SITE, "cross-site"), (FETCH_MODE, "navigate"), (FETCH_DEST, "document")];
        let frame = [(FETCH_SITE, "cross-site"), (FETCH_MODE, "navigate"), (FETCH_DEST, "iframe")];
        assert!(check(Method::GET, &link) && !check(Method::POST, &link) && !check(Method::GET, &frame));
    }
}
