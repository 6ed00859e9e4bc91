//! URL patterns that restrict a crawl's scope.
//!
//! A pattern is a regular expression matched anywhere in a URL, a prefix (`prefix:`), or a file of
//! patterns (`@`), which is reloaded when it changes during the crawl.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError, RwLock};

use regex::{Regex, RegexSet, RegexSetBuilder};

use crate::files::watched::{self, Watch};

const PREFIX: &str = "prefix:";
/// Memory limit of all compiled expressions of the include or exclude side.
const COMPILED_BYTES: usize = 64 << 20;

/// Reason why a pattern or extension refuses a URL.
///
/// ```
/// use crawl::settings::filter::{Filter, Refusal};
/// let filter = Filter::open(&[], &[], &["zip".to_owned()]).unwrap();
/// assert_eq!(filter.refusal("http://example.com/a.ZIP?x"), Some(Refusal::Extension));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A pattern excludes it.
    Excluded,
    /// No pattern includes it.
    NotIncluded,
    /// Its path ends in a rejected extension.
    Extension,
}

/// The include and exclude patterns, and the rejected extensions.
///
/// ```
/// use crawl::settings::filter::{Filter, Refusal, checked};
/// let (docs, pdf) = (checked("prefix:http://example.com/docs/")?, checked(r"\.pdf$")?);
/// let filter = Filter::open(&[docs], &[pdf], &[]).unwrap();
/// assert_eq!(filter.refusal("http://example.com/docs/a"), None);
/// assert_eq!(filter.refusal("http://example.com/docs/a.pdf"), Some(Refusal::Excluded));
/// assert_eq!(filter.refusal("http://example.com/"), Some(Refusal::NotIncluded));
/// # Ok::<(), String>(())
/// ```
#[derive(Debug)]
pub struct Filter {
    include: Side,
    exclude: Side,
    extensions: Vec<String>,
}

/// A change found in a file of patterns.
///
/// ```
/// use crawl::settings::filter::{Change, Filter};
/// # let place = tempfile::tempdir()?;
/// # let path = place.path().join("patterns");
/// std::fs::write(&path, "# none yet\n")?;
/// let filter = Filter::open(&[], &[format!("@{}", path.display())], &[]).unwrap();
/// std::fs::write(&path, "/private/\n/old/\n")?;
/// // It is read again at the second look: nobody has touched it since the first.
/// let changes: Vec<Change> = filter.look().into_iter().chain(filter.look()).collect();
/// assert_eq!(changes, [Change { file: path, patterns: Ok(2) }]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, PartialEq, Eq)]
pub struct Change {
    /// The file.
    pub file: PathBuf,
    /// The new number of patterns; or an error, and the old patterns stay.
    pub patterns: Result<usize, String>,
}

impl Filter {
    /// A filter of these patterns, each normalised by [`checked`], and of rejected extensions in
    /// lower case.
    ///
    /// # Errors
    /// All errors in files of patterns.
    pub fn open(include: &[String], exclude: &[String], extensions: &[String]) -> Result<Filter, Vec<String>> {
        match (Side::open(include), Side::open(exclude)) {
            (Ok(include), Ok(exclude)) => Ok(Filter { include, exclude, extensions: extensions.to_vec() }),
            (include, exclude) => Err([include.err(), exclude.err()].into_iter().flatten().flatten().collect()),
        }
    }

    /// The reason why a URL is refused, if it is. Exclusion wins over inclusion.
    pub fn refusal(&self, url: &str) -> Option<Refusal> {
        if self.exclude.has(url) {
            return Some(Refusal::Excluded);
        }
        if !self.include.given.is_empty() && !self.include.has(url) {
            return Some(Refusal::NotIncluded);
        }
        self.rejects_extension(url).then_some(Refusal::Extension)
    }

    /// Returns whether a URL has a rejected extension.
    pub fn rejects_extension(&self, url: &str) -> bool {
        self.extensions.iter().any(|extension| ends_in(url, extension))
    }

    /// Reloads changed files. An error is reported once.
    pub fn look(&self) -> Vec<Change> {
        [&self.include, &self.exclude].into_iter().flat_map(Side::look).collect()
    }
}

