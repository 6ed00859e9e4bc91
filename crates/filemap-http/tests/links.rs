//! Mailboxes over HTTP: posted, read, dropped; owners and epochs; refusals; a server that
//! restarts.

use std::path::Path;
use std::time::Duration;

use filemap_http::server::{LinkBoxes, ServerOptions, Tokens};
use filemap_http::{ClientOptions, LinksClient, Mailed};
use mailbox::{Activity, Link, MailboxOptions, Posted, Standing};
use tempfile::TempDir;

use crate::served::{Served, with};

const CRAWL: &str = "000102030405060708090a0b0c0d0e0f";

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

fn serving(folder: &Path, options: MailboxOptions) -> Served {
    let boxes = LinkBoxes::open(folder, options).expect("opened");
    with(ServerOptions::new().writes().links(boxes), &[])
}

fn client(server: &Served) -> LinksClient {
    LinksClient::open(&format!("http://{}/v1/links", server.address), 2, &ClientOptions::new()).expect("mailboxes")
}

fn link(number: u64) -> Link {
    Link { url: format!("http://h.example/{number}?\"ü"), depth: number as u16, is_seed: number == 3 }
}

fn links(numbers: std::ops::Range<u64>) -> Vec<Link> {
    numbers.map(link).collect()
}

#[track_caller]
fn done<T: std::fmt::Debug>(mailed: filemap::Result<Mailed<T>>) -> T {
    match mailed.expect("answered") {
        Mailed::Done(done) => done,
        other => panic!("{other:?}"),
    }
}

#[test]
fn links_are_there_until_their_owner_has_dropped_them_also_after_a_restart() {
    let folder = folder();
    let mut server = serving(folder.path(), MailboxOptions::new());
    let mail = client(&server);
    assert_eq!(done(mail.post(1, 7, 0, links(0..5))), Posted { entered: 5, next: 5 });
    assert_eq!(done(mail.post(1, 7, 3, links(3..7))), Posted { entered: 2, next: 7 });
    assert!(matches!(mail.post(1, 7, 9, links(9..10)), Ok(Mailed::Refused(why)) if why.contains("first 7 links")));
    let epoch = done(mail.take(1, 8));
    let part = done(mail.read(1, None, epoch));
    assert_eq!(part.links, links(0..7));
    server.stop();
    let server = serving(folder.path(), MailboxOptions::new());
    let mail = client(&server);
    assert_eq!(done(mail.read(1, Some(part.cursor), epoch)).links, []);
    done(mail.post(1, 7, 0, links(0..8)));
    assert_eq!(done(mail.read(1, Some(part.cursor), epoch)).links, links(7..8));
    done(mail.drop_to(1, part.cursor, epoch));
    assert_eq!(done(mail.read(1, None, epoch)).links, links(7..8));
    // The crawl restarted: the earlier run is fenced.
    let later = done(mail.take(1, 8));
    assert!(matches!(mail.read(1, None, epoch), Ok(Mailed::Fenced(_))));
    let (standing, shards) = mail.shards().expect("answered");
    assert!(!standing.is_over && standing.free == [0], "{standing:?}");
    let (found, owner) = (shards[1], shards[1].owner.expect("taken"));
    assert_eq!((found.shard, found.waiting, found.epoch), (1, 1, later));
    assert_eq!((owner.crawl, owner.is_idle, shards[0].owner), (8, false, None));
    assert!(matches!(mail.drop_to(1, part.cursor, epoch), Ok(Mailed::Fenced(_))));
    assert!(matches!(mail.take(1, 9), Ok(Mailed::Refused(why)) if why.contains("owned by the crawl")));
    assert_eq!(done(mail.report(8, &[(1, epoch)], Activity::Idle)).fenced, [1]);
    let news = done(mail.report(8, &[(1, later)], Activity::Idle));
    assert_eq!(news.standing, Standing { waiting: 1, working: 1, free: vec![0], ..Standing::default() });
    done(mail.drop_to(1, done(mail.read(1, None, later)).cursor, later));
    let news = done(mail.report(8, &[(1, later)], Activity::Stuck));
    assert_eq!(news.standing, Standing { free: vec![0], ..Standing::default() }, "stuck: not over, none at work");
    assert_eq!((done(mail.had(1, 7)), done(mail.had(0, 7))), (8, 0));
    assert_eq!(done(mail.post(1, 7, 8, links(8..9))).next, 9);
    let metrics = String::from_utf8(server.get("/metrics", &[]).body).expect("text");
    assert!(metrics.contains("filemap_links_waiting{shard=\"1\"} 1\n"), "{metrics}");
}

#[test]
fn a_full_mailbox_says_when_to_come_again() {
    let folder = folder();
    let server = serving(folder.path(), MailboxOptions::new().max_bytes(2_000));
    let mail = client(&server);
    let mut next = 0;
    let full = loop {
        match mail.post(0, 7, next, links(next..next + 9)) {
            Ok(Mailed::Done(posted)) => next = posted.next,
            other => break other.expect_err("it may be sent again").to_string(),
        }
    };
    assert!(full.contains("mailbox of shard 0 is full"), "{full}");
    let target = format!("/v1/links/0?crawl={:032x}&first={next}", 7);
    let refused = server.ask("POST", &target, &[], b"{\"url\":\"http://a/\"}");
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("2")));
    let epoch = done(mail.take(0, 8));
    let all = done(mail.read(0, None, epoch));
    done(mail.drop_to(0, all.cursor, epoch));
    assert_eq!(done(mail.post(0, 7, next, links(next..next + 9))).entered, 9);
}

