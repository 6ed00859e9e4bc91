//! A crawl's part in a fleet: crawls that divide hosts among them.

use std::collections::BTreeSet;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The fleet, and this crawl's shards in it.
///
/// ```
/// use crawl::settings::fleet::{FleetSettings, Own};
/// let fleet = FleetSettings::new("http://127.0.0.1:8080/v1/links", 16, Own::Auto);
/// assert_eq!((fleet.shards, fleet.sent_seeds, fleet.sent_reached), (16, (0, 0), 0));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetSettings {
    /// The mailboxes: the address of `/v1/links` of an fm-serve.
    pub links: String,
    /// The number of shards.
    pub shards: u32,
    /// This crawl's shards.
    pub own: Own,
    /// Start pages, and start pages of lists, already sent to other crawls' shards.
    #[serde(default)]
    pub sent_seeds: (usize, usize),
    /// Redirect targets of start pages already sent.
    #[serde(default)]
    pub sent_reached: usize,
}

impl FleetSettings {
    /// A fleet with these mailboxes, to which nothing was sent yet.
    pub fn new(links: impl Into<String>, shards: u32, own: Own) -> FleetSettings {
        FleetSettings { links: links.into(), shards, own, sent_seeds: (0, 0), sent_reached: 0 }
    }
}

/// The shards that a crawl owns.
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
    /// Free ones: one at the start, and more when there is little to do.
    #[default]
    Auto,
    /// Exactly these.
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