/// Returns whether the last segment of a URL's path has an extension.
fn ends_in(url: &str, extension: &str) -> bool {
    let path = &url[..url.find(['?', '#']).unwrap_or(url.len())];
    let path = path.split_once("://").map_or(path, |(_, rest)| rest);
    let name = path.rsplit_once('/').map_or("", |(_, name)| name).as_bytes();
    let ending = name.len().checked_sub(extension.len()).map(|at| name.split_at(at));
    ending.is_some_and(|(start, end)| start.ends_with(b".") && end.eq_ignore_ascii_case(extension.as_bytes()))
}

/// The pattern as given, with the absolute path of a file.
///
/// # Errors
/// An error message for the user.
pub fn checked(pattern: &str) -> Result<String, String> {
    match pattern.strip_prefix('@') {
        Some("") => Err("give a file after the @".to_owned()),
        Some(file) => {
            let path = std::path::absolute(file).map_err(|error| format!("{file}: {error}"))?;
            let path = path.to_str().ok_or_else(|| format!("{file}: its path is not UTF-8"))?;
            Ok(format!("@{path}"))
        }
        None => check_line(pattern).map(|()| pattern.to_owned()),
    }
}

/// A content type to accept, such as `text/html` or `image/*`, in lower case.
///
/// # Errors
/// An error message for the user.
///
/// ```
/// use crawl::settings::filter::checked_type;
/// assert_eq!(checked_type(" Image/* ")?, "image/*");
/// assert!(checked_type("html").is_err());
/// # Ok::<(), String>(())
/// ```
pub fn checked_type(text: &str) -> Result<String, String> {
    let text = text.trim().to_ascii_lowercase();
    let is_name = |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'*');
    match text.split_once('/') {
        Some((kind, name)) if is_name(kind) && (name == "*" || is_name(name)) => Ok(text),
        _ => Err("give a content type such as text/html or image/*".to_owned()),
    }
}

/// An extension to reject, such as `zip` or `tar.gz`, in lower case without its dot.
///
/// # Errors
/// An error message for the user.
///
/// ```
/// use crawl::settings::filter::checked_extension;
/// assert_eq!(checked_extension(".ZIP")?, "zip");
/// assert!(checked_extension("a/b").is_err());
/// # Ok::<(), String>(())
/// ```
pub fn checked_extension(text: &str) -> Result<String, String> {
    let text = text.trim().trim_start_matches('.').to_ascii_lowercase();
    match text.is_empty() || text.contains(['/', '?', '#']) {
        true => Err("give an extension such as pdf".to_owned()),
        false => Ok(text),
    }
}

/// Checks a pattern other than a file.
fn check_line(pattern: &str) -> Result<(), String> {
    match pattern {
        "" | PREFIX => Err("it matches every URL".to_owned()),
        _ if pattern.starts_with('@') => Err("a file of patterns cannot name another; write \\@ for an @".to_owned()),
        _ if pattern.starts_with(PREFIX) => Ok(()),
        _ => Regex::new(pattern).map(|_| ()).map_err(|error| error.to_string()),
    }
}

/// The include or exclude side.
#[derive(Debug)]
struct Side {
    given: Vec<String>,
    files: Mutex<Vec<Watched>>,
    patterns: RwLock<Patterns>,
}

impl Side {
    fn open(given: &[String]) -> Result<Side, Vec<String>> {
        let files: Vec<Watched> = given.iter().filter_map(|one| Some(Watched::open(one.strip_prefix('@')?))).collect();
        let wrong: Vec<String> = files.iter().filter_map(|file| file.wrong.clone()).collect();
        if !wrong.is_empty() {
            return Err(wrong);
        }
        let patterns = Patterns::of(given, &files).map_err(|error| vec![error])?;
        Ok(Side { given: given.to_vec(), files: Mutex::new(files), patterns: RwLock::new(patterns) })
    }

    fn has(&self, url: &str) -> bool {
        self.patterns.read().unwrap_or_else(PoisonError::into_inner).has(url)
    }

