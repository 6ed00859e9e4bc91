//! Decisions of rules: 256 cases as pywb decided, and where pywb differs, as it documents it; the
//! refusal of lines; independence of the order and names of files.

use serde_json::Value;

use super::*;
use crate::date;

const NOW: i64 = 1_711_886_400_000;

/// Decisions of pywb 2.10.0, made by `tests/foreign/access.py`.
const BY_PYWB: &str = include_str!("../../../../tests/data/access/pywb.jsonl");

fn rules(text: &str) -> AccessRules {
    let mut rules = AccessRules::new();
    rules.add("rules.aclj", text.as_bytes()).expect("rules");
    rules
}

fn of<'r>(rules: &'r AccessRules, url: &str) -> Ruling<'r> {
    rules.of_url(url.as_bytes(), None).at(NOW, NOW)
}

#[test]
fn captures_are_shown_and_kept_back_as_by_pywb() {
    let mut told = [0, 0, 0];
    for line in BY_PYWB.lines() {
        let case: Value = serde_json::from_str(line).expect("a case");
        let text = |value: &Value| value.as_str().expect("text").to_owned();
        let mut rules = AccessRules::new();
        for (nth, file) in case["files"].as_array().expect("files").iter().enumerate() {
            rules.add(&nth.to_string(), text(file).as_bytes()).expect("rules");
        }
        rules.configure("config", case["config"].to_string().as_bytes()).expect("a configuration");
        let now = date::parse(&text(&case["now"])).expect("a time");
        for capture in case["captures"].as_array().expect("captures") {
            let (url, stamp, expected) = (text(&capture[0]), text(&capture[1]), text(&capture[2]));
            let of_url = rules.of_url(url.as_bytes(), None);
            let ruling = of_url.at(date::parse(&stamp).expect("a time"), now);
            let found = ["allow", "block", "exclude"][ruling.access as usize];
            assert_eq!(found, expected, "{url} {stamp} by {}: {line}", ruling.place());
            if let Some(whenever) = of_url.whenever() {
                assert_eq!(whenever.access, ruling.access, "{url}: {line}");
            }
            let key = index_key(url.as_bytes());
            for len in [0, key.len() / 2, key.len()] {
                assert!(expected != "exclude" || rules.may_exclude_within(&key[..len]), "{url} to {len}: {line}");
            }
            told[ruling.access as usize] += 1;
        }
    }
    assert!(told.iter().all(|count| *count > 400), "every answer is among the cases: {told:?}");
}

#[test]
fn a_rule_of_every_url_holds_where_no_other_does() {
    // pywb misses it for URLs that sort before a rule of another domain.
    let rules = rules("org,example)/ - {\"access\": \"allow\"}\n*, - {\"access\": \"exclude\"}\n");
    assert_eq!(of(&rules, "http://example.org/").access, Access::Allow);
    assert_eq!(of(&rules, "http://example.com/").access, Access::Exclude);
    assert_eq!(of(&rules, "http://zzz.example.net/").access, Access::Exclude);
    assert!(rules.may_exclude_within(b"net,"));
}

#[test]
fn a_rule_of_a_host_of_one_label_holds_behind_rules_of_its_paths() {
    // pywb does not reach this rule.
    let rules = rules("intranet)/?x - {\"access\": \"allow\"}\nintranet - {\"access\": \"block\"}\n");
    assert_eq!(of(&rules, "http://intranet/a").access, Access::Block);
    assert_eq!(of(&rules, "http://intranet/?x").access, Access::Allow);
}

