//! Built-in fields of a page: language, encoding, fingerprint of its text.

use filemap::Page;
use filemap::page::encoding;

use super::page::Fields;
use super::text;
use crate::simhash::simhash64;

/// A built-in field that can be enabled.
///
/// ```
/// use crawl::hooks::fields::Field;
/// assert_eq!(Field::named("lang"), Ok(Field::Lang));
/// assert!(Field::named("title").is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// `lang`: the `lang` of the `html` element, else the header `Content-Language`.
    Lang,
    /// `charset`: the encoding used to find links, by its name in the Encoding Standard, in lower
    /// case.
    Charset,
    /// `simhash64`: [`simhash64`] of the visible text, 16 hexadecimal digits.
    Simhash64,
}

impl Field {
    /// All built-in fields.
    pub const ALL: [Field; 3] = [Field::Lang, Field::Charset, Field::Simhash64];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Field::Lang => "lang",
            Field::Charset => "charset",
            Field::Simhash64 => "simhash64",
        }
    }

    /// Parses the name of a field.
    ///
    /// # Errors
    /// An error message with the valid names.
    pub fn named(name: &str) -> Result<Field, String> {
        let named = Field::ALL.into_iter().find(|field| field.name() == name);
        named.ok_or_else(|| format!("`{name}` is not a field; give {}", Field::ALL.map(Field::name).join(", ")))
    }
}

/// The fields of a page. Only text documents have any: HTML, XHTML, plain text.
pub(crate) fn of(page: &Page, wanted: &[Field]) -> Fields {
    let content_type = page.headers.get("Content-Type");
    let kind = String::from_utf8_lossy(content_type.unwrap_or_default()).to_ascii_lowercase();
    let is_html = kind.contains("html") || kind.is_empty() && page.body.trim_ascii_start().starts_with(b"<");
    if wanted.is_empty() || !(is_html || kind.starts_with("text/plain")) {
        return Fields::new();
    }
    let (decoded, encoding) = encoding::decode(&page.body, content_type);
    let read = match is_html {
        true => text::of(&decoded),
        false => text::Text { text: decoded.into_owned(), lang: None },
    };
    let said = || page.headers.get("Content-Language").map(|lang| String::from_utf8_lossy(lang).trim().to_owned());
    let value = |field: &Field| match field {
        Field::Lang => read.lang.clone().or_else(said).filter(|lang| !lang.is_empty()),
        Field::Charset => Some(encoding.name().to_ascii_lowercase()),
        Field::Simhash64 => simhash64(&read.text).map(|hash| format!("{hash:016x}")),
    };
    wanted.iter().filter_map(|field| Some((field.name().to_owned(), value(field)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_those_of_the_document_and_else_of_its_head() {
        let mut page = Page::new("http://a/", 0, 200, "<html><body>caf\u{e9} ole ole ole");
        page.body = b"<html><body>caf\xe9 ole ole ole".to_vec();
        page.headers.push("Content-Type", "text/html; charset=ISO-8859-1");
        page.headers.push("Content-Language", "es");
        let fields = of(&page, &Field::ALL);
        assert_eq!((fields["lang"].as_str(), fields["charset"].as_str()), ("es", "windows-1252"));
        let hash = simhash64("caf\u{e9} ole ole ole").unwrap();
        assert_eq!(fields["simhash64"], format!("{hash:016x}"));
        assert_eq!(of(&page, &[Field::Charset]).len(), 1);
        let mut image = Page::new("http://a/", 0, 200, "\x00");
        image.headers.push("Content-Type", "image/png");
        assert!(of(&image, &Field::ALL).is_empty());
        assert!(Field::named("title").is_err_and(|words| words.contains("simhash64")));
    }
}
