//! Several shards of a store in object storage, crawled by one process: each is a crawl of its
//! own, in a folder of its own. All share the log, the edges and the progress.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crawl::fetch::trust::Trust;
use crawl::files;
use crawl::run::shards::{Appetite, Then, crawl_shards};
use crawl::run::{End, Event, Observer, Tally};
use crawl::settings::bucket::BucketSettings;
use crawl::settings::fleet::{FleetSettings, Own};
use crawl::settings::{Folder, Settings};
use crawl::visit::Visit;
use crawl::{BoxError, Builder, Crawler, Error, Stop};
use fm_cli::{Failure, Flags, Outcome, interrupt, words};
use frontier::Frontier;
use serde_json::json;

use super::seeds::{self, Given};
use super::{Args, Part, credentials, equipped, of_run, opening, report};
use crate::bucket;
use crate::face::Face;
use crate::failure;

/// Number of start pages that are named if no crawl got them.
const NAMED: usize = 5;

/// The crawls of a process.
struct Shards<'a> {
    args: &'a Args,
    flags: &'a Flags,
    /// The settings of crawls that have not begun.
    template: Settings,
    given: Given,
    trust: Trust,
    face: Arc<Face>,
    appetite: Arc<Appetite>,
    stop: Stop,
    /// Held while a crawl's end is reported: the lines of two are not mixed.
    reporting: Mutex<()>,
}

/// Crawls the shards of the arguments: listed ones, or free ones until the fleet is over. The
/// settings are kept in the folder of STORE, so that continuing needs no arguments.
pub(super) fn run(
    args: &Args,
    flags: &Flags,
    (mut builder, trust, given): (Builder, Trust, Given),
    (bucket, fleet): (&BucketSettings, &FleetSettings),
) -> Result<Outcome, Failure> {
    bucket::check_built(bucket)?;
    if !args.fetch.is_empty() {
        return Err(Failure::Usage("--fetch is for one shard: name it, such as --own 0".to_owned()));
    }
    let said = seeds::enter(given.clone(), builder.settings());
    let template = builder.settings().apart();
    keep(&args.store, builder.settings())?;
    let options = credentials(builder.settings())?;
    let stop = Stop::of(interrupt::listen());
    let face = Arc::new(Face::new(flags, opening(args, said)));
    face.begin()?;
    let (appetite, reporting) = (Arc::<Appetite>::default(), Mutex::default());
    let shards = Shards { args, flags, template, given, trust, face, appetite, stop, reporting };
    let observer = Arc::<Face>::clone(&shards.face) as Arc<dyn Observer>;
    let ended = crawl_shards(fleet, &options, (&shards.stop, &observer, &shards.appetite), |shard| shards.crawl(shard));
    shards.face.clear();
    let outcomes: Vec<Outcome> = ended.map_err(failure::of)?.into_iter().map(|(_, outcome)| outcome).collect();
    shards.face.close_edges()?;
    if shards.stop.is_asked() {
        return Ok(interrupt::outcome());
    }
    if outcomes.is_empty() {
        words::complain("no shard was free, and the fleet is over: nothing was done");
        return Ok(without_shard(&shards.given));
    }
    Ok(all(&outcomes))
}

/// Keeps the settings of all shards' crawls. Refuses a folder that one of them has.
fn keep(store: &Path, settings: &mut Settings) -> Result<(), Failure> {
    let folder = Folder::of(store);
    if folder.join(files::FRONTIER).exists() {
        let words = "this folder belongs to the crawl of one shard: name another STORE for several";
        return Err(Failure::Usage(format!("{}: {words}", folder.path().display())));
    }
    folder.keep_listed(settings).and_then(|()| folder.keep(settings)).map_err(failure::of)
}

/// The local name of a shard's crawl.
fn store_of(store: &Path, shard: u32) -> PathBuf {
    let mut name = store.components().collect::<PathBuf>().into_os_string();
    name.push(format!("-{shard}"));
    PathBuf::from(name)
}

/// The outcome of a process that got no shard: its start pages are in no crawl, unless another
/// process was given them too.
fn without_shard(given: &Given) -> Outcome {
    let lists = given.listed.iter().flat_map(|(_, urls)| urls);
    let pages: BTreeSet<&String> = given.named.iter().chain(lists).collect();
    if pages.is_empty() {
        return Outcome::Done;
    }
    for url in pages.iter().take(NAMED) {
        words::complain(format_args!("the start page {url} was given to no crawl"));
    }
    let all = words::count(pages.len() as u64, "start page");
    words::complain(format_args!("{all} of this call in no crawl, unless others were given them: run it again"));
    Outcome::Incomplete
}

/// The outcome of all crawls: the worst. No page was ever fetched only if none was in any.
fn all(outcomes: &[Outcome]) -> Outcome {
    let worst = [Outcome::Damaged, Outcome::Refused, Outcome::Incomplete];
    let fetched = outcomes.is_empty() || outcomes.contains(&Outcome::Done);
    let best = if fetched { Outcome::Done } else { Outcome::NotFound };
    worst.into_iter().find(|one| outcomes.contains(one)).unwrap_or(best)
}

