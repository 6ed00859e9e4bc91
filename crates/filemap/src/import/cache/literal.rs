//! Reads Python literals as `repr` writes them: text, bytes, numbers, `None`, booleans, lists,
//! tuples and mappings.
//!
//! Invariants: time and memory are linear in the length; nesting is bounded by [`MAX_DEPTH`];
//! names other than `None`, `True`, `False`, `inf` and `nan`, operators and calls are errors.

use std::borrow::Cow;

use super::data::{Data, Id, Node};

const MAX_DEPTH: usize = 32;

/// Reads one literal, with only space around it. An error is the reason.
pub(super) fn read(text: &str) -> Result<Data<'static>, String> {
    let mut reader = Reader { text, at: 0, data: Data::default() };
    let root = reader.value(0).filter(|_| {
        reader.skip_space();
        reader.at == text.len()
    });
    match root {
        Some(root) => {
            reader.data.root = root;
            Ok(reader.data)
        }
        None => Err(format!("it is not a Python literal at byte {}", reader.at)),
    }
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
    data: Data<'static>,
}

impl Reader<'_> {
    fn rest(&self) -> &[u8] {
        &self.text.as_bytes()[self.at..]
    }

    fn peek(&self) -> Option<u8> {
        self.rest().first().copied()
    }

    fn skip_space(&mut self) {
        self.at += self.rest().iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    }

    /// Consumes a byte if it is next.
    fn takes(&mut self, byte: u8) -> bool {
        self.skip_space();
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    fn value(&mut self, depth: usize) -> Option<Id> {
        if depth > MAX_DEPTH {
            return None;
        }
        self.skip_space();
        let node = match self.peek()? {
            b'{' => self.dict(depth)?,
            b'[' => Node::List(self.items(b']', depth)?.0),
            b'(' => match self.items(b')', depth)? {
                // One value in parentheses is that value.
                (items, false) if items.len() == 1 => return items.first().copied(),
                (items, _) => Node::Tuple(items),
            },
            b'\'' | b'"' => Node::Str(Cow::Owned(self.text_literal()?)),
            b'b' if matches!(self.rest().get(1), Some(b'\'' | b'"')) => {
                self.at += 1;
                Node::Bytes(Cow::Owned(self.bytes_literal()?))
            }
            b'-' | b'+' | b'0'..=b'9' | b'.' => self.number()?,
            _ => self.name()?,
        };
        Some(self.data.push(node))
    }

    /// The items between brackets, and whether a comma came last.
    fn items(&mut self, end: u8, depth: usize) -> Option<(Vec<Id>, bool)> {
        self.at += 1;
        let (mut items, mut comma) = (Vec::new(), false);
        while !self.takes(end) {
            if !items.is_empty() && !comma {
                return None;
            }
            items.push(self.value(depth + 1)?);
            comma = self.takes(b',');
        }
        Some((items, comma))
    }

    fn dict(&mut self, depth: usize) -> Option<Node<'static>> {
        self.at += 1;
        let (mut items, mut comma) = (Vec::new(), true);
        while !self.takes(b'}') {
            let key = comma.then(|| self.value(depth + 1))??;
            let value = self.takes(b':').then(|| self.value(depth + 1))??;
            items.push((key, value));
            comma = self.takes(b',');
        }
        Some(Node::Dict(items))
    }

    fn number(&mut self) -> Option<Node<'static>> {
        let is_of_number = |byte: &&u8| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
        let length = self.rest().iter().take_while(is_of_number).count();
        let digits = self.text.get(self.at..self.at + length)?;
        self.at += length;
        let is_integer = digits.bytes().skip(1).all(|byte| byte.is_ascii_digit());
        let has_digit = digits.bytes().any(|byte| byte.is_ascii_digit());
        match is_integer && has_digit {
            true => Some(Node::Int(digits.parse().ok())),
            false => digits.parse().ok().map(Node::Float),
        }
    }

    fn name(&mut self) -> Option<Node<'static>> {
        let length = self.rest().iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
        let node = match self.text.get(self.at..self.at + length)? {
            "None" => Node::None,
            "True" => Node::Bool(true),
            "False" => Node::Bool(false),
            "inf" => Node::Float(f64::INFINITY),
            "nan" => Node::Float(f64::NAN),
            _ => return None,
        };
        self.at += length;
        Some(node)
    }

    /// The next character of a string. `None` at its end, which is consumed.
    fn next_char(&mut self, quote: char) -> Option<Option<char>> {
        let next = self.text[self.at..].chars().next()?;
        if next == '\n' {
            return None;
        }
        self.at += next.len_utf8();
        Some((next != quote).then_some(next))
    }

    fn quote(&mut self) -> Option<char> {
        let quote = self.peek()?;
        self.at += 1;
        Some(char::from(quote))
    }

    fn text_literal(&mut self) -> Option<String> {
        let (quote, mut out) = (self.quote()?, String::new());
        while let Some(next) = self.next_char(quote)? {
            if next != '\\' {
                out.push(next);
                continue;
            }
            match self.next_char('\0')?? {
                'u' => out.push(self.digits(4)?),
                'U' => out.push(self.digits(8)?),
                escaped => out.push(self.escaped(escaped)?),
            }
        }
        Some(out)
    }

    fn bytes_literal(&mut self) -> Option<Vec<u8>> {
        let (quote, mut out) = (self.quote()?, Vec::new());
        while let Some(next) = self.next_char(quote)? {
            let next = if next == '\\' {
                let escaped = self.next_char('\0')??;
                self.escaped(escaped)?
            } else {
                Some(next).filter(char::is_ascii)?
            };
            out.push(u8::try_from(u32::from(next)).ok()?);
        }
        Some(out)
    }

    /// The character of an escape, after the backslash, in text and in bytes.
    fn escaped(&mut self, escaped: char) -> Option<char> {
        Some(match escaped {
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            '0' => '\0',
            '\\' | '\'' | '"' => escaped,
            'x' => self.digits(2)?,
            _ => return None,
        })
    }

    fn digits(&mut self, count: usize) -> Option<char> {
        let digits = self.text.get(self.at..self.at + count)?;
        self.at += count;
        let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_hex.then(|| u32::from_str_radix(digits, 16).ok().and_then(char::from_u32)).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_repr_writes_is_read() {
        let text = r#"{'url': 'http://a/\'"\\\n\xe9\u20ac\U0001f600é', "b": b'\xff\'\t', 'n': -12, 'f': 1.5e-07, 'big': 12345678901234567890,
            'none': None, 'yes': True, 'list': [1, (2,), (), (3)], 'd': {}, 'inf': inf,}"#;
        let data = read(text).expect("a literal");
        let get = |name: &str| data.view().get(name).expect("there");
        assert_eq!(get("url").text(), Some("http://a/'\"\\\n\u{e9}\u{20ac}\u{1f600}\u{e9}"));
        assert_eq!(get("b").bytes().as_deref(), Some(&b"\xff'\t"[..]));
        assert_eq!((get("n").int(), get("f").number(), get("big").int()), (Some(-12), Some(1.5e-7), None));
        assert_eq!((get("none").is_none(), get("yes").node(), get("inf").number()), (true, &Node::Bool(true), None));
        let list: Vec<_> = get("list").items().expect("a list").collect();
        assert_eq!((list.len(), list[1].items().map(|items| items.len()), list[3].int()), (4, Some(1), Some(3)));
        assert_eq!(get("d").pairs().map(|pairs| pairs.len()), Some(0));
    }

    #[test]
    fn what_is_no_literal_is_refused() {
        for text in [
            "",
            "{",
            "{'a'}",
            "{'a': }",
            "'a",
            "'a\n'",
            "b'\u{e9}'",
            "exec('x')",
            "1 + 1",
            "[1 2]",
            "[,]",
            "'\\q'",
            "''''",
            "nil",
            "'\\ud800'",
            "'\\x+1'",
            "-",
            "1.2.3",
        ] {
            assert!(read(text).is_err(), "{text:?}");
        }
        assert!(read(&"[".repeat(100_000)).is_err() && read(&format!("{}{}", "[".repeat(20), "]".repeat(20))).is_ok());
    }

    proptest! {
        #[test]
        fn any_text_is_a_literal_or_an_error(text in ".{0,100}", marks in "[\\[\\]{}()'\"\\\\xub:, 0-9e.+-]{0,100}") {
            let _ = (read(&text), read(&marks));
        }

        #[test]
        fn text_is_read_as_it_was_written(text in any::<String>()) {
            let written: String = text.chars().map(|c| match c {
                '\'' => "\\'".to_owned(),
                '\\' => "\\\\".to_owned(),
                c if u32::from(c) > 0xffff => format!("\\U{:08x}", u32::from(c)),
                c if c.is_control() || !c.is_ascii() => format!("\\u{:04x}", u32::from(c)),
                c => c.to_string(),
            }).collect();
            let data = read(&format!("'{written}'")).expect("a literal");
            prop_assert_eq!(data.view().text(), Some(text.as_str()));
        }
    }
}
