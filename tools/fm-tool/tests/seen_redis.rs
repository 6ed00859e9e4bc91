//! `fm-tool seen` on Redis: sets created, filled, queried and described; refused arguments.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::harness::{Bench, Ran, run, tool};

/// A `redis-server` on the loopback address, killed when this is dropped.
struct Redis {
    port: u16,
    server: Child,
    _folder: TempDir,
}

impl Redis {
    /// Starts one with this password. `None` if the program is missing; in CI that fails the test.
    fn start(password: &str) -> Option<Redis> {
        let folder = tempfile::tempdir().expect("a folder");
        // Somebody else may take the port before the server does, which then ends.
        for _ in 0..20 {
            let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port").port();
            let mut command = Command::new("redis-server");
            command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--requirepass", password, "--dir"]);
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

fn seen(password: &str, args: &[&str]) -> Ran {
    run(tool().env("REDISCLI_AUTH", password).arg("seen").args(args))
}

#[test]
fn a_set_on_redis_is_made_filled_asked_and_described() {
    let Some(redis) = Redis::start("secret") else { return };
    let bench = Bench::new();
    let (of, list) = (|name: &str| format!("redis://127.0.0.1:{}/{name}", redis.port), bench.path("urls.txt"));
    let urls: String = (0..3_000).map(|nth| format!("http://host.example/{nth}\n")).collect();
    std::fs::write(&list, urls + "not a url\n").expect("written");
    let list = list.to_str().expect("text");
    for (kind, options, word) in [
        ("exact", ["--urls", "100000"], "seen"),
        ("bitmap", ["--bits", "30"], "probably-seen"),
        ("bloom", ["--urls", "1000000"], "probably-seen"),
    ] {
        let set = of(kind);
        let create = [&["create", &set, "--kind", kind][..], &options].concat();
        seen("secret", &create).ended(0).said("made redis://");
        seen("secret", &create).ended(2).said("there is a set of this name");
        let added = seen("secret", &["add", &set, list, "--count", "--json"]).ended(2).json().remove(0);
        assert_eq!((&added["lines"], &added["invalid"]), (&3_001.into(), &1.into()), "{added}");
        assert!(added["new"].as_u64() >= Some(2_999), "{added}");
        let checked = seen("secret", &["check", &set, list, "--json"]).ended(2).json();
        assert!(checked[..3_000].iter().all(|line| line["verdict"] == word), "{kind}");
        let about = seen("secret", &["stat", &set, "--json"]).ended(0).json().remove(0);
        assert_eq!(
            (&about["kind"], &about["canonicalizer"], &about["urls"]),
            (&kind.into(), &"whatwg".into(), &added["new"])
        );
    }
}

#[test]
fn what_a_set_on_redis_cannot_do_is_named() {
    let Some(redis) = Redis::start("secret") else { return };
    let set = format!("redis://127.0.0.1:{}/pages", redis.port);
    seen("wrong", &["create", &set, "--kind", "exact", "--urls", "10"]).ended(2).said("refuses");
    seen("secret", &["add", &set]).ended(2).said("there is no set of this name");
    seen("secret", &["create", &set, "--kind", "exact"]).ended(2).said("--urls");
    seen("secret", &["create", &set, "--kind", "trie"]).ended(2).said("exact, bitmap or bloom");
    seen("secret", &["create", &set, "--kind", "bloom", "--urls", "10", "--rate", "0.1"]).ended(2).said("--rate");
    seen("secret", &["create", "pages", "--kind", "exact", "--urls", "10"]).ended(2).said("redis://HOST:PORT/NAME");
    seen("secret", &["create", &set, "--kind", "exact", "--urls", "10", "--canonicalizer", "crawl"]).ended(0);
    seen("secret", &["check", &set, "--canonicalizer", "exact"]).ended(2).said("leave --canonicalizer out");
    seen("secret", &["check", &set, "--memory", "1GB"]).ended(2).said("--memory");
    for args in [&["forget", &set, "http://a.example/"][..], &["export", &set]] {
        seen("secret", args).ended(2).said("sets on Redis have create, add, check and stat");
    }
    let told = seen("", &["stat", &format!("redis://me:hidden@127.0.0.1:{}/pages", redis.port)]).ended(2);
    assert!(told.words.contains("REDISCLI_AUTH") && !told.words.contains("hidden"), "{}", told.words);
}
