//! Tests of sitemaps and feeds: which links are extracted, which are ignored, and the reason
//! reported for a broken or oversized document.

use super::*;
use crate::links::source::Size;

const BOUNDS: Bounds =
    Bounds { links: 3, url_bytes: 100, follow_nofollow: false, requisites: false, edges: false, fingerprint: false };
const SIZE: Size = Size { bytes: 1 << 20, ratio: 100 };

fn source(body: &[u8]) -> Source<'_> {
    Source::new(body, None, SIZE)
}

fn root_of(body: impl AsRef<[u8]>) -> Option<Root> {
    root(source(body.as_ref()))
}

fn read(body: impl AsRef<[u8]>) -> Found {
    let body = body.as_ref();
    find(source(body), root_of(body).expect("a root"), "http://a/dir/doc", BOUNDS)
}

#[test]
fn locations_are_found_in_both_kinds_and_in_any_namespace() {
    let set = b"\xef\xbb\xbf<?xml version='1.0'?><urlset xmlns='x'><url><loc> http://a/?x=1&amp;y=&#50; </loc>\
                <lastmod>2024</lastmod></url><url><loc><![CDATA[http://a/b]]></loc></url></urlset>";
    assert_eq!(root_of(set), Some(Root::Set));
    assert_eq!(read(set).links, ["http://a/?x=1&y=2", "http://a/b"]);
    let index = "<!-- x --><!DOCTYPE y>\n<s:sitemapindex xmlns:s='x'><s:sitemap><s:loc>http://a/1.xml</s:loc></s:sitemap></s:sitemapindex>";
    assert_eq!(root_of(index), Some(Root::Index));
    let found = read(index);
    assert_eq!((found.links, found.broken), (vec!["http://a/1.xml".to_owned()], None));
}

#[test]
fn what_is_no_list_of_pages_is_not_taken_for_one() {
    assert_eq!(root_of("<!doctype html><html><a href='<urlset>'>"), Some(Root::Html));
    for body in ["a text about <urlset>", "", "<svg><feed/></svg>", "<!-- <urlset> -->", "<", "{}"] {
        assert_eq!(root_of(body), None, "{body}");
    }
}

#[test]
fn a_broken_or_endless_sitemap_gives_what_came_before_and_says_so() {
    for rest in ["<url><loc>http://a/2</lo <<", "<url><loc>http://a/2", "</url", ""] {
        let found = read(format!("<urlset><url><loc>http://a/1</loc></url>{rest}"));
        assert_eq!((found.links.len(), found.broken), (1, Some(Broken::Damaged)), "{rest}");
    }
    let found = read(format!("<urlset>{}</urlset>", "<loc>http://a/</loc>".repeat(9)));
    assert_eq!((found.links.len(), found.broken), (1, None));
    let many: String = (0..9).map(|n| format!("<loc>http://a/{n}</loc>")).collect();
    // Links behind the damage are not among those that are counted: both are named.
    for (end, broken) in [("</urlset>", None), ("", Some(Broken::Damaged)), ("<loc <<", Some(Broken::Damaged))] {
        let found = read(format!("<urlset>{many}{end}"));
        assert_eq!((found.links.len(), found.more, found.broken), (3, 6, broken), "{end}");
    }
    let long = format!("<urlset>{}</urlset>", " ".repeat(2 << 20));
    assert_eq!(read(long).broken, Some(Broken::TooLong));
}

#[test]
fn bare_ampersands_and_wrong_end_tags_are_read_as_they_are_meant() {
    let found = read("<urlset><url><loc>http://a/?x=1&y=2&copy=3</loc></URL><url><loc>http://a/2</loc></url></urlset>");
    assert_eq!(found.links, ["http://a/?x=1&y=2&copy=3", "http://a/2"]);
}

#[test]
fn other_languages_are_pages_and_images_are_none() {
    let found = read(
        "<urlset><url><loc>http://a/1</loc><image:image><image:loc>http://a/i.png</image:loc></image:image>\
         <xhtml:link rel='alternate' hreflang='de' href='http://a/de?x&amp;y'/></url></urlset>",
    );
    assert_eq!(found.links, ["http://a/1", "http://a/de?x&y"]);
}

#[test]
fn what_a_sitemap_says_of_changes_is_kept_beside_the_link() {
    let found = read(
        "<urlset><url><changefreq> Daily </changefreq><loc>http://a/1</loc><lastmod>1970-01-02</lastmod></url>\
         <url><loc>http://a/2</loc><lastmod>nonsense</lastmod></url></urlset>",
    );
    let hint = Hint { changed_ms: Some(86_400_000), change: Some(Change::Daily) };
    assert_eq!(found.hints.into_iter().collect::<Vec<_>>(), [(0, hint)]);
}

#[test]
fn the_entries_of_feeds_are_links() {
    let rss = "<rss version='2.0'><channel><link>http://a/</link><atom:link rel='next' href='?page=2'/><item>\
               <link>http://a/1</link><guid isPermaLink='false'>http://a/no</guid></item></channel></rss>";
    assert_eq!(read(rss).links, ["http://a/", "?page=2", "http://a/1"]);
    let rss = "<rss><item><guid>http://a/2</guid></item><item><guid>tag:3</guid><slash:comments>3</slash:comments></item></rss>";
    assert_eq!(read(rss).links, ["http://a/2"]);
    let rdf = "<rdf:RDF xmlns:rdf='x'><channel rdf:about='y'/><item><link>http://a/3</link></item></rdf:RDF>";
    assert_eq!(read(rdf).links, ["http://a/3"]);
    let atom = "<feed xml:base='http://b/x/'><link rel='hub' href='http://hub/'/><entry xml:base='y/'><link href='1?a&amp;b'/>\
                <link rel='enclosure' href='a.mp3'/></entry><entry><link rel='Alternate' href='2'/></entry></feed>";
    assert_eq!(read(atom).links, ["http://b/x/y/1?a&b", "http://b/x/2"]);
    assert_eq!(read("<feed xml:base='/up/'><entry><link href='1'/></entry></feed>").links, ["http://a/up/1"]);
}

#[test]
fn bases_within_bases_take_no_memory_without_end() {
    let deep = "<entry xml:base='a/'>".repeat(2 * BASES_MAX);
    let found = read(format!("<feed>{deep}<link href='x'/>"));
    assert_eq!(found.links, [format!("http://a/dir/{}x", "a/".repeat(BASES_MAX))]);
    let long = format!("<feed xml:base='http://{}/'><link href='x'/></feed>", "b".repeat(BOUNDS.url_bytes));
    assert_eq!(read(long).links, ["x"]);
}

#[test]
fn no_bytes_are_a_panic() {
    let mut seed = 1_u64;
    for _ in 0..3000 {
        let body: Vec<u8> = (0..120)
            .map(|_| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                b"<url>/loc=\"' &;![CDAT]-x?\0\xff"[(seed >> 33) as usize % 27]
            })
            .collect();
        let _ = root_of(&body);
        for root in [Root::Set, Root::Rss, Root::Atom] {
            let start: &[u8] = if root == Root::Set { b"<urlset><url><loc>" } else { b"<rss><link xml:base='/'" };
            let found = find(source(&[start, &body].concat()), root, "http://a/", BOUNDS);
            assert!(found.links.len() <= 3);
        }
    }
}
