//! Pages as JSON values, in the schema of [`filemap::dump::jsonl`] plus the store's own fields.
//!
//! Text has the field's name; other bytes are base64 in a field with `_base64` after the name.

use filemap::{Page, PageHead};
use fm_cli::Failure;
use serde_json::{Value, json};

/// A page as a JSON line, without a line end.
pub fn page(page: &Page) -> Result<Vec<u8>, Failure> {
    let mut line = Vec::new();
    filemap::dump::jsonl::write(page, &mut line)?;
    line.pop();
    Ok(line)
}

/// A version without its body, but with the store's own fields.
pub fn head(head: &PageHead) -> Result<Value, Failure> {
    Ok(filemap::dump::jsonl::head(head)?)
}

/// A field with bytes: as text, or as base64 with `_base64` after the name.
pub fn field(name: &str, bytes: &[u8]) -> (String, Value) {
    use base64::Engine;
    match std::str::from_utf8(bytes) {
        Ok(text) => (name.to_owned(), Value::from(text)),
        Err(_) => {
            let encoded = base64::engine::general_purpose::STANDARD.encode(bytes);
            (format!("{name}_base64"), Value::from(encoded))
        }
    }
}

/// Sets a field for bytes, as [`field`] writes it.
pub fn set(line: &mut Value, name: &str, bytes: &[u8]) {
    let (name, value) = field(name, bytes);
    line[name] = value;
}

/// The JSON line of a URL: the URL, then the fields of an object.
pub fn of_url(url: &[u8], fields: Value) -> Value {
    let mut line = json!({});
    set(&mut line, "url", url);
    if let (Value::Object(line), Value::Object(fields)) = (&mut line, fields) {
        line.extend(fields);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_text_and_other_bytes_become_base64() {
        assert_eq!(field("url", "http://a/ü".as_bytes()), ("url".to_owned(), Value::from("http://a/ü")));
        assert_eq!(field("url", b"\xff\x00"), ("url_base64".to_owned(), Value::from("/wA=")));
    }

    #[test]
    fn a_page_is_one_line_in_the_dumps_fields() {
        let line = page(&Page::new("http://a/", 0, 200, "x\ny")).unwrap();
        assert!(!line.contains(&b'\n'));
        let value: Value = serde_json::from_slice(&line).unwrap();
        assert_eq!((&value["url"], &value["body"]), (&Value::from("http://a/"), &Value::from("x\ny")));
    }
}
