//! Names of the files that this crate makes and reads: the only place that builds and parses them.
//! Names of pages in a dump are made in `dump::tree`.

/// The file in a replica's folder that holds the place it has reached.
pub(crate) const FOLLOWS: &str = "FOLLOWS";
/// Its temporary name while it is written.
pub(crate) const NEW_FOLLOWS: &str = "FOLLOWS.new";

/// The folder of the WARC files in a WACZ.
const ARCHIVE: &str = "archive/";
/// The index in a WACZ.
const INDEX: &str = "indexes/index.cdxj";
/// The list of pages in a WACZ.
const PAGES: &str = "pages/pages.jsonl";
/// The manifest of a WACZ.
pub(crate) const PACKAGE: &str = "datapackage.json";
/// The file with the hash of the manifest.
pub(crate) const PACKAGE_DIGEST: &str = "datapackage-digest.json";

/// Extensions of archives, and of compressed files.
const FORMS: [&str; 3] = [WARC, ".arc", ".wacz"];
const PACKINGS: [&str; 4] = [".gz", ".zst", ".xz", ".bz2"];

const WARC: &str = ".warc";
const CDXJ: &str = ".cdxj";
const PAGE_LIST: &str = ".pages.jsonl";

/// The index of a dump.
pub(crate) fn index(stem: &str) -> String {
    format!("{stem}{CDXJ}")
}

/// The JSON Lines file with the versions of a dump.
pub(crate) fn lines(stem: &str) -> String {
    format!("{stem}.jsonl")
}

/// The list of a dump's plain files.
pub(crate) fn file_list(stem: &str) -> String {
    format!("{stem}.files.jsonl")
}

/// A plain file of a dump, with this path among them.
pub(crate) fn plain_file(stem: &str, path: &str) -> String {
    format!("{stem}.files/{path}")
}

/// The list of a dump's pages.
pub(crate) fn page_list(stem: &str) -> String {
    format!("{stem}{PAGE_LIST}")
}

/// A WARC file of a dump: the only one, or the one with this number.
pub(crate) fn warc(stem: &str, number: Option<usize>, extension: &str) -> String {
    match number {
        Some(number) => format!("{stem}-{number:05}.{extension}"),
        None => format!("{stem}.{extension}"),
    }
}

/// The path in a WACZ for a file of a dump.
pub(crate) fn in_wacz(name: &str) -> Option<String> {
    if name.ends_with(CDXJ) {
        return Some(INDEX.to_owned());
    }
    if name.ends_with(PAGE_LIST) {
        return Some(PAGES.to_owned());
    }
    name.contains(WARC).then(|| format!("{ARCHIVE}{name}"))
}

/// Returns whether a path in a WACZ is in the folder of WARC files.
pub(crate) fn is_in_archive(path: &str) -> bool {
    path.starts_with(ARCHIVE)
}

/// Returns whether a file is an archive, by its name.
pub(crate) fn is_archive(path: &str) -> bool {
    let path = path.to_ascii_lowercase();
    let unpacked = PACKINGS.iter().find_map(|end| path.strip_suffix(end)).unwrap_or(&path);
    FORMS.iter().any(|end| unpacked.ends_with(end))
}