#[test]
fn what_cannot_be_is_refused_with_words() {
    let folder = folder();
    let server = serving(folder.path(), MailboxOptions::new());
    let post = format!("/v1/links/0?crawl={CRAWL}&first=0");
    let ask = |method: &str, target: &str, body: &str| server.ask(method, target, &[], body.as_bytes()).problem();
    assert_eq!(ask("POST", &post, "").0, 404, "no fleet yet");
    assert_eq!(ask("GET", "/v1/links", "").0, 404);
    assert_eq!(server.ask("PUT", "/v1/links", &[], b"{\"shards\":2}").status, 201);
    assert_eq!(server.ask("PUT", "/v1/links", &[], b"{\"shards\":2}").status, 200);
    for (method, target, body, status, said) in [
        ("PUT", "/v1/links", "{\"shards\":3}", 409, "for 2 shards, not 3"),
        ("PUT", "/v1/links", "4", 400, "number of shards"),
        ("POST", "/v1/links/2?crawl=000102030405060708090a0b0c0d0e0f&first=0", "{\"url\":\"a\"}", 404, "no shard 2"),
        ("POST", "/v1/links/x?crawl=000102030405060708090a0b0c0d0e0f&first=0", "", 404, "not a shard"),
        ("POST", "/v1/links/0?crawl=7&first=0", "", 400, "32 hexadecimal"),
        ("POST", "/v1/links/0?crawl=000102030405060708090a0b0c0d0e0f", "", 400, "`first` is missing"),
        ("POST", &post, "http://a/", 400, "line 1"),
        ("POST", &post, "{\"url\":\"http://a/\"}\n{\"url\":\"\"}", 400, "line 2"),
        ("GET", "/v1/links/0?cursor=x", "", 400, "a number"),
        ("GET", "/v1/links/0?cursor=999999999", "", 400, "not a place"),
        ("GET", "/v1/links/0?epoch=9", "", 412, "epoch 0, not 9"),
        ("DELETE", "/v1/links/0?cursor=0", "", 400, "`epoch` is missing"),
        ("PUT", "/v1/links/0/owner", "", 400, "`crawl` is missing"),
        ("POST", "/v1/links/standing", "{}", 400, "report"),
    ] {
        let (found, words) = ask(method, target, body);
        assert!(found == status && words.contains(said), "{method} {target} {body}: {found} {words}");
    }
    let all = server.get("/v1/links", &[]).json();
    assert_eq!((&all["shards"][1]["entered"], &all["standing"]["is_over"]), (&0.into(), &true.into()));
    let other = LinksClient::open(&format!("http://{}/v1/links", server.address), 3, &ClientOptions::new());
    assert!(other.expect_err("two").to_string().contains("for 2 shards, not 3"));
}

#[test]
fn links_are_for_whoever_may_write_and_a_shard_is_freed_by_an_administrator() {
    let folder = folder();
    let boxes = LinkBoxes::open(folder.path(), MailboxOptions::new().lease(Duration::ZERO)).expect("opened");
    let tokens = "read  reader-reader-reader\nwrite writer-writer-writer\nadmin admin-admin-admin-admin";
    let options = ServerOptions::new().writes().links(boxes).tokens(Tokens::parse(tokens).expect("tokens"));
    let server = with(options, &[]);
    let status = |method: &str, target: &str, token: &str, body: &[u8]| {
        server.ask(method, target, &[&format!("Authorization: Bearer {token}")], body).status
    };
    let (reader, writer, admin) = ("reader-reader-reader", "writer-writer-writer", "admin-admin-admin-admin");
    let take = format!("/v1/links/0/owner?crawl={CRAWL}");
    let post = format!("/v1/links/0?crawl={CRAWL}&first=0");
    assert_eq!(status("PUT", "/v1/links", reader, b"{\"shards\":1}"), 403);
    assert_eq!(status("PUT", "/v1/links", writer, b"{\"shards\":1}"), 201);
    for (method, target) in [
        ("PUT", take.as_str()),
        ("POST", &post),
        ("GET", "/v1/links/0"),
        ("DELETE", "/v1/links/0?cursor=0&epoch=1"),
        ("POST", "/v1/links/standing"),
    ] {
        assert_eq!(status(method, target, reader, b""), 403, "{method} {target}");
        assert_eq!(status(method, target, "nobody-nobody-nobody", b""), 401, "{method} {target}");
    }
    assert_eq!(status("GET", "/v1/links", reader, b""), 200);
    assert_eq!(status("PUT", &take, writer, b""), 200);
    assert_eq!(status("POST", &post, writer, b"{\"url\":\"http://a/\",\"depth\":2}\n"), 200);
    assert_eq!(status("GET", "/v1/links/0", writer, b""), 200);
    let other = take.replace("0001", "ffff");
    assert_eq!(status("PUT", &other, writer, b""), 409);
    assert_eq!(status("DELETE", "/v1/links/0/owner", writer, b""), 403);
    assert_eq!(status("DELETE", "/v1/links/0/owner", admin, b""), 200);
    assert_eq!(status("PUT", &other, writer, b""), 200);
}

#[test]
fn a_server_that_only_reads_has_no_mailboxes() {
    let folder = folder();
    let boxes = LinkBoxes::open(folder.path(), MailboxOptions::new()).expect("opened");
    let server = with(ServerOptions::new().links(boxes), &[]);
    let (status, words) = server.ask("PUT", "/v1/links", &[], b"{\"shards\":1}").problem();
    assert!(status == 403 && words.contains("--write"), "{words}");
}
