//! A program as a hook of a whole crawl: its answers count, and its failures lose no page.

use std::time::Duration;

use crawl::hooks::exec::Exec;

use crate::site::{Site, crawl, page, store};

#[test]
fn a_program_adds_links_and_fields_and_the_pages_of_a_dead_one_are_stored() {
    let site = Site::of(&[("/", "start"), ("/found", "found"), ("/last", "last")]);
    let folder = tempfile::tempdir().unwrap();
    // It answers for two pages and exits at the third.
    let script = r#"n=0; while read -r line; do n=$((n+1)); [ $n = 3 ] && exit 1;
        if [ $n = 1 ]; then echo '{"links": ["/found"], "fields": {"n": 1, "word": "one"}}';
        else echo '{"links": ["/last"]}'; fi; done"#;
    let built = crawl(&folder, &site).on_page(Exec::new(script, 1, Duration::from_secs(120))).build();
    let summary = built.unwrap().run().unwrap();
    assert_eq!((summary.tally.fetched, summary.tally.hooks_failed()), (3, 1), "{:?}", summary.tally.json());
    let store = store(&folder);
    let (_, fields) = page(&store, &site.url("/"));
    assert_eq!((fields["n"].as_str(), fields["word"].as_str()), ("1", "one"));
    assert!(page(&store, &site.url("/last")).0.is_some());
    assert!(summary.tally.last_of(crawl::Reason::HookFailed).unwrap().contains("the child exited"));
}
