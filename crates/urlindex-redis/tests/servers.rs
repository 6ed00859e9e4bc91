//! Servers for the tests: one, or a cluster of three masters, and a proxy that loses replies.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Servers on loopback, killed when it is dropped.
pub struct Servers {
    pub ports: Vec<u16>,
    running: Vec<Child>,
    folder: TempDir,
}

/// Returns whether Redis is installed. Without it a test is skipped; in CI it fails.
pub fn are_here() -> bool {
    let is_here = |program: &str| Command::new(program).arg("--version").stdout(Stdio::null()).status().is_ok();
    if is_here("redis-server") && is_here("redis-cli") {
        return true;
    }
    assert!(std::env::var_os("CI").is_none(), "redis-server and redis-cli are needed");
    eprintln!("skipped: there is no redis-server");
    false
}

/// A port whose cluster bus port, 10,000 higher, is free too. Both are below the system's
/// ephemeral ports.
fn port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let of_process = std::process::id() % 200 * 50;
    loop {
        let port = (10_000 + of_process + NEXT.fetch_add(1, Ordering::Relaxed)) as u16;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() && TcpListener::bind(("127.0.0.1", port + 10_000)).is_ok() {
            return port;
        }
    }
}

impl Servers {
    /// One server without a cluster.
    pub fn one(settings: &[&str]) -> Servers {
        let mut servers =
            Servers { ports: vec![port()], running: Vec::new(), folder: TempDir::new().expect("a folder") };
        servers.start(0, settings);
        servers
    }

    /// Three masters, each with `replicas` replicas.
    pub fn cluster(replicas: usize) -> Servers {
        let ports = (0..3 * (replicas + 1)).map(|_| port()).collect();
        let mut servers = Servers { ports, running: Vec::new(), folder: TempDir::new().expect("a folder") };
        let settings =
            ["--cluster-enabled", "yes", "--cluster-node-timeout", "5000", "--cluster-announce-ip", "127.0.0.1"];
        (0..servers.ports.len()).for_each(|nth| servers.start(nth, &settings));
        let addresses = servers.ports.iter().map(|port| format!("127.0.0.1:{port}"));
        let create = Command::new("redis-cli")
            .args(["--cluster", "create"])
            .args(addresses)
            .args(["--cluster-replicas", &replicas.to_string(), "--cluster-yes"])
            .output()
            .expect("redis-cli runs");
        assert!(create.status.success(), "{}", String::from_utf8_lossy(&create.stdout));
        let is_ready = |port: &u16| {
            let about = cli(*port, &["CLUSTER", "INFO"]);
            about.contains("cluster_state:ok") && about.contains(&format!("known_nodes:{}", servers.ports.len()))
        };
        until("the cluster is ready", || servers.ports.iter().all(is_ready));
        servers
    }

    fn start(&mut self, nth: usize, settings: &[&str]) {
        let port = self.ports[nth];
        let folder = self.folder.path().join(port.to_string());
        std::fs::create_dir_all(&folder).expect("made");
        let server = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "yes", "--dir"])
            .arg(&folder)
            .args(settings)
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server runs");
        self.running.push(server);
        until("a server answers", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    }

    /// Kills this server with SIGKILL.
    pub fn kill(&mut self, port: u16) {
        let nth = self.ports.iter().position(|known| *known == port).expect("one of ours");
        self.running[nth].kill().expect("killed");
        self.running[nth].wait().expect("ended");
    }

    pub fn location(&self, name: &str) -> String {
        let servers: Vec<String> = self.ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        format!("redis://{}/{name}", servers.join(","))
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        for server in &mut self.running {
            drop(server.kill());
            drop(server.wait());
        }
    }
}

/// Runs `redis-cli`; returns what it prints.
pub fn cli(port: u16, words: &[&str]) -> String {
    let output = Command::new("redis-cli").args(["-p", &port.to_string()]).args(words).output().expect("it runs");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(120), "{what}: not after two minutes");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A proxy before one server. It swallows one in `one_in` parts of replies, and cuts the
/// connection: the request was carried out, and nobody gets the answer.
pub struct Proxy {
    pub port: u16,
    pub one_in: Arc<AtomicU64>,
    pub swallowed: Arc<AtomicU64>,
}

impl Proxy {
    /// Loses nothing until `one_in` is set.
    pub fn before(server: u16) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let port = listener.local_addr().expect("known").port();
        let (one_in, swallowed) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let (of_proxy, count) = (Arc::clone(&one_in), Arc::clone(&swallowed));
        let replies = Arc::new(AtomicU64::new(1));
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(("127.0.0.1", server)) else { continue };
                let (one_in, swallowed, replies) = (Arc::clone(&of_proxy), Arc::clone(&count), Arc::clone(&replies));
                pass(client.try_clone().expect("a socket"), server.try_clone().expect("a socket"), || true);
                pass(server, client, move || {
                    let one_in = one_in.load(Ordering::Relaxed);
                    let is_lost = one_in > 0 && replies.fetch_add(1, Ordering::Relaxed).is_multiple_of(one_in);
                    swallowed.fetch_add(u64::from(is_lost), Ordering::Relaxed);
                    !is_lost
                });
            }
        });
        Proxy { port, one_in, swallowed }
    }
}

/// Copies from one socket to the other in a thread, while `passes` returns true.
fn pass(mut from: TcpStream, mut to: TcpStream, passes: impl Fn() -> bool + Send + 'static) {
    std::thread::spawn(move || {
        let mut part = vec![0; 1 << 16];
        while let Ok(read @ 1..) = from.read(&mut part) {
            if !passes() || to.write_all(&part[..read]).is_err() {
                break;
            }
        }
        drop(from.shutdown(Shutdown::Both));
        drop(to.shutdown(Shutdown::Both));
    });
}
