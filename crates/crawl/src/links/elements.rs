//! The roles of HTML elements for links and text, by tag name and by the `rel` of `link`.

use super::directives::words;

/// Values of `rel` by which a `link` is not a page.
const NO_PAGE: [&str; 16] = [
    "search",
    "stylesheet",
    "icon",
    "apple-touch-icon",
    "apple-touch-icon-precomposed",
    "mask-icon",
    "manifest",
    "preload",
    "modulepreload",
    "prefetch",
    "prerender",
    "preconnect",
    "dns-prefetch",
    "pingback",
    "edituri",
    "wlwmanifest",
];

/// Start tags that implicitly close open SVG and MathML.
pub(super) const BREAKS_OUT: [&[u8]; 44] = [
    b"b",
    b"big",
    b"blockquote",
    b"body",
    b"br",
    b"center",
    b"code",
    b"dd",
    b"div",
    b"dl",
    b"dt",
    b"em",
    b"embed",
    b"h1",
    b"h2",
    b"h3",
    b"h4",
    b"h5",
    b"h6",
    b"head",
    b"hr",
    b"i",
    b"img",
    b"li",
    b"menu",
    b"meta",
    b"nobr",
    b"ol",
    b"p",
    b"pre",
    b"ruby",
    b"s",
    b"small",
    b"span",
    b"strong",
    b"strike",
    b"sub",
    b"sup",
    b"table",
    b"tt",
    b"u",
    b"ul",
    b"var",
    b"listing",
];
/// Values of `rel` by which a `link` is a requisite.
const REQUISITE: [&str; 7] =
    ["stylesheet", "icon", "apple-touch-icon", "apple-touch-icon-precomposed", "mask-icon", "preload", "modulepreload"];

/// Elements whose text is invisible.
pub const HIDDEN: [&[u8]; 5] = [b"script", b"style", b"template", b"title", b"noscript"];
/// Inline elements: their tags do not separate words.
const WITHIN: [&[u8]; 14] =
    [b"a", b"abbr", b"b", b"code", b"em", b"font", b"i", b"mark", b"small", b"span", b"strong", b"sub", b"sup", b"u"];

/// Returns whether a list contains a word.
pub(super) fn has_word(list: &[u8], wanted: &[u8]) -> bool {
    words(list).any(|word| word.eq_ignore_ascii_case(wanted))
}

/// Returns whether a `link` with this `rel` is not a page.
pub(super) fn names_no_page(rel: Option<&[u8]>) -> bool {
    rel.is_some_and(|rel| NO_PAGE.iter().any(|word| has_word(rel, word.as_bytes())))
}

/// Returns whether a `link` with this `rel` is a requisite.
pub(super) fn names_requisite(rel: Option<&[u8]>) -> bool {
    rel.is_some_and(|rel| REQUISITE.iter().any(|word| has_word(rel, word.as_bytes())))
}

/// Returns whether tags of this name separate words.
pub fn parts_words(tag: &[u8]) -> bool {
    !WITHIN.contains(&tag)
}
