//! The settings of a crawl (seeds, scope, limits, politeness), stored beside its store, so that it
//! can be continued and examined.
//!
//! The crawl into `pages.fm` has the folder `pages.fm.crawl`: settings, frontier, seen sets. A
//! `run` changes only the settings given as arguments.

pub mod bucket;
pub mod filter;
pub mod fleet;
pub mod limits;
pub mod scope;

use std::fmt::Display;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use filemap_io::{Access, Dir as _, OsDir};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::files;
use crate::settings::bucket::BucketSettings;
use crate::settings::fleet::{FleetSettings, Own};
use crate::settings::limits::Limits;
use crate::settings::scope::{Reach, Scope};

/// The settings of a crawl.
///
/// ```
/// let mut settings = crawl::settings::Settings::new(0);
/// assert!(settings.obeys_robots && settings.delay_ms() == 1000);
/// settings.rate = 0.5;
/// assert_eq!(settings.delay_ms(), 2000);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The time of the first run, in ms since 1970.
    pub begun_ms: i64,
    /// Start pages.
    pub seeds: Vec<String>,
    /// Number of listed start pages, which are in a separate file.
    #[serde(default)]
    listed_seeds: usize,
    /// The listed start pages.
    #[serde(skip)]
    pub listed: Arc<Vec<String>>,
    /// Redirect targets of start pages outside the scope: they widen it.
    #[serde(default)]
    pub reached: Vec<String>,
    /// The reach of the crawl.
    pub scope: Reach,
    /// Include patterns: if there are any, only matching URLs are fetched.
    #[serde(default)]
    pub include: Vec<String>,
    /// Exclude patterns.
    #[serde(default)]
    pub exclude: Vec<String>,
    /// Rejected extensions of paths, without the dot, in lower case.
    #[serde(default)]
    pub reject_extensions: Vec<String>,
    /// The user agent.
    pub user_agent: String,
    /// The product token for robots.txt, if not the first word of the user agent.
    #[serde(default)]
    pub robots_token: Option<String>,
    /// Requests a second to a host; 0 for no limit.
    pub rate: f64,
    /// Requests a second to an address, over all its hosts; 0 for no limit.
    #[serde(default)]
    pub address_rate: f64,
    /// The maximum number of connections to a host.
    pub host_connections: u16,
    /// The maximum number of connections in total.
    pub connections: usize,
    /// The maximum number of pages of one host; `None` for no limit.
    pub host_pages: Option<u32>,
    /// The maximum number of links from a seed.
    pub depth: u16,
    /// The maximum number of attempts at a page.
    pub attempts: u8,
    /// The wait before the second attempt, doubled for each further one.
    pub retry: Duration,
    /// Consecutive page failures after which the host counts as failing.
    pub host_failures: u16,
    /// The time for which a host may fail before its queued pages are given up.
    #[serde(default = "host_down")]
    pub host_down: Duration,
    /// The time that a run continues without fetching any page.
    #[serde(default = "patience")]
    pub patience: Duration,
    /// The age at which pages are fetched again; `None` for never.
    pub recrawl: Option<Duration>,
    /// True if robots.txt is obeyed.
    pub obeys_robots: bool,
    /// True if sitemaps are read.
    pub sitemaps: bool,
    /// True if the links of pages whose body is stored under another URL are followed.
    pub follow_duplicates: bool,
    /// True if requisites of pages are fetched too.
    #[serde(default)]
    pub requisites: bool,
    /// True if cookies are kept during a run.
    #[serde(default)]
    pub cookies: bool,
    /// True if nofollow links are followed.
    pub follow_nofollow: bool,
    /// The file with settings of single hosts, if any.
    #[serde(default)]
    pub hosts: Option<PathBuf>,
    /// Built-in fields stored beside pages, by name.
    #[serde(default)]
    pub fields: Vec<String>,
    /// The seen set shared with other crawls, if any.
    #[serde(default)]
    pub seen: Option<String>,
    /// The crawl's id there: repeated requests get the same answers.
    #[serde(default)]
    pub seen_owner: Option<u64>,
    /// The crawl's fleet, if any.
    #[serde(default)]
    pub fleet: Option<FleetSettings>,
    /// The location of the pages, if they are not in a local folder.
    #[serde(default)]
    pub bucket: Option<BucketSettings>,
    /// The limits of a fetch.
    pub limits: Limits,
}

/// The maximum delay between two requests.
const DELAY_MAX: Duration = Duration::from_secs(86_400);
/// The maximum depth of requisites below a page, redirects included.
const REQUISITE_DEPTH: u16 = 20;

fn host_down() -> Duration {
    Duration::from_secs(7 * 24 * 3600)
}

fn patience() -> Duration {
    Duration::from_secs(900)
}

