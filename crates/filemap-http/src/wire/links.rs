//! Wire formats for links between crawls that share their hosts.

use std::time::Duration;

use mailbox::{Activity, Link, Owner, ShardStats, Standing};
use serde::{Deserialize, Serialize};

/// Number of shards.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Shards {
    pub(crate) shards: u32,
}

/// A link, as a line of JSON.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LinkLine {
    pub(crate) url: String,
    #[serde(default)]
    pub(crate) depth: u16,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_seed: bool,
}

impl From<Link> for LinkLine {
    fn from(link: Link) -> LinkLine {
        LinkLine { url: link.url, depth: link.depth, is_seed: link.is_seed }
    }
}

impl From<LinkLine> for Link {
    fn from(line: LinkLine) -> Link {
        Link { url: line.url, depth: line.depth, is_seed: line.is_seed }
    }
}

/// Result of posting a batch of links.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Entered {
    pub(crate) entered: u64,
    pub(crate) next: u64,
}

/// A part of a mailbox.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct LinksPart {
    pub(crate) links: Vec<LinkLine>,
    pub(crate) cursor: String,
}

/// A shard that was taken.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Taken {
    pub(crate) epoch: u64,
}

/// A shard, with the epoch in which it is owned.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OwnedShard {
    pub(crate) shard: u32,
    pub(crate) epoch: u64,
}

/// A crawl's report of its activity.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Report {
    pub(crate) crawl: String,
    pub(crate) owned: Vec<OwnedShard>,
    pub(crate) is_idle: bool,
    /// Only for a crawl that is not idle.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_stuck: bool,
}

impl Report {
    pub(crate) fn new(crawl: u128, owned: &[(u32, u64)], does: Activity) -> Report {
        Report {
            crawl: crawl_id(crawl),
            owned: owned.iter().map(|(shard, epoch)| OwnedShard { shard: *shard, epoch: *epoch }).collect(),
            is_idle: does == Activity::Idle,
            is_stuck: does == Activity::Stuck,
        }
    }

    pub(crate) fn does(&self) -> Activity {
        match (self.is_idle, self.is_stuck) {
            (true, _) => Activity::Idle,
            (false, true) => Activity::Stuck,
            (false, false) => Activity::Working,
        }
    }
}

/// State of a fleet.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct FleetStanding {
    pub(crate) shards: u32,
    pub(crate) lease_ms: u64,
    pub(crate) is_over: bool,
    pub(crate) waiting: u64,
    pub(crate) working: u32,
    pub(crate) silent: Vec<u32>,
    pub(crate) free: Vec<u32>,
    /// Shards of a report for which the reporting crawl is fenced.
    #[serde(default)]
    pub(crate) fenced: Vec<u32>,
}

impl FleetStanding {
    pub(crate) fn standing(&self) -> Standing {
        Standing {
            is_over: self.is_over,
            waiting: self.waiting,
            working: self.working,
            silent: self.silent.clone(),
            free: self.free.clone(),
        }
    }
}

/// The shards of a fleet, with their owners.
#[derive(Debug, Deserialize)]
pub(crate) struct FleetShards {
    pub(crate) standing: FleetStanding,
    pub(crate) shards: Vec<ShardLine>,
}

/// A shard of a fleet.
#[derive(Debug, Deserialize)]
pub(crate) struct ShardLine {
    shard: u32,
    waiting: u64,
    bytes: u64,
    entered: u64,
    epoch: u64,
    owner: Option<OwnerLine>,
}

/// The owner of a shard.
#[derive(Debug, Deserialize)]
struct OwnerLine {
    crawl: String,
    heard_seconds_ago: u64,
    is_idle: bool,
}

impl ShardLine {
    /// The shard's state; `None` if its owner's id is none.
    pub(crate) fn stats(&self) -> Option<ShardStats> {
        let owner = match &self.owner {
            Some(owner) => Some(Owner {
                crawl: read_crawl_id(&owner.crawl)?,
                heard: Duration::from_secs(owner.heard_seconds_ago),
                is_idle: owner.is_idle,
            }),
            None => None,
        };
        let ShardLine { shard, waiting, bytes, entered, epoch, .. } = *self;
        Some(ShardStats { shard, waiting, bytes, entered, epoch, owner })
    }
}

/// A crawl's id as text.
pub(crate) fn crawl_id(id: u128) -> String {
    format!("{id:032x}")
}

pub(crate) fn read_crawl_id(text: &str) -> Option<u128> {
    let is_one = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_one.then(|| u128::from_str_radix(text, 16).ok())?
}
