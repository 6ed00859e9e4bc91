//! Pages as JSON values, in the schema of [`filemap::dump::jsonl`] with the store's own fields
//! added.
//!
//! Text stands under a field's name, other bytes in base64 under the name and `_base64`.

use filemap::{Page, PageHead};
use fm_cli::Failure;
use serde_json::{Map, Value};

/// A page as its JSON line, without the line's end.
pub fn page(page: &Page) -> Result<Vec<u8>, Failure> {
    let mut line = Vec::new();
    filemap::dump::jsonl::write(page, &mut line)?;
    line.pop();
    Ok(line)
}

/// A version without its body, with the store's own fields.
pub fn head(head: &PageHead) -> Result<Value, Failure> {
    let line = page(&head.page)?;
    let mut line: Map<String, Value> =
        serde_json::from_slice(&line).map_err(|error| Failure::Io(format!("a page is no JSON: {error}")))?;
    line.remove("body");
    // The digest of the body, which is left out.
    line.remove("body_xxh3");
    line.insert("sequence".to_owned(), Value::from(head.version.sequence));
    line.insert("body_bytes".to_owned(), Value::from(head.body_bytes));
    line.insert("stored_bytes".to_owned(), Value::from(head.stored_bytes));
    if let Some(sequence) = head.unchanged_since {
        line.insert("unchanged_since".to_owned(), Value::from(sequence));
    }
    Ok(Value::Object(line))
}

/// A field of this name for bytes: as text, or in base64 under the name and `_base64`.
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
