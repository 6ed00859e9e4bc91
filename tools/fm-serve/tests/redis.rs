//! A seen set on Redis that several servers share.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use filemap_http::{Ack, Added, ClientOptions, SeenClient};
use urlindex::idempotent::RequestId;
use urlindex::{SeenSet, Verdict, Whatwg};
use urlindex_redis::{NewRedisSet, RedisOptions, RedisUrlSet};

use crate::program::{Program, command};

/// A `redis-server` on the loopback address, killed when this is dropped.
struct Redis {
    port: u16,
    server: Child,
    _folder: tempfile::TempDir,
}

impl Redis {
    /// Returns `None` if the program is missing; in CI that fails the test.
    fn start() -> Option<Redis> {
        let folder = tempfile::tempdir().expect("a folder");
        // Somebody else may take the port before the server does, which then ends.
        for _ in 0..20 {
            let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port").port();
            let mut command = Command::new("redis-server");
            command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--dir"]);
            let Ok(mut server) = command.arg(folder.path()).stdout(Stdio::null()).spawn() else {
                assert!(std::env::var_os("CI").is_none(), "redis-server is needed");
                eprintln!("skipped: there is no redis-server");
                return None;
            };
            while server.try_wait().expect("ours").is_none() {
                if is_redis(port) {
                    return Some(Redis { port, server, _folder: folder });
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        panic!("redis-server does not start");
    }
}

/// Returns whether a Redis is at this port.
fn is_redis(port: u16) -> bool {
    let ping = || -> std::io::Result<bool> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        stream.write_all(b"PING\r\n")?;
        let mut first = [0];
        stream.read_exact(&mut first)?;
        // PONG, or an error that asks for a password.
        Ok([b'+', b'-'].contains(&first[0]))
    };
    ping().unwrap_or(false)
}

impl Drop for Redis {
    fn drop(&mut self) {
        drop(self.server.kill());
        drop(self.server.wait());
    }
}

fn added(client: &SeenClient, id: Option<RequestId>, urls: &[&str]) -> Vec<Option<Verdict>> {
    match client.add(id, urls, Ack::Durable).expect("asked") {
        Added::Verdicts(verdicts) => verdicts,
        other => panic!("{other:?}"),
    }
}

#[test]
fn two_servers_share_a_set_on_redis_and_the_answers_to_its_requests() {
    const NEW: Option<Verdict> = Some(Verdict::New);
    const SEEN: Option<Verdict> = Some(Verdict::Seen);
    let Some(redis) = Redis::start() else { return };
    let location = format!("redis://127.0.0.1:{}/pages", redis.port);
    let options = RedisOptions::new().patience(Duration::from_secs(20));
    let set = RedisUrlSet::create(&location, NewRedisSet::Exact { urls: 1_000 }, &Whatwg, &options).expect("created");
    let (folder, given) = (tempfile::tempdir().expect("a folder"), format!("pages={location}"));
    let start = |name: &str| Program::start(&folder.path().join(name), &["--write", "--seen", &given]);
    let servers = [start("a.fm"), start("b.fm")];
    let of = |server: &Program| {
        SeenClient::open(&format!("{}/v1/seen/pages", server.location), &ClientOptions::new()).expect("a set")
    };
    let [a, b] = [of(&servers[0]), of(&servers[1])];
    assert!(a.writes() && a.rules() == ("whatwg", 1));

    let id = Some(RequestId::now());
    let urls = ["http://a.example/", "no URL", "HTTP://A.example", "http://b.example/"];
    let answer = [NEW, None, SEEN, NEW];
    assert_eq!(added(&a, id, &urls), answer);
    assert_eq!(added(&b, id, &urls), answer, "the same request, asked of another server");
    assert_eq!(added(&b, None, &urls), [SEEN, None, SEEN, SEEN]);
    assert_eq!(a.check(&["http://b.example/", "http://c.example/"]).expect("asked"), [SEEN, NEW]);
    assert!(!set.contains(b"http://a.example/").expect("asked").is_new());
    // URLs from the other server count as well.
    added(&b, None, &["http://d.example/"]);
    assert_eq!(a.stats().expect("asked").urls, 3);
    let many: Vec<String> = (0..65_537).map(|i| format!("http://many.example/{i}")).collect();
    assert!(
        matches!(a.add(Some(RequestId::now()), &many, Ack::Durable).expect("asked"), Added::Refused(why) if why.contains("the maximum is 65536"))
    );

    drop(redis);
    let error = a.check(&["http://a.example/"]).expect_err("Redis is away").to_string();
    assert!(error.contains("seen set `pages` is kept elsewhere") && error.contains("ask again"), "{error}");
    let mut refused = command(&folder.path().join("a.fm"), &["--seen", "pages=redis://127.0.0.1:1/none"]);
    let ran = refused.output().expect("run");
    assert!(!ran.status.success() && String::from_utf8_lossy(&ran.stderr).contains("127.0.0.1:1"));
}
