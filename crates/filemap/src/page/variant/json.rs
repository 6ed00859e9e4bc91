//! A JSON document as a query: its scalar values by name.
//!
//! Follows pywb, which parses with Python's `json`: names in document order, a repeated name with
//! the suffix `.2_` and so on, whole numbers without a fraction. Our own parser is needed
//! because it must keep all digits of a number.
//!
//! Invariants: linear time; a document nested deeper than [`MAX_DEPTH`] is rejected.

use std::collections::HashMap;

use super::form::quoted;

/// Maximum nesting; Python fails at about a thousand.
const MAX_DEPTH: usize = 500;
/// Maximum number of digits of a whole number, as in Python.
const MAX_DIGITS: usize = 4300;

enum Value {
    Text(String),
    List(Vec<Value>),
    Object(Fields<Value>),
}

/// Values by name: a repeated name keeps its first position and takes the last value.
struct Fields<T> {
    fields: Vec<(String, T)>,
    places: HashMap<String, usize>,
}

impl<T> Fields<T> {
    fn new() -> Fields<T> {
        Fields { fields: Vec::new(), places: HashMap::new() }
    }

    fn set(&mut self, name: String, value: T) {
        match self.places.get(&name) {
            Some(&at) => self.fields[at].1 = value,
            None => {
                self.places.insert(name.clone(), self.fields.len());
                self.fields.push((name, value));
            }
        }
    }
}

/// The query of a document; `None` if the text is not JSON.
pub(super) fn query(text: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(text).ok()?;
    let mut parser = Parser { text: text.as_bytes(), at: 0 };
    let value = parser.value(0)?;
    parser.spaces();
    if parser.at < text.len() {
        return None;
    }
    let mut flat = Flat { fields: Fields::new(), again: HashMap::new() };
    flat.take(value, "");
    let fields = flat.fields.fields.iter();
    let fields = fields.map(|(name, value)| format!("{}={}", quoted(name.as_bytes()), quoted(value.as_bytes())));
    Some(fields.collect::<Vec<_>>().join("&"))
}

struct Flat {
    fields: Fields<String>,
    /// Number of occurrences of a name.
    again: HashMap<String, usize>,
}

impl Flat {
    fn take(&mut self, value: Value, name: &str) {
        match value {
            Value::Object(fields) => fields.fields.into_iter().for_each(|(name, value)| self.take(value, &name)),
            Value::List(values) => values.into_iter().for_each(|value| self.take(value, name)),
            Value::Text(_) if name.is_empty() => {}
            Value::Text(text) => {
                let name = self.name(name);
                self.fields.set(name, text);
            }
        }
    }

    fn name(&mut self, name: &str) -> String {
        if !self.fields.places.contains_key(name) {
            return name.to_owned();
        }
        let count = self.again.entry(name.to_owned()).or_insert(1);
        *count += 1;
        format!("{name}.{count}_")
    }
}

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Parser<'a> {
    fn spaces(&mut self) {
        let rest = &self.text[self.at..];
        let spaces = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n'));
        self.at += spaces.count();
    }

    /// Consumes `word`, if it comes next.
    fn took(&mut self, word: &str) -> bool {
        let is_next = self.text[self.at..].starts_with(word.as_bytes());
        self.at += if is_next { word.len() } else { 0 };
        is_next
    }

    fn value(&mut self, depth: usize) -> Option<Value> {
        self.spaces();
        if depth > MAX_DEPTH {
            return None;
        }
        if self.took("{") {
            return self.object(depth);
        }
        if self.took("[") {
            return self.list(depth);
        }
        if self.took("\"") {
            return self.string().map(Value::Text);
        }
        for word in ["true", "false", "null"] {
            if self.took(word) {
                return Some(Value::Text(word.to_owned()));
            }
        }
        self.number().map(Value::Text)
    }

    fn object(&mut self, depth: usize) -> Option<Value> {
        let mut fields = Fields::new();
        self.spaces();
        if self.took("}") {
            return Some(Value::Object(fields));
        }
        loop {
            self.spaces();
            if !self.took("\"") {
                return None;
            }
            let name = self.string()?;
            self.spaces();
            if !self.took(":") {
                return None;
            }
            let value = self.value(depth + 1)?;
            fields.set(name, value);
            self.spaces();
            if self.took("}") {
                return Some(Value::Object(fields));
            }
            if !self.took(",") {
                return None;
            }
        }
    }

    fn list(&mut self, depth: usize) -> Option<Value> {
        let mut values = Vec::new();
        self.spaces();
        if self.took("]") {
            return Some(Value::List(values));
        }
        loop {
            values.push(self.value(depth + 1)?);
            self.spaces();
            if self.took("]") {
                return Some(Value::List(values));
            }
            if !self.took(",") {
                return None;
            }
        }
    }

    /// The rest of a string, after its first quote.
    fn string(&mut self) -> Option<String> {
        let from = self.at;
        loop {
            match *self.text.get(self.at)? {
                b'"' => break,
                b'\\' => self.at += 2,
                0..0x20 => return None,
                _ => self.at += 1,
            }
        }
        let inner = self.text.get(from..self.at)?;
        self.at += 1;
        if !inner.contains(&b'\\') {
            return String::from_utf8(inner.to_vec()).ok();
        }
        // `serde_json` decodes escapes.
        serde_json::from_slice(&self.text[from - 1..self.at]).ok()
    }

    fn number(&mut self) -> Option<String> {
        let from = self.at;
        let digits = |parser: &mut Self| {
            let count = parser.text[parser.at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            parser.at += count;
            count
        };
        self.took("-");
        if !self.took("0") && digits(self) == 0 {
            return None;
        }
        let mut is_whole = true;
        if self.took(".") {
            is_whole = false;
            (digits(self) > 0).then_some(())?;
        }
        if self.took("e") || self.took("E") {
            is_whole = false;
            let _ = self.took("-") || self.took("+");
            (digits(self) > 0).then_some(())?;
        }
        let text = std::str::from_utf8(&self.text[from..self.at]).ok()?;
        if is_whole {
            return (text.len() <= MAX_DIGITS).then(|| if text == "-0" { "0" } else { text }.to_owned());
        }
        text.parse().ok().filter(|number: &f64| number.is_finite()).map(decimal)
    }
}

