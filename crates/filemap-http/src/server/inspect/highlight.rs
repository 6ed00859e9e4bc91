//! Syntax highlighting of HTML with its scripts and styles, XML, scripts, JSON, CSS.
//!
//! It rejects no source: what no rule matches is plain text. Invariants: the parts concatenated
//! are the source, byte for byte; the template escapes each; one pass, in linear time; at most
//! [`PARTS`] parts are marked, the rest is one part.

use maud::{Markup, html};

/// Maximum number of marked parts.
const PARTS: usize = 40_000;

/// Keywords of scripts.
const WORDS: &[&str] = &[
    "async",
    "await",
    "break",
    "case",
    "catch",
    "class",
    "const",
    "continue",
    "default",
    "delete",
    "do",
    "else",
    "export",
    "extends",
    "false",
    "finally",
    "for",
    "from",
    "function",
    "if",
    "import",
    "in",
    "instanceof",
    "let",
    "new",
    "null",
    "of",
    "return",
    "static",
    "super",
    "switch",
    "this",
    "throw",
    "true",
    "try",
    "typeof",
    "undefined",
    "var",
    "void",
    "while",
    "yield",
];

/// Language of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Language {
    Html,
    Xml,
    Script,
    Style,
    Plain,
}

impl Language {
    /// The language for a page's media type.
    pub(super) fn of(mime: &str) -> Language {
        match mime {
            "text/html" => Language::Html,
            "text/css" => Language::Style,
            "text/javascript" | "application/javascript" | "application/x-javascript" | "application/ecmascript" => {
                Language::Script
            }
            mime if mime.ends_with("json") => Language::Script,
            mime if mime.ends_with("xml") => Language::Xml,
            _ => Language::Plain,
        }
    }
}

/// CSS class and end of a part.
type Part = (Option<&'static str>, usize);

/// Splits a text into consecutive parts.
struct Marker<'t> {
    text: &'t str,
    at: usize,
    /// End of the range that is being split.
    end: usize,
    parts: Vec<Part>,
}

/// A source as markup, and the number of bytes at its end that are not marked.
pub(super) fn source(text: &str, language: Language) -> (Markup, usize) {
    let (parts, left) = parts(text, language);
    let mut begin = 0;
    let markup = html! {
        @for (class, end) in parts {
            @let part = &text[std::mem::replace(&mut begin, end)..end];
            @if let Some(class) = class { span class=(class) { (part) } } @else { (part) }
        }
    };
    (markup, left)
}

fn parts(text: &str, language: Language) -> (Vec<Part>, usize) {
    let mut marker = Marker { text, at: 0, end: text.len(), parts: Vec::new() };
    match language {
        Language::Html => marker.markup(true),
        Language::Xml => marker.markup(false),
        Language::Script => marker.script(),
        Language::Style => marker.style(),
        Language::Plain => {}
    }
    let left = text.len() - marker.at;
    marker.take(left, None);
    (marker.parts, if language == Language::Plain { 0 } else { left })
}