    fn look(&self) -> Vec<Change> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let mut changes = Vec::new();
        for at in 0..files.len() {
            let Some(before) = files[at].look() else { continue };
            let file = files[at].watch.path().to_owned();
            if let Some(wrong) = files[at].wrong.clone() {
                changes.push(Change { file, patterns: Err(wrong) });
                continue;
            }
            // Each is valid, but together they may be too large.
            match Patterns::of(&self.given, &files) {
                Ok(patterns) => {
                    *self.patterns.write().unwrap_or_else(PoisonError::into_inner) = patterns;
                    changes.push(Change { file, patterns: Ok(files[at].lines.len()) });
                }
                Err(error) => {
                    files[at].lines = before;
                    files[at].wrong = Some(error.clone());
                    changes.push(Change { file, patterns: Err(error) });
                }
            }
        }
        changes
    }
}

/// Compiled patterns.
#[derive(Debug)]
struct Patterns {
    expressions: RegexSet,
    /// Sorted; no prefix begins with another.
    prefixes: Vec<String>,
}

impl Patterns {
    fn of(given: &[String], files: &[Watched]) -> Result<Patterns, String> {
        let named = given.iter().filter(|one| !one.starts_with('@'));
        let all: BTreeSet<&String> = named.chain(files.iter().flat_map(|file| &file.lines)).collect();
        let mut prefixes: Vec<String> = Vec::new();
        for prefix in all.iter().filter_map(|one| one.strip_prefix(PREFIX)) {
            // Prefixes that begin with another follow it directly.
            if prefixes.last().is_none_or(|last| !prefix.starts_with(last.as_str())) {
                prefixes.push(prefix.to_owned());
            }
        }
        let expressions = all.iter().filter(|one| !one.starts_with(PREFIX));
        let expressions = RegexSetBuilder::new(expressions).size_limit(COMPILED_BYTES).build();
        Ok(Patterns { expressions: expressions.map_err(|error| error.to_string())?, prefixes })
    }

    fn has(&self, url: &str) -> bool {
        let after = self.prefixes.partition_point(|prefix| prefix.as_str() <= url);
        let has_prefix = after.checked_sub(1).is_some_and(|at| url.starts_with(self.prefixes[at].as_str()));
        has_prefix || self.expressions.is_match(url)
    }
}

/// A file of patterns.
#[derive(Debug)]
struct Watched {
    watch: Watch,
    /// The patterns of the last valid text.
    lines: Vec<String>,
    /// The current error in the file, if any.
    wrong: Option<String>,
}

impl Watched {
    fn open(path: &str) -> Watched {
        let mut file = Watched { watch: Watch::new(Path::new(path)), lines: Vec::new(), wrong: None };
        file.read();
        file
    }

    /// Reloads the file if it has changed; returns the old patterns if there is news to report.
    fn look(&mut self) -> Option<Vec<String>> {
        if self.watch.is_due() { self.read() } else { None }
    }

    fn read(&mut self) -> Option<Vec<String>> {
        match read(self.watch.path()) {
            Ok(lines) if self.wrong.is_none() && lines == self.lines => None,
            Ok(lines) => {
                self.wrong = None;
                Some(std::mem::replace(&mut self.lines, lines))
            }
            Err(wrong) if self.wrong.as_ref() == Some(&wrong) => None,
            Err(wrong) => {
                self.wrong = Some(wrong);
                Some(self.lines.clone())
            }
        }
    }
}

