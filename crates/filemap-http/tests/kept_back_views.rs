//! Views under access rules: excluded captures are in no number, calendar or link, blocked ones
//! are counted, listed and refused.

use std::sync::Arc;

use filemap::acl::AccessRules;
use filemap::{Options, Page, PageStore};
use filemap_http::server::ServerOptions;
use urlindex::CrawlRules;

use crate::inspect::{TIME, html, links, view};
use crate::served::{self, Served};

const DAY: i64 = 86_400_000;
const SECRET: &str = "what-nobody-sees";
const REASON: &str = "at the owner's request";

fn rules(text: &str) -> AccessRules {
    let mut rules = AccessRules::new();
    rules.add("rules.aclj", text.as_bytes()).expect("rules");
    rules
}

fn with(text: &str, pages: &[Page]) -> Served {
    served::with(ServerOptions::new().access(rules(text)), pages)
}

/// The links of a view with this prefix.
fn leads_to(view: &str, way: &str) -> Vec<String> {
    links(view).into_iter().filter(|link| link.starts_with(way)).collect()
}

/// The days of a calendar that have captures.
fn days(view: &str) -> Vec<String> {
    let day = |link: String| Some(link.split_once("&day=")?.1.split('#').next()?.to_owned());
    links(view).into_iter().filter_map(day).collect()
}

#[test]
fn captures_that_are_excluded_for_their_time_are_on_no_calendar_and_beside_none() {
    // Excludes the first of three.
    let rules = "example,a)/ - {\"access\": \"exclude\", \"before\": \"20231115000000\"}\n";
    let bodies = [SECRET, "<p>one\n", "<p>two\n"];
    let pages: Vec<Page> = (0..3).map(|at| html("http://a.example/", TIME + at * DAY, bodies[at as usize])).collect();
    let server = with(rules, &pages);
    let shown = view(&server, "/captures?url=http://a.example/");
    assert!(shown.contains("2 versions in all"), "{shown}");
    assert_eq!(
        (leads_to(&shown, "/show?").len(), days(&shown)),
        (2, vec!["2023-11-15".to_owned(), "2023-11-16".to_owned()]),
        "{shown}"
    );
    let of_day = view(&server, "/captures?url=http://a.example/&day=2023-11-14");
    assert!(of_day.contains("None.") && leads_to(&of_day, "/show?").is_empty(), "{of_day}");
    let compared = view(&server, "/compare?url=http://a.example/");
    assert!(compared.contains("one") && !compared.contains(SECRET), "{compared}");
    // The older one has none.
    assert_eq!(compared.matches(">Earlier<").count(), 1, "{compared}");
    let oldest = leads_to(&shown, "/show?").pop().expect("a capture");
    assert!(!view(&server, &oldest).contains("Compared with the one before"));
    let version = oldest.split("version=").nth(1).expect("a version");
    let target = format!("/compare?url=http://a.example/&b={version}");
    let answer = server.get(&target, &[]);
    assert!(answer.status == 404 && String::from_utf8_lossy(&answer.body).contains("no capture before"));
}

#[test]
fn captures_that_are_excluded_for_their_spelling_are_on_no_calendar_and_beside_none() {
    // All of one page: the store's canonicaliser drops tracking parameters from its canonical URL.
    let own = |query: &str, at: i64, body: &str| html(&format!("http://a.example/{query}"), TIME + at * DAY, body);
    let pages = [own("", 0, "<p>one\n"), own("?utm_source=own", 1, SECRET), own("", 2, "<p>two\n")];
    let served = |rules_text: &str| {
        let dir = tempfile::tempdir().expect("a folder");
        let crawl = Arc::new(CrawlRules::crawl());
        let store = PageStore::create_with(dir.path().join("pages.fm"), crawl, Options::new()).expect("a store");
        for page in &pages {
            store.put_page(page).expect("stored");
        }
        let mut served = served::of(store, ServerOptions::new().access(rules(rules_text)));
        served.dir = dir;
        served
    };
    let server = served("example,a)/?utm_source - {\"access\": \"exclude\"}\n");
    let shown = view(&server, "/captures?url=http://a.example/");
    assert!(shown.contains("2 versions in all") && !shown.contains("2023-11-15"), "{shown}");
    assert_eq!(leads_to(&shown, "/show?").len(), 2);
    let compared = view(&server, "/compare?url=http://a.example/");
    assert!(compared.contains("one") && compared.contains("two") && !compared.contains(SECRET), "{compared}");
    // Without the rule there are three.
    assert!(view(&served(""), "/captures?url=http://a.example/").contains("3 versions in all"));
}

