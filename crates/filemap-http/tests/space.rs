//! Segments and dictionaries: as JSON and as views.

use filemap::acl::AccessRules;
use filemap::{Options, PageStore};
use filemap_http::server::ServerOptions;

use crate::inspect::{TIME, html, links, view};
use crate::served::{self, served};

#[test]
fn the_map_of_segments_has_live_and_dead_bytes() {
    let dir = tempfile::tempdir().expect("a folder");
    let store = PageStore::create(dir.path().join("pages.fm"), Options::new()).expect("a store");
    let page = |at: usize| html(&format!("http://a.example/{at}"), TIME, &format!("<p>{}", at.pow(7)).repeat(50));
    for at in 0..200 {
        store.put_page(&page(at)).expect("stored");
    }
    for at in 0..50 {
        store.remove(format!("http://a.example/{at}")).expect("removed");
    }
    store.engine().checkpoint().expect("counted");
    let server = served::of(store, ServerOptions::new());
    let found = server.get("/v1/segments", &[]).json();
    let figure = |of: &serde_json::Value, name: &str| of[name].as_u64().unwrap_or_else(|| panic!("{name}: {of}"));
    let segments = found["segments"].as_array().expect("segments");
    for name in ["bytes", "live_bytes", "dead_bytes", "tombstone_bytes", "unindexed_bytes"] {
        let sum: u64 = segments.iter().map(|segment| figure(segment, name)).sum();
        assert_eq!(sum, figure(&found["all"], name), "{name}");
    }
    let all = &found["all"];
    assert!(figure(all, "dead_bytes") > 0 && figure(all, "live_bytes") > figure(all, "dead_bytes"), "{found}");
    let share = figure(all, "live_bytes") as f64
        / (figure(all, "live_bytes") + figure(all, "dead_bytes") + figure(all, "tombstone_bytes")) as f64;
    assert_eq!(all["live_share"].as_f64(), Some(share));
    let shown = view(&server, "/segments");
    assert!(shown.contains("value0.dat") && shown.contains(&format!("{:.1} %", 100.0 * share)), "{shown}");
    for kind in ["live", "dead"] {
        let width = shown.split(&format!("<rect class=\"{kind}\" x=")).nth(1).and_then(|rest| rest.split('"').nth(3));
        assert!(width.and_then(|width| width.parse::<u32>().ok()).is_some_and(|width| width > 0), "{kind}: {shown}");
    }
    assert!(!shown.contains("style="), "the policy forbids it");
    let last = figure(&segments[segments.len() - 1], "ordinal");
    let none = server.get(&format!("/v1/segments?after={last}"), &[]).json();
    assert!(none["segments"].as_array().is_some_and(Vec::is_empty) && none["all"] == found["all"], "{none}");
    assert!(view(&server, &format!("/segments?after={last}")).contains("No more segments."));
    for target in ["/segments?after=x", "/v1/segments?after=-1", "/dictionaries?after=x", "/v1/dictionaries?after=-1"] {
        assert_eq!(server.get(target, &[]).status, 400, "{target}");
    }
}

#[test]
fn dictionaries_are_listed_with_what_they_are_for() {
    assert!(view(&served(&[]), "/dictionaries").contains("0 dictionaries in all"));
    let dir = tempfile::tempdir().expect("a folder");
    let store = PageStore::create(dir.path().join("pages.fm"), Options::new()).expect("a store");
    // Text common to all pages, and unique words.
    let page = |at: u64| {
        let mut noise = at + 1;
        let mut word = || {
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            format!("{:x} ", noise >> 40)
        };
        let frame: String = (0..40).map(|row| format!("<li class=\"c{row}\"><a href=/x/{}>", row * row * 31)).collect();
        let own: String = (0..30).map(|_| word()).collect();
        html(&format!("http://a.example/{at}"), TIME, &format!("<title>{at}</title>{frame}<p>{own}"))
    };
    for at in 0..2000 {
        store.put_page(&page(at)).expect("stored");
    }
    // Dictionaries that the store has trained by itself, and by this call.
    store.engine().train().expect("trained");
    let made = store.engine().dictionaries();
    assert!(!made.is_empty(), "a dictionary pays for pages so alike");
    let server = served::of(store, ServerOptions::new());
    let found = server.get("/v1/dictionaries", &[]).json();
    let all = found["all"].as_u64().expect("a number");
    assert!(
        all >= made.len() as u64 && found["dictionaries"].as_array().expect("a list").len() as u64 == all,
        "{found}"
    );
    let shown = view(&server, "/dictionaries");
    for facts in &made {
        assert!(shown.contains(&format!("dict{}.zdict", facts.id)), "{shown}");
    }
    assert!(made.iter().any(|facts| facts.is_current) && shown.contains("compresses new pages"), "{shown}");
    assert!(links(&shown).contains(&"/v1/dictionaries".to_owned()));
}