impl Settings {
    /// The defaults for a crawl that begins at this time.
    pub fn new(begun_ms: i64) -> Settings {
        Settings {
            begun_ms,
            seeds: Vec::new(),
            listed_seeds: 0,
            listed: Arc::default(),
            reached: Vec::new(),
            scope: Reach::Host,
            include: Vec::new(),
            exclude: Vec::new(),
            reject_extensions: Vec::new(),
            user_agent: String::new(),
            robots_token: None,
            rate: 1.0,
            address_rate: 0.0,
            host_connections: 1,
            connections: 64,
            host_pages: Some(100_000),
            depth: 100,
            attempts: 13,
            retry: Duration::from_secs(60),
            host_failures: 10,
            host_down: host_down(),
            patience: patience(),
            recrawl: None,
            obeys_robots: true,
            sitemaps: true,
            follow_duplicates: false,
            requisites: false,
            cookies: false,
            follow_nofollow: false,
            hosts: None,
            fields: Vec::new(),
            seen: None,
            seen_owner: None,
            fleet: None,
            bucket: None,
            limits: Limits::default(),
        }
    }

    /// Returns whether these are the settings of a process that crawls several shards of a store
    /// in object storage: each of its crawls has a folder of its own.
    pub fn is_several(&self) -> bool {
        let has_one = |fleet: &FleetSettings| matches!(&fleet.own, Own::List(list) if list.len() == 1);
        self.bucket.as_ref().is_some_and(|bucket| bucket.shards > 1)
            && self.fleet.as_ref().is_some_and(|fleet| !has_one(fleet))
    }

    /// A copy for a crawl in another folder, which has no list of start pages yet.
    #[must_use]
    pub fn apart(&self) -> Settings {
        Settings { listed_seeds: 0, ..self.clone() }
    }

    /// All start pages.
    pub fn starts(&self) -> impl Iterator<Item = &String> {
        self.seeds.iter().chain(self.listed.iter())
    }

    /// The scope of the crawl.
    pub fn scope(&self) -> Scope {
        Scope::new(self.scope, self.starts().chain(&self.reached).map(String::as_str))
    }

    /// The maximum depth that the frontier accepts: requisites do not count as links.
    pub fn frontier_depth(&self) -> u16 {
        self.depth.saturating_add(if self.requisites { REQUISITE_DEPTH } else { 0 })
    }

    /// The time between the starts of two fetches from a host.
    pub fn delay_ms(&self) -> u64 {
        if self.rate > 0.0 { (1000.0 / self.rate).ceil() as u64 } else { 0 }
    }

    /// The time between the starts of two requests to an address; 0 for no limit.
    pub fn address_delay(&self) -> Duration {
        match self.address_rate > 0.0 {
            true => Duration::try_from_secs_f64(1.0 / self.address_rate).unwrap_or(DELAY_MAX).min(DELAY_MAX),
            false => Duration::ZERO,
        }
    }
}