#[test]
fn captures_that_are_blocked_are_on_the_calendar_without_a_link_and_not_compared() {
    let rules =
        format!("example,a)/ - {{\"access\": \"block\", \"reason\": \"{REASON}\", \"before\": \"20231115000000\"}}\n");
    let bodies = [SECRET, "<p>one\n", "<p>two\n"];
    let pages: Vec<Page> = (0..3).map(|at| html("http://a.example/", TIME + at * DAY, bodies[at as usize])).collect();
    let server = with(&rules, &pages);
    let shown = view(&server, "/captures?url=http://a.example/");
    assert!(shown.contains("3 versions in all") && days(&shown).len() == 3, "{shown}");
    assert!(shown.contains("is blocked by an access rule") && shown.contains("owner"), "{shown}");
    let readable = leads_to(&shown, "/show?");
    assert_eq!((readable.len(), shown.matches("type=\"radio\"").count()), (2, 4), "{shown}");
    let version = readable[1].split("version=").nth(1).expect("a version");
    // Compared with the one before, which is blocked.
    let answer = server.get(&format!("/compare?url=http://a.example/&b={version}"), &[]);
    let body = String::from_utf8_lossy(&answer.body).into_owned();
    assert!(answer.status == 451 && body.contains("is blocked by an access rule"), "{body}");
    assert!(body.contains("the owner") && !body.contains(SECRET), "{body}");
}

#[test]
fn a_tree_counts_and_names_what_is_not_excluded() {
    let page = |path: &str| html(&format!("http://a.example/{path}"), TIME, "<p>x");
    let all = ["", "d/1", "d/2", "d/secret", "secret/1", "secret/2", "z/9", "z/secret"];
    let mut pages: Vec<Page> = all.map(page).into();
    pages.push(html("https://a.example:8443/secret", TIME, "<p>x"));
    let rules = "example,a)/secret - {\"access\": \"exclude\"}\n\
        example,a)/d/secret - {\"access\": \"exclude\"}\n\
        example,a)/z/secret - {\"access\": \"exclude\"}\n\
        example,a:8443)/secret - {\"access\": \"exclude\"}\n\
        example,a)/d/2 - {\"access\": \"block\"}\n";
    let server = with(rules, &pages);
    let rows = |target: &str| -> Vec<String> {
        let shown = view(&server, target);
        assert!(!shown.contains("secret"), "{target}: {shown}");
        let text = |row: &str| {
            let row = row.split("</tr>").next().expect("a row");
            let texts = row.split('<').filter_map(|part| Some(part.split_once('>')?.1)).filter(|text| !text.is_empty());
            texts.collect::<Vec<_>>().join(" ")
        };
        shown.split("<tr>").skip(2).map(text).collect()
    };
    assert_eq!(rows("/tree?host=a.example"), ["http://a.example/ 4"]);
    assert_eq!(rows("/tree?prefix=http://a.example/"), ["http://a.example/", "d/ 2", "z/ 1"]);
    assert_eq!(rows("/tree?prefix=http://a.example/d/"), ["1", "2"], "what is blocked is listed");
    assert_eq!(rows("/tree?prefix=http://a.example/z/"), ["9"]);
    let says = |target: &str| view(&server, target).contains("No more pages.");
    assert!(says("/tree?prefix=https://a.example:8443/") && says("/tree?prefix=http://a.example/secret/"));
}
