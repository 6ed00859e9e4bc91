//! Groups of the order: memtables link the keys of each, so that the first list of a host after
//! many puts does not sort all keys in memory.
//!
//! | keys | name of their group |
//! |---|---|
//! | with the shape, of all classes | the host as it stands in the URL |
//! | without it: pages; variants; records beside, the store's own keys | empty; one NUL; two |
//!
//! A form has the bytes of the host in its URL, so forms with the same labels are of one group. A
//! list of a host also reads the keys without the shape, which are few.

use filemap_core::list::KeyGroups;

use super::{Class, HOST_END, Parts, class, push_host, split};

pub(super) const GROUPS: KeyGroups = KeyGroups { of_key, of_range };

fn of_key(key: &[u8]) -> &[u8] {
    let (class, url, _) = split(key);
    match Parts::of_url(url) {
        Some(parts) => parts.host,
        None => of_others(class),
    }
}

/// The group of the keys of a class without the shape. No host is empty or has a NUL.
fn of_others(class: Class) -> &'static [u8] {
    match class {
        Class::Pages => b"",
        Class::Variants => b"\0",
        Class::Beside => b"\0\0",
    }
}

/// The group of all keys in a range of forms; `None` if they may be of several.
fn of_range(from: &[u8], until: &[u8]) -> Option<Vec<u8>> {
    let class = class(from)?;
    let others = class.lead_of_others();
    if from.first() == Some(&others) {
        return (until <= &[others + 1][..]).then(|| of_others(class).to_vec());
    }
    let labels = &from[..memchr::memchr(HOST_END, from)?];
    let end = [labels, &[HOST_END + 1]].concat();
    let mut host = Vec::new();
    push_host(&labels[usize::from(class.lead().is_some())..], &mut host)?;
    (until <= &end[..]).then_some(host)
}
