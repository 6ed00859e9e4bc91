//! A store of several shards reads as one, and each of its shards has its own writer.

use std::sync::Arc;

use filemap::access::{PutRule, Scope};
use filemap::{Lookup, Page, PageRead, PageWrite};
use filemap_cloud::{CloudOptions, CloudStore, Error, Mode, open_bucket, open_on, repair, repair_on};
use filemap_core::compact::CompactionGoal;
use filemap_core::prune::PruneRule;

use crate::as_store::{locations, opened, options, pages};
use crate::bucket::{Faults, Rule, Simulated};
use crate::mend::Objects;

const SHARDS: u32 = 5;

fn in_shards(location: &str) -> CloudStore {
    open_bucket(location, Mode::Fill, &options().shards(SHARDS)).expect("made")
}

fn only(location: &str, shard: u32, mode: Mode) -> CloudStore {
    open_bucket(location, mode, &options().only_shard(shard)).expect("opened")
}

/// Lists all pages in a scope, with their cursors.
fn listed(store: &CloudStore, scope: &Scope) -> Vec<(Vec<u8>, Vec<u8>)> {
    let listed = store.list(scope, None).expect("listed").map(|listed| listed.expect("whole"));
    listed.map(|listed| (listed.url, listed.cursor.expect("it has one").0)).collect()
}

#[test]
fn several_shards_answer_as_one_does() {
    for (one, several) in locations("one").into_iter().zip(locations("several")) {
        let stores = [opened(&one, Mode::Fill), in_shards(&several)];
        for store in &stores {
            pages().iter().for_each(|page| assert!(store.put(page, PutRule::Always).is_ok()));
            store.sync().expect("synced");
        }
        let readers = [opened(&one, Mode::Read), opened(&several, Mode::Read)];
        for [one, several] in [&stores, &readers] {
            assert_eq!((one.shards(), several.shards()), (1, SHARDS));
            let scopes = [
                Scope::new(),
                Scope::new().backwards(),
                Scope::new().variants(),
                Scope::new().domain("a.example"),
                Scope::new().host("c.example").backwards(),
            ];
            for scope in &scopes {
                let [of_one, of_several] = [one, several].map(|store| listed(store, scope));
                assert_eq!(of_one, of_several);
                assert!(!of_one.is_empty() && one.count(scope).ok() == several.count(scope).ok());
                let heads = [one, several].map(|store| {
                    let heads = store.heads(scope).expect("read").map(|head| head.expect("whole").page);
                    heads.map(|page| (page.url, page.fetched_at_ms, page.status)).collect::<Vec<_>>()
                });
                assert_eq!(heads[0], heads[1]);
                // A cursor of the one store continues in the other.
                let middle = filemap::access::Cursor(of_one[of_one.len() / 2].1.clone());
                let rest = |store: &CloudStore| {
                    let rest = store.list(scope, Some(&middle)).expect("listed");
                    rest.map(|listed| listed.expect("whole").url).collect::<Vec<_>>()
                };
                assert_eq!(rest(one), rest(several));
            }
            let urls: Vec<Vec<u8>> = listed(one, &Scope::new()).into_iter().map(|(url, _)| url).collect();
            let urls: Vec<&[u8]> = urls.iter().map(Vec::as_slice).chain([&b"http://absent.example/"[..]]).collect();
            let bodies = |store: &CloudStore| {
                let pages = store.get_many(&urls).expect("read").into_iter();
                pages.map(|page| page.map(|page| page.body)).collect::<Vec<_>>()
            };
            assert_eq!(bodies(one), bodies(several));
            let stored = |store: &CloudStore| {
                let all = store.stored_by_key().map(|version| version.expect("whole"));
                let mut all: Vec<_> = all.map(|stored| (stored.key.clone(), stored.page.body)).collect();
                all.sort();
                all
            };
            assert_eq!(stored(one), stored(several));
        }
        changes_alike(&stores);
        drop(stores);
        let repaired = [&one, &several].map(|location| repair(location, &options()).expect("repaired"));
        assert_eq!(repaired[0].versions, repaired[1].versions);
        assert!(repaired.iter().all(|report| report.damage.is_empty() && !report.kept_lost), "{repaired:?}");
        let again = [opened(&one, Mode::Read), opened(&several, Mode::Read)];
        assert_eq!(listed(&again[0], &Scope::new()), listed(&again[1], &Scope::new()));
    }
}