impl<'t> Marker<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..self.end]
    }

    /// The next character and the rest, unless the range has ended or no more parts may be marked.
    fn next(&self) -> Option<(char, &'t str)> {
        let rest = self.rest();
        rest.chars().next().filter(|_| self.parts.len() < PARTS).map(|char| (char, rest))
    }

    fn take(&mut self, bytes: usize, class: Option<&'static str>) {
        if bytes == 0 {
            return;
        }
        self.at += bytes;
        match self.parts.last_mut() {
            Some((last, end)) if *last == class => *end = self.at,
            _ => self.parts.push((class, self.at)),
        }
    }

    /// Takes everything before the first of these characters.
    fn take_until(&mut self, is_end: impl Fn(char) -> bool, class: Option<&'static str>) {
        let rest = self.rest();
        self.take(rest.find(is_end).unwrap_or(rest.len()), class);
    }

    /// Takes `begin` bytes, and everything through the next `end`.
    fn take_through(&mut self, begin: usize, end: &str, class: Option<&'static str>) {
        let rest = self.rest();
        let found = rest.get(begin..).and_then(|behind| behind.find(end));
        self.take(found.map_or(rest.len(), |found| begin + found + end.len()), class);
    }

    fn markup(&mut self, is_html: bool) {
        while self.next().is_some() {
            self.take_until(|char| matches!(char, '<' | '&'), None);
            let Some((first, rest)) = self.next() else { return };
            let second = rest[1..].trim_start_matches('/').chars().next();
            if first == '&' {
                self.entity(rest);
            } else if rest.starts_with("<!--") {
                self.take_through(4, "-->", Some("comment"));
            } else if !is_html && rest.starts_with("<![CDATA[") {
                self.take_through(9, "]]>", Some("string"));
            } else if rest.starts_with("<!") || rest.starts_with("<?") {
                self.take_through(2, ">", Some("comment"));
            } else if second.is_some_and(|second| second.is_ascii_alphabetic()) && !rest.starts_with("<//") {
                self.tag(rest, is_html);
            } else {
                self.take(1, None);
            }
        }
    }

    fn entity(&mut self, rest: &str) {
        let name =
            rest.bytes().skip(1).take(32).take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'#').count();
        let is_one = name > 0 && rest.as_bytes().get(1 + name) == Some(&b';');
        self.take(if is_one { name + 2 } else { 1 }, is_one.then_some("number"));
    }

    fn tag(&mut self, rest: &str, is_html: bool) {
        let slash = usize::from(rest.starts_with("</"));
        let name = rest[1 + slash..].find(|char: char| char.is_whitespace() || matches!(char, '>' | '/'));
        let name = &rest[1 + slash..name.map_or(rest.len(), |end| 1 + slash + end)];
        self.take(1 + slash + name.len(), Some("tag"));
        self.attributes();
        if slash == 1 || !is_html {
            return;
        }
        for (element, end) in [("script", "</script"), ("style", "</style")] {
            if name.eq_ignore_ascii_case(element) {
                let whole = self.end;
                self.end = self.at + raw_end(self.rest(), end);
                if element == "script" {
                    self.script()
                } else {
                    self.style()
                }
                self.end = whole;
            }
        }
    }

    /// The attributes, to the end of a tag.
    fn attributes(&mut self) {
        while let Some((first, _)) = self.next() {
            match first {
                '>' => return self.take(1, Some("tag")),
                '/' => self.take(1, Some("tag")),
                '=' => {
                    self.take(1, None);
                    self.take_until(|char| !char.is_whitespace(), None);
                    match self.next() {
                        Some((quote @ ('"' | '\''), _)) => {
                            self.take_through(1, quote.encode_utf8(&mut [0; 4]), Some("string"))
                        }
                        _ => self.take_until(|char| char.is_whitespace() || char == '>', Some("string")),
                    }
                }
                char if char.is_whitespace() => self.take(char.len_utf8(), None),
                char => {
                    self.take(char.len_utf8(), Some("name"));
                    self.take_until(|char| char.is_whitespace() || matches!(char, '>' | '/' | '='), Some("name"));
                }
            }
        }
    }

    fn script(&mut self) {
        while let Some((first, rest)) = self.next() {
            match first {
                '/' if rest.starts_with("//") => self.take_until(|char| char == '\n', Some("comment")),
                '/' if rest.starts_with("/*") => self.take_through(2, "*/", Some("comment")),
                '"' | '\'' | '`' => self.string(rest, first),
                char if char.is_ascii_digit() => {
                    self.take_until(|char| !char.is_ascii_alphanumeric() && !matches!(char, '.' | '_'), Some("number"));
                }
                char if is_of_word(char) => {
                    let word = &rest[..rest.find(|char| !is_of_word(char)).unwrap_or(rest.len())];
                    self.take(word.len(), WORDS.binary_search(&word).is_ok().then_some("word"));
                }
                char => self.take(char.len_utf8(), None),
            }
        }
    }

    fn style(&mut self) {
        while let Some((first, rest)) = self.next() {
            match first {
                '/' if rest.starts_with("/*") => self.take_through(2, "*/", Some("comment")),
                '"' | '\'' => self.string(rest, first),
                '@' => {
                    self.take(1, Some("word"));
                    self.take_until(|char| !is_of_name(char), Some("word"));
                }
                char if char.is_ascii_digit() => {
                    self.take_until(|char| !char.is_ascii_alphanumeric() && !matches!(char, '.' | '%'), Some("number"));
                }
                char if is_of_name(char) => {
                    let name = &rest[..rest.find(|char| !is_of_name(char)).unwrap_or(rest.len())];
                    let is_property = rest[name.len()..].starts_with(':');
                    self.take(name.len(), is_property.then_some("name"));
                }
                char => self.take(char.len_utf8(), None),
            }
        }
    }

    /// A string, to its closing quote; unless it is a template, at most to the end of the line.
    fn string(&mut self, rest: &str, quote: char) {
        let mut escaped = false;
        let mut end = rest.len();
        for (at, char) in rest.char_indices().skip(1) {
            match char {
                '\n' if quote != '`' && !escaped => {
                    end = at;
                    break;
                }
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                _ if char == quote => {
                    end = at + 1;
                    break;
                }
                _ => {}
            }
        }
        self.take(end, Some("string"));
    }
}

fn is_of_word(char: char) -> bool {
    char.is_alphanumeric() || matches!(char, '_' | '$')
}

fn is_of_name(char: char) -> bool {
    char.is_alphanumeric() || matches!(char, '_' | '-')
}

