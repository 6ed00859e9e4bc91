//! All engines that are built in, by name.

use filemap_benches::drive::Outcome;

use super::{Kind, file_per_page, filemap, fjall, limit, lmdb, redb, sqlite, warc};

/// Every engine that is built in, in the order of the report's tables.
pub fn kinds() -> Vec<&'static Kind> {
    vec![
        &limit::KIND,
        &filemap::KIND,
        &filemap::PLAIN,
        &filemap::CACHED,
        &lmdb::KIND,
        &fjall::KIND,
        &redb::KIND,
        #[cfg(feature = "rocksdb")]
        &super::rocksdb::KIND,
        &sqlite::KIND,
        #[cfg(feature = "candystore")]
        &super::candystore::KIND,
        &file_per_page::KIND,
        &warc::KIND,
    ]
}

/// The engine of that name.
pub fn kind(name: &str) -> Outcome<&'static Kind> {
    let all = kinds();
    all.iter().copied().find(|kind| kind.name == name).ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|kind| kind.name).collect();
        format!("no engine `{name}` is built in; there are {}", names.join(", ")).into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_have_names_of_their_own() {
        let names: std::collections::HashSet<&str> = kinds().iter().map(|kind| kind.name).collect();
        assert_eq!(names.len(), kinds().len());
        assert!(kind("limit").is_ok());
        assert!(kind("none").err().is_some_and(|error| error.to_string().contains("lmdb")));
    }
}
