//! Ways to reach a host: proxies, local addresses, certificates; and the name for robots.txt.

use std::sync::Arc;

use serde_json::json;

use crate::tls;
use crate::web::crawl::Bench;
use crate::web::proxy::{CREDENTIALS, Proxy};
use crate::web::{Reply, Request, Site, Web, sites};

const FAST: [&str; 4] = ["--rate=0", "--json", "--contact=mailto:me@example.com", "--patience=1s"];

fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    FAST.iter().chain(more).copied().collect()
}

#[test]
fn http_goes_through_proxies_which_resolve_names() {
    let leading: Site = Arc::new(|request: &Request| match request.path.as_str() {
        "/" => Reply::html("<a href=/a>1</a><a href=http://127.0.0.1/>2</a><a href=http://localhost/x>3</a>"),
        "/a" => Reply::html("<p>a"),
        _ => Reply::missing(),
    });
    let web = Web::new([("lead.test", leading)]);
    for scheme in ["http", "socks5"] {
        let (bench, proxy) = (Bench::new(), Proxy::to(web.address()));
        let through = proxy.argument(scheme, CREDENTIALS);
        let log = format!("--log={}", bench.path("log").display());
        // No --allow-private, no --resolve: nothing is resolved here.
        let end = bench.run("run", &with(&["--seed=http://lead.test/", "--scope=any", &through, &log])).ended(0).json();
        assert_eq!((&end["fetched"], &end["reasons"]), (&json!(2), &json!({ "private-address": 2 })), "{end}");
        let asked = proxy.asked();
        let start = if scheme == "http" { "http://lead.test/" } else { "lead.test:80" };
        assert!(!asked.is_empty() && asked.iter().all(|asked| asked.starts_with(start)), "{asked:?}");
        let pages = bench.pages();
        let page = &pages["http://lead.test/a"];
        assert_eq!((page.body.as_slice(), page.ip), (&b"<p>a"[..], None), "the proxy's address is not the site's");
        // The credentials are written nowhere.
        for file in [bench.path("log"), bench.path("pages.fm.crawl/crawl.json")] {
            let text = std::fs::read_to_string(file).expect("there");
            assert!(!text.contains("cret") && !text.contains("us%20er"), "{text}");
        }
        let fields = web.asked().last().expect("some").fields.clone();
        assert!(scheme == "http" || !fields.contains_key("proxy-authorization"), "{fields:?}");
    }
}

#[test]
fn a_proxy_that_refuses_is_to_blame_and_no_page_is_lost() {
    let web = Web::new([("lead.test", sites::tree(3))]);
    let mut last = None;
    for (scheme, credentials) in [("http", ""), ("http", "us:wrong"), ("socks5", ""), ("socks5", "us:wrong")] {
        let (bench, proxy) = (Bench::new(), Proxy::to(web.address()));
        let through = proxy.argument(scheme, credentials);
        let end = bench.run("run", &with(&["--seed=http://lead.test/", &through])).ended(1).json();
        assert!(end["reasons"]["proxy"].as_u64() > Some(0), "{scheme} {credentials}: {end}");
        let asked = proxy.asked();
        assert!(scheme == "socks5" || asked.iter().all(|asked| asked == "http://lead.test/robots.txt"), "{asked:?}");
        last = Some((bench, proxy));
    }
    assert!(web.asked().is_empty());
    let (bench, proxy) = last.expect("one of them");
    let right = proxy.argument("socks5", CREDENTIALS);
    let end = bench.run("run", &["--rate=0", "--json", "--patience=1m", &right]).ended(0).json();
    assert_eq!(end["fetched"], 3, "{end}");
}

#[test]
fn https_goes_through_proxies_and_certificates_are_not_checked_if_so_asked() {
    let certificate = rcgen::generate_simple_self_signed(["elsewhere.test".to_owned()]).unwrap();
    let there = tls::serve(&certificate);
    for scheme in ["http", "socks5"] {
        let (bench, proxy) = (Bench::new(), Proxy::to(there));
        let through = proxy.argument(scheme, CREDENTIALS);
        let ran = bench.run("run", &with(&["--seed=https://secure.test/", &through, "--insecure"])).ended(0);
        assert_eq!(ran.json()["fetched"], 2, "{}", ran.words);
        assert!(ran.words.contains("certificates are not checked"), "{}", ran.words);
        assert!(proxy.asked().iter().all(|asked| asked == "secure.test:443"), "{:?}", proxy.asked());
        // `--insecure` is not remembered.
        let more = ["--seed=https://other.test/", &through];
        let end = bench.run("run", &with(&more)).ended(5).json();
        assert!(end["reasons"]["tls"].as_u64() > Some(0), "{end}");
    }
    let both = Bench::new().run("run", &with(&["--insecure", "--ca=x"])).ended(2);
    assert!(both.words.contains("--ca"), "{}", both.words);
}

#[test]
fn connections_come_from_the_address_that_is_given() {
    let mirror: Site = Arc::new(|request: &Request| match request.path.as_str() {
        "/" => Reply::Bare(Box::new(|stream| {
            use std::io::Write;
            let from = stream.peer_addr().expect("connected").ip().to_string();
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{from}", from.len());
            let _ = stream.write_all(head.as_bytes());
        })),
        _ => Reply::missing(),
    });
    let web = Web::new([("mirror.test", mirror)]);
    let (bench, resolve) = (Bench::new(), web.resolve());
    let arguments = ["--seed=http://mirror.test/", "--allow-private", &resolve, "--bind=127.0.0.77"];
    bench.run("run", &with(&arguments)).ended(0);
    assert_eq!(bench.pages()["http://mirror.test/"].body, b"127.0.0.77");
    let ran = Bench::new().run("run", &with(&["--seed=http://mirror.test/", "--bind=192.0.2.1"])).ended(2);
    assert!(ran.words.contains("192.0.2.1"), "{}", ran.words);
}

#[test]
fn robots_txt_is_matched_by_the_name_that_is_given() {
    let strict: Site = Arc::new(|request: &Request| match request.path.as_str() {
        "/robots.txt" => Reply::text("User-agent: harvester\nDisallow: /a\n\nUser-agent: *\nDisallow: /b\n"),
        "/" => Reply::html("<a href=/a>1</a><a href=/b>2</a><a href=/c>3</a>"),
        "/c" => Reply::html("<meta name=harvester content=nofollow><a href=/d>4</a>"),
        path => Reply::html(format!("<p>{path}")),
    });
    let web = Web::new([("strict.test", strict)]);
    let resolve = web.resolve();
    let fetched = |bench: &Bench| bench.pages().into_keys().map(|url| url[19..].to_owned()).collect::<String>();
    let arguments = ["--seed=http://strict.test/", "--allow-private", &resolve];
    let (plain, named) = (Bench::new(), Bench::new());
    plain.run("run", &with(&arguments)).ended(0);
    named.run("run", &with(&[&arguments[..], &["--robots-token=harvester", "--max-pages=1"]].concat())).ended(0);
    // The name is remembered.
    named.run("run", &with(&arguments)).ended(0);
    assert_eq!((fetched(&plain).as_str(), fetched(&named).as_str()), ("acd", "bc"));
    let agents: Vec<String> = web.asked().into_iter().map(|asked| asked.fields["user-agent"].clone()).collect();
    assert!(agents.iter().all(|agent| agent.starts_with("fm-crawl/")), "{agents:?}");
    assert!(named.run("run", &["--robots-token=two words"]).ended(2).words.contains("letters"));
}
