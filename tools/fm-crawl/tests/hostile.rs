//! The hostile web: a crawl of it ends by itself, names every limit that it reached, and stays
//! within its memory limit.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use crate::web::crawl::Bench;
use crate::web::{self, Web, hostile};

/// The peak resident memory of the process, in KiB, sampled while it runs.
fn watch(mut child: std::process::Child) -> (web::crawl::Ran, u64) {
    let status = format!("/proc/{}/status", child.id());
    let mut peak_kib = 0;
    while child.try_wait().expect("it is ours").is_none() {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let peak = text.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok());
        peak_kib = peak_kib.max(peak.unwrap_or(0));
        std::thread::sleep(Duration::from_millis(20));
    }
    (Bench::finish(child), peak_kib)
}

#[test]
fn a_crawl_of_the_hostile_web_ends_by_itself_and_names_every_limit() {
    let web = Web::new(hostile::all());
    let (bench, resolve) = (Bench::new(), web.resolve());
    let seeds: Vec<String> = hostile::all().iter().map(|(name, _)| format!("--seed=http://{name}/")).collect();
    let mut arguments = vec!["--allow-private", "--rate=0", "--json", "--host-connections=4", &resolve];
    arguments.extend([
        // Below the ten seconds after which a body is too slow.
        "--timeout=9s",
        "--first-byte-timeout=6s",
        "--attempts=2",
        "--retry=100ms",
        "--patience=3s",
        "--max-retry-after=2s",
    ]);
    arguments.extend(["--max-host-pages=200", "--max-depth=15", "--max-body=4MiB", "--max-host-failures=12"]);
    arguments.extend(seeds.iter().map(String::as_str));
    let (ran, peak_kib) = watch(bench.start("run", &arguments));
    // Hosts that do not answer are left with their pages queued, and the crawl says so.
    let end = ran.ended(5).json();
    assert_eq!(end["end"], "waiting", "{end}");
    let met: BTreeSet<&str> = end["reasons"].as_object().unwrap().keys().map(String::as_str).collect();
    let wanted = [
        "body-limit",
        "busy",
        "depth-limit",
        "first-byte-timeout",
        "header-limit",
        "host-pages-limit",
        "incomplete",
        "kept-as-received",
        "link-limit",
        "protocol",
        "ratio-limit",
        "redirect-limit",
        "retry-after-limit",
        "robots",
        "robots-unreachable",
        "server-status",
        "total-timeout",
        "url-limit",
    ];
    for name in wanted {
        assert!(met.contains(name), "{name} is missing: {end}");
    }
    assert!(peak_kib < 400 << 10, "{peak_kib} KiB");

    let counts = web.counts();
    let of = |host: &str| counts.keys().filter(|url| url.starts_with(&format!("http://{host}/"))).count();
    assert!(of("calendar.test") <= 201 && of("links.test") <= 201, "pages of a host: {counts:?}");
    assert_eq!(of("session.test"), 12, "the seed, ten pages without their session ids, and robots.txt");
    assert!(of("soft.test") <= 10, "the same body is not followed again");
    assert!(of("loop.test") <= 20, "redirects in a row");
    assert_eq!((of("forbidding.test"), of("robots-broken.test")), (1, 1), "only robots.txt is asked for");
    let pages = bench.pages();
    assert_eq!(pages["http://busy.test/soon"].body, b"<p>here it is");
    assert_eq!(pages["http://coded.test/"].body, hostile::NOT_BROTLI);
    let endless = &pages["http://endless.test/plain"];
    assert_eq!((endless.body.len(), endless.truncated.as_deref()), (4 << 20, Some("length")));
    assert!(pages["http://slow.test/body"].truncated.is_some() && !pages.contains_key("http://bomb.test/gzip"));
    let why = bench.run("why", &["http://bomb.test/gzip"]).ended(0);
    assert!(why.out.contains("last error   ratio-limit"), "{}", why.out);
}
