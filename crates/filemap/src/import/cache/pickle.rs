//! Reads a pickle as data: text, bytes, numbers, lists, mappings. Nothing is called or imported.
//!
//! Protocols 2 to 5. A class is kept by its name, and the result of a call by its class and
//! arguments; the caller decides what that stands for. Everything else in a pickle is an error.
//!
//! Invariant: time and memory are linear in the length, with at most [`MAX_STEPS`] instructions.

use std::borrow::Cow;
use std::collections::HashMap;

use filemap_io::layout::take;

use super::data::{Data, Id, Node};

/// Maximum number of instructions of one pickle: a page with its headers has some hundreds.
const MAX_STEPS: usize = 1 << 20;

/// Reads a whole pickle. An error is the reason.
pub(super) fn read(bytes: &[u8]) -> Result<Data<'_>, String> {
    let mut machine = Machine { rest: bytes, ..Machine::default() };
    for _ in 0..MAX_STEPS {
        let at = bytes.len() - machine.rest.len();
        let Some(code) = machine.byte() else { return Err("the pickle ends early".to_owned()) };
        if code == b'.' {
            let root = machine.pop().ok_or("the pickle has no value")?;
            machine.data.root = root;
            return Ok(machine.data);
        }
        machine.step(code).ok_or_else(|| match is_known(code) {
            true => format!("the pickle is damaged at byte {at}"),
            false => format!("the pickle is not plain data: instruction {:?} at byte {at}", char::from(code)),
        })?;
    }
    Err(format!("the pickle has over {MAX_STEPS} instructions"))
}

fn is_known(code: u8) -> bool {
    const KNOWN: &[u8] = b"\x80\x95(01NJKMG\x88\x89\x8a\x8bX\x8c\x8dCB\x8e\x96UT]ael)t\x85\x86\x87}sud\
        \x8f\x90\x91qr\x94hjc\x93R\x81\x92b";
    KNOWN.contains(&code)
}

#[derive(Default)]
struct Machine<'a> {
    rest: &'a [u8],
    data: Data<'a>,
    stack: Vec<Id>,
    /// Stack heights at the marks.
    marks: Vec<usize>,
    memo: HashMap<u32, Id>,
}

impl<'a> Machine<'a> {
    /// Executes one instruction; `None` if that is not possible.
    fn step(&mut self, code: u8) -> Option<()> {
        match code {
            0x80 => drop(self.byte()?),
            0x95 => drop(self.take(8)?),
            b'(' => self.marks.push(self.stack.len()),
            b'0' => drop(self.pop()?),
            b'1' => drop(self.above_mark()?),
            b'N' => self.push(Node::None),
            0x88 => self.push(Node::Bool(true)),
            0x89 => self.push(Node::Bool(false)),
            b'J' | b'K' | b'M' | 0x8a | 0x8b | b'G' => self.number(code)?,
            b'X' | 0x8c | 0x8d | b'C' | b'B' | 0x8e | 0x96 | b'U' | b'T' => self.string(code)?,
            b']' | 0x8f => self.push(Node::List(Vec::new())),
            b')' => self.push(Node::Tuple(Vec::new())),
            b'}' => self.push(Node::Dict(Vec::new())),
            b'a' | b'e' | 0x90 => self.append(code)?,
            b's' | b'u' => self.set_items(code)?,
            b'l' | 0x91 => {
                let items = self.above_mark()?;
                self.push(Node::List(items));
            }
            b't' => {
                let items = self.above_mark()?;
                self.push(Node::Tuple(items));
            }
            b'd' => {
                let items = pairs(&self.above_mark()?)?;
                self.push(Node::Dict(items));
            }
            0x85..=0x87 => {
                let items = self.stack.split_off(self.floor(usize::from(code - 0x84))?);
                self.push(Node::Tuple(items));
            }
            _ => return self.name_or_call(code),
        }
        Some(())
    }