#[test]
fn a_dictionary_of_a_site_that_rules_keep_back_is_told_without_its_name() {
    let dir = tempfile::tempdir().expect("a folder");
    // Too small for the text that all hosts share.
    let options = Options::new().dictionary_bytes(16 << 10);
    let store = PageStore::create(dir.path().join("pages.fm"), options).expect("a store");
    let words = |seed: u64, number: usize| -> String {
        let mut noise = seed;
        let mut word = || {
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            format!("{:x} ", noise >> 40)
        };
        (0..number).map(|_| word()).collect()
    };
    let frames = [1, 2, 3, 4].map(|site| words(site, 1500));
    for at in 0..2000 {
        let body = format!("{}<p>{}", frames[at % 4], words(at as u64 + 9, 30));
        store.put_page(&html(&format!("http://site{}.example/{at}", at % 4), TIME, &body)).expect("stored");
    }
    store.engine().train().expect("trained");
    let made = store.engine().dictionaries();
    let groups = made.iter().map(|facts| String::from_utf8(facts.group.clone()).expect("text"));
    let groups: Vec<String> = groups.filter(|group| !group.is_empty()).collect();
    let [kept_back, named, ..] = groups.as_slice() else { panic!("sites have their own dictionaries: {made:?}") };
    let host = kept_back.strip_prefix("http://").and_then(|host| host.strip_suffix(".example")).expect("a site");
    let mut rules = AccessRules::new();
    let rule = format!("example,{host})/1 - {{\"access\": \"exclude\"}}\n");
    rules.add("rules.aclj", rule.as_bytes()).expect("rules");
    let server = served::of(store, ServerOptions::new().access(rules));
    for (target, words) in [("/dictionaries", "access rules"), ("/v1/dictionaries", "\"is_kept_back\":true")] {
        let body = String::from_utf8(server.get(target, &[]).body).expect("text");
        assert!(!body.contains(host) && body.contains(named) && body.contains(words), "{target}: {body}");
    }
}

#[test]
fn bodies_are_told_by_their_compression_from_a_sample() {
    let dir = tempfile::tempdir().expect("a folder");
    let store = PageStore::create(dir.path().join("pages.fm"), Options::new()).expect("a store");
    let text = "<p>the same words again and again ".repeat(100);
    let mut noise = 1_u64;
    for at in 0..20 {
        store.put_page(&html(&format!("http://a.example/{at}"), TIME, &format!("{at}{text}"))).expect("stored");
    }
    for at in 0..5 {
        let mut page = html(&format!("http://a.example/noise{at}"), TIME, "");
        page.body = std::iter::repeat_with(|| {
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (noise >> 56) as u8
        })
        .take(3_000)
        .collect();
        store.put_page(&page).expect("stored");
    }
    let server = served::of(store, ServerOptions::new());
    let begun = std::time::Instant::now();
    let sample = loop {
        let told = server.get("/v1/stat?figures=1", &[]).json()["compression"].take();
        if !told.is_null() {
            break told;
        }
        assert!(begun.elapsed().as_secs() < 60, "no sample was taken");
        std::thread::sleep(std::time::Duration::from_millis(10));
    };
    let kind = |name: &str| {
        let figure = |field: &str| sample[name][field].as_u64().unwrap_or_else(|| panic!("{name}: {sample}"));
        (figure("bodies"), figure("bytes"), figure("stored_bytes"))
    };
    assert_eq!((kind("raw"), kind("with_dictionary")), ((5, 15_000, 15_000), (0, 0, 0)), "{sample}");
    let (bodies, bytes, stored) = kind("without_dictionary");
    assert!(bodies == 20 && bytes > 20 * text.len() as u64 && stored < bytes / 5, "{sample}");
    assert_eq!(sample["missed"], 0, "{sample}");
    let shown = view(&server, "/");
    assert!(shown.contains("zstd with a dictionary") && shown.contains("Of a sample"), "{shown}");
    assert!(links(&shown).contains(&"/v1/stat?figures=1".to_owned()));
}
