//! One line of a CDXJ or CDX file.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Deserializer, de};

use crate::date;
use crate::page::digest::Digest;
use crate::page::variant::Variant;
use crate::page::{Page, RecordKind, Revisit};

/// The media type that indexes give revisits.
const REVISIT: &str = "warc/revisit";
/// The fields of a CDX file without a first line that names them.
const ELEVEN: &str = "N b a m s k r M S V g";
const NINE: &str = "N b a m s k r V g";

/// The fields of a capture in a line. A missing field is empty.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct Line<'a> {
    #[serde(skip)]
    stamp: &'a str,
    url: Text<'a>,
    mime: Text<'a>,
    status: Text<'a>,
    digest: Text<'a>,
    length: Text<'a>,
    offset: Text<'a>,
    filename: Text<'a>,
    method: Text<'a>,
    #[serde(rename = "requestBody")]
    request_body: Text<'a>,
    truncated: Text<'a>,
}

/// A text, or a number as its digits.
#[derive(Default)]
struct Text<'a>(Cow<'a, str>);

impl Text<'_> {
    /// The text; `None` if it is empty or `-`.
    fn some(&self) -> Option<&str> {
        Some(&*self.0).filter(|text| !text.is_empty() && *text != "-")
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Text<'a>, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or a number")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }

            fn visit_u64<E>(self, number: u64) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(number.to_string())))
            }

            fn visit_unit<E>(self) -> Result<Text<'de>, E> {
                Ok(Text::default())
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// A page, and the position of its record.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Described {
    pub(super) page: Page,
    pub(super) filename: String,
    pub(super) offset: u64,
    /// 0 if the line has no length.
    pub(super) length: u64,
}

/// The fields of a CDX file, by their letters.
#[derive(Default)]
pub(super) struct Legend(Option<Vec<u8>>);

impl Legend {
    /// The line; `None` if it is about the index itself, or empty.
    pub(super) fn line<'a>(&mut self, line: &'a [u8]) -> Result<Option<Line<'a>>, String> {
        let line = line.trim_ascii_end();
        if let Some(letters) = line.strip_prefix(b" CDX ") {
            self.0 = Some(letters.iter().copied().filter(|byte| *byte != b' ').collect());
            return Ok(None);
        }
        if line.is_empty() || line.starts_with(b"!") || line.starts_with(b"#") {
            return Ok(None);
        }
        let text = std::str::from_utf8(line).map_err(|_| "the line is not UTF-8".to_owned())?;
        let mut words = text.splitn(3, ' ');
        let (_, stamp, rest) = (words.next(), words.next(), words.next());
        match (stamp, rest) {
            (Some(stamp), Some(json)) if json.starts_with('{') => {
                let line: Line<'a> = serde_json::from_str(json).map_err(|e| format!("its JSON is not valid: {e}"))?;
                Ok(Some(Line { stamp, ..line }))
            }
            (Some(_), Some(_)) => self.fields(text).map(Some),
            _ => Err("it is not a line of a CDXJ or CDX file".to_owned()),
        }
    }

    fn fields<'a>(&self, text: &'a str) -> Result<Line<'a>, String> {
        let fields: Vec<&str> = text.split(' ').collect();
        let usual = if fields.len() == 9 { NINE } else { ELEVEN };
        let usual = || usual.bytes().filter(|byte| *byte != b' ').collect();
        let letters = self.0.clone().unwrap_or_else(usual);
        if letters.len() != fields.len() {
            return Err(format!("it has {} fields, not {}", fields.len(), letters.len()));
        }
        let mut line = Line::default();
        for (letter, &field) in letters.iter().zip(&fields) {
            let text = Text(Cow::Borrowed(field));
            match letter {
                b'a' => line.url = text,
                b'b' => line.stamp = field,
                b'm' => line.mime = text,
                b's' => line.status = text,
                b'k' => line.digest = text,
                b'S' => line.length = text,
                b'V' => line.offset = text,
                b'g' => line.filename = text,
                _ => {}
            }
        }
        Ok(line)
    }
}

impl Line<'_> {
    /// The page that it describes.
    pub(super) fn page(self) -> Result<Described, String> {
        let needs = |field: &Text<'_>, name: &str| field.some().map(str::to_owned).ok_or(format!("it has no {name}"));
        let number =
            |text: &str, name: &str| text.parse::<u64>().map_err(|_| format!("its {name} is not a number: {text}"));
        let url = needs(&self.url, "url")?;
        let filename = needs(&self.filename, "filename")?;
        let offset = number(&needs(&self.offset, "offset")?, "offset")?;
        let length = self.length.some().map_or(Ok(0), |text| number(text, "length"))?;
        let fetched_at_ms =
            time(self.stamp).ok_or_else(|| format!("its time is not a date of 14 digits: {}", self.stamp))?;
        let status = match self.status.some() {
            Some(text) => {
                let status = text.parse::<u16>().ok().filter(|status| *status > 0);
                Some(status.ok_or_else(|| format!("its status is not a number: {text}"))?)
            }
            None => None,
        };
        let mime = self.mime.some().filter(|mime| *mime != "unk");
        let is_revisit = mime == Some(REVISIT);
        let mut page = Page {
            url: url.into_bytes(),
            fetched_at_ms,
            kind: if is_revisit { RecordKind::Revisit } else { RecordKind::Response },
            status,
            variant: self.variant()?,
            digest: self.digest.some().map(labelled),
            truncated: self.truncated.some().map(str::to_owned),
            revisit: is_revisit.then(Revisit::unnamed),
            ..Page::default()
        };
        if let Some(mime) = mime.filter(|_| !is_revisit) {
            page.headers.push("Content-Type", mime);
        }
        Ok(Described { page, filename, offset, length })
    }

    /// The variant of an answer to a request other than a plain `GET`.
    fn variant(&self) -> Result<Option<Variant>, String> {
        let body = self.request_body.some().unwrap_or_default();
        let method = self.method.some().unwrap_or("GET");
        if method.eq_ignore_ascii_case("GET") && body.is_empty() {
            return Ok(None);
        }
        let gap = if body.is_empty() { "" } else { "&" };
        let text = format!("__wb_method={}{gap}{body}", method.to_ascii_uppercase());
        Variant::new(text).map(Some).map_err(|error| error.to_string())
    }
}

