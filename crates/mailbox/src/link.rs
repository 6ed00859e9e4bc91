//! A link between crawls, and its encoding: flags (1: a start page), depth, length of the URL,
//! URL; numbers in LEB128.

use filemap_io::varint;

/// Longest URL of a link.
pub(crate) const URL_BYTES_MAX: usize = u16::MAX as usize;
const SEED: u64 = 1;

/// A link to a page of another shard.
///
/// ```
/// let link = mailbox::Link { url: "http://example.com/".into(), depth: 3, is_seed: false };
/// assert!(link.is_sound());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The URL to fetch, of 1 to 65,535 bytes.
    pub url: String,
    /// Number of links between it and a start page.
    pub depth: u16,
    /// True for a start page.
    pub is_seed: bool,
}

impl Link {
    /// Returns whether a mailbox takes it: its URL has 1 to 65,535 bytes.
    pub fn is_sound(&self) -> bool {
        (1..=URL_BYTES_MAX).contains(&self.url.len())
    }

    /// Appends its encoding.
    pub(crate) fn encode(&self, to: &mut Vec<u8>) {
        varint::put(to, if self.is_seed { SEED } else { 0 });
        varint::put(to, u64::from(self.depth));
        varint::put(to, self.url.len() as u64);
        to.extend_from_slice(self.url.as_bytes());
    }

    /// Decodes a link from the front of `bytes`.
    pub(crate) fn decode(bytes: &mut &[u8]) -> Option<Link> {
        let is_seed = varint::take(bytes).filter(|flags| *flags <= SEED)? == SEED;
        let depth = u16::try_from(varint::take(bytes)?).ok()?;
        let len = usize::try_from(varint::take(bytes)?).ok()?;
        let (url, rest) = bytes.split_at_checked(len)?;
        let url = std::str::from_utf8(url).ok()?.to_owned();
        *bytes = rest;
        Some(Link { url, depth, is_seed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_come_back_as_they_were_and_cut_ones_are_none() {
        let links = [("http://a/", 0, true), ("é", u16::MAX, false)];
        let links = links.map(|(url, depth, is_seed)| Link { url: url.to_owned(), depth, is_seed });
        let mut bytes = Vec::new();
        links.iter().for_each(|link| link.encode(&mut bytes));
        let mut rest = &bytes[..];
        let found: Vec<Link> = std::iter::from_fn(|| Link::decode(&mut rest)).collect();
        assert_eq!((&found[..], rest.len()), (&links[..], 0));
        let mut one = Vec::new();
        links[1].encode(&mut one);
        assert!((0..one.len()).all(|len| Link::decode(&mut &one[..len]).is_none()));
        assert!(links[0].is_sound() && !Link { url: String::new(), ..links[0].clone() }.is_sound());
    }
}