/// The outcome of a crawl that failed; the others continue.
fn of_failure(failure: &Failure) -> Outcome {
    match failure {
        Failure::PipeClosed => Outcome::Done,
        Failure::Damage(_) => Outcome::Damaged,
        Failure::Locked(_) => Outcome::Incomplete,
        Failure::Usage(_) | Failure::Io(_) | Failure::Full(_) | Failure::Floor(_) => Outcome::Refused,
    }
}

fn copied(trust: &Trust) -> Trust {
    match trust {
        Trust::Roots(roots) => Trust::Roots(roots.clone()),
        Trust::Anybody => Trust::Anybody,
    }
}

impl Shards<'_> {
    /// Crawls a shard to its end. A failure is printed, and ends only this crawl.
    fn crawl(&self, shard: u32) -> (Outcome, Then) {
        self.crawled(shard).unwrap_or_else(|failure| {
            words::complain(format_args!("shard {shard}: {failure}"));
            (of_failure(&failure), Then::Failed)
        })
    }

    fn crawled(&self, shard: u32) -> Result<(Outcome, Then), Failure> {
        let store = store_of(&self.args.store, shard);
        let part = Part { store, own: Some(Own::List([shard].into())), template: Some(&self.template) };
        let begins = self.template.starts().next().is_some();
        let mut builder = match part.open(self.args, part.builder(self.args, None)?, begins) {
            // Another process has it, or takes it at this moment: it may be free again later.
            Err(Failure::Locked(why)) => {
                words::complain(format_args!("shard {shard}: {why}"));
                return Ok((Outcome::Incomplete, Then::Lost));
            }
            opened => opened?,
        };
        seeds::enter(self.given.clone(), builder.settings());
        if builder.settings().starts().next().is_none() {
            return Err(Failure::Usage("its crawl has not begun, and needs a start page: --seed URL".to_owned()));
        }
        let (face, appetite) = (Arc::clone(&self.face), Arc::clone(&self.appetite));
        let builder = equipped(builder, self.args, copied(&self.trust))?
            .stop(self.stop.clone())
            .observer(Arc::new(OfShard { face, appetite, shard }));
        self.say_begins(shard);
        let ended = builder.build().and_then(Crawler::run);
        let _alone = self.reporting.lock().unwrap_or_else(PoisonError::into_inner);
        self.face.clear();
        let summary = match ended {
            Err(error @ Error::Taken { .. }) => {
                self.face.log("end", json!({ "shard": shard, "why": "taken" }))?;
                words::complain(error);
                return Ok((Outcome::Incomplete, Then::Lost));
            }
            ended => ended.map_err(of_run)?,
        };
        let what = json!({ "shard": shard, "why": summary.end.name(), "run": summary.tally.json() });
        self.face.log("end", what)?;
        let then = if summary.end == End::MaxPages { Then::Stop } else { Then::Leave };
        Ok((report(self.args, self.flags, (&part.store, Some(shard)), &summary)?, then))
    }

    fn say_begins(&self, shard: u32) {
        if self.flags.says() {
            words::say(format_args!("shard {shard}: its crawl begins"));
        }
    }
}

/// The observer of one of several crawls.
struct OfShard {
    face: Arc<Face>,
    appetite: Arc<Appetite>,
    shard: u32,
}

impl Observer for OfShard {
    fn event(&self, event: &Event) -> Result<(), BoxError> {
        match event {
            // The log of all is open.
            Event::Begun => Ok(()),
            Event::Starving => {
                self.appetite.starves(self.shard);
                Ok(())
            }
            event => self.face.event_of(Some(self.shard), event),
        }
    }

    fn visited(&self, visit: &Visit, new_links: u32) -> Result<(), BoxError> {
        self.face.visited(visit, new_links)
    }

    fn committing(&self) -> Result<(), BoxError> {
        self.face.committing()
    }

    fn committed(&self) -> Result<(), BoxError> {
        self.face.committed()
    }

    fn look(&self, tally: &Tally, frontier: &Frontier, in_flight: usize) -> Result<(), BoxError> {
        self.face.look_of(Some(self.shard), (tally, frontier, in_flight))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_code_is_of_the_worst_crawl_and_no_page_only_if_none_has_one() {
        use Outcome::{Damaged, Done, Incomplete, NotFound};
        assert_eq!(all(&[]), Done);
        assert_eq!(all(&[Done, NotFound]), Done);
        assert_eq!(all(&[NotFound, NotFound]), NotFound);
        assert_eq!(all(&[Done, Incomplete, NotFound]), Incomplete);
        assert_eq!(all(&[Incomplete, Damaged, Done]), Damaged);
    }

    #[test]
    fn start_pages_of_a_process_without_a_shard_are_an_incomplete_end() {
        let page = || "http://a.test/".to_owned();
        assert_eq!(without_shard(&Given::default()), Outcome::Done);
        assert_eq!(without_shard(&Given { named: vec![page()], listed: Vec::new() }), Outcome::Incomplete);
        let listed = vec![("list".to_owned(), vec![page()])];
        assert_eq!(without_shard(&Given { named: Vec::new(), listed }), Outcome::Incomplete);
    }

    #[test]
    fn each_shard_has_a_folder_beside_the_store() {
        assert_eq!(store_of(Path::new("a/news/"), 12), PathBuf::from("a/news-12"));
    }
}
