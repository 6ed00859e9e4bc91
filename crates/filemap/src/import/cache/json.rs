//! Python values as JSON: with tags for what JSON lacks, or as Python's own `json` writes them.
//!
//! Invariant: depth and length are bounded, since pickled values may refer in circles and occur
//! many times.

use std::fmt::Write as _;

use base64::Engine as _;
use serde_json::{Map, Value, json};

use super::data::{Node, View};

const MAX_DEPTH: usize = 64;

/// A value as JSON. What JSON lacks becomes an object of one field: `bytes` (base 64), `tuple`,
/// `dict`. Returns `None` for an object of a class, a value that is too deep, and one that takes
/// more than `room` bytes; `room` is reduced by what it took.
pub(super) fn tagged(value: View<'_>, room: &mut usize) -> Option<Value> {
    tagged_at(value, 0, room)
}

fn tagged_at(value: View<'_>, depth: usize, room: &mut usize) -> Option<Value> {
    *room = room.checked_sub(size(value)).filter(|_| depth <= MAX_DEPTH)?;
    let mut each = |items: &[usize]| {
        items.iter().map(|id| tagged_at(value.at(*id), depth + 1, room)).collect::<Option<Vec<Value>>>()
    };
    Some(match value.node() {
        Node::None => Value::Null,
        Node::Bool(is_true) => json!(is_true),
        Node::Int(_) => json!(value.int()?),
        Node::Float(number) => Some(json!(number)).filter(|number| !number.is_null())?,
        Node::Str(text) => json!(text),
        Node::List(items) => Value::Array(each(items)?),
        Node::Tuple(items) => json!({ "tuple": each(items)? }),
        Node::Dict(items) => {
            let mut fields = Map::new();
            for (name, field) in items {
                let name = value.at(*name).text()?.to_owned();
                fields.insert(name, tagged_at(value.at(*field), depth + 1, room)?);
            }
            json!({ "dict": fields })
        }
        Node::Bytes(bytes) => json!({ "bytes": base64::engine::general_purpose::STANDARD.encode(bytes) }),
        Node::Made(..) => json!({ "bytes": base64::engine::general_purpose::STANDARD.encode(value.bytes()?) }),
        Node::Global(..) => return None,
    })
}

/// Approximate size of a value without the values in it.
fn size(value: View<'_>) -> usize {
    8 + match value.node() {
        Node::Str(text) => text.len(),
        Node::Bytes(bytes) => bytes.len(),
        Node::Dict(items) => items.iter().filter_map(|(name, _)| value.at(*name).text()).map(str::len).sum(),
        Node::Made(..) => value.bytes().map_or(0, |bytes| bytes.len()),
        _ => 0,
    }
}

/// A value as Python's `json.dumps` writes it, of about `room` bytes at most.
pub(super) fn dumped(value: View<'_>, room: usize) -> Option<String> {
    let (mut out, mut room) = (String::new(), room);
    dump(value, 0, &mut room, &mut out)?;
    Some(out)
}

fn dump(value: View<'_>, depth: usize, room: &mut usize, out: &mut String) -> Option<()> {
    *room = room.checked_sub(size(value)).filter(|_| depth <= MAX_DEPTH)?;
    match value.node() {
        Node::None => out.push_str("null"),
        Node::Bool(is_true) => out.push_str(if *is_true { "true" } else { "false" }),
        Node::Int(number) => write!(out, "{}", (*number)?).ok()?,
        Node::Float(number) => write!(out, "{}", Some(json!(number)).filter(|n| !n.is_null())?).ok()?,
        Node::Str(text) => dump_text(text, out),
        Node::List(items) | Node::Tuple(items) => {
            out.push('[');
            for (nth, id) in items.iter().enumerate() {
                out.push_str(if nth > 0 { ", " } else { "" });
                dump(value.at(*id), depth + 1, room, out)?;
            }
            out.push(']');
        }
        Node::Dict(items) => {
            out.push('{');
            for (nth, (name, field)) in items.iter().enumerate() {
                out.push_str(if nth > 0 { ", " } else { "" });
                dump_text(value.at(*name).text()?, out);
                out.push_str(": ");
                dump(value.at(*field), depth + 1, room, out)?;
            }
            out.push('}');
        }
        Node::Bytes(_) | Node::Made(..) | Node::Global(..) => return None,
    }
    Some(())
}

/// Text in ASCII, with escapes.
fn dump_text(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            ' '..='~' => out.push(c),
            _ => c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| {
                // Writing to a string does not fail.
                let _ = write!(out, "\\u{unit:04x}");
            }),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::cache::{literal, pickle};

    const ROOM: usize = 1 << 20;

    #[test]
    fn values_are_written_as_python_writes_them() {
        let data = literal::read("{'a': [1, 2.5, 'é\"\\n\\U0001f600', None, True], 'b': {}}").expect("a literal");
        let expected = r#"{"a": [1, 2.5, "\u00e9\"\n\ud83d\ude00", null, true], "b": {}}"#;
        assert_eq!(dumped(data.view(), ROOM).as_deref(), Some(expected));
        let data = literal::read("{'a': (1, b'\\xff'), 'b': ['x']}").expect("a literal");
        let expected = json!({ "dict": { "a": { "tuple": [1, { "bytes": "/w==" }] }, "b": ["x"] } });
        assert_eq!(tagged(data.view(), &mut { ROOM }), Some(expected));
    }

    #[test]
    fn a_circle_and_a_class_are_no_json() {
        let circle = pickle::read(b"]\x94h\x00a.").expect("a list in itself");
        assert_eq!((tagged(circle.view(), &mut { ROOM }), dumped(circle.view(), ROOM)), (None, None));
        // Each list has the one before it twice: 2^40 values.
        let level = |nth: u8| [&b"](h"[..], &[nth, b'h', nth, b'e', b'q', nth + 1]].concat();
        let doubled = [b"Nq\x00".to_vec(), (0..40).flat_map(level).collect(), b".".to_vec()].concat();
        assert_eq!(tagged(pickle::read(&doubled).expect("lists").view(), &mut { ROOM }), None);
        let class = pickle::read(b"cos\nsystem\n.").expect("a name");
        assert_eq!((tagged(class.view(), &mut { ROOM }), dumped(class.view(), ROOM)), (None, None));
    }
}
