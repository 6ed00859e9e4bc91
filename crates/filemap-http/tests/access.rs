//! Access control: host names, origins of pages in a browser, tokens and their rights.

use filemap::{Page, PageRead, PageWrite};
use filemap_http::server::{ServerOptions, Tokens};
use filemap_http::{Client, ClientOptions};

use crate::served::{self, served};

const URL: &str = "/v1/page?url=http://example.com/";
/// Every route with GET, taken from the server's own list.
fn routes() -> Vec<String> {
    let source = include_str!("../src/server/routes.rs");
    let routes = source.split(".route(\"").skip(1).filter_map(|rest| {
        let (route, how) = rest.split_once('"')?;
        (how.contains("get(") && !how.split(".route(").next()?.contains("post(")).then_some(route)
    });
    let with_url = |route: &str| match route.split_once('{') {
        Some(("/web/", _)) => "/web/20231114221320id_/http://example.com/".to_owned(),
        Some((begin, _)) => format!("{begin}http://example.com/"),
        None if [
            "/v1/page",
            "/v1/head",
            "/v1/history",
            "/v1/key",
            "/cdx",
            "/captures",
            "/compare",
            "/show",
            "/rendered",
        ]
        .contains(&route) =>
        {
            format!("{route}?url=http://example.com/")
        }
        None => route.to_owned(),
    };
    let found: Vec<String> = routes.map(with_url).collect();
    assert!(found.len() > 18, "{found:?}");
    found
}

fn page() -> Page {
    Page::new("http://example.com/", 1_700_000_000_000, 200, "kept")
}

#[test]
fn a_page_of_another_site_gets_nothing_from_any_route() {
    let server = served(&[page()]);
    for target in &routes() {
        // DNS rebinding: the page's own name resolves to this server.
        let (status, detail) = server.get(target, &["Host: evil.example:8640"]).problem();
        assert!(status == 421 && detail.contains("evil.example"), "{target}: {status} {detail}");
        // A replay tool forwards its browser's headers.
        let lines = ["Origin: http://evil.example", "Origin: null", "Sec-Fetch-Site: cross-site"];
        for line in lines.into_iter().filter(|_| !target.starts_with("/web/")) {
            let (status, detail) = server.get(target, &[line]).problem();
            assert!(status == 403 && detail.contains("another site"), "{target}, {line}: {status} {detail}");
        }
        let two = server.get(target, &["Host: localhost", "Host: localhost"]);
        assert_eq!(two.status, 400, "{target}");
    }
    let form = ["Origin: http://evil.example", "Content-Type: text/plain", "Sec-Fetch-Site: cross-site"];
    for (method, target) in
        [("PUT", URL), ("DELETE", URL), ("POST", "/v1/sync"), ("POST", "/v1/pages"), ("POST", "/v1/pages/get")]
    {
        assert_eq!(server.ask(method, target, &form, b"x").status, 403, "{method}");
    }
    let own = format!("Origin: http://{}", server.address);
    assert_eq!(server.get(URL, &[&own, "Sec-Fetch-Site: same-origin"]).body, b"kept");
    let no_host = server.raw(b"GET /v1/stat HTTP/1.1\r\nConnection: close\r\n\r\n");
    assert!(no_host.starts_with(b"HTTP/1.1 400"), "{:?}", String::from_utf8_lossy(&no_host));
}

#[test]
fn each_right_opens_what_it_is_for() {
    let (read, write, admin) = ("read-0123456789abcdef", "write-0123456789abcdef", "admin-0123456789abcdef");
    let tokens = Tokens::parse(&format!("read {read}\nwrite {write}\nadmin {admin}")).expect("tokens");
    let server = served::with(ServerOptions::new().writes().tokens(tokens), &[page()]);
    for target in &routes() {
        let is_open = ["/healthz", "/readyz"].contains(&target.as_str());
        let answer = server.get(target, &[]);
        assert_eq!(answer.status, if is_open { 200 } else { 401 }, "{target}");
        assert_eq!(answer.header("www-authenticate").is_some(), !is_open, "{target}");
        // A token in a URL does not count.
        let in_url = server.get(&format!("{target}{}token={admin}", if target.contains('?') { '&' } else { '?' }), &[]);
        assert_eq!(in_url.status, if is_open { 200 } else { 401 }, "{target}");
    }
    for (token, put, remove) in
        [(read, 403, 403), (write, 201, 403), (admin, 201, 200), ("nobody-0123456789", 401, 401)]
    {
        let line = format!("Authorization: Bearer {token}");
        assert_eq!(server.ask("PUT", URL, &[&line], b"new").status, put, "{token}");
        assert_eq!(server.ask("DELETE", URL, &[&line], b"").status, remove, "{token}");
    }
    let location = format!("http://{}", server.address);
    let refused = Client::open(&location, &ClientOptions::new().token("nobody-0123456789")).expect_err("no token");
    assert!(refused.to_string().contains("requires a token"), "{refused}");
    let client = Client::open(&location, &ClientOptions::new().token(write)).expect("let in");
    client.put(&page(), filemap::access::PutRule::Always).expect("allowed");
    let refused = client.remove(b"http://example.com/", None).expect_err("not allowed");
    assert!(refused.to_string().contains("`admin`"), "{refused}");
    assert!(client.contains(&"http://example.com/".into()).expect("readable"));
}