#[test]
fn a_decision_says_its_file_and_line_and_reason() {
    let mut rules =
        rules("\ncom,b)/ - {\"access\": \"block\", \"reason\": \"a court\"}\r\ncom,a)/ - {\"access\": \"exclude\"}\n");
    let ruling = of(&rules, "http://b.com/x");
    assert_eq!(
        (ruling.place().as_str(), ruling.reason(), ruling.is_embargo()),
        ("rules.aclj:2", Some("a court"), false)
    );
    assert_eq!(of(&rules, "http://a.com/").place(), "rules.aclj:3");
    assert_eq!(of(&rules, "http://c.com/").place(), "the default");
    rules.configure("embargo.json", br#"{"embargo": {"newer": {"days": 1}, "reason": "a day"}}"#).expect("an embargo");
    let ruling = of(&rules, "http://c.com/");
    assert_eq!((ruling.place().as_str(), ruling.reason()), ("the embargo of embargo.json", Some("a day")));
    assert!(ruling.is_embargo() && ruling.access == Access::Exclude);
    let of_url = rules.of_url(b"http://c.com/", None);
    assert_eq!(of_url.at(NOW - 86_400_000, NOW).access, Access::Allow, "a day has gone by");
    assert!(of_url.whenever().is_none() && rules.of_url(b"http://a.com/", None).whenever().is_some());
}

#[test]
fn what_is_no_rule_is_refused_with_its_line() {
    for (text, line, words) in [
        ("com,a)/ - {\"access\": \"allow\"}\ncom,a)/\n", 2, "a rule is"),
        ("# a remark\n", 1, "a rule is"),
        ("com,a)/ - block\n", 1, "a rule is"),
        ("\n\n - {\"access\": \"block\"}\n", 3, "no key"),
        ("### - {\"access\": \"block\"}\n", 1, "no key"),
        ("com,a)/ - {\"access\": \"deny\"}\n", 1, "\"deny\""),
        ("com,a)/ - {\"access\": null}\n", 1, "null"),
        ("com,a)/ - {\"access\": \"block\", \"before\": \"soon\"}\n", 1, "`soon`"),
        ("com,a)/ - {\"access\": \"block\", \"newer\": {\"hours\": 1}}\n", 1, "`newer`"),
        ("com,a)/ - {\"access\": \"block\", \"newer\": {\"years\": -1}}\n", 1, "`newer`"),
        ("com,a)/ - {\"access\": \"block\", \"older\": {\"years\": 99999999999}}\n", 1, "`older`"),
        ("com,a)/ - {\"access\": \"block\", \"reason\": 1}\n", 1, "`reason`"),
        ("http://a.com/ - {\"access\": \"block\"}\n", 1, "`com,a)/`"),
    ] {
        let mut rules = rules("org,a)/ - {\"access\": \"block\"}\n");
        let before = rules.fingerprint();
        let error = rules.add("more.aclj", text.as_bytes()).unwrap_err().to_string();
        assert!(error.starts_with(&format!("more.aclj:{line}: ")) && error.contains(words), "{text}: {error}");
        assert_eq!(rules.fingerprint(), before, "as before");
    }
    for (text, words) in [
        ("", "EOF"),
        ("[]", "object"),
        ("{\"access\": \"block\"}", "`access`"),
        ("{\"default_access\": \"deny\"}", "\"deny\""),
        ("{\"embargo\": {}}", "no `before`"),
        ("{\"embargo\": {\"newer\": {\"days\": 0}}}", "no `before`"),
        ("{\"embargo\": {\"before\": \"2020\", \"access\": \"allow_ignore_embargo\"}}", "ignore"),
        ("{\"embargo\": {\"before\": \"2020\", \"hosts\": []}}", "`hosts`"),
    ] {
        let error = AccessRules::new().configure("c.json", text.as_bytes()).unwrap_err().to_string();
        assert!(error.starts_with("c.json") && error.contains(words), "{text}: {error}");
    }
}

#[test]
fn what_a_crawler_keeps_beside_a_page_is_under_the_rule_of_the_page() {
    let rules = rules("com,a)/b - {\"access\": \"exclude\"}\nurn:text:http://a.com/c - {\"access\": \"block\"}\n");
    for (url, access) in [
        ("urn:text:http://a.com/b", Access::Exclude),
        ("URN:pageinfo:HTTPS://www.a.com/B", Access::Exclude),
        ("urn:text:http://a.com/c", Access::Block),
        ("urn:text:http://a.com/d", Access::Allow),
        ("http://a.com/c", Access::Allow),
        ("urn:uuid:com,a)/b", Access::Allow),
    ] {
        assert_eq!(of(&rules, url).access, access, "{url}");
    }
}

#[test]
fn a_rule_that_no_url_can_match_is_refused_with_what_to_write() {
    for (key, meant) in [
        ("com,Example)/", "com,example)/"),
        ("com,example)/caf\u{e9}", "%c3%a9"),
        ("com,example)/caf%C3%A9", "com,example)/caf%c3%a9"),
        ("com,example)/%7euser", "com,example)/~user"),
        ("com,example)/100%", "com,example)/100%25###"),
        ("com,example,www)/", "com,example)/"),
        ("com,www)/a", "com)/a"),
        ("example.com/private", "com,example)/private"),
        ("example.com", "com,example"),
        ("example.com)/a", "com,example)/a"),
        ("*.example.com", "com,example,"),
        ("(com,example,)/a", "com,example)/a"),
        ("com,example,)/", "com,example)/"),
        ("HTTPS://example.com/a", "com,example)/a"),
        ("https://example.com/a", "com,example)/a"),
        ("com,example)a", "com,example)/a"),
        ("com,example)/a?b=2&a=1", "com,example)/a?a=1&b=2"),
        ("com,example)/a?b=2&a", "com,example)/a?a&b=2"),
        ("com,example)/a//b", "com,example)/a/b"),
        ("com,example)/a/../b", "com,example)/b"),
        ("com,example)/staff/?x", "com,example)/staff?x"),
        ("com,example)/staff/###", "com,example)/staff###"),
        ("com,example###", "com,example)/###"),
        ("com,example)###", "com,example)/###"),
    ] {
        let key = if key.ends_with('%') { format!("{key}###") } else { key.to_owned() };
        let mut rules = AccessRules::new();
        let refused = rules.add("r.aclj", format!("{key} - {{\"access\": \"block\"}}\n").as_bytes());
        let error = refused.map(|()| key.clone()).expect_err("no URL has this key").to_string();
        assert!(error.starts_with("r.aclj:1: ") && error.contains(&format!("{meant}`")), "{key}: {error}");
    }
    let refused = AccessRules::new().add("r.aclj", "\u{feff}com,a)/ - {\"access\": \"block\"}\n".as_bytes());
    assert!(refused.expect_err("a byte order mark").to_string().contains("byte order mark"));
    for field in ["acess", "befor", "reasons"] {
        let line = format!("com,a)/ - {{\"access\": \"block\", \"{field}\": \"2020\"}}\n");
        let error = AccessRules::new().add("r.aclj", line.as_bytes()).expect_err("an unknown field").to_string();
        assert!(error.starts_with("r.aclj:1: ") && error.contains(field), "{error}");
    }
}

#[test]
fn a_rule_that_some_url_matches_is_taken() {
    for (key, url) in [
        ("com,exam", "http://example.com/"),
        ("com,example,", "http://a.example.com/"),
        ("com,example,www", "http://wwwa.example.com/"),
        ("com,example)", "http://example.com/"),
        ("com,example:8080)/a", "http://example.com:8080/a"),
        ("com,example:80", "https://example.com:80/"),
        ("1,0,0,127)/", "http://127.0.0.1/"),
        ("1,0,0", "http://127.0.0.1/"),
        ("::1)/", "http://[::1]/"),
        ("com,example)/caf%c3", "http://example.com/caf\u{e9}"),
        ("com,example)/caf%c", "http://example.com/caf\u{e9}"),
        ("com,example)/.", "http://example.com/.well-known"),
        ("com,example)/a?b=1&b", "http://example.com/a?b=1&b=2"),
        ("com,example)/a?", "http://example.com/a?b"),
        ("com,example)/a?b=1###", "http://example.com/a?B=1"),
        ("com,xn--exmple-cua)/", "http://ex\u{e4}mple.com/"),
        ("com,example,ftp)/a", "ftp://ftp.example.com/a"),
        ("dns:example.com", "dns:example.com"),
        ("urn:text:", "urn:text:http://example.com/"),
        ("dn", "dns:example.com"),
    ] {
        let rules = rules(&format!("{key} - {{\"access\": \"block\"}}\n"));
        assert_eq!(of(&rules, url).access, Access::Block, "{key} {url}");
        assert!(rules.warnings().is_empty(), "{key}: {:?}", rules.warnings());
    }
}

#[test]
fn a_rule_that_may_surprise_is_warned_of() {
    let block = |key: &str, more: &str| format!("{key} - {{\"access\": \"block\"{more}}}\n");
    for (text, place) in [
        (block("com,a)/staff/", ""), "rules.aclj:1"),
        (block("com,a:80)/", ""), "rules.aclj:1"),
        (block("com,a:443)/b###", ""), "rules.aclj:1"),
        (block("com,a)/", ", \"before\": \"2020\", \"after\": \"2010\""), "rules.aclj:1"),
        (format!("{}com,a)/ - {{\"access\": \"allow\"}}\n", block("com,a)/", "")), "rules.aclj:2"),
    ] {
        let rules = rules(&text);
        assert!(matches!(rules.warnings(), [one] if one.starts_with(place)), "{text}: {:?}", rules.warnings());
    }
    for (key, other, is_told) in [
        ("com,a)/", "exclude", true),
        ("com,a)/", "block", false),
        ("*,", "exclude", true),
        ("com,a)/###", "exclude", true),
    ] {
        let mut rules = rules(&block(key, ""));
        rules.add("more.aclj", format!("{key} - {{\"access\": \"{other}\"}}\n").as_bytes()).expect("rules");
        let told = rules.warnings();
        assert_eq!(told.len(), usize::from(is_told), "{key} {other}: {told:?}");
        assert!(told.iter().all(|one| one.contains("more.aclj:1") && one.contains("rules.aclj:1")), "{told:?}");
    }
}

#[test]
fn rules_are_the_same_in_any_order_and_under_any_name() {
    let lines = ["com,b)/ - {\"access\": \"block\"}", "com,a)/ - {\"access\": \"exclude\"}"];
    let (sorted, mixed) = (rules(&lines.join("\n")), rules(&format!("{}\n{}", lines[1], lines[0])));
    assert_eq!(sorted.fingerprint(), mixed.fingerprint());
    assert!(sorted.out_of_order().is_empty());
    assert_eq!(mixed.out_of_order(), ["rules.aclj:2"]);
    let users = rules("com,b)/ - {\"access\": \"block\", \"user\": \"staff\"}\n");
    assert_eq!((users.len(), users.of_users(), users.is_empty()), (0, 1, true));
    assert_eq!(users.fingerprint(), AccessRules::new().fingerprint());
    for other in [
        "com,b)/ - {\"access\": \"exclude\"}",
        "com,b)/### - {\"access\": \"block\"}",
        "com,c)/ - {\"access\": \"block\"}",
    ] {
        assert_ne!(rules(lines[0]).fingerprint(), rules(other).fingerprint(), "{other}");
    }
}

#[test]
fn the_answer_to_a_form_is_under_the_stricter_of_the_rules_of_its_url_and_its_own() {
    let variant = Variant::new("__wb_method=POST&a=1").expect("a variant");
    let url = "http://a.com/form?id=1";
    for (text, of_url, of_variant) in [
        // In an index, the request is among the arguments.
        ("com,a)/form?id=1 - {\"access\": \"exclude\"}\n", Access::Exclude, Access::Exclude),
        ("com,a)/form?id=1### - {\"access\": \"block\"}\n", Access::Block, Access::Block),
        ("com,a)/form?__wb_method - {\"access\": \"block\"}\n", Access::Allow, Access::Block),
        (
            "com,a)/form - {\"access\": \"block\"}\ncom,a)/form?id=1### - {\"access\": \"allow\"}\n",
            Access::Allow,
            Access::Block,
        ),
        ("com,a)/form - {\"access\": \"block\", \"before\": \"2020\"}\n", Access::Allow, Access::Allow),
    ] {
        let rules = rules(text);
        assert_eq!(of(&rules, url).access, of_url, "{text}");
        let found = rules.of_url(url.as_bytes(), Some(&variant));
        assert_eq!(found.at(NOW, NOW).access, of_variant, "{text}");
        assert!(found.whenever().is_none_or(|ruling| ruling.access == of_variant), "{text}");
        assert_eq!(found.whenever().is_none(), text.contains("before"), "{text}");
    }
    // Exclusion is the same for all times, though the other rule has a condition.
    let rules = rules(
        "com,a)/form?id=1### - {\"access\": \"exclude\"}\n\
         com,a)/form - {\"access\": \"block\", \"before\": \"2020\"}\n",
    );
    let ruling = rules.of_url(url.as_bytes(), Some(&variant)).whenever();
    assert_eq!(ruling.map(|ruling| ruling.access), Some(Access::Exclude));
}