/// Makes changes to the whole store.
fn changes_alike(stores: &[CloudStore; 2]) {
    let [one, several] = stores;
    let removed = stores.each_ref().map(|store| {
        let mut removed = Vec::new();
        let pages = store.remove_all(&Scope::new().prefix("http://c.example/page/1"), &mut |one| {
            removed.push(one.expect("removed").url.to_vec());
            std::ops::ControlFlow::Continue(())
        });
        (pages.expect("removed"), removed)
    });
    assert_eq!(removed[0], removed[1]);
    let rule = PruneRule { keep_versions: Some(1), ..PruneRule::default() };
    let pruned = stores.each_ref().map(|store| store.prune(rule, &Scope::new()).expect("pruned"));
    assert_eq!(pruned[0].versions, pruned[1].versions);
    let erased = stores.each_ref().map(|store| store.erase(&Scope::new().domain("b.a.example")).expect("erased"));
    assert!(erased[0].pages > 0 && erased[0].pages == erased[1].pages && erased[1].is_complete(), "{erased:?}");
    for store in stores {
        store.sync().expect("synced");
        assert!(store.compact(CompactionGoal::NoGarbage).expect("compacted").damage.is_empty());
        let verified = store.verify().expect("verified");
        assert!(verified.damage.is_empty(), "{verified:?}");
    }
    assert_eq!(one.stats().expect("read").dead_bytes, several.stats().expect("read").dead_bytes);
    stores.iter().for_each(|store| store.close().expect("closed"));
}

#[test]
fn each_shard_has_a_writer_of_its_own() {
    for location in locations("writers") {
        in_shards(&location).close().expect("closed");
        let url = |host: u32| format!("http://h{host}.example/");
        let of = |shard: u32| (0..).find(|host| urlindex::shard(&url(*host), SHARDS) == shard).map(url).expect("one");
        let writers = [1, 3].map(|shard| only(&location, shard, Mode::Write));
        let page = |url: &str| Page::new(url, 1_700_000_000_000, 200, url);
        for (writer, shard) in writers.iter().zip([1, 3]) {
            writer.put(&page(&of(shard)), PutRule::Always).expect("stored");
            let error = writer.put(&page(&of(0)), PutRule::Always).expect_err("of another shard");
            assert!(error.concerns_one_page() && error.to_string().contains("is of shard 0"), "{error}");
            assert!(writer.get(&Lookup::new(&of(0))).is_err(), "an error, not a missing page");
            writer.sync_with(&[]).expect("synced");
        }
        // One shard is taken over, and the other continues.
        writers[0].put(&page(&of(1)), PutRule::Always).expect("in memory");
        let taken = only(&location, 1, Mode::Write);
        assert!(writers[0].sync().is_err() && writers[0].is_fenced());
        writers[1].put(&page(&of(3)), PutRule::Always).expect("stored");
        writers[1].sync().expect("synced");
        taken.close().expect("closed");
        writers[1].close().expect("closed");
        let reader = opened(&location, Mode::Read);
        assert_eq!(reader.count(&Scope::new()).expect("counted"), 2);
        assert!(reader.kept().is_err(), "of which shard?");
    }
}

#[test]
fn what_does_not_fit_the_store_is_refused() {
    let location = "mem://misfit";
    in_shards(location).close().expect("closed");
    let refused = |location: &str, options: CloudOptions, words: &str| {
        let error = open_bucket(location, Mode::Fill, &options).err().expect("refused");
        assert!(matches!(&error, Error::Location { what, .. } if what.contains(words)), "{error}");
    };
    refused(location, options().shards(4), "it has 5 shards, not 4");
    refused(location, options().only_shard(5), "no shard 5");
    for shards in [0, 1_025] {
        refused("mem://misfit-new", options().shards(shards), "1 to 1024 shards");
    }
}

