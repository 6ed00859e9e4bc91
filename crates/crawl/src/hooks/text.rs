//! The visible text of an HTML document, and its declared language.
//!
//! Visible text is all text outside scripts, styles, templates and the title: an approximation
//! without style sheets. One pass of the tokenizer, no tree.

use html5gum::{DefaultEmitter, Token, Tokenizer};

use crate::links::elements::{HIDDEN, parts_words};

/// The text and language of a document.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Text {
    /// The visible text; blanks replace tags that separate words.
    pub(super) text: String,
    /// The `lang` of the `html` element.
    pub(super) lang: Option<String>,
}

/// Reads a document.
pub(super) fn of(document: &str) -> Text {
    let mut emitter = DefaultEmitter::default();
    emitter.naively_switch_states(true);
    let (mut read, mut hidden) = (Text::default(), None::<Vec<u8>>);
    // Reading from memory cannot fail.
    for token in Tokenizer::new_with_emitter(document, emitter).flatten() {
        match token {
            Token::StartTag(tag) => {
                let name = tag.name.as_slice();
                if name == b"html" && read.lang.is_none() {
                    let lang = tag.attributes.get(&b"lang"[..]).or_else(|| tag.attributes.get(&b"xml:lang"[..]));
                    read.lang = lang.map(|lang| String::from_utf8_lossy(lang).trim().to_owned());
                }
                part(&mut read.text, name);
                if hidden.is_none() && HIDDEN.contains(&name) && !tag.self_closing {
                    hidden = Some(name.to_vec());
                }
            }
            Token::EndTag(tag) => {
                hidden = hidden.filter(|name| *name != tag.name.as_slice());
                part(&mut read.text, tag.name.as_slice());
            }
            Token::String(text) if hidden.is_none() => read.text += &String::from_utf8_lossy(&text),
            _ => {}
        }
    }
    read.lang = read.lang.filter(|lang| !lang.is_empty());
    read
}

/// Separates the words before and after a tag.
fn part(text: &mut String, name: &[u8]) {
    if parts_words(name) && !text.ends_with(' ') {
        text.push(' ');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_what_people_see() {
        let read = of("<!doctype html><html lang=' de-AT '><head><title>no</title><style>p { x }</style></head>\
            <body><p>One<b>two</b></p><p>three &amp; four</p><script>var x = '<p>no</p>';</script><!-- no -->five");
        assert_eq!(read.text.split_whitespace().collect::<Vec<_>>(), ["Onetwo", "three", "&", "four", "five"]);
        assert_eq!(read.lang.as_deref(), Some("de-AT"));
        assert_eq!(of("<p lang=fr>x").lang, None);
        assert_eq!(of("plain").text, "plain");
    }
}