/// The folder of a crawl.
///
/// ```
/// use crawl::settings::{Folder, Settings};
/// # let place = tempfile::tempdir()?;
/// let folder = Folder::of(&place.path().join("pages.fm"));
/// assert_eq!(folder.settings()?, None);
/// folder.keep(&Settings::new(7))?;
/// assert_eq!(folder.settings()?, Some(Settings::new(7)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// The folder of the crawl into this store.
    pub fn of(store: &Path) -> Folder {
        Folder(files::folder_of(store))
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The path of a file in it.
    pub fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The settings; `None` if there is no crawl.
    ///
    /// # Errors
    /// I/O errors, and damage.
    pub fn settings(&self) -> Result<Option<Settings>, Error> {
        let path = self.join(files::SETTINGS);
        let text = match self.read(files::SETTINGS) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            text => text.map_err(|error| Error::io("read", &path, error))?,
        };
        let settings = serde_json::from_slice(&text);
        let mut settings: Settings = settings.map_err(|error| Error::Damage(format!("{}: {error}", path.display())))?;
        settings.listed = Arc::new(self.listed(settings.listed_seeds)?);
        Ok(Some(settings))
    }

    /// The bytes of a file.
    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        let file = OsDir::open(&self.0)?.open(name, Access::Read)?;
        let mut bytes = vec![0; usize::try_from(file.len()?).map_err(io::Error::other)?];
        let read = file.read_at(&mut bytes, 0)?;
        bytes.truncate(read);
        Ok(bytes)
    }

    /// The listed start pages; there are `count`.
    fn listed(&self, count: usize) -> Result<Vec<String>, Error> {
        if count == 0 {
            return Ok(Vec::new());
        }
        let path = self.join(files::SEEDS);
        let damage = |what: &dyn Display| Error::Damage(format!("{}: {what}", path.display()));
        let text = match self.read(files::SEEDS) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(damage(&error)),
            text => text.map_err(|error| Error::io("read", &path, error))?,
        };
        let text = String::from_utf8(text).map_err(|error| damage(&error))?;
        // The file has more if a crash came before the settings were updated.
        let whole = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
        let seeds: Vec<String> = whole.take(count).map(str::to_owned).collect();
        match seeds.len() == count {
            true => Ok(seeds),
            false => Err(damage(&format_args!("it has {} of {count} lines", seeds.len()))),
        }
    }

    /// Writes the listed start pages, durably and atomically. They take effect when the settings
    /// are saved.
    ///
    /// # Errors
    /// I/O errors.
    pub fn keep_listed(&self, settings: &mut Settings) -> Result<(), Error> {
        if settings.listed.len() > settings.listed_seeds {
            self.make()?;
            let text: String = settings.listed.iter().flat_map(|seed| [seed.as_str(), "\n"]).collect();
            files::replace(&self.0, files::SEEDS, text.as_bytes())?;
            settings.listed_seeds = settings.listed.len();
        }
        Ok(())
    }

    /// Makes the folder, private like the store's.
    fn make(&self) -> Result<(), Error> {
        filemap_io::system::create_dir(&self.0).map_err(|error| Error::io("create", &self.0, error))
    }

    /// Writes the settings, durably and atomically; makes the folder.
    ///
    /// # Errors
    /// I/O errors.
    pub fn keep(&self, settings: &Settings) -> Result<(), Error> {
        self.make()?;
        let text =
            serde_json::to_vec_pretty(settings).map_err(|error| Error::Broken(format!("the settings: {error}")))?;
        files::replace(&self.0, files::SETTINGS, &text)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn settings_come_back_as_they_were_kept() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::of(&place.path().join("pages.fm/"));
        assert!(folder.path().ends_with("pages.fm.crawl"));
        assert_eq!(folder.settings().unwrap(), None);
        let mut settings = Settings::new(7);
        settings.seeds.push("http://a/".to_owned());
        settings.recrawl = Some(Duration::from_secs(9));
        folder.keep(&settings).unwrap();
        assert_eq!(folder.settings().unwrap(), Some(settings));
        fs::write(folder.join(files::SETTINGS), "{").unwrap();
        assert!(matches!(folder.settings(), Err(Error::Damage(_))));
    }

    #[test]
    fn start_pages_of_lists_are_kept_beside_and_never_lost_in_silence() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::of(&place.path().join("pages.fm"));
        let mut settings = Settings::new(7);
        settings.listed = Arc::new((0..9).map(|n| format!("http://a/{n}")).collect());
        folder.keep_listed(&mut settings).unwrap();
        folder.keep(&settings).unwrap();
        assert_eq!(folder.settings().unwrap().as_ref(), Some(&settings));
        assert!(!fs::read_to_string(folder.join(files::SETTINGS)).unwrap().contains("http://a/"));
        // A copy for another folder brings the list there.
        let mut copy = settings.apart();
        let other = Folder::of(&place.path().join("other.fm"));
        other.keep_listed(&mut copy).unwrap();
        other.keep(&copy).unwrap();
        assert_eq!(other.settings().unwrap(), Some(copy));
        // A crash between writing the two files.
        let mut more = settings.clone();
        Arc::make_mut(&mut more.listed).push("http://b/".to_owned());
        folder.keep_listed(&mut more).unwrap();
        assert_eq!(folder.settings().unwrap(), Some(settings));
        let path = folder.join(files::SEEDS);
        for text in ["http://a/0\n", "http://a/0\nhttp://a/1"] {
            fs::write(&path, text).unwrap();
            let Err(Error::Damage(words)) = folder.settings() else { panic!("{text}") };
            assert!(words.contains("it has 1 of 9 lines"), "{words}");
        }
        fs::remove_file(&path).unwrap();
        assert!(matches!(folder.settings(), Err(Error::Damage(_))));
    }

    #[test]
    fn a_process_has_several_crawls_if_it_has_several_shards_of_a_bucket() {
        let with = |shards: u32, own: Option<Own>| {
            let mut settings = Settings::new(0);
            settings.bucket = Some(BucketSettings { shards, ..BucketSettings::new("s3://bucket/pages") });
            settings.fleet = own.map(|own| FleetSettings::new("http://127.0.0.1:1/v1/links", shards, own));
            settings
        };
        assert!(with(4, Some(Own::Auto)).is_several() && with(4, Some(Own::List([1, 2].into()))).is_several());
        assert!(!with(4, Some(Own::List([2].into()))).is_several() && !with(1, Some(Own::Auto)).is_several());
        assert!(!with(4, None).is_several(), "a folder that is being restored");
        assert!(!Settings { bucket: None, ..with(4, Some(Own::Auto)) }.is_several());
    }

    #[test]
    fn a_rate_is_a_delay() {
        let with = |rate| Settings { rate, ..Settings::new(0) }.delay_ms();
        assert_eq!((with(1.0), with(0.5), with(0.0), with(3.0)), (1000, 2000, 0, 334));
    }
}
