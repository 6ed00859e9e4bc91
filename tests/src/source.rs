//! Reads one Rust file as the rules need it: its lines without tests, the paths it names, its
//! functions.
//!
//! `proc-macro2` cuts the file into tokens, so a path in a comment or a string is not an import.
//! Items under `#[cfg(test)]` are cut out: the rules are about the code that ships. Paths are
//! given from the crate's root: `use` trees are expanded, `self::` and `super::` resolved.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// A path that a file names: `["crate", "log", "Append"]`, or `["std", "fs"]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsedPath {
    /// The segments; the first is `crate` for everything of the file's own crate.
    pub segments: Vec<String>,
    /// The line (from 1) where it is named.
    pub line: usize,
}

/// A function with a body, and how many lines it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// The line (from 1) of its `fn`.
    pub line: usize,
    /// Lines from `fn` to the closing brace, both counted.
    pub lines: usize,
}

/// One Rust file, its tests cut out.
pub struct SourceFile {
    /// Its path, relative to the workspace's root.
    pub path: PathBuf,
    /// The whole text, tests too.
    pub text: String,
    tokens: Vec<TokenTree>,
    /// The same with its tests.
    all_tokens: Vec<TokenTree>,
    cut: Cut,
    declared_test: bool,
}

/// A part of a file that was cut out as tests.
#[derive(Default)]
struct Cut {
    /// Lines that the cut items took.
    lines: usize,
    /// Modules that were declared there and have a separate file.
    modules: Vec<String>,
}

impl SourceFile {
    /// Reads `text` as the file at `path` (relative to the workspace's root).
    ///
    /// # Errors
    /// A sentence, when the text does not even cut into tokens.
    pub fn parse(path: &Path, text: &str) -> Result<Self, String> {
        let stream = TokenStream::from_str(text).map_err(|error| format!("{}: not Rust: {error}", path.display()))?;
        let mut cut = Cut::default();
        let all_tokens = stream.clone().into_iter().collect();
        let tokens = without_tests(stream, &mut cut);
        Ok(Self { path: path.to_path_buf(), text: text.to_owned(), tokens, all_tokens, cut, declared_test: false })
    }

    /// Marks the files among `files` that others declare as tests: `#[cfg(test)] mod name;`.
    pub fn mark_tests(files: &mut [Self]) {
        let mut declared: Vec<PathBuf> = Vec::new();
        for file in files.iter() {
            let folder = file.path.with_file_name("");
            let stem = file.path.file_stem().unwrap_or_default();
            let inside = if stem == "mod" || stem == "lib" || stem == "main" { folder } else { folder.join(stem) };
            declared.extend(file.cut.modules.iter().map(|name| inside.join(name)));
        }
        for file in files {
            let stem = file.path.with_extension("");
            file.declared_test = declared.iter().any(|test| stem.starts_with(test));
        }
    }

    /// Lines of the file, items under `#[cfg(test)]` not counted.
    pub fn lines_without_tests(&self) -> usize {
        self.text.lines().count() - self.cut.lines
    }

    /// Returns whether the whole file is tests: under a package's own `tests` or `benches` folder,
    /// or declared so.
    pub fn is_test(&self) -> bool {
        let inside = self.path.iter().skip(1).any(|part| part == "tests" || part == "benches");
        inside || self.declared_test
    }

    /// The module path of the file inside its crate: `["index", "page"]`; empty for `lib.rs` and
    /// `main.rs`.
    pub fn module(&self) -> Vec<String> {
        let parts: Vec<String> = self.path.iter().map(|part| part.to_string_lossy().into_owned()).collect();
        let after_src = parts.iter().position(|part| part == "src").map_or(0, |at| at + 1);
        // A binary in a folder below `src/bin` is a separate crate.
        let root = if parts[after_src..].first().is_some_and(|part| part == "bin") { after_src + 2 } else { after_src };
        let mut module: Vec<String> = parts.get(root..).unwrap_or_default().to_vec();
        if let Some(last) = module.pop() {
            let stem = last.trim_end_matches(".rs");
            if !matches!(stem, "mod" | "lib" | "main") {
                module.push(stem.to_owned());
            }
        }
        module
    }

    /// Every path that the file's code names, imports and qualified names alike.
    pub fn used_paths(&self) -> Vec<UsedPath> {
        let mut found = Vec::new();
        collect_paths(&self.tokens, &self.module(), &mut found);
        found
    }

    /// As [`SourceFile::used_paths`], with what its tests name.
    pub fn all_used_paths(&self) -> Vec<UsedPath> {
        let mut found = Vec::new();
        collect_paths(&self.all_tokens, &self.module(), &mut found);
        found
    }

    /// Names imported by `pub use` at the file's own level, each with the path it stands for.
    pub fn re_exports(&self) -> Vec<(String, Vec<String>)> {
        let paths = self.used_paths();
        let named = paths.into_iter().filter(|path| path.segments.len() >= 2);
        named.filter_map(|path| path.segments.last().cloned().map(|name| (name, path.segments))).collect()
    }

