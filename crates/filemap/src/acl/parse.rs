//! Parses files of access rules: `.aclj`, one rule a line, as `wb-manager acl` writes them; and a
//! default and an embargo, as JSON with the names of pywb's `config.yaml`.
//!
//! A file is refused if pywb would read one of its lines as another rule or as none: a rule that
//! silently has no effect would show captures that it should withhold.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::when::When;
use super::{Access, AccessError, AccessRules, EVERY_URL, Embargo, Rule, Word, never};

/// Suffix of the key of a rule for exactly this URL.
const EXACT: &[u8] = b"###";
/// Byte order mark, which some editors write before UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// The fields of a rule; `wb-manager` also writes `url`.
const FIELDS: [&str; 8] = ["access", "user", "url", "reason", "before", "after", "newer", "older"];

impl AccessRules {
    /// Adds the rules of an `.aclj` file. Of two rules with one key, the first in a file applies,
    /// and of several files that with the greater line, as in pywb. After an error the rules are
    /// unchanged.
    ///
    /// # Errors
    ///
    /// The first line that is not a rule.
    pub fn add(&mut self, file: &str, text: &[u8]) -> Result<(), AccessError> {
        let name: Arc<str> = file.into();
        let (mut rules, mut of_users) = (BTreeMap::new(), 0);
        let (mut last, mut out_of_order, mut warnings) = (None, None, Vec::new());
        for (nth, line) in text.split(|&byte| byte == b'\n').enumerate() {
            let number = nth as u64 + 1;
            let line = line.trim_ascii_end();
            if line.is_empty() {
                continue;
            }
            let failed = |what: String| AccessError { file: file.to_owned(), line: Some(number), what };
            let (key, rest, fields) = split(line).map_err(failed)?;
            if last.is_some_and(|last| last < line) {
                out_of_order.get_or_insert_with(|| format!("{file}:{number}"));
            }
            last = Some(line);
            let rule = rule(&fields, rest, Arc::clone(&name), number).map_err(failed)?;
            if fields.get("user").is_some_and(|user| user.as_str() != Some("") && !user.is_null()) {
                of_users += 1;
                continue;
            }
            let of_key = doubt(key).map_err(failed)?;
            let doubts = of_key.into_iter().chain(several(&fields));
            warnings.extend(doubts.map(|words| format!("{file}:{number}: {words}")));
            match rules.entry(key.to_vec()) {
                Entry::Vacant(free) => drop(free.insert(rule)),
                Entry::Occupied(first) => warnings.extend(contradiction(first.get(), &rule)),
            }
        }
        for (key, rule) in rules {
            self.insert(&key, rule);
        }
        self.warnings.append(&mut warnings);
        self.of_users += of_users;
        self.out_of_order.extend(out_of_order);
        Ok(())
    }

    fn insert(&mut self, key: &[u8], rule: Rule) {
        let (rules, key) = match key.strip_suffix(EXACT) {
            Some(exact) => (&mut self.exact, exact),
            None if key == EVERY_URL => {
                let (holds, warning) = greater(self.every.take(), rule);
                self.every = Some(holds);
                self.warnings.extend(warning);
                return;
            }
            None => (&mut self.prefixes, key),
        };
        let (holds, warning) = greater(rules.remove(key), rule);
        rules.insert(key.into(), holds);
        self.warnings.extend(warning);
    }

    /// Takes default and embargo, or one of them, from a JSON file:
    /// `{"default_access": "block", "embargo": {"newer": {"years": 1}, "access": "exclude"}}`.
    /// A later file replaces an earlier one.
    ///
    /// # Errors
    ///
    /// An unknown field, or an invalid value. The rules are then unchanged.
    pub fn configure(&mut self, file: &str, text: &[u8]) -> Result<(), AccessError> {
        let failed = |line: usize, what: String| {
            let line = Some(line as u64).filter(|line| *line > 0);
            AccessError { file: file.to_owned(), line, what }
        };
        let config: Value = serde_json::from_slice(text).map_err(|error| failed(error.line(), error.to_string()))?;
        let (default, embargo) = configured(&config, file).map_err(|what| failed(0, what))?;
        (self.default, self.embargo) = (default, embargo);
        Ok(())
    }
}

/// Of two files' rules with one key, the one that applies, and a warning about the other.
fn greater(there: Option<Rule>, rule: Rule) -> (Rule, Option<String>) {
    let Some(there) = there else { return (rule, None) };
    let (holds, other) = if there.rest < rule.rest { (rule, there) } else { (there, rule) };
    let warning = contradiction(&holds, &other);
    (holds, warning)
}

