//! A page's captures: on a calendar, as a list, and two of them compared.

use filemap::Page;

use crate::inspect::{TIME, html, links, view};
use crate::served::served;

const DAY: i64 = 86_400_000;
const OF_PAGE: &str = "url=http%3A%2F%2Fa.example%2F";

/// Versions in the order of a list, taken from their links.
fn listed(view: &str) -> Vec<String> {
    links(view).into_iter().filter(|link| link.starts_with("/show?")).collect()
}

#[test]
fn each_day_and_year_of_a_calendar_leads_to_its_captures() {
    // 14 November 2023: two; the day after: one; the leap day of 2020: one.
    let times = [TIME, TIME + 1000, TIME + DAY, 1_582_934_400_000];
    let pages: Vec<Page> = times.map(|time| html("http://a.example/", time, &format!("<p>{time}"))).into();
    let server = served(&pages);
    let newest = view(&server, &format!("/captures?{OF_PAGE}"));
    assert!(newest.contains("4 versions in all") && newest.contains("Calendar of 2023"), "{newest}");
    assert_eq!(listed(&newest).len(), 4);
    let days = |view: &str| {
        let of_days = links(view).into_iter().filter(|link| link.contains("&day="));
        of_days.map(|link| link.split("&day=").nth(1).expect("a day").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(days(&newest), ["2023-11-14", "2023-11-15"]);
    let years: Vec<String> = links(&newest).into_iter().filter(|link| link.contains("&year=")).collect();
    assert_eq!(years, ["2023", "2020"].map(|year| format!("/captures?{OF_PAGE}&year={year}")));
    let leap = view(&server, &years[1]);
    assert_eq!((days(&leap), listed(&leap).len()), (vec!["2020-02-29".to_owned()], 1));
    for (day, captures) in [("2023-11-14", 2), ("2023-11-15", 1), ("2020-02-29", 1), ("2023-11-16", 0)] {
        let of_day = view(&server, &format!("/captures?{OF_PAGE}&day={day}"));
        assert_eq!(listed(&of_day).len(), captures, "{day}");
        assert_eq!(of_day.matches("aria-current=\"date\"").count(), captures.min(1), "{day}");
        assert!(of_day.contains(&format!("Calendar of {}", &day[..4])), "{day}");
    }
    for wrong in ["day=2023-02-29", "day=x", "year=x", "before=1", "year=99999999999999999999"] {
        assert_eq!(server.get(&format!("/captures?{OF_PAGE}&{wrong}"), &[]).status, 400, "{wrong}");
    }
}

#[test]
fn the_captures_of_a_long_history_are_listed_in_parts_each_once() {
    let page = |at: i64| html("http://a.example/", TIME + (at / 3) * 1000, &format!("<p>{at}"));
    let server = served(&(0..1203).map(page).collect::<Vec<Page>>());
    let (mut found, mut parts, mut target) = (Vec::new(), 0, format!("/captures?{OF_PAGE}"));
    loop {
        let part = view(&server, &target);
        assert!(part.contains("1,203 versions in all"), "{target}");
        found.extend(listed(&part));
        parts += 1;
        let Some(next) = links(&part).into_iter().find(|link| link.contains("&before=")) else { break };
        assert!(part.contains("The newest 500 of them; there are older ones."), "{target}");
        target = next;
    }
    assert_eq!((parts, found.len()), (3, 1203));
    let (first, last) = (found[0].clone(), found[1202].clone());
    assert!(first.contains(&format!("version={}.", TIME + 400_000)) && last.contains(&format!("version={TIME}.")));
    found.sort();
    found.dedup();
    assert_eq!(found.len(), 1203, "each once");
}

#[test]
fn two_captures_are_compared_in_status_headers_and_body() {
    let mut old = html("http://a.example/", TIME, "<p>one\n<p>two\n<p>three\n");
    old.headers.push("Server", "<old>");
    let mut new = html("http://a.example/", TIME + DAY, "<p>one\n<p>2\n<p>three\n<p>four\n");
    new.status = Some(404);
    new.headers.push("Server", "<new>");
    let last = Page { fetched_at_ms: TIME + 2 * DAY, ..new.clone() };
    let server = served(&[old, new, last]);
    // As the form of the list requests it: the newest two.
    let list = view(&server, &format!("/captures?{OF_PAGE}"));
    assert!(list.contains("action=\"/compare\"") && list.matches(" checked").count() == 2, "{list}");
    let equal = view(&server, &format!("/compare?{OF_PAGE}"));
    assert!(equal.contains("Both bodies are equal") && equal.contains("No lines differ"), "{equal}");
    let earlier = links(&equal)
        .into_iter()
        .find(|link| link.starts_with("/compare") && link.contains(&format!("b={}.", TIME + DAY)));
    let earlier = earlier.expect("a link to the new side's earlier version");
    assert!(view(&server, &earlier).contains("Both bodies are equal"));
    let versions =
        listed(&list).iter().map(|link| link.split("version=").nth(1).unwrap().to_owned()).collect::<Vec<_>>();
    let pair = view(&server, &format!("/compare?{OF_PAGE}&a={}&b={}", versions[2], versions[1]));
    for part in [
        "<dd>200</dd>",
        "<dd>404</dd>",
        "Server: &lt;<del>old</del>&gt;",
        "Server: &lt;<ins>new</ins>&gt;",
        "&lt;p&gt;<del>two</del>",
        "&lt;p&gt;<ins>2</ins>",
        "<ins>&lt;p&gt;four</ins>",
        "<td>&lt;p&gt;three</td>",
        "Removed: 1, added: 2 lines.",
    ] {
        assert!(pair.to_lowercase().contains(&part.to_lowercase()), "{part}: {pair}");
    }
    for (query, status, words) in [
        (format!("{OF_PAGE}&a=1.1&b=2.2"), 404, "no page"),
        (format!("{OF_PAGE}&b={}", versions[2]), 404, "no capture before"),
        (format!("{OF_PAGE}&a=x"), 400, "a time in ms"),
        ("url=http://b.example/".to_owned(), 404, "no page"),
    ] {
        let answer = server.get(&format!("/compare?{query}"), &[]);
        let said = String::from_utf8(answer.body).expect("text");
        assert!(answer.status == status && said.contains(words), "{query}: {} {said}", answer.status);
    }
}

#[test]
fn of_what_is_not_compared_the_sizes_are_said() {
    let binary = |time, last: u8| Page::new("http://a.example/", time, 200, vec![0, 1, 2, last]);
    let mut large = vec![b'\n'; 300 << 10];
    large[0] = b'x';
    let text = |time, body: &[u8]| Page::new("http://b.example/", time, 200, body);
    let server = served(&[binary(TIME, 3), binary(TIME + 1, 4), text(TIME, b"y"), text(TIME + 1, &large)]);
    let shown = view(&server, &format!("/compare?{OF_PAGE}"));
    assert!(shown.contains("not both text") && !shown.contains("class=\"diff\""), "{shown}");
    let digests: Vec<&str> = shown.split("digest <code>").skip(1).filter_map(|rest| rest.split('<').next()).collect();
    assert!(digests.len() == 2 && digests[0] != digests[1] && shown.contains("4 B"), "{shown}");
    let shown = view(&server, "/compare?url=http%3A%2F%2Fb.example%2F");
    assert!(shown.contains("Of the new body the first 262.1 kB are compared: 45.1 kB are not."), "{shown}");
    assert!(shown.contains("more rows") || shown.contains("more are left out"), "{shown}");
}