    /// Names that the file makes public at its own level: of modules and items, and by `pub use`.
    pub fn public_names(&self) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        for (at, token) in self.tokens.iter().enumerate() {
            let TokenTree::Ident(word) = token else { continue };
            let rest: Vec<TokenTree> =
                self.tokens[at + 1..].iter().take_while(|t| !is_punct(t, ';')).cloned().collect();
            let words = rest.iter().map_while(|token| match token {
                TokenTree::Ident(word) => Some(word.to_string()),
                _ => None,
            });
            let is_kind = |word: &String| !matches!(word.as_str(), "const" | "async" | "unsafe" | "fn");
            match words.clone().next().as_deref() {
                None => continue,
                _ if word != "pub" => continue,
                Some("use") => used_names(&rest[1..], &mut found),
                Some("const" | "async" | "unsafe" | "fn") => found.extend(words.filter(is_kind).take(1)),
                Some(_) => found.extend(words.skip(1).take(1)),
            }
        }
        found
    }

    /// Every function with a body.
    pub fn functions(&self) -> Vec<Function> {
        let mut found = Vec::new();
        collect_functions(&self.tokens, &mut found);
        found
    }

    /// Every macro call, as (name, line).
    pub fn macro_calls(&self) -> Vec<(String, usize)> {
        let mut found = Vec::new();
        for_each_level(&self.tokens, &mut |level| {
            for pair in level.windows(3) {
                if let (TokenTree::Ident(name), true, TokenTree::Group(_)) =
                    (&pair[0], is_punct(&pair[1], '!'), &pair[2])
                {
                    found.push((name.to_string(), name.span().start().line));
                }
            }
        });
        found
    }

    /// Lines where the word `word` stands as code (a keyword or a name).
    pub fn lines_with_word(&self, word: &str) -> Vec<usize> {
        let mut found = Vec::new();
        for_each_level(&self.tokens, &mut |level| {
            for token in level {
                if let TokenTree::Ident(name) = token
                    && name == word
                {
                    found.push(name.span().start().line);
                }
            }
        });
        found
    }
}

/// Calls `visit` with every level of the token tree: the file's own, then each bracket's inside.
fn for_each_level(level: &[TokenTree], visit: &mut impl FnMut(&[TokenTree])) {
    visit(level);
    for token in level {
        if let TokenTree::Group(group) = token {
            let inner: Vec<TokenTree> = group.stream().into_iter().collect();
            for_each_level(&inner, visit);
        }
    }
}

/// The tokens with every `#[cfg(test)]` item taken out; what those were is added to `cut`.
fn without_tests(stream: TokenStream, cut: &mut Cut) -> Vec<TokenTree> {
    let all: Vec<TokenTree> = stream.into_iter().collect();
    let mut kept = Vec::with_capacity(all.len());
    let mut at = 0;
    while at < all.len() {
        if is_test_attribute(&all, at) {
            let end = item_end(&all, at);
            let first = all[at].span().start().line;
            let last = all[end - 1].span().end().line;
            cut.lines += last + 1 - first;
            if let [.., TokenTree::Ident(word), TokenTree::Ident(name), TokenTree::Punct(_)] = &all[at..end]
                && word == "mod"
            {
                cut.modules.push(name.to_string());
            }
            at = end;
            continue;
        }
        kept.push(match &all[at] {
            TokenTree::Group(group) => {
                let inner = without_tests(group.stream(), cut).into_iter().collect();
                let mut replaced = proc_macro2::Group::new(group.delimiter(), inner);
                replaced.set_span(group.span());
                TokenTree::Group(replaced)
            }
            token => token.clone(),
        });
        at += 1;
    }
    kept
}

/// Returns whether an attribute that makes its item a test-only one begins at `at`.
fn is_test_attribute(tokens: &[TokenTree], at: usize) -> bool {
    if !is_punct(&tokens[at], '#') {
        return false;
    }
    let Some(TokenTree::Group(attribute)) = tokens.get(at + 1) else { return false };
    let words: Vec<String> = words_of(attribute.stream());
    words.first().is_some_and(|word| word == "cfg")
        && words.iter().any(|word| word == "test")
        && !words.iter().any(|word| word == "not")
}

fn words_of(stream: TokenStream) -> Vec<String> {
    let mut words = Vec::new();
    let tokens: Vec<TokenTree> = stream.into_iter().collect();
    for_each_level(&tokens, &mut |level| {
        for token in level {
            if let TokenTree::Ident(name) = token {
                words.push(name.to_string());
            }
        }
    });
    words
}

/// The index after the item whose attributes begin at `at`: past its `;` or its braces.
fn item_end(tokens: &[TokenTree], at: usize) -> usize {
    let ends = |token: &TokenTree| match token {
        TokenTree::Punct(punct) => punct.as_char() == ';',
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        _ => false,
    };
    let length = tokens[at..].iter().position(ends);
    length.map_or(tokens.len(), |length| at + length + 1)
}

