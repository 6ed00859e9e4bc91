//! FileMap: by default, with dictionaries; without dictionaries at the others' level; by default
//! with a value cache.

use std::path::Path;

use filemap_benches::drive::Outcome;
use filemap_benches::generate::Page;
use filemap_core::dictionaries::Dictionaries;
use filemap_core::{Durability, Options, Record, Store};

use super::{After, Can, EVERYTHING, Each, Engine, Facts, Kind, Open, Purpose, Session, Settings};

use crate::pages::Probe;

/// The variants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Variant {
    Dictionaries,
    Plain,
    Cached,
}

/// With dictionaries, as by default.
pub static KIND: Kind =
    kind("filemap", |s| describe(Variant::Dictionaries, s), |s| compression(Variant::Dictionaries, s), {
        |dir, settings, purpose| open(dir, settings, purpose, Variant::Dictionaries)
    });

/// Without dictionaries.
pub static PLAIN: Kind = kind("filemap-plain", |s| describe(Variant::Plain, s), |s| compression(Variant::Plain, s), {
    |dir, settings, purpose| open(dir, settings, purpose, Variant::Plain)
});

/// With dictionaries and a value cache.
pub static CACHED: Kind =
    kind("filemap-cached", |s| describe(Variant::Cached, s), |s| compression(Variant::Cached, s), {
        |dir, settings, purpose| open(dir, settings, purpose, Variant::Cached)
    });

const fn kind(
    name: &'static str,
    settings: fn(&Settings) -> String,
    compression: fn(&Settings) -> String,
    open: Open,
) -> Kind {
    Kind {
        name,
        version: || super::locked("filemap-core"),
        settings,
        compression,
        open,
        batch: 1,
        can: Can { get_ahead: true, ..EVERYTHING },
        is_index_file: Some(|path| path == "address.idx" || path.starts_with("key")),
    }
}

fn describe(variant: Variant, settings: &Settings) -> String {
    let grouped = match variant {
        Variant::Dictionaries => "dictionaries by site".into(),
        Variant::Plain => "no dictionaries".into(),
        Variant::Cached => format!("dictionaries by site; value cache {} MiB", settings.cache_bytes >> 20),
    };
    format!(
        "defaults (synced every second, space bound 1.25), one version kept; {grouped}; put one by one; Durability::Sync for \
         durable puts; compact to give space back"
    )
}

fn compression(variant: Variant, settings: &Settings) -> String {
    match variant {
        Variant::Dictionaries | Variant::Cached => {
            "zstd -1 by the engine, its default, with dictionaries of the store's own \
                                                    pages (level 9 by compaction, for what is older than an hour)"
                .into()
        }
        Variant::Plain => format!("zstd -{} by the engine", settings.level),
    }
}

fn options(settings: &Settings, purpose: Purpose, variant: Variant) -> Options {
    // One version, since the others keep no more.
    let options = Options::new().dictionary_group(site).keep_versions(Some(1));
    let options = match purpose {
        Purpose::Load | Purpose::Use => options,
        Purpose::Durable => options.durability(Durability::Sync),
    };
    match variant {
        Variant::Dictionaries => options,
        Variant::Plain => options.dictionaries(Dictionaries::Off).compression_level(settings.level),
        Variant::Cached => options.value_cache_bytes(settings.cache_bytes as usize),
    }
}

fn open(dir: &Path, settings: &Settings, purpose: Purpose, variant: Variant) -> Outcome<Box<dyn Engine>> {
    Ok(Box::new(FileMap(Store::open_or_create(dir, options(settings, purpose, variant))?)))
}

/// Scheme and host of a URL, as the page store groups its keys.
fn site(key: &[u8]) -> &[u8] {
    let end = key.iter().enumerate().filter(|(_, b)| **b == b'/').map(|(at, _)| at).nth(2);
    end.map_or(b"", |end| &key[..end])
}

struct FileMap(Store);

impl Engine for FileMap {
    fn session(&self) -> Outcome<Box<dyn Session + '_>> {
        Ok(Box::new(Lane(&self.0)))
    }

    fn sync(&self) -> Outcome<()> {
        Ok(self.0.sync()?)
    }

    fn reclaim(&mut self, _after: After) -> Outcome<()> {
        self.0.compact()?;
        Ok(())
    }

    fn facts(&self) -> Outcome<Facts> {
        let stats = self.0.stats();
        Ok(Facts {
            stored_bytes: Some(stats.payload_bytes),
            live_bytes: Some(stats.live_bytes + stats.unindexed_bytes),
            value_log_bytes: Some(stats.value_bytes),
        })
    }

    fn index_bytes(&self) -> Outcome<Option<u64>> {
        Ok(Some(self.0.stats().index_bytes))
    }

    fn close(self: Box<Self>) -> Outcome<()> {
        Ok(self.0.close()?)
    }
}

struct Lane<'a>(&'a Store);

impl Session for Lane<'_> {
    fn put_batch(&mut self, pages: &[Page]) -> Outcome<()> {
        if let [page] = pages {
            self.0.put(&Record::new(&page.url, &page.body))?;
            return Ok(());
        }
        let records: Vec<Record<'_>> = pages.iter().map(|page| Record::new(&page.url, &page.body)).collect();
        self.0.put_batch(&records)?;
        Ok(())
    }

    fn get_into(&mut self, key: &[u8], body: &mut Vec<u8>) -> Outcome<bool> {
        Ok(self.0.get_into(key, body)?.is_some())
    }

    fn get_ahead(&mut self, probes: &[Probe], depth: usize, each: &mut Each<'_>) -> Outcome<()> {
        for (probe, value) in self.0.get_ahead(probes, depth) {
            each(probe, value?.as_ref().map(|value| &value.body[..]))?;
        }
        Ok(())
    }

    fn delete(&mut self, keys: &[&[u8]]) -> Outcome<()> {
        for key in keys {
            self.0.remove(key)?;
        }
        Ok(())
    }
}
