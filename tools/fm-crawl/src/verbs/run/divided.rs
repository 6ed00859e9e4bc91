//! Arguments of fleets and of stores in object storage: this crawl's part of the work, and where
//! its pages go.

use crawl::settings::Settings;
use crawl::settings::bucket::BucketSettings;
use crawl::settings::fleet::{FleetSettings, Own};
use filemap_http::Client;
use fm_cli::Failure;

use super::args::{Args, NONE};

/// Maximum number of shards of a store in object storage; mailboxes may have more.
const MAX_SHARDS: u32 = 1_024;

/// The location of a store in object storage.
pub(super) fn location(text: &str) -> Result<String, String> {
    let words = || "give the location of a store in object storage, such as s3://bucket/pages".to_owned();
    text.starts_with("s3://").then(|| text.trim_end_matches('/').to_owned()).ok_or_else(words)
}

/// The store and the fleet of a process that crawls several shards, each as a crawl of its own;
/// `None` for a single crawl.
pub(super) fn several(settings: &Settings) -> Option<(BucketSettings, FleetSettings)> {
    settings.bucket.clone().zip(settings.fleet.clone()).filter(|_| settings.is_several())
}

/// The store in object storage, if pages go to one.
pub(super) fn bucket(args: &Args, own: Option<&Own>, settings: &mut Settings) -> Result<(), Failure> {
    let usage = |words: String| Err(Failure::Usage(words));
    let Some(location) = args.bucket.clone().or_else(|| settings.bucket.as_ref().map(|known| known.location.clone()))
    else {
        return match args.commit_every {
            Some(_) => usage("--commit-every goes with --store".to_owned()),
            None => Ok(()),
        };
    };
    let rest = location.split_once("://").map_or("", |(_, rest)| rest);
    if rest.contains('@') || rest.split('/').next().is_some_and(|bucket| bucket.contains(':')) {
        // The part before `@` may be a secret, so it is not printed.
        return usage(
            "--store: a location has no user and no password: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
                .to_owned(),
        );
    }
    let known = settings.bucket.take().unwrap_or_else(|| BucketSettings::new(&*location));
    let shards = args.shards.unwrap_or(known.shards);
    if shards > MAX_SHARDS {
        return usage(format!("--shards {shards}: a store in object storage has at most {MAX_SHARDS} shards"));
    }
    let shard = match own {
        // Of several, each crawl has its own.
        None | Some(Own::Auto) => known.shard,
        Some(Own::List(list)) => match list.iter().find(|shard| **shard >= shards) {
            Some(shard) => return usage(format!("--own {shard}: there are {shards} shards, numbered from 0")),
            None => list.first().copied().unwrap_or(known.shard),
        },
    };
    let commit_every = args.commit_every.unwrap_or(known.commit_every);
    settings.bucket = Some(BucketSettings { location, shards, shard, commit_every });
    Ok(())
}

/// The address of mailboxes, or none.
pub(super) fn mailboxes(text: &str) -> Result<String, String> {
    let is_one = text == NONE || Client::is_location(text) && text.trim_end_matches('/').ends_with("/v1/links");
    let words = || "give the address of mailboxes, such as http://127.0.0.1:8640/v1/links, or none".to_owned();
    is_one.then(|| text.to_owned()).ok_or_else(words)
}

/// The fleet that the crawl belongs to.
pub(super) fn fleet(args: &Args, own: Option<&Own>, settings: &mut Settings) -> Result<(), Failure> {
    let known = settings.fleet.take();
    let is_alone = args.links.as_deref() == Some(NONE) && args.shards.is_none() && own.is_none();
    if is_alone && settings.bucket.as_ref().is_none_or(|bucket| bucket.shards == 1) {
        return Ok(());
    }
    let links = args.links.clone().or_else(|| known.as_ref().map(|known| known.links.clone()));
    let shards = args.shards.or_else(|| known.as_ref().map(|known| known.shards));
    let own = own.cloned().or_else(|| known.as_ref().map(|known| known.own.clone()));
    if let (Some(bucket), None | Some(NONE)) = (&settings.bucket, links.as_deref()) {
        return match bucket.shards {
            1 => Ok(()),
            shards => Err(Failure::Usage(format!(
                "--shards {shards}: crawls of several shards send each other their links: give --links"
            ))),
        };
    }
    let (sent_seeds, sent_reached) = known.map(|known| (known.sent_seeds, known.sent_reached)).unwrap_or_default();
    settings.fleet = match (links, shards) {
        (Some(links), Some(shards)) if links != NONE => Some(FleetSettings {
            sent_seeds,
            sent_reached,
            ..FleetSettings::new(links, shards, own.unwrap_or_default())
        }),
        (None, None) if own.is_none() => None,
        _ => {
            let words = "a crawl that is a part of a fleet needs --links and --shards, and may have --own";
            return Err(Failure::Usage(words.to_owned()));
        }
    };
    Ok(())
}