#[test]
fn members_of_a_fleet_that_begin_together_make_one_store() {
    for round in 0..6 {
        for location in locations(&format!("together-{round}")) {
            let begin = |shard: u32| {
                let options = options().shards(SHARDS).only_shard(shard).space_bound(None);
                let store = open_bucket(&location, Mode::Fill, &options).expect("opened");
                store.sync_with(&[]).expect("no other has the shard");
                store
            };
            let members: Vec<CloudStore> = std::thread::scope(|scope| {
                let members: Vec<_> = (0..SHARDS).map(|shard| scope.spawn(move || begin(shard))).collect();
                members.into_iter().map(|member| member.join().expect("no panic")).collect()
            });
            for member in members {
                member.close().expect("no other has the shard");
            }
        }
    }
}

fn simulated() -> Arc<Simulated> {
    Simulated::new(Arc::default(), 0, Faults::default())
}

fn opened_on(end: &Arc<Simulated>, mode: Mode, options: &CloudOptions) -> filemap_cloud::Result<CloudStore> {
    open_on(Arc::clone(end) as _, "a", "the test", mode, options)
}

#[test]
fn a_shard_that_cannot_be_repaired_or_verified_is_named_and_the_others_are_done() {
    let (end, options) = (simulated(), options().shards(SHARDS).max_retries(1));
    let store = opened_on(&end, Mode::Fill, &options).expect("made");
    pages().iter().for_each(|page| assert!(store.put(page, PutRule::Always).is_ok()));
    store.close().expect("closed");
    let reader = opened_on(&end, Mode::Read, &options).expect("there");
    let versions = reader.verify().expect("read").versions;
    end.rule("list", "shard-03/", Rule::Refused);
    let verified = reader.verify().expect("the others are read");
    assert!(verified.changed && verified.damage.len() == 1 && verified.versions < versions, "{verified:?}");
    assert!(verified.damage[0].starts_with("shard-03: not verified: the test (shard 3): "), "{verified:?}");
    let repaired = repair_on(Arc::clone(&end) as _, "a", "the test", &options).expect("the others are repaired");
    assert!(!repaired.is_complete() && repaired.damage.len() == 1, "{repaired:?}");
    assert!(repaired.damage[0].starts_with("shard-03: not repaired: "), "{repaired:?}");
    let only = options.clone().only_shard(3);
    assert!(repair_on(Arc::clone(&end) as _, "a", "the test", &only).is_err(), "one alone is an error");
    end.no_rule();
    let repaired = repair_on(Arc::clone(&end) as _, "a", "the test", &options).expect("repaired");
    assert!(repaired.is_complete() && repaired.versions == versions, "{repaired:?}");
}

#[test]
fn a_store_that_cannot_be_opened_whole_fences_nobody() {
    let (end, options) = (simulated(), options().shards(2));
    opened_on(&end, Mode::Fill, &options).expect("made").close().expect("closed");
    let first = opened_on(&end, Mode::Write, &options.clone().only_shard(0)).expect("opened");
    end.rule("put", "shard-01/index/2$", Rule::Fails);
    end.rule_too("put", "shard-01/index/2.failed", Rule::Fails);
    let only = options.clone().only_shard(1).max_retries(1);
    assert!(repair_on(Arc::clone(&end) as _, "a", "the test", &only).is_err(), "it is interrupted");
    let error = opened_on(&end, Mode::Write, &options).err().expect("refused");
    assert!(matches!(&error, Error::Repairing { .. }) && error.to_string().contains("(shard 1)"), "{error}");
    first.sync_with(&[]).expect("it has its shard");
    first.close().expect("closed");
}

#[test]
fn a_store_without_its_description_is_damaged_whatever_shards_are_wanted() {
    let objects = Objects::new();
    let end = Simulated::new(Arc::clone(&objects.objects), 0, Faults::default());
    let three = options().shards(4).only_shard(3);
    let store = opened_on(&end, Mode::Fill, &three).expect("made");
    store.sync_with(&[]).expect("kept");
    store.close().expect("closed");
    objects.delete(&"a/STORE".into());
    assert!(objects.names("a/shard-03/seg").is_empty(), "files that are kept alone");
    for options in [options(), options().shards(2), three] {
        let error = opened_on(&end, Mode::Fill, &options).err().expect("refused");
        assert!(matches!(&error, Error::Damaged { what, .. } if what.contains("shard-03/crawl")), "{error}");
    }
}
