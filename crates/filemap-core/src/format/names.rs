//! File names of a store: the only place that builds and parses them.

/// The writer's lock.
pub(crate) const LOCK: &str = "LOCK";
/// The superblock.
pub(crate) const SUPERBLOCK: &str = "SUPERBLOCK";
/// The superblock of a store that is being created.
pub(crate) const NEW_SUPERBLOCK: &str = "SUPERBLOCK.new";
/// The superblock of a store whose repair in place is unfinished.
pub(crate) const OLD_SUPERBLOCK: &str = "SUPERBLOCK.old";
/// Result of the last full verification.
pub(crate) const VERIFIED: &str = "VERIFIED";
/// VERIFIED while it is being written.
pub(crate) const NEW_VERIFIED: &str = "VERIFIED.new";
/// Progress of a resumable verification.
pub(crate) const VERIFYING: &str = "VERIFYING";
/// Rules of erasures: keys that must not come back.
pub(crate) const RULES: &str = "RULES";
/// RULES while it is being written.
pub(crate) const NEW_RULES: &str = "RULES.new";
/// Marks an incomplete backup.
pub(crate) const PARTIAL: &str = "PARTIAL";
/// The hash index.
pub(crate) const INDEX: &str = "address.idx";
pub(crate) fn segment(id: u16) -> String {
    format!("value{id}.dat")
}

/// Parses a name built by `segment`.
pub(crate) fn parse_segment(name: &str) -> Option<u16> {
    let id = name.strip_prefix("value")?.strip_suffix(".dat")?.parse().ok()?;
    (segment(id) == name).then_some(id)
}

/// Temporary name of a value segment found under another's name, until it gets its own.
pub(crate) fn moved_segment(id: u16) -> String {
    format!("{}.moved", segment(id))
}

/// Name of the nth file `name` that a repair in place moved out of the way.
pub(crate) fn set_aside(name: &str, nth: u32) -> String {
    format!("{name}.set-aside{nth}")
}

/// The first name by [`set_aside`] that is not in `listed`.
pub(crate) fn next_set_aside(name: &str, listed: &[String]) -> String {
    let free = (0..).map(|nth| set_aside(name, nth)).find(|aside| !listed.contains(aside));
    free.unwrap_or_default()
}

/// Returns true for a name built by [`set_aside`].
pub(crate) fn is_set_aside(name: &str) -> bool {
    let nth = name.rsplit_once(".set-aside").map(|(_, nth)| nth);
    nth.is_some_and(|nth| !nth.is_empty() && nth.bytes().all(|b| b.is_ascii_digit()))
}

/// Name of the copy that will replace a file.
pub(crate) fn copy_of(name: &str) -> String {
    format!("{name}.copy")
}

pub(crate) fn dictionary(id: u32) -> String {
    format!("dict{id}.zdict")
}

/// Parses a name built by `dictionary`.
pub(crate) fn parse_dictionary(name: &str) -> Option<u32> {
    let id = name.strip_prefix("dict")?.strip_suffix(".zdict")?.parse().ok()?;
    (id != 0 && dictionary(id) == name).then_some(id)
}

/// Name of a dictionary's file while it is being written.
pub(crate) fn new_dictionary(id: u32) -> String {
    format!("{}.new", dictionary(id))
}

/// Parses a name built by `new_dictionary`.
pub(crate) fn parse_new_dictionary(name: &str) -> Option<u32> {
    parse_dictionary(name.strip_suffix(".new")?)
}

/// Name of a key-log segment.
pub(crate) fn keys(id: u16) -> String {
    format!("key{id}.dat")
}

/// Parses a name built by `keys`.
pub(crate) fn parse_keys(name: &str) -> Option<u16> {
    let id = name.strip_prefix("key")?.strip_suffix(".dat")?.parse().ok()?;
    (keys(id) == name).then_some(id)
}

/// Prefix of the names of ordered runs.
pub(crate) const KEY_RUNS: &str = "keys";

/// Name of an ordered run.
pub(crate) fn key_run(number: u64) -> String {
    filemap_runs::file_name(KEY_RUNS, number)
}

/// Parses a name built by `key_run`.
pub(crate) fn parse_key_run(name: &str) -> Option<u64> {
    let number = name.strip_prefix(KEY_RUNS)?.strip_prefix('.')?.strip_suffix(".run")?.parse().ok()?;
    (key_run(number) == name).then_some(number)
}

/// Returns true for the name of a file of a store, or of a backup in progress.
pub(crate) fn is_ours(name: &str) -> bool {
    [LOCK, SUPERBLOCK, NEW_SUPERBLOCK, PARTIAL, VERIFIED, VERIFYING, RULES, INDEX].contains(&name)
        || parse_segment(name).is_some()
        || parse_keys(name).is_some()
        || parse_dictionary(name).is_some()
        || parse_key_run(name).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_knows_its_own_names() {
        for name in ["LOCK", "PARTIAL", "VERIFIED", "RULES", "key0.dat", "value7.dat", "dict3.zdict"] {
            assert!(is_ours(name), "{name}");
        }
        for name in ["dict.zdict", "dictx.zdict", "letter.txt", "value07.dat", ".."] {
            assert!(!is_ours(name), "{name}");
        }
    }

    #[test]
    fn only_names_that_would_be_given_are_parsed() {
        for id in [0, 1, 9, 65_535] {
            assert_eq!(parse_segment(&segment(id)), Some(id));
            assert_eq!(parse_keys(&keys(id)), Some(id));
            assert_eq!((parse_segment(&keys(id)), parse_keys(&segment(id))), (None, None));
        }
        for rest in [".dat", "01.dat", "+1.dat", "65536.dat", "1.dat.tmp", ""] {
            assert_eq!(parse_segment(&format!("value{rest}")), None, "{rest}");
            assert_eq!(parse_keys(&format!("key{rest}")), None, "{rest}");
        }
        assert_eq!((parse_segment("xvalue1.dat"), parse_keys("xkey1.dat")), (None, None));
    }

    #[test]
    fn names_of_runs_are_parsed_as_strictly() {
        for number in [0, 7, 999_999, 1_000_000, 1 << 40] {
            assert_eq!(parse_key_run(&key_run(number)), Some(number));
        }
        for name in ["keys.1.run", "keys.0000001.run", "keys.000001.run.new", "keys000001.run", "keys..run"] {
            assert_eq!(parse_key_run(name), None, "{name}");
        }
    }

    #[test]
    fn names_of_dictionaries_are_parsed_as_strictly() {
        for id in [1, 9, 4_000_000_000] {
            assert_eq!(parse_dictionary(&dictionary(id)), Some(id));
            assert_eq!(parse_new_dictionary(&new_dictionary(id)), Some(id));
            assert_eq!(parse_dictionary(&new_dictionary(id)), None);
        }
        for name in ["dict.zdict", "dict0.zdict", "dict01.zdict", "dict4294967296.zdict", "dict1.zdict.tmp", "dict1"] {
            assert_eq!(parse_dictionary(name).or(parse_new_dictionary(name)), None, "{name}");
        }
    }
}