/// A time of 14 digits, or of 17 with milliseconds.
fn time(stamp: &str) -> Option<i64> {
    let (seconds, rest) = stamp.split_at_checked(14)?;
    let ms = match rest.len() {
        0 => 0,
        3 if rest.bytes().all(|byte| byte.is_ascii_digit()) => rest.parse::<i64>().ok()?,
        _ => return None,
    };
    date::parse(seconds)?.checked_add(ms)
}

/// A digest with the name of its algorithm, which some indexes omit.
fn labelled(text: &str) -> String {
    let is_bare = text.len() == 32 && !text.contains(':');
    if is_bare && Digest::parse(text).is_some_and(|digest| digest.sha1().is_some()) {
        return format!("sha1:{text}");
    }
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(line: &str) -> Result<(Page, String, u64, u64), String> {
        let line = Legend::default().line(line.as_bytes())?.expect("a capture");
        line.page().map(|Described { page, filename, offset, length }| (page, filename, offset, length))
    }

    const START: &str = "com,example)/ 20231114221320 ";

    #[test]
    fn a_line_of_each_form_is_the_same_page() {
        let digest = "G7HRM7BGOKSKMSXZAHMUQTTV53QOFSMK";
        let json = format!(
            r#"{START}{{"url":"http://example.com/","mime":"text/html","status":"200","digest":"{digest}","length":"12","offset":"34","filename":"a.warc.gz","languages":"eng"}}"#
        );
        let numbers = json.replace("\"200\"", "200").replace("\"34\"", "34").replace("\"12\"", "12");
        let labelled = json.replace(digest, &format!("sha1:{digest}"));
        let cdx = format!("{START}http://example.com/ text/html 200 {digest} - - 12 34 a.warc.gz");
        let mut expected = Page::new("http://example.com/", 1_700_000_000_000, 200, "");
        expected.digest = Some(format!("sha1:{digest}"));
        expected.headers.push("Content-Type", "text/html");
        for line in [json, numbers, labelled, cdx] {
            assert_eq!(page(&line), Ok((expected.clone(), "a.warc.gz".to_owned(), 34, 12)), "{line}");
        }
        let nine = format!("{START}http://example.com/ text/html 200 {digest} - 34 a.warc.gz");
        assert_eq!(page(&nine), Ok((expected.clone(), "a.warc.gz".to_owned(), 34, 0)));
        let mut legend = Legend::default();
        assert!(legend.line(b" CDX b a V g").expect("a legend").is_none());
        let line = legend.line(b"20231114221320 http://example.com/ 7 b").expect("a line").expect("a capture");
        let Described { page, filename: file, offset, .. } = line.page().expect("whole");
        assert_eq!((page.status, page.digest, &*file, offset), (None, None, "b", 7));
    }

    #[test]
    fn a_line_that_lacks_something_says_what() {
        let whole = r#"{"url":"http://a/","offset":"1","filename":"f"}"#;
        assert!(page(&format!("{START}{whole}")).is_ok());
        for (from, to, what) in [
            (r#""url":"http://a/","#, "", "it has no url"),
            (r#""offset":"1","#, "", "it has no offset"),
            (r#","filename":"f""#, "", "it has no filename"),
            (r#""1""#, r#""-1""#, "its offset is not a number"),
            (r#"{"url""#, r#"{"status":"ok","url""#, "its status is not a number"),
            (r#"{"url""#, r#"{url"#, "its JSON is not valid"),
        ] {
            let error = page(&format!("{START}{}", whole.replace(from, to))).expect_err(what);
            assert!(error.starts_with(what), "{error}");
        }
        assert!(page(&format!("a 2023 {whole}")).expect_err("no time").contains("14 digits"));
        for line in ["one", "one two", "a b c d"] {
            assert!(page(line).is_err(), "{line}");
        }
        assert!(Legend::default().line(b"a \xff c").is_err());
        for line in ["", "!meta 0 {}", "# note", " CDX N b a"] {
            assert!(Legend::default().line(line.as_bytes()).expect("no capture").is_none(), "{line}");
        }
    }

    #[test]
    fn an_answer_to_a_post_is_the_variant_that_its_request_makes() {
        let line = format!(
            r#"{START}{{"url":"http://a/","offset":"1","filename":"f","method":"POST","requestBody":"__wb_post_data=aGVsbG8="}}"#
        );
        let made = Variant::of_request("POST", Some(b"text/plain"), b"hello");
        assert_eq!(page(&line).expect("whole").0.variant, made);
        let head = line.replace("POST", "HEAD").replace("__wb_post_data=aGVsbG8=", "");
        assert_eq!(page(&head).expect("whole").0.variant, Variant::of_request("HEAD", None, b""));
    }

    #[test]
    fn a_revisit_has_no_type_and_what_says_nothing_is_nothing() {
        let line =
            format!(r#"{START}{{"url":"http://a/","offset":"1","filename":"f","mime":"warc/revisit","status":"-"}}"#);
        let (page, ..) = page(&line).expect("whole");
        assert_eq!((page.kind, page.status, page.headers.len()), (RecordKind::Revisit, None, 0));
        assert!(page.revisit.is_some());
    }
}