fn collect_paths(level: &[TokenTree], module: &[String], found: &mut Vec<UsedPath>) {
    let mut at = 0;
    while at < level.len() {
        match &level[at] {
            TokenTree::Ident(word) if word == "use" => {
                at = expand_use(level, at + 1, &[], module, found);
                continue;
            }
            // The inside of `mod name { ... }` is one module further down.
            TokenTree::Ident(word) if word == "mod" => {
                if let (Some(TokenTree::Ident(name)), Some(TokenTree::Group(body))) =
                    (level.get(at + 1), level.get(at + 2))
                {
                    let mut inner_module = module.to_vec();
                    inner_module.push(name.to_string());
                    let inner: Vec<TokenTree> = body.stream().into_iter().collect();
                    collect_paths(&inner, &inner_module, found);
                    at += 3;
                    continue;
                }
            }
            TokenTree::Ident(word) => {
                let line = word.span().start().line;
                let (segments, next) = read_segments(level, at);
                if segments.len() > 1 {
                    found.push(UsedPath { segments: resolve(&segments, module), line });
                }
                at = next;
                continue;
            }
            TokenTree::Group(group) => {
                let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                collect_paths(&inner, module, found);
            }
            _ => {}
        }
        at += 1;
    }
}

/// Expands the `use` tree that begins at `at` under `prefix`; returns the index after it.
/// The names that a tree of `use` ends in.
fn used_names(tree: &[TokenTree], found: &mut BTreeSet<String>) {
    for path in tree.split(|token| is_punct(token, ',')) {
        match path.last() {
            Some(TokenTree::Group(group)) => used_names(&group.stream().into_iter().collect::<Vec<_>>(), found),
            Some(TokenTree::Ident(name)) => found.extend([name.to_string()]),
            _ => {}
        }
    }
}

fn expand_use(
    level: &[TokenTree],
    mut at: usize,
    prefix: &[String],
    module: &[String],
    found: &mut Vec<UsedPath>,
) -> usize {
    let mut segments = prefix.to_vec();
    let mut line = None;
    while let Some(token) = level.get(at) {
        match token {
            TokenTree::Ident(word) if word == "as" => at += 1,
            TokenTree::Ident(word) => {
                line.get_or_insert(word.span().start().line);
                if word != "self" || segments.is_empty() {
                    segments.push(word.to_string());
                }
            }
            TokenTree::Group(group) => {
                let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                let mut inside = 0;
                while inside < inner.len() {
                    inside = expand_use(&inner, inside, &segments, module, found);
                }
                line = None;
                segments.clear();
            }
            TokenTree::Punct(punct) if matches!(punct.as_char(), ';' | ',') => {
                at += 1;
                break;
            }
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
        at += 1;
    }
    if let Some(line) = line
        && !segments.is_empty()
    {
        found.push(UsedPath { segments: resolve(&segments, module), line });
    }
    at
}

/// Reads `a::b::c` from `at`; returns its segments and the index after it.
fn read_segments(level: &[TokenTree], mut at: usize) -> (Vec<String>, usize) {
    let mut segments = Vec::new();
    while let Some(TokenTree::Ident(word)) = level.get(at) {
        segments.push(word.to_string());
        at += 1;
        let joined = level.get(at).is_some_and(|token| is_punct(token, ':'))
            && level.get(at + 1).is_some_and(|token| is_punct(token, ':'));
        if !joined {
            break;
        }
        at += 2;
    }
    (segments, at)
}

/// `self::` and `super::` written out from the crate's root.
fn resolve(segments: &[String], module: &[String]) -> Vec<String> {
    let supers = segments.iter().take_while(|segment| *segment == "super").count();
    let own = segments.first().is_some_and(|segment| segment == "self");
    if supers == 0 && !own {
        return segments.to_vec();
    }
    let kept = module.len().saturating_sub(supers);
    let rest = &segments[supers.max(usize::from(own))..];
    let root = std::iter::once("crate".to_owned());
    root.chain(module[..kept].iter().cloned()).chain(rest.iter().cloned()).collect()
}

fn collect_functions(tokens: &[TokenTree], found: &mut Vec<Function>) {
    for_each_level(tokens, &mut |level| {
        for (at, pair) in level.windows(2).enumerate() {
            let (TokenTree::Ident(word), TokenTree::Ident(name)) = (&pair[0], &pair[1]) else {
                continue;
            };
            if word != "fn" {
                continue;
            }
            let end = item_end(level, at);
            if matches!(&level[end - 1], TokenTree::Group(_)) {
                let line = word.span().start().line;
                let lines = level[end - 1].span().end().line + 1 - line;
                found.push(Function { name: name.to_string(), line, lines });
            }
        }
    });
}

fn is_punct(token: &TokenTree, wanted: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == wanted)
}