    /// Executes the instructions of the memo, of classes and of calls.
    fn name_or_call(&mut self, code: u8) -> Option<()> {
        match code {
            b'q' | b'r' | 0x94 => {
                let number = match code {
                    b'q' => u32::from(self.byte()?),
                    b'r' => self.length(4)?.try_into().ok()?,
                    _ => self.memo.len() as u32,
                };
                self.memo.insert(number, *self.stack.last()?);
            }
            b'h' | b'j' => {
                let number = if code == b'h' { u32::from(self.byte()?) } else { self.length(4)?.try_into().ok()? };
                self.stack.push(*self.memo.get(&number)?);
            }
            b'c' => {
                let (module, name) = (self.line()?, self.line()?);
                let (module, name) = (self.data.push(module), self.data.push(name));
                self.push(Node::Global(module, name));
            }
            0x93 => {
                let (name, module) = (self.pop()?, self.pop()?);
                self.push(Node::Global(module, name));
            }
            b'R' | 0x81 => {
                let (arguments, class) = (self.pop()?, self.pop()?);
                self.push(Node::Made(class, arguments));
            }
            0x92 => {
                let (_, arguments, class) = (self.pop()?, self.pop()?, self.pop()?);
                self.push(Node::Made(class, arguments));
            }
            // State of an object: only its arguments are ever used.
            b'b' => drop(self.pop()?),
            _ => return None,
        }
        Some(())
    }

    fn push(&mut self, node: Node<'a>) {
        let id = self.data.push(node);
        self.stack.push(id);
    }

    /// Pops the topmost value, but none below a mark.
    fn pop(&mut self) -> Option<Id> {
        self.floor(1)?;
        self.stack.pop()
    }

    /// Height of the stack without the `count` topmost values above the last mark.
    fn floor(&self, count: usize) -> Option<usize> {
        let mark = self.marks.last().copied().unwrap_or(0);
        self.stack.len().checked_sub(count).filter(|floor| *floor >= mark)
    }

    fn above_mark(&mut self) -> Option<Vec<Id>> {
        let mark = self.marks.pop()?;
        Some(self.stack.split_off(mark))
    }

    fn append(&mut self, code: u8) -> Option<()> {
        let items = if code == b'a' { vec![self.pop()?] } else { self.above_mark()? };
        match self.data.nodes.get_mut(*self.stack.last()?)? {
            Node::List(list) => list.extend(items),
            _ => return None,
        }
        Some(())
    }

    fn set_items(&mut self, code: u8) -> Option<()> {
        let items = match code {
            b's' => self.stack.split_off(self.floor(2)?),
            _ => self.above_mark()?,
        };
        let items = pairs(&items)?;
        match self.data.nodes.get_mut(*self.stack.last()?)? {
            Node::Dict(dict) => dict.extend(items),
            // A dictionary of a custom class, which only adds a name to it.
            Node::Made(..) => {}
            _ => return None,
        }
        Some(())
    }

    fn number(&mut self, code: u8) -> Option<()> {
        let node = match code {
            b'J' => Node::Int(Some(i128::from(take::<i32>(&mut self.rest)?))),
            b'K' => Node::Int(Some(i128::from(self.byte()?))),
            b'M' => Node::Int(Some(i128::from(take::<u16>(&mut self.rest)?))),
            b'G' => Node::Float(f64::from_be_bytes(self.take(8)?.try_into().ok()?)),
            _ => {
                let length = self.length(if code == 0x8a { 1 } else { 4 })?;
                Node::Int(integer(self.take(length)?))
            }
        };
        self.push(node);
        Some(())
    }

    fn string(&mut self, code: u8) -> Option<()> {
        let length = self.length(match code {
            0x8c | b'C' | b'U' => 1,
            b'X' | b'B' | b'T' => 4,
            _ => 8,
        })?;
        let bytes = self.take(length)?;
        let is_text = matches!(code, b'X' | 0x8c | 0x8d);
        let node = match is_text {
            true => Node::Str(Cow::Borrowed(std::str::from_utf8(bytes).ok()?)),
            false => Node::Bytes(Cow::Borrowed(bytes)),
        };
        self.push(node);
        Some(())
    }

    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    /// Reads a length of this many bytes, little-endian.
    fn length(&mut self, bytes: usize) -> Option<usize> {
        let taken = self.take(bytes)?;
        let number = taken.iter().rev().fold(0u64, |number, byte| number << 8 | u64::from(*byte));
        usize::try_from(number).ok()
    }

    fn line(&mut self) -> Option<Node<'a>> {
        let end = memchr::memchr(b'\n', self.rest)?;
        let line = self.take(end)?;
        self.byte()?;
        Some(Node::Str(Cow::Borrowed(std::str::from_utf8(line).ok()?)))
    }
}

