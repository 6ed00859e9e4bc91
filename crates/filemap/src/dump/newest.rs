//! The newest version of each key, out of all versions that come key by key; errors stay in their
//! order.

use std::collections::VecDeque;

use crate::error::Result;
use crate::page::version::StoredVersion;

/// The newest version of each key, of versions that come key by key.
pub(super) struct Newest<'v> {
    versions: &'v mut dyn Iterator<Item = Result<StoredVersion>>,
    best: Option<StoredVersion>,
    ready: VecDeque<Result<StoredVersion>>,
}

impl<'v> Newest<'v> {
    pub(super) fn of(versions: &'v mut dyn Iterator<Item = Result<StoredVersion>>) -> Newest<'v> {
        Newest { versions, best: None, ready: VecDeque::new() }
    }
}

impl Iterator for Newest<'_> {
    type Item = Result<StoredVersion>;

    fn next(&mut self) -> Option<Result<StoredVersion>> {
        loop {
            if let Some(ready) = self.ready.pop_front() {
                return Some(ready);
            }
            match self.versions.next() {
                None => return self.best.take().map(Ok),
                Some(Err(error)) => self.ready.push_back(Err(error)),
                Some(Ok(version)) => {
                    let order = |version: &StoredVersion| (version.version.time_ms, version.version.sequence);
                    match &self.best {
                        Some(best) if best.key == version.key && order(best) > order(&version) => {}
                        Some(best) if best.key == version.key => self.best = Some(version),
                        _ => self.ready.extend(self.best.replace(version).map(Ok)),
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use filemap_core::Version;

    use super::*;
    use crate::error::Error;
    use crate::page::Page;

    #[test]
    fn the_newest_of_each_key_comes_once_and_errors_between() {
        let version = |url: &str, time_ms, sequence| {
            let page = Page::new(url, time_ms, 200, "");
            Ok(StoredVersion::new(url.into(), page, Version { time_ms, sequence }, 1))
        };
        let error = || Err(Error::Unsupported { what: "any more" });
        let all = [version("a", 7, 1), version("a", 9, 2), version("a", 8, 3), error(), version("b", 1, 4)];
        let all = all.into_iter().chain([version("b", 1, 5), version("c", 3, 6)]);
        let (mut all, mut found) = (all, Vec::new());
        for newest in Newest::of(&mut all) {
            found.push(newest.map_or((0, 0), |newest| (newest.version.time_ms, newest.version.sequence)));
        }
        assert_eq!(found, [(0, 0), (9, 2), (1, 5), (3, 6)]);
    }
}
