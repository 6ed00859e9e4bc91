//! File names of a store: built and parsed here only.

/// The writer's lock.
pub(crate) const LOCK: &str = "LOCK";
/// The superblock.
pub(crate) const SUPERBLOCK: &str = "SUPERBLOCK";
/// The superblock of a store that is being created.
pub(crate) const NEW_SUPERBLOCK: &str = "SUPERBLOCK.new";
/// The hash index.
pub(crate) const INDEX: &str = "address.idx";
/// The name of a value segment.
pub(crate) fn segment(id: u16) -> String {
    format!("value{id}.dat")
}

/// The number of a value segment, if the name is one that `segment` gives.
pub(crate) fn parse_segment(name: &str) -> Option<u16> {
    let id = name.strip_prefix("value")?.strip_suffix(".dat")?.parse().ok()?;
    (segment(id) == name).then_some(id)
}

/// The name of a segment of the key log.
pub(crate) fn keys(id: u16) -> String {
    format!("key{id}.dat")
}

/// The number of a segment of the key log, if the name is one that `keys` gives.
pub(crate) fn parse_keys(name: &str) -> Option<u16> {
    let id = name.strip_prefix("key")?.strip_suffix(".dat")?.parse().ok()?;
    (keys(id) == name).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