/// A number as Python prints it; whole numbers without a fraction.
fn decimal(number: f64) -> String {
    if number.fract() == 0.0 {
        return format!("{:.0}", number + 0.0);
    }
    if number.abs() >= 1e-4 {
        return number.to_string();
    }
    let text = format!("{number:e}");
    match text.split_once("e-") {
        Some((digits, exponent)) => format!("{digits}e-{exponent:0>2}"),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(query(text.as_bytes()).as_deref(), Some(expected), "{text}");
    }

    /// The expected queries are those of pywb 2.10.
    #[test]
    fn documents_are_flat_as_pywb_has_them() {
        check(
            r#"{"type":"event","id":44.0,"values":[true,false,null],"source":{"type":"component","id":"a+b&c= d","values":[3,4]}}"#,
            "type=event&id=44&values=true&values.2_=false&values.3_=null&type.2_=component&id.2_=a%2Bb%26c%3D+d&values.4_=3&values.5_=4",
        );
        check(" [ 1 , {\"a\" : \"x\"} ] ", "a=x");
        check(r#"{"":"x","a":{},"b":[]}"#, "");
        check(r#"{"a":1,"b":2,"a":3}"#, "a=3&b=2");
        check(r#"{"a.2_":0,"a":[1,2]}"#, "a.2_=2&a=1");
        check(r#"{"\u00fc\n~":"\ud83d\ude00\/"}"#, "%C3%BC%0A~=%F0%9F%98%80%2F");
        check(
            r#"{"n":[-0,-0.0,1e3,1.5E-7,0.1,123456789012345678901234567890,1e22,-2.50]}"#,
            "n=0&n.2_=0&n.3_=1000&n.4_=1.5e-07&n.5_=0.1&n.6_=123456789012345678901234567890&n.7_=10000000000000000000000&n.8_=-2.5",
        );
        check("7", "");
    }

    #[test]
    fn what_is_no_document_has_no_query() {
        let deep = "[".repeat(MAX_DEPTH + 2) + &"]".repeat(MAX_DEPTH + 2);
        let digits = "9".repeat(MAX_DIGITS + 1);
        for none in [
            "",
            "{",
            "[1,]",
            "{\"a\"}",
            "\"a",
            "\"\\",
            "1 2",
            "01",
            ".5",
            "1.",
            "1e",
            "-",
            "\"\n\"",
            "1e400",
            "{'a':1}",
            &deep,
            &digits,
            r#""\ud800""#,
        ] {
            assert_eq!(query(none.as_bytes()), None, "{none}");
        }
        assert_eq!(query(b"\"\xff\""), None);
    }

    proptest! {
        #[test]
        fn it_is_a_document_if_the_library_thinks_so(text in "[\\[\\]{}\",:0-9eE.+\\\\ntrul -]{0,12}") {
            let theirs = serde_json::from_str::<serde_json::Value>(&text).is_ok();
            prop_assert_eq!(query(text.as_bytes()).is_some(), theirs, "{}", text);
        }
    }
}