/// Offset of the end tag `end`, in any letter case, that closes an element whose content is not
/// markup.
fn raw_end(text: &str, end: &str) -> usize {
    let is_end = |at: &usize| {
        text.as_bytes()[*at..].get(..end.len()).is_some_and(|own| own.eq_ignore_ascii_case(end.as_bytes()))
    };
    text.match_indices("</").map(|(at, _)| at).find(is_end).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(text: &str, language: Language) -> Vec<(&'static str, String)> {
        let mut begin = 0;
        let of = |(class, end): &Part| {
            (class.unwrap_or_default(), text[std::mem::replace(&mut begin, *end)..*end].to_owned())
        };
        let all: Vec<_> = parts(text, language).0.iter().map(of).collect();
        assert_eq!(all.iter().map(|(_, part)| part.as_str()).collect::<String>(), text);
        all
    }

    fn of_class(text: &str, language: Language, class: &str) -> Vec<String> {
        marked(text, language).into_iter().filter(|(own, _)| *own == class).map(|(_, part)| part).collect()
    }

    #[test]
    fn the_words_that_are_marked_are_in_order() {
        assert!(WORDS.is_sorted());
    }

    #[test]
    fn parts_of_each_language_are_marked() {
        let html = "<!DOCTYPE html><!-- a > b --><p class=\"x > y\" hidden data-a=1>a &amp; b & c</p>\
                    <SCRIPT>let a = \"</p>\"; // </b>\n1 < 2</Script><style>@media x { a-b: 1px }</style><b/>";
        assert_eq!(of_class(html, Language::Html, "comment"), ["<!DOCTYPE html><!-- a > b -->", "// </b>"]);
        assert_eq!(of_class(html, Language::Html, "string"), ["\"x > y\"", "1", "\"</p>\""]);
        assert_eq!(of_class(html, Language::Html, "name"), ["class", "hidden", "data-a", "a-b"]);
        assert_eq!(of_class(html, Language::Html, "word"), ["let", "@media"]);
        assert_eq!(of_class(html, Language::Html, "number"), ["&amp;", "1", "2", "1px"]);
        assert_eq!(of_class("{\"a\": [1.5e3, null]}", Language::Script, "number"), ["1.5e3"]);
        assert_eq!(of_class("<a><![CDATA[<b>]]></a>", Language::Xml, "string"), ["<![CDATA[<b>]]>"]);
        assert_eq!(marked("<a>", Language::Plain), [("", "<a>".to_owned())]);
        for (mime, language) in [
            ("text/html", Language::Html),
            ("application/ld+json", Language::Script),
            ("image/svg+xml", Language::Xml),
            ("text/plain", Language::Plain),
        ] {
            assert_eq!(Language::of(mime), language);
        }
    }

    #[test]
    fn nothing_of_a_source_becomes_markup_and_nothing_is_lost() {
        let pieces = [
            "<",
            ">",
            "</",
            "<!--",
            "-->",
            "<![CDATA[",
            "]]>",
            "<?",
            "&",
            "&amp;",
            "&#x0;",
            "\"",
            "'",
            "`",
            "\\",
            "=",
            "/",
            "//",
            "/*",
            "*/",
            "<script>",
            "</script>",
            "<STYLE ",
            "</style",
            "a",
            "é",
            "\u{2028}",
            "\n",
            " ",
            "1",
            "@",
            "$",
            "</span>",
        ];
        let mut state = 7_u64;
        for _ in 0..4000 {
            let mut text = String::new();
            for _ in 0..24 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                text.push_str(pieces[(state >> 40) as usize % pieces.len()]);
            }
            for language in [Language::Html, Language::Xml, Language::Script, Language::Style, Language::Plain] {
                marked(&text, language);
                let (markup, left) = source(&text, language);
                let markup = markup.into_string();
                assert_eq!(left, 0, "{text}");
                // Only the tags of this module.
                let own = markup
                    .replace("</span>", "")
                    .split("<span class=\"")
                    .skip(1)
                    .fold(String::new(), |all, part| all + part);
                assert!(!own.contains('<'), "{text}: {markup}");
                let plain = markup.split('<').next().unwrap_or_default();
                assert!(!plain.contains('>'), "{text}: {markup}");
            }
        }
    }

    #[test]
    fn of_a_large_source_a_bounded_number_of_parts_is_marked_and_the_rest_counted() {
        for (piece, language) in [
            ("<a b=c>", Language::Html),
            ("<", Language::Html),
            ("<script>", Language::Html),
            ("<a '", Language::Html),
            ("&", Language::Html),
            ("</", Language::Html),
            ("<!--", Language::Xml),
            ("a1", Language::Script),
            ("/", Language::Script),
            ("\"\\", Language::Script),
            ("@a-", Language::Style),
        ] {
            let text = piece.repeat((256 << 10) / piece.len());
            let (markup, _) = source(&text, language);
            assert!(markup.into_string().len() < 8 << 20, "{piece}");
        }
        let text = "<a b=c>".repeat(50_000);
        let (parts, left) = parts(&text, Language::Html);
        assert!(parts.len() <= PARTS + 1 && left > 0 && left < text.len(), "{} parts, {left} left", parts.len());
    }
}