/// Decodes an integer, little-endian; `None` if it is too large.
fn integer(bytes: &[u8]) -> Option<i128> {
    if bytes.len() > 16 {
        return None;
    }
    let is_negative = bytes.last().is_some_and(|byte| byte & 0x80 != 0);
    let mut all = [if is_negative { 0xff } else { 0 }; 16];
    all[..bytes.len()].copy_from_slice(bytes);
    Some(i128::from_le_bytes(all))
}

fn pairs(items: &[Id]) -> Option<Vec<(Id, Id)>> {
    let (pairs, rest) = items.as_chunks::<2>();
    rest.is_empty().then(|| pairs.iter().map(|[key, value]| (*key, *value)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn mappings_bytes_and_numbers_are_read_in_every_protocol() {
        // pickle.dumps({"a": [1, -2, 2**40, 1.5, None, True], b"b": b"\xff"}, protocol)
        let rows: [&[u8]; 3] = [
            b"\x80\x02}q\x00(X\x01\x00\x00\x00aq\x01]q\x02(K\x01J\xfe\xff\xff\xff\x8a\x06\x00\x00\x00\x00\x00\x01G?\xf8\
              \x00\x00\x00\x00\x00\x00N\x88ec_codecs\nencode\nq\x03X\x01\x00\x00\x00bq\x04X\x06\x00\x00\x00latin1q\x05\
              \x86q\x06Rq\x07h\x03X\x02\x00\x00\x00\xc3\xbfq\x08h\x05\x86q\x09Rq\x0au.",
            b"\x80\x03}q\x00(X\x01\x00\x00\x00aq\x01]q\x02(K\x01J\xfe\xff\xff\xff\x8a\x06\x00\x00\x00\x00\x00\x01G?\xf8\
              \x00\x00\x00\x00\x00\x00N\x88eC\x01bq\x03C\x01\xffq\x04u.",
            b"\x80\x04\x95,\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x01a\x94]\x94(K\x01J\xfe\xff\xff\xff\x8a\x06\x00\x00\
              \x00\x00\x00\x01G?\xf8\x00\x00\x00\x00\x00\x00N\x88eC\x01b\x94C\x01\xff\x94u.",
        ];
        for row in rows {
            let data = read(row).expect("plain data");
            let list: Vec<_> = data.view().get("a").and_then(|a| a.items()).expect("a list").collect();
            assert_eq!((list[0].int(), list[1].int(), list[2].int()), (Some(1), Some(-2), Some(1 << 40)));
            assert_eq!((list[3].number(), list[4].is_none(), list[5].node()), (Some(1.5), true, &Node::Bool(true)));
            let (name, value) = data.view().pairs().and_then(|mut pairs| pairs.nth(1)).expect("two pairs");
            assert_eq!((name.bytes().as_deref(), value.bytes().as_deref()), (Some(&b"b"[..]), Some(&b"\xff"[..])));
        }
    }

    #[test]
    fn a_call_is_data_and_what_else_a_pickle_does_is_refused() {
        let call = read(b"cos\nsystem\n(X\x02\x00\x00\x00lstR.").expect("read as data");
        assert!(call.view().made("os", "system").is_some() && call.view().made("os", "popen").is_none());
        for (bytes, why) in [
            (&b"I1\n."[..], "not plain data"),
            (b"(lp0\n.", "not plain data"),
            (b"P1\n.", "not plain data"),
            (b"h\x00.", "damaged"),
            (b"(0.", "damaged"),
            (b"}K\x01s.", "damaged"),
            (b"K", "damaged"),
            (b"K\x01", "ends early"),
            (b".", "no value"),
            (b"\x8d\xff\xff\xff\xff\xff\xff\xff\xff", "damaged"),
        ] {
            assert!(read(bytes).is_err_and(|words| words.contains(why)), "{}", bytes.escape_ascii());
        }
        assert!(read(&b"N0".repeat(MAX_STEPS)).is_err_and(|words| words.contains("over")));
    }

    proptest! {
        #[test]
        fn any_bytes_are_data_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            if let Ok(data) = read(&bytes) {
                let _ = (data.view().get("a"), data.view().bytes(), data.view().items().map(|items| items.len()));
            }
        }

        #[test]
        fn instructions_in_any_order_are_data_or_an_error(
            codes in proptest::collection::vec(
                proptest::sample::select(b"(01N\x88K\x01]ael)t\x85\x86}sud\x8f\x90\x91q\x00\x94h\x00\x93R\x81b\x8c\x01a".to_vec()),
                0..200,
            )
        ) {
            let _ = read(&[codes, b".".to_vec()].concat());
        }
    }
}