/// The patterns of a file, one a line. Ignores blank lines, and lines that begin with `#`.
fn read(path: &Path) -> Result<Vec<String>, String> {
    let text = watched::text(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let (mut lines, mut wrong) = (Vec::new(), Vec::new());
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match check_line(line) {
            Ok(()) => lines.push(line.to_owned()),
            Err(why) => wrong.push(format!("{}:{}: {why}", path.display(), at + 1)),
        }
    }
    if wrong.is_empty() { Ok(lines) } else { Err(wrong.join("; ")) }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn filter(include: &[&str], exclude: &[&str]) -> Filter {
        let checked = |given: &[&str]| given.iter().map(|one| checked(one).unwrap()).collect::<Vec<_>>();
        Filter::open(&checked(include), &checked(exclude), &[]).unwrap()
    }

    #[test]
    fn what_is_excluded_is_not_fetched_whatever_includes_it() {
        let filter = filter(&["/docs/", "prefix:http://b/"], &[r"\.pdf$", "prefix:http://a/docs/old"]);
        let wanted = ["http://a/docs/x", "http://b/", "http://b/zzz"].map(|url| filter.refusal(url));
        assert_eq!(wanted, [None; 3]);
        let excluded = ["http://a/docs/x.pdf", "http://b/x.pdf", "http://a/docs/older"].map(|url| filter.refusal(url));
        assert_eq!(excluded, [Some(Refusal::Excluded); 3]);
        assert_eq!(filter.refusal("http://a/x"), Some(Refusal::NotIncluded));
        assert_eq!(super::Filter::open(&[], &[], &[]).unwrap().refusal("http://a/"), None);
    }

    #[test]
    fn an_extension_is_the_end_of_a_path() {
        for url in ["http://a/x.pdf", "http://a/x.PDF?y", "http://a/b/.pdf#z", "http://a/x.tar.gz"] {
            assert!(["pdf", "tar.gz"].iter().any(|extension| ends_in(url, extension)), "{url}");
        }
        for url in
            ["http://a.pdf", "http://a.pdf/", "http://a/x.pdf/", "http://a/?x.pdf", "http://a/pdf", "http://a/xpdf"]
        {
            assert!(!ends_in(url, "pdf"), "{url}");
        }
    }

    #[test]
    fn one_prefix_of_many_is_found() {
        let prefixes: Vec<String> = (0..1000).map(|n| format!("prefix:http://h{n}/a")).collect();
        let mut all: Vec<&str> = prefixes.iter().map(String::as_str).collect();
        all.extend(["prefix:http://h5/ab", "prefix:http://h5/a/b", "prefix:http://h5/a"]);
        let filter = filter(&[], &all);
        for n in 0..1000 {
            assert_eq!(filter.refusal(&format!("http://h{n}/abc")), Some(Refusal::Excluded), "{n}");
            assert_eq!(filter.refusal(&format!("http://h{n}/b")), None, "{n}");
        }
    }

    #[test]
    fn a_file_is_read_again_and_a_bad_one_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("patterns");
        let given = format!("@{}", path.display());
        let wrong = Filter::open(std::slice::from_ref(&given), &[], &[]).unwrap_err();
        assert!(wrong[0].contains("patterns"), "{wrong:?}");
        fs::write(&path, "# none yet\n").unwrap();
        let filter = filter(&[], &[&given]);
        // A change is loaded at the second look.
        let look = || filter.look().into_iter().chain(filter.look()).collect::<Vec<Change>>();
        let is_excluded = || filter.refusal("http://a/x").is_some();
        assert!(look().is_empty() && !is_excluded());
        fs::write(&path, "/x\nprefix:http://b/\n").unwrap();
        assert_eq!(look(), [Change { file: path.clone(), patterns: Ok(2) }]);
        assert!(look().is_empty() && is_excluded());
        fs::write(&path, "/y\n(\n[\n@z\n").unwrap();
        let change = look().pop().unwrap().patterns.unwrap_err();
        let lines = ["patterns:2: ", "patterns:3: ", "patterns:4: "];
        assert!(lines.iter().all(|line| change.contains(line)), "{change}");
        assert!(look().is_empty() && is_excluded());
        fs::remove_file(&path).unwrap();
        assert!(look().pop().unwrap().patterns.is_err() && is_excluded());
        fs::write(&path, "/x\nprefix:http://b/\n").unwrap();
        assert_eq!(look().len(), 1, "its recovery is reported");
        fs::write(&path, "").unwrap();
        assert_eq!(look(), [Change { file: path, patterns: Ok(0) }]);
        assert!(!is_excluded());
    }

    #[test]
    fn a_pattern_is_checked_when_it_is_given() {
        for (pattern, is_good) in
            [("", false), ("(", false), ("prefix:", false), ("@", false), ("@x", true), (r"\@", true), ("a|b", true)]
        {
            assert_eq!(checked(pattern).is_ok(), is_good, "{pattern}");
        }
        assert!(checked("@x").unwrap().starts_with("@/"));
    }
}
