//! Plain data as caches write it: the values of a pickle, a Python literal or a JSON document.
//!
//! Values are kept in one table and refer to each other by number, so a value that occurs many
//! times is kept once. A class or a call in a pickle is a value like any other: nothing is looked
//! up, constructed or called.
//!
//! Invariant: every number is an index into the table. Values may refer in circles, so code that
//! walks them bounds the depth.

use std::borrow::Cow;

/// Index of a value in its table.
pub(super) type Id = usize;

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node<'a> {
    None,
    Bool(bool),
    /// An integer; `None` if it does not fit.
    Int(Option<i128>),
    Float(f64),
    Str(Cow<'a, str>),
    Bytes(Cow<'a, [u8]>),
    /// Lists, tuples and sets, distinguished where it matters.
    List(Vec<Id>),
    Tuple(Vec<Id>),
    Dict(Vec<(Id, Id)>),
    /// A class or function by module and name.
    Global(Id, Id),
    /// The result of calling a class: the class and its arguments.
    Made(Id, Id),
}

/// A table of values, with its root.
#[derive(Debug, Default)]
pub(super) struct Data<'a> {
    pub(super) nodes: Vec<Node<'a>>,
    pub(super) root: Id,
}

/// A value in its table.
#[derive(Clone, Copy, Debug)]
pub(super) struct View<'d> {
    nodes: &'d [Node<'d>],
    id: Id,
}

impl<'a> Data<'a> {
    pub(super) fn push(&mut self, node: Node<'a>) -> Id {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    pub(super) fn view<'d>(&'d self) -> View<'d>
    where
        'a: 'd,
    {
        View { nodes: &self.nodes, id: self.root }
    }

    /// The values of a JSON document.
    pub(super) fn of_json(value: serde_json::Value) -> Data<'static> {
        let mut data = Data::default();
        data.root = push_json(&mut data, value);
        data
    }
}

fn push_json(data: &mut Data<'static>, value: serde_json::Value) -> Id {
    use serde_json::Value;
    let node = match value {
        Value::Null => Node::None,
        Value::Bool(is_true) => Node::Bool(is_true),
        Value::Number(number) if number.is_f64() => Node::Float(number.as_f64().unwrap_or_default()),
        Value::Number(number) => Node::Int(number.as_i64().map(i128::from)),
        Value::String(text) => Node::Str(Cow::Owned(text)),
        Value::Array(items) => Node::List(items.into_iter().map(|item| push_json(data, item)).collect()),
        Value::Object(fields) => {
            let pushed = fields.into_iter().map(|(name, value)| {
                let name = data.push(Node::Str(Cow::Owned(name)));
                (name, push_json(data, value))
            });
            Node::Dict(pushed.collect())
        }
    };
    data.push(node)
}

impl<'d> View<'d> {
    pub(super) fn node(self) -> &'d Node<'d> {
        const NOTHING: &Node<'static> = &Node::None;
        self.nodes.get(self.id).unwrap_or(NOTHING)
    }

    pub(super) fn at(self, id: Id) -> View<'d> {
        View { id, ..self }
    }

    /// The value of a name in a mapping. Names may be text or bytes; the last of equal names
    /// counts.
    pub(super) fn get(self, name: &str) -> Option<View<'d>> {
        let Node::Dict(items) = self.node() else { return None };
        let is_it = |id: Id| match self.at(id).node() {
            Node::Str(text) => text == name,
            Node::Bytes(bytes) => **bytes == *name.as_bytes(),
            _ => false,
        };
        items.iter().rev().find(|(key, _)| is_it(*key)).map(|(_, value)| self.at(*value))
    }

    pub(super) fn is_none(self) -> bool {
        matches!(self.node(), Node::None)
    }

    pub(super) fn text(self) -> Option<&'d str> {
        match self.node() {
            Node::Str(text) => Some(text),
            _ => None,
        }
    }

    /// Bytes, or the bytes of a text.
    pub(super) fn bytes(self) -> Option<Cow<'d, [u8]>> {
        match self.node() {
            Node::Bytes(bytes) => Some(Cow::Borrowed(bytes)),
            Node::Str(text) => Some(Cow::Borrowed(text.as_bytes())),
            // Bytes as protocols below 3 write them.
            Node::Made(..) => self.made("_codecs", "encode").and_then(latin_1).map(Cow::Owned),
            _ => None,
        }
    }

    pub(super) fn int(self) -> Option<i64> {
        match self.node() {
            Node::Int(number) => number.and_then(|number| i64::try_from(number).ok()),
            _ => None,
        }
    }

    pub(super) fn number(self) -> Option<f64> {
        match self.node() {
            Node::Float(number) => Some(*number).filter(|number| number.is_finite()),
            Node::Int(number) => number.map(|number| number as f64),
            _ => None,
        }
    }

    /// The items of a list or tuple.
    pub(super) fn items(self) -> Option<impl ExactSizeIterator<Item = View<'d>>> {
        match self.node() {
            Node::List(items) | Node::Tuple(items) => Some(items.iter().map(move |id| self.at(*id))),
            _ => None,
        }
    }

    /// The pairs of a mapping, in order.
    pub(super) fn pairs(self) -> Option<impl ExactSizeIterator<Item = (View<'d>, View<'d>)>> {
        match self.node() {
            Node::Dict(items) => Some(items.iter().map(move |(key, value)| (self.at(*key), self.at(*value)))),
            _ => None,
        }
    }

    /// The arguments, if the value is the result of a call of this name.
    pub(super) fn made(self, module: &str, name: &str) -> Option<View<'d>> {
        let Node::Made(class, arguments) = self.node() else { return None };
        let Node::Global(of, called) = self.at(*class).node() else { return None };
        let is_it = self.at(*of).text() == Some(module) && self.at(*called).text() == Some(name);
        is_it.then(|| self.at(*arguments))
    }
}

/// The bytes of a call `_codecs.encode(text, "latin1")`.
fn latin_1(arguments: View<'_>) -> Option<Vec<u8>> {
    let mut arguments = arguments.items()?;
    let (text, coding) = (arguments.next()?.text()?, arguments.next()?.text()?);
    if !matches!(coding, "latin1" | "latin-1" | "iso-8859-1") {
        return None;
    }
    text.chars().map(|c| u8::try_from(u32::from(c)).ok()).collect()
}
