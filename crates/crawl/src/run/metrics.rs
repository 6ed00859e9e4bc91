//! The counts of a run as OpenMetrics text, for a file-based collector.
//!
//! Counters cover one run, so a collector sees a restart; gauges cover the whole crawl.

use std::fmt::Write;

use frontier::Frontier;

use super::tally::Tally;

/// The text.
pub fn text(tally: &Tally, frontier: &Frontier, is_running: bool) -> String {
    let stats = frontier.stats();
    let counters = [
        ("fetched", "Fetched pages", tally.fetched),
        ("redirects", "Of the fetched pages: redirects", tally.redirects),
        ("unchanged", "Of the fetched pages: unchanged since the last version", tally.unchanged),
        ("duplicates", "Of the fetched pages: with the body of another", tally.duplicates),
        ("received_bytes", "Bytes of bodies as received", tally.wire_bytes),
        ("body_bytes", "Bytes of decoded bodies", tally.body_bytes),
        ("discovered", "Discovered pages", tally.discovered),
    ];
    let gauges = [
        ("running", "1 while a run is active", u64::from(is_running)),
        ("paused", "1 while the run is paused", u64::from(tally.is_paused)),
        ("slowed_hosts", "Hosts that are asked less often since they are busy", tally.slowed_hosts),
        ("pages", "Known pages", u64::from(stats.pages)),
        ("queued_pages", "Pages that wait for their first fetch", u64::from(stats.queued)),
        ("due_pages", "Pages that are due again", u64::from(stats.due)),
        ("in_flight_pages", "Pages that are being fetched", u64::from(stats.in_flight)),
        ("done_pages", "Pages that were fetched at least once", u64::from(stats.fetched)),
        ("given_up_pages", "Pages that were given up", u64::from(stats.gone)),
        ("hosts", "Known hosts", u64::from(stats.hosts)),
        (
            "failing_hosts",
            "Hosts that do not answer",
            frontier.hosts().filter(|host| host.failing.is_some()).count() as u64,
        ),
        ("frontier_memory_bytes", "Memory of the frontier", stats.memory_bytes),
        ("frontier_disk_bytes", "Bytes of the frontier's files", stats.disk_bytes),
    ];
    let mut text = String::new();
    // Writing to a string cannot fail.
    for (name, help, value) in counters {
        let _ = write!(
            text,
            "# TYPE fm_crawl_{name} counter\n# HELP fm_crawl_{name} {help}.\nfm_crawl_{name}_total {value}\n"
        );
    }
    for (name, help, value) in gauges {
        let _ = write!(text, "# TYPE fm_crawl_{name} gauge\n# HELP fm_crawl_{name} {help}.\nfm_crawl_{name} {value}\n");
    }
    text += "# TYPE fm_crawl_reasons counter\n# HELP fm_crawl_reasons Failures and limits by name.\n";
    for (reason, times) in &tally.reasons {
        let _ = writeln!(text, "fm_crawl_reasons_total{{reason=\"{}\"}} {times}", reason.name());
    }
    text + "# EOF\n"
}

#[cfg(test)]
mod tests {
    use frontier::FrontierOptions;

    use super::*;
    use crate::failure::Reason;

    #[test]
    fn every_number_has_its_kind_and_the_text_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let mut frontier = Frontier::create(folder.path().join("frontier"), FrontierOptions::new()).unwrap();
        frontier.seed(&["http://a.example/"], 0).unwrap();
        let mut tally = Tally::default();
        tally.fetched = 7;
        tally.add(Reason::Dns, 2);
        let text = text(&tally, &frontier, true);
        let lines = ["fm_crawl_fetched_total 7", "fm_crawl_queued_pages 1", "fm_crawl_reasons_total{reason=\"dns\"} 2"];
        assert!(lines.iter().all(|line| text.lines().any(|one| one == *line)), "{text}");
        assert!(text.ends_with("\n# EOF\n"));
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let name = line.split([' ', '{']).next().unwrap();
            let family = name.strip_suffix("_total").unwrap_or(name);
            let kind = if name == family { "gauge" } else { "counter" };
            assert!(text.contains(&format!("# TYPE {family} {kind}\n")), "{line}");
        }
    }
}
