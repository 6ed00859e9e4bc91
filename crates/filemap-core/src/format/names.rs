//! File names of a store: built and parsed here only.

/// The writer's lock.
pub(crate) const LOCK: &str = "LOCK";
/// The superblock.
pub(crate) const SUPERBLOCK: &str = "SUPERBLOCK";
/// The superblock of a store that is being created.
pub(crate) const NEW_SUPERBLOCK: &str = "SUPERBLOCK.new";
/// The superblock of a store whose repair in place is not finished.
pub(crate) const OLD_SUPERBLOCK: &str = "SUPERBLOCK.old";
/// The hash index.
pub(crate) const INDEX: &str = "address.idx";
/// The key log.
pub(crate) const KEYS: &str = "key.dat";

/// The name of a value segment.
pub(crate) fn segment(id: u16) -> String {
    format!("value{id}.dat")
}

/// The number of a value segment, if the name is one that `segment` gives.
pub(crate) fn parse_segment(name: &str) -> Option<u16> {
    let id = name.strip_prefix("value")?.strip_suffix(".dat")?.parse().ok()?;
    (segment(id) == name).then_some(id)
}

/// What a value segment is called that bears another's name, until it has its own.
pub(crate) fn moved_segment(id: u16) -> String {
    format!("{}.moved", segment(id))
}

/// What the nth file of a name is called that was in the way of a repair in place.
pub(crate) fn set_aside(name: &str, nth: u32) -> String {
    format!("{name}.set-aside{nth}")
}

/// What the copy of a file is called that is to take its place.
pub(crate) fn copy_of(name: &str) -> String {
    format!("{name}.copy")
}

/// Whether a file holds a dictionary.
pub(crate) fn is_dictionary(name: &str) -> bool {
    dictionary_id(name).is_some()
}

/// The id of the dictionary in a file.
pub(crate) fn dictionary_id(name: &str) -> Option<u32> {
    name.strip_prefix("dict")?.strip_suffix(".zdict")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_would_be_given_are_parsed() {
        for id in [0, 1, 9, 65_535] {
            assert_eq!(parse_segment(&segment(id)), Some(id));
        }
        for name in ["value.dat", "value01.dat", "value+1.dat", "value65536.dat", "value1.dat.tmp", "xvalue1.dat", ""] {
            assert_eq!(parse_segment(name), None, "{name}");
        }
    }
}
