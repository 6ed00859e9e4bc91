//! HTTP header fields as a server sent them: in order, repeated, in any bytes.
//!
//! Invariant: nothing is merged, sorted, re-cased or re-coded. Names are compared without ASCII
//! case.

/// One header field.
///
/// ```
/// assert!(filemap::page::Header::new("ETag", "\"1\"").is("etag"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// The name as sent.
    pub name: Vec<u8>,
    /// The value, trimmed; lines of a folded value are joined by one space.
    pub value: Vec<u8>,
}

impl Header {
    /// A field with this name and value.
    pub fn new(name: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> Header {
        Header { name: name.into(), value: value.into() }
    }

    /// Returns whether the name is `name`, ignoring case.
    pub fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name.as_bytes())
    }
}

/// The header fields of one message, in order.
///
/// ```
/// let mut headers = filemap::page::Headers::new();
/// headers.push("Content-Type", "text/html");
/// assert_eq!(headers.get("content-type"), Some(&b"text/html"[..]));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Headers(pub Vec<Header>);

impl Headers {
    /// No fields.
    pub fn new() -> Headers {
        Headers::default()
    }

    /// Appends a field.
    pub fn push(&mut self, name: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) {
        self.0.push(Header::new(name, value));
    }

    /// The value of the first field called `name`.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.0.iter().find(|header| header.is(name)).map(|header| header.value.as_slice())
    }

    /// As [`Headers::get`], as text; `None` if the value is not UTF-8.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        std::str::from_utf8(self.get(name)?).ok()
    }

    /// The values of all fields called `name`, in order.
    pub fn all<'a, 'n>(&'a self, name: &'n str) -> impl Iterator<Item = &'a [u8]> + use<'a, 'n> {
        self.0.iter().filter(move |header| header.is(name)).map(|header| header.value.as_slice())
    }

    /// All fields, in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Header> {
        self.0.iter()
    }

    /// The number of fields.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there are no fields.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Approximate size of the headers in memory, in bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        // A small allocation takes 32 bytes.
        let field = |header: &Header| size_of::<Header>() + header.name.len() + header.value.len() + 2 * 32;
        self.0.iter().map(field).sum::<usize>() as u64
    }

    /// Gives every field called `from` the name `to`. Returns false if there is none.
    pub(crate) fn rename(&mut self, from: &str, to: &str) -> bool {
        let mut found = false;
        for header in self.0.iter_mut().filter(|header| header.is(from)) {
            header.name = to.as_bytes().to_vec();
            found = true;
        }
        found
    }

    /// The comma-separated items of all fields called `name`, in order, in lower case.
    pub(crate) fn items(&self, name: &str) -> Vec<String> {
        let split = |value: &[u8]| -> Vec<String> {
            let text = String::from_utf8_lossy(value).to_ascii_lowercase();
            text.split(',').map(|item| item.trim().to_owned()).filter(|item| !item.is_empty()).collect()
        };
        self.all(name).flat_map(split).collect()
    }

    /// Adjusts the headers of a revisit to the body of its original, whose headers are `original`.
    pub(crate) fn align(&mut self, original: &Headers, body_bytes: u64) {
        if original.get("X-Crawler-Content-Encoding").is_some() && original.get("Content-Encoding").is_none() {
            self.rename("Content-Encoding", "X-Crawler-Content-Encoding");
        }
        if self.get("Content-Length").is_some() {
            self.set_length(body_bytes);
        }
    }

    /// Sets `Content-Length`; a different earlier value is kept as `X-Crawler-Content-Length`.
    pub(crate) fn set_length(&mut self, bytes: u64) {
        let text = bytes.to_string();
        if self.get("Content-Length") == Some(text.as_bytes()) {
            return;
        }
        self.rename("Content-Length", "X-Crawler-Content-Length");
        self.push("Content-Length", text);
    }

    /// The media type of `Content-Type`, in lower case and without parameters.
    pub fn mime(&self) -> Option<String> {
        let text = String::from_utf8_lossy(self.get("Content-Type")?).to_ascii_lowercase();
        let essence = text.split(';').next().unwrap_or_default().trim();
        let is_type = essence.contains('/') && essence.bytes().all(|byte| byte.is_ascii_graphic());
        is_type.then(|| essence.to_owned())
    }
}

impl<'a> IntoIterator for &'a Headers {
    type Item = &'a Header;
    type IntoIter = std::slice::Iter<'a, Header>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl FromIterator<Header> for Headers {
    fn from_iter<I: IntoIterator<Item = Header>>(fields: I) -> Headers {
        Headers(fields.into_iter().collect())
    }
}

/// The line that begins at `at`, without its end, and the offset of the next line. The last line
/// may have no end.
pub(crate) fn line(message: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let rest = message.get(at..).filter(|rest| !rest.is_empty())?;
    let (text, next) = match memchr::memchr(b'\n', rest) {
        Some(end) => (&rest[..end], at + end + 1),
        None => (rest, message.len()),
    };
    // Some writers end a line with more than one carriage return.
    let bytes = text.iter().rposition(|&byte| byte != b'\r').map_or(0, |at| at + 1);
    Some((&text[..bytes], next))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_fields_stay_in_order_and_are_found_without_case() {
        let mut headers = Headers::new();
        headers.push("Set-Cookie", "a=1");
        headers.push("X", "\u{e9}");
        headers.push("set-cookie", "b=2");
        assert_eq!(headers.all("SET-COOKIE").collect::<Vec<_>>(), [b"a=1", b"b=2"]);
        assert_eq!(headers.get("set-cookie"), Some(&b"a=1"[..]));
        assert_eq!(
            headers.iter().map(|h| h.name.clone()).collect::<Vec<_>>(),
            [&b"Set-Cookie"[..], b"X", b"set-cookie"]
        );
    }

    #[test]
    fn items_of_several_fields_are_read_as_one_list() {
        let mut headers = Headers::new();
        headers.push("Content-Encoding", "GZIP, br");
        headers.push("content-encoding", " , zstd");
        assert_eq!(headers.items("Content-Encoding"), ["gzip", "br", "zstd"]);
    }

    #[test]
    fn renaming_keeps_place_and_value() {
        let mut headers = Headers::new();
        headers.push("Content-Length", "5");
        headers.push("B", "x");
        assert!(headers.rename("content-length", "X-Crawler-Content-Length"));
        assert_eq!(headers.0[0], Header::new("X-Crawler-Content-Length", "5"));
        assert!(!headers.rename("content-length", "Y"));
    }

    fn fields(fields: &[(&str, &str)]) -> Headers {
        fields.iter().map(|(name, value)| Header::new(*name, *value)).collect()
    }

    #[test]
    fn a_revisit_tells_of_its_originals_body() {
        let mut own = fields(&[("Content-Encoding", "gzip"), ("Content-Length", "606")]);
        own.align(&fields(&[("X-Crawler-Content-Encoding", "gzip")]), 1270);
        let expected =
            [("X-Crawler-Content-Encoding", "gzip"), ("X-Crawler-Content-Length", "606"), ("Content-Length", "1270")];
        assert_eq!(own, fields(&expected));
    }
}
