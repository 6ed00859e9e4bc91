//! A crawl's part of a fleet: crawls that divide hosts among them.

use std::collections::BTreeSet;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Which crawls divide hosts, and what is this one's.
///
/// ```
/// use crawl::settings::fleet::{FleetSettings, Own};
/// let fleet = FleetSettings::new("http://127.0.0.1:8080/v1/links", 16, Own::Auto);
/// assert_eq!((fleet.shards, fleet.sent_seeds, fleet.sent_reached), (16, (0, 0), 0));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetSettings {
    /// Where the mailboxes are: the address of `/v1/links` of an fm-serve.
    pub links: String,
    /// How many shards there are.
    pub shards: u32,
    /// Which of them are this crawl's.
    pub own: Own,
    /// How many start pages, and start pages of lists, were sent to the shards of others.
    #[serde(default)]
    pub sent_seeds: (usize, usize),
    /// How many pages that start pages have redirected to were sent.
    #[serde(default)]
    pub sent_reached: usize,
}

impl FleetSettings {
    /// That of these mailboxes, to which nothing was sent yet.
    pub fn new(links: impl Into<String>, shards: u32, own: Own) -> FleetSettings {
        FleetSettings { links: links.into(), shards, own, sent_seeds: (0, 0), sent_reached: 0 }
    }
}

/// The shards of a crawl.
///
/// ```
/// use crawl::settings::fleet::Own;
/// assert_eq!("auto".parse(), Ok(Own::Auto));
/// assert_eq!("2, 0".parse(), Ok(Own::List([0, 2].into())));
/// assert!("two".parse::<Own>().is_err());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Own {
    /// Free ones: one to begin with, and another when there is little to do.
    #[default]
    Auto,
    /// These.
    List(BTreeSet<u32>),
}

impl FromStr for Own {
    type Err = String;

    fn from_str(text: &str) -> Result<Own, String> {
        if text == "auto" {
            return Ok(Own::Auto);
        }
        let shards: Result<BTreeSet<u32>, _> = text.split(',').map(|shard| shard.trim().parse()).collect();
        shards.map(Own::List).map_err(|_| "give numbers of shards such as 0,2, or auto".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_a_list_or_free_ones() {
        assert_eq!("auto".parse(), Ok(Own::Auto));
        assert_eq!("3, 0".parse(), Ok(Own::List(BTreeSet::from([0, 3]))));
        for bad in ["", "a", "1,,2", "-1"] {
            assert!(bad.parse::<Own>().is_err(), "{bad}");
        }
    }
}