/// The warning about a rule that does not apply because another one has its key.
fn contradiction(holds: &Rule, other: &Rule) -> Option<String> {
    let differs = (holds.word, holds.when) != (other.word, other.when);
    differs.then(|| {
        format!("{}:{}: not used: {}:{} has the same key and applies", other.file, other.line, holds.file, holds.line)
    })
}

/// A warning about a key; an error if no URL has it.
fn doubt(key: &[u8]) -> Result<Option<String>, String> {
    match key.strip_suffix(EXACT) {
        _ if key == EVERY_URL => Ok(None),
        Some(exact) => never::check(exact, true),
        None => never::check(key, false),
    }
}

/// A warning about more conditions than the one that applies.
fn several(fields: &Map<String, Value>) -> Option<String> {
    let names: Vec<_> =
        ["before", "after", "newer", "older"].into_iter().filter(|name| fields.contains_key(*name)).collect();
    let first = names.first().filter(|_| names.len() > 1)?;
    Some(format!("of the conditions {} only `{first}` is used, as by pywb", names.join(", ")))
}

/// The key of a line, the text after it, and its fields.
type Line<'l> = (&'l [u8], &'l [u8], Map<String, Value>);

fn split(line: &[u8]) -> Result<Line<'_>, String> {
    let wanted = "a rule is `com,example)/path - {\"access\": \"block\"}`";
    let mut parts = line.splitn(3, |&byte| byte == b' ');
    let (Some(key), Some(_), Some(fields)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(wanted.to_owned());
    };
    if key.is_empty() || key == EXACT {
        return Err(format!("{wanted}: this one has no key"));
    }
    if key.starts_with(BYTE_ORDER_MARK) {
        return Err("the file begins with a byte order mark: remove it".to_owned());
    }
    let fields = serde_json::from_slice::<Map<String, Value>>(fields).map_err(|error| format!("{wanted}: {error}"))?;
    known(&fields, &FIELDS)?;
    Ok((key, &line[key.len()..], fields))
}

fn rule(fields: &Map<String, Value>, rest: &[u8], file: Arc<str>, line: u64) -> Result<Rule, String> {
    // Without `access` pywb excludes.
    let word = fields.get("access").map_or(Ok(Word::Is(Access::Exclude)), word)?;
    let when = When::read(fields, false)?;
    Ok(Rule { word, when, reason: reason(fields)?, file, line, rest: rest.into() })
}

fn word(value: &Value) -> Result<Word, String> {
    let found = Word::NAMES.iter().find(|(name, _)| value.as_str() == Some(name));
    let names = Word::NAMES.map(|(name, _)| name).join(", ");
    found.map(|(_, word)| *word).ok_or_else(|| format!("access is {names}, not {value}"))
}

fn reason(fields: &Map<String, Value>) -> Result<Option<String>, String> {
    match fields.get("reason") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(reason)) => Ok(Some(reason.clone())),
        Some(other) => Err(format!("`reason` is a text, not {other}")),
    }
}

fn configured(config: &Value, file: &str) -> Result<(Word, Option<Embargo>), String> {
    let fields = config.as_object().ok_or("the file is an object with `default_access`, `embargo` or both")?;
    known(fields, &["default_access", "embargo"])?;
    let default = fields.get("default_access").map_or(Ok(Word::Is(Access::Allow)), word)?;
    let Some(embargo) = fields.get("embargo").filter(|embargo| !embargo.is_null()) else { return Ok((default, None)) };
    let fields = embargo.as_object().ok_or("`embargo` is an object with `before`, `after`, `newer` or `older`")?;
    known(fields, &["before", "after", "newer", "older", "access", "reason"])?;
    let access = match fields.get("access").map_or(Ok(Word::Is(Access::Exclude)), word)? {
        Word::Is(access) => access,
        Word::AllowIgnoreEmbargo => return Err("an embargo cannot ignore itself".to_owned()),
    };
    let Some(when) = When::read(fields, true)? else {
        return Err("`embargo` has no `before`, `after`, `newer` or `older`".to_owned());
    };
    // An embargo that allows does nothing.
    let embargo = Embargo { access, when, reason: reason(fields)?, file: file.into() };
    Ok((default, Some(embargo).filter(|embargo| embargo.access != Access::Allow)))
}

fn known(fields: &Map<String, Value>, names: &[&str]) -> Result<(), String> {
    match fields.keys().find(|name| !names.contains(&name.as_str())) {
        Some(other) => Err(format!("unknown field `{other}`: known are {}", names.join(", "))),
        None => Ok(()),
    }
}
