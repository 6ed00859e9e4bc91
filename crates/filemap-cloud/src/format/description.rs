//! The object `STORE`: the choices made when the store was created, and since its first dictionary
//! a line that says so: the only change that is ever made to it. Lines of name and value, also
//! readable by people.

/// The name of the object.
pub(crate) const NAME: &str = "STORE";

/// The first line.
const FORMAT: &str = "filemap cloud 1";

/// The maximum number of shards.
pub(crate) const MAX_SHARDS: u32 = 1_024;

/// The parameters of a store, fixed at its creation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Description {
    /// The number of shards.
    pub(crate) shards: u32,
    pub(crate) canonicalizer: String,
    pub(crate) canonicalizer_version: u32,
    /// A random name, by which a cache tells the store from others at the same place; `None` if an
    /// older build created it.
    pub(crate) id: Option<String>,
    /// True once a dictionary was trained: builds that know none then refuse the store by name.
    pub(crate) has_dictionaries: bool,
}

impl Description {
    pub(crate) fn encode(&self) -> String {
        let Description { shards, canonicalizer, canonicalizer_version, id, has_dictionaries } = self;
        let mut text = format!("{FORMAT}\nshards {shards}\ncanonicalizer {canonicalizer} {canonicalizer_version}\n");
        if let Some(id) = id {
            text += &format!("id {id}\n");
        }
        if *has_dictionaries {
            text += "dictionaries 1\n";
        }
        text
    }

    /// Decodes it; an error describes what this program does not support.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Description, String> {
        let strange = |what: &str| format!("{NAME} {what}");
        let text = std::str::from_utf8(bytes).map_err(|_| strange("is not text"))?;
        let mut lines = text.lines();
        if lines.next() != Some(FORMAT) {
            return Err(strange("has a format unknown to this program, which reads `filemap cloud 1`"));
        }
        let (mut shards, mut named, mut id, mut has_dictionaries) = (None, None, None, false);
        for line in lines {
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["shards", number] => {
                    let number = number.parse().ok().filter(|number| (1..=MAX_SHARDS).contains(number));
                    shards = Some(number.ok_or_else(|| strange("has an invalid number of shards"))?);
                }
                ["canonicalizer", name, version] => {
                    let version = version.parse().map_err(|_| strange("has a version that is not a number"))?;
                    named = Some((name.to_owned(), version));
                }
                ["id", random] => id = Some(random.to_owned()),
                ["dictionaries", "1"] => has_dictionaries = true,
                _ => return Err(strange(&format!("has a line unknown to this program: `{line}`"))),
            }
        }
        let (canonicalizer, canonicalizer_version) = named.ok_or_else(|| strange("names no canonicalizer"))?;
        let shards = shards.ok_or_else(|| strange("has no number of shards"))?;
        Ok(Description { shards, canonicalizer, canonicalizer_version, id, has_dictionaries })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_comes_back_and_what_is_not_known_is_refused() {
        let (canonicalizer, id) = ("whatwg".to_owned(), None);
        let older = Description { shards: 16, canonicalizer, canonicalizer_version: 3, id, has_dictionaries: false };
        let text = older.encode();
        assert_eq!(Description::decode(text.as_bytes()).as_ref(), Ok(&older));
        let newer = Description { id: Some("00ff".to_owned()), ..older };
        assert_eq!(Description::decode(newer.encode().as_bytes()).as_ref(), Ok(&newer));
        let with = Description { has_dictionaries: true, ..newer };
        assert_eq!(Description::decode(with.encode().as_bytes()).as_ref(), Ok(&with));
        for wrong in [
            "",
            "filemap cloud 2\n",
            "filemap cloud 1\nshards 1\n",
            &text.replace("shards 16", "shards 0"),
            &text.replace("shards 16\n", ""),
            &text.replace(" 3\n", " x\n"),
            &format!("{text}colour blue\n"),
            &format!("{text}dictionaries 2\n"),
        ] {
            assert!(Description::decode(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
