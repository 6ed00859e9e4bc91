//! A store over several folders answers as one in a folder, and refuses what is not its set.

use std::io::Read;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use filemap_core::backup::BackupOptions;
use filemap_core::prune::PruneRule;
use filemap_core::{Error as EngineError, Options, StorageError};
use tempfile::TempDir;
use urlindex::{Canonicalizer, Exact, Whatwg};

use super::ShardedStore;
use super::access::until_fatal;
use super::note::{self, Note};
use crate::access::{Cursor, Lookup, PageRead, PageWrite, PutRule, Scope};
use crate::error::{Error, Result};
use crate::page::key;
use crate::page::variant::Variant;
use crate::page::{Page, RecordKind, Revisit, RevisitProfile};
use crate::store::{PageStore, PruneStep, number_of};

const TIME_MS: i64 = 1_700_000_000_000;

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

fn paths(folder: &TempDir, names: &[&str]) -> Vec<PathBuf> {
    names.iter().map(|name| folder.path().join(name)).collect()
}

fn filled(paths: &[PathBuf]) -> Result<ShardedStore> {
    ShardedStore::open_or_create(paths, Arc::new(Whatwg), Options::new())
}

/// Makes a set and puts a page into each member.
fn made(folder: &TempDir, names: &[&str]) -> Vec<PathBuf> {
    let paths = paths(folder, names);
    let store = filled(&paths).expect("a new set");
    pages().iter().for_each(|page| assert!(store.put(page, PutRule::IfNew).expect("put").is_some()));
    assert!(store.members().iter().all(|member| member.count_pages().expect("counted") > 0));
    store.close().expect("closed");
    paths
}

/// Pages of 24 hosts, and some of subdomains and of other schemes.
fn pages() -> Vec<Page> {
    let url = |host: u32, path: &str| format!("http://host{host}.example/{path}");
    let mut urls: Vec<String> = (0..24).flat_map(|host| ["", "a", "b/c"].map(|path| url(host, path))).collect();
    urls.extend(["https://www.host3.example/", "ftp://host3.example/", "mailto:a@host3.example"].map(str::to_owned));
    urls.iter().map(|url| Page::new(url.as_str(), TIME_MS, 200, format!("the body of {url}"))).collect()
}

fn listed(store: &dyn PageRead, scope: &Scope, after: Option<&Cursor>) -> Vec<(Vec<u8>, Option<Cursor>)> {
    let list = store.list(scope, after).expect("a list");
    list.map(|listed| listed.expect("undamaged")).map(|listed| (listed.url, listed.cursor)).collect()
}

#[track_caller]
fn refused(opened: Result<ShardedStore>, path: &Path, words: &str) {
    let error = opened.expect_err("refused");
    let said = error.to_string();
    assert!(matches!(&error, Error::NotMembers { path: of, .. } if of == path), "{said}");
    assert!(said.contains(words), "{words:?} not in {said}");
}

/// Whatever it is opened for.
#[track_caller]
fn refused_by_all(paths: &[PathBuf], path: &Path, words: &str) {
    refused(ShardedStore::open(paths, Options::new()), path, words);
    refused(ShardedStore::open_read_only(paths, Options::new()), path, words);
    refused(filled(paths), path, words);
}

#[test]
fn answers_are_those_of_a_store_in_one_folder() {
    let folder = folder();
    let alone = PageStore::create(folder.path().join("alone.fm"), Options::new()).expect("a store");
    let set = filled(&paths(&folder, &["a.fm", "b.fm", "c.fm"])).expect("a set");
    let variant = Variant::new("session 7").expect("fits");
    for store in [&alone as &dyn PageWrite, &set] {
        let put = store.put_many(&pages(), PutRule::IfNew).expect("put");
        assert!(put.len() == pages().len() && put.iter().all(Option::is_some));
        let again = [&pages()[..2], &[Page::new("http://host0.example/new", TIME_MS, 200, "new")]].concat();
        let again = store.put_many(&again, PutRule::IfNew).expect("put");
        assert_eq!(again.iter().map(Option::is_some).collect::<Vec<_>>(), [false, false, true]);
        let later = Page::new("http://host5.example/a", TIME_MS + 1000, 404, "gone");
        store.put(&later, PutRule::Always).expect("put");
        let other = Page { variant: Some(variant.clone()), ..Page::new("http://host6.example/", TIME_MS, 200, "7") };
        store.put_reader(&other, &mut &b"seven"[..]).expect("put");
    }
    for scope in [
        Scope::new(),
        Scope::new().variants(),
        Scope::new().host("Host3.example"),
        Scope::new().host("host3.example:80"),
        Scope::new().domain("host3.example"),
        Scope::new().domain("example").prefix("http://host1"),
        Scope::new().prefix("https:"),
    ] {
        let all = listed(&alone, &scope, None);
        assert_eq!(listed(&set, &scope, None), all, "{scope:?}");
        assert_eq!(set.count(&scope).expect("counted"), all.len() as u64);
        assert_eq!(set.heads(&scope).expect("heads").count(), all.len());
        let back = listed(&set, &scope.clone().backwards(), None);
        assert_eq!(back, listed(&alone, &scope.clone().backwards(), None));
        for (nth, (_, cursor)) in all.iter().enumerate().step_by(7) {
            assert_eq!(listed(&set, &scope, cursor.as_ref()), all[nth + 1..]);
        }
    }
    let urls: Vec<Vec<u8>> =
        pages().iter().rev().map(|page| page.url.clone()).chain([b"http://absent/".to_vec()]).collect();
    let borrowed: Vec<&[u8]> = urls.iter().map(Vec::as_slice).collect();
    let wanted = PageRead::get_many(&alone, &borrowed).expect("read");
    assert_eq!(set.get_many(&borrowed).expect("read"), wanted);
    assert_eq!(set.get_many(&borrowed[..3]).expect("read"), wanted[..3]);
    for depth in [0, 1, 5, 1000] {
        let ahead: Vec<_> = set.get_ahead(Box::new(urls.iter().cloned()), depth).collect();
        assert!(ahead.iter().map(|(url, _)| url).eq(&urls));
        assert!(ahead.into_iter().map(|(_, page)| page.expect("read")).eq(wanted.iter().cloned()));
    }
    let lookup = Lookup::new("http://host5.example/a");
    assert_eq!(set.get(&lookup).expect("read").expect("there").status, Some(404));
    assert_eq!(set.get(&lookup.at(TIME_MS)).expect("read").expect("there").status, Some(200));
    assert_eq!(set.versions(&lookup).expect("read").len(), 2);
    let found: Vec<Variant> =
        set.variants(b"http://host6.example/").expect("a list").map(|v| v.expect("read")).collect();
    assert_eq!(found, [variant]);
    assert!(set.capabilities().lists_from_cursor && set.strays().expect("a list").next().is_none());
    assert_eq!(set.stored_by_key().count(), alone.stored_by_key().count());
    let remove = |store: &dyn PageWrite, scope: &Scope| store.remove_all(scope, &mut |_| ControlFlow::Continue(()));
    for scope in [Scope::new().host("host6.example"), Scope::new().domain("host3.example"), Scope::new()] {
        let removed = remove(&alone, &scope).expect("removed");
        assert_eq!(remove(&set, &scope).expect("removed"), removed);
        assert_eq!(listed(&set, &Scope::new(), None), listed(&alone, &Scope::new(), None));
    }
}

#[test]
fn folders_that_are_not_the_set_are_refused_with_the_path_and_what_to_do() {
    let folder = folder();
    let set = made(&folder, &["a.fm", "b.fm", "c.fm"]);
    let other = made(&folder, &["x.fm", "y.fm", "z.fm"]);
    let plain = folder.path().join("plain.fm");
    let store = PageStore::create(&plain, Options::new()).expect("a store");
    store.put_page(&pages()[0]).expect("put");
    store.close().expect("closed");
    let empty = folder.path().join("empty.fm");
    PageStore::create(&empty, Options::new()).expect("a store").close().expect("closed");
    let absent = folder.path().join("absent.fm");

    let of = |at: [&PathBuf; 3]| at.map(PathBuf::clone).to_vec();
    let [a, b, c] = [&set[0], &set[1], &set[2]];
    refused_by_all(&set[..2], a, "3 folders, and 2 were given");
    refused_by_all(&[&set[..], std::slice::from_ref(&absent)].concat(), a, "3 folders, and 4 were given");
    refused_by_all(&of([b, a, c]), b, "was given as member 1");
    refused_by_all(&of([a, b, &absent]), &absent, "mount its disk");
    refused_by_all(&of([a, b, &other[2]]), &other[2], "a member of another store");
    refused_by_all(&of([a, b, &plain]), &plain, "not a member of the store");
    refused_by_all(&of([a, b, &empty]), &empty, "not a member of the store");
    refused_by_all(&of([&plain, &empty, &absent]), &plain, "it has pages");
    assert!(!absent.exists(), "nothing was made");
    let store = ShardedStore::open(&set, Options::new()).expect("the set itself");
    assert_eq!(store.count(&Scope::new()).expect("counted"), pages().len() as u64);
}

#[test]
fn of_two_handles_that_name_one_folder_twice_none_is_given() {
    let folder = folder();
    let set = made(&folder, &["a.fm", "b.fm"]);
    let twice = [set[0].clone(), set[0].clone()];
    let error = ShardedStore::open(&twice, Options::new()).expect_err("locked");
    assert!(error.to_string().contains("a.fm"), "{error}");
    refused(ShardedStore::open_read_only(&twice, Options::new()), &set[0], "was given as member 2");
}

#[test]
fn stores_that_are_not_there_are_made_for_a_writer_that_fills_alone() {
    let folder = folder();
    let paths = paths(&folder, &["a.fm", "b.fm"]);
    for opened in [ShardedStore::open(&paths, Options::new()), ShardedStore::open_read_only(&paths, Options::new())] {
        assert!(matches!(opened.err(), Some(Error::Engine(EngineError::NotAStore { path, .. })) if path == paths[0]));
    }
    assert!(!paths[0].exists());
    let exact = ShardedStore::open_or_create(&paths, Arc::new(Exact), Options::new()).expect("made");
    assert_eq!(exact.key(b"HTTP://A.example").expect("a key"), b"HTTP://A.example");
    exact.close().expect("closed");
    assert_eq!(filled(&paths).expect("opened").canonicalizer().name(), Exact.name());
}

#[test]
fn the_making_of_a_set_is_ended_or_begun_anew_and_never_over_pages() {
    let folder = folder();
    let paths = paths(&folder, &["a.fm", "b.fm"]);
    let note = |number, is_made| Note { set: 7, number, of: 2, is_made };
    let member = |path: &Path, note: Option<Note>| {
        let store = PageStore::open_or_create(path, Options::new()).expect("a store");
        note.iter().for_each(|note| note::write(&store, note).expect("noted"));
        store
    };
    // After the first steps: an absent store, one without a note.
    drop(member(&paths[0], Some(note(0, false))));
    refused(ShardedStore::open(&paths, Options::new()), &paths[0], "was cut short");
    refused(ShardedStore::open_read_only(&paths, Options::new()), &paths[0], "was cut short");
    drop(member(&paths[1], None));
    refused(ShardedStore::open(&paths, Options::new()), &paths[0], "was cut short");
    let store = filled(&paths).expect("made");
    store.put(&pages()[0], PutRule::IfNew).expect("put");
    store.close().expect("closed");
    drop(store);
    // After the last: one does not say yet that it is made.
    let set = note::read(&member(&paths[0], None)).expect("read").expect("noted");
    drop(member(&paths[1], Some(Note { number: 1, is_made: false, ..set })));
    assert!(ShardedStore::open_read_only(&paths, Options::new()).is_ok());
    drop(ShardedStore::open(&paths, Options::new()).expect("opened"));
    let ended = note::read(&member(&paths[1], None)).expect("read").expect("noted");
    assert_eq!(ended, Note { number: 1, ..set });
    // A member of a set that was made is never made anew, though it has no page.
    let other = [paths[1].clone(), folder.path().join("c.fm")];
    refused_by_all(&other, &other[0], "was given as member 1");
}

#[test]
fn a_member_that_is_written_elsewhere_leaves_the_others_free() {
    let folder = folder();
    let set = made(&folder, &["a.fm", "b.fm"]);
    let held = PageStore::open(&set[1], Options::new()).expect("opened");
    let error = ShardedStore::open(&set, Options::new()).expect_err("locked");
    let Error::Member { path, source } = &error else { panic!("{error}") };
    assert!(*path == set[1], "{error}");
    assert!(matches!(**source, Error::Engine(EngineError::Storage(StorageError::Locked { .. }))));
    assert!(PageStore::open(&set[0], Options::new()).is_ok(), "its lock was given up");
    let reader = ShardedStore::open_read_only(&set, Options::new()).expect("readers need no lock");
    assert_eq!(reader.count(&Scope::new()).expect("counted"), pages().len() as u64);
    drop(held);
}

#[test]
fn an_error_names_its_member_and_the_others_go_on() {
    let folder = folder();
    let set = filled(&made(&folder, &["a.fm", "b.fm"])).expect("opened");
    set.members()[0].clone().close().expect("closed");
    for error in [set.sync().unwrap_err(), set.count(&Scope::new()).unwrap_err()] {
        assert!(matches!(&error, Error::Member { path, .. } if path.ends_with("a.fm")), "{error}");
        assert!(error.to_string().contains("a.fm: the store is closed"), "{error}");
    }
    let urls = pages();
    let answers: Vec<_> = urls.iter().map(|page| set.get(&Lookup::new(&page.url)).is_ok()).collect();
    assert!(answers.contains(&true) && answers.contains(&false));
    let error = set.get(&Lookup::new("no URL")).unwrap_err();
    assert!(matches!(error, Error::Url { .. }) && error.concerns_one_page());
}

#[test]
fn pages_that_were_put_past_the_set_are_found() {
    let folder = folder();
    let set = filled(&paths(&folder, &["a.fm", "b.fm"])).expect("a set");
    let page = &pages()[0];
    set.put(page, PutRule::IfNew).expect("put");
    let own = set.member_of(&page.url).expect("a member").engine().path().to_owned();
    let other = set.members().iter().find(|member| member.engine().path() != own).expect("two");
    other.put_page(page).expect("put");
    let strays: Vec<_> = set.strays().expect("a list").map(|stray| stray.expect("read")).collect();
    assert!(matches!(&strays[..], [(path, listed)] if *path == other.engine().path() && listed.url == page.url));
    // What is only there is neither found nor listed.
    set.remove(&page.url, None).expect("removed");
    assert!(set.get(&Lookup::new(&page.url)).expect("read").is_none());
    assert!(listed(&set, &Scope::new(), None).is_empty());
    assert_eq!((set.heads(&Scope::new()).expect("heads").count(), set.strays().expect("a list").count()), (0, 1));
}

#[test]
fn a_list_ends_with_an_error_that_is_not_damage() {
    let fatal = || Err(Error::Unsupported { what: "it" });
    let (url, version) = (String::new(), filemap_core::Version { time_ms: 1, sequence: 1 });
    let corrupt = StorageError::Corrupt { file: "value0.dat".to_owned(), offset: 7, what: "checksum".to_owned() };
    let damage = Err(Error::Unreadable { url, version, source: Arc::new(Error::Engine(corrupt.into())) });
    let items = until_fatal([Ok(1), damage, Ok(2), fatal(), Ok(3)].into_iter());
    assert_eq!(items.map(Result::ok).collect::<Vec<_>>(), [Some(1), None, Some(2), None]);
}

#[test]
fn pages_are_removed_from_the_other_members_when_one_fails() {
    let folder = folder();
    let paths = made(&folder, &["a.fm", "b.fm"]);
    let first = PageStore::open_read_only(&paths[0], Options::new()).expect("opened");
    let second = PageStore::open(&paths[1], Options::new()).expect("opened");
    let set = ShardedStore::over(vec![first, second]).expect("a set");
    let mut removed = 0;
    let all = set.remove_all(&Scope::new(), &mut |one| {
        removed += u64::from(one.is_ok_and(|one| one.is_page));
        ControlFlow::Continue(())
    });
    let error = all.expect_err("the first is not for writing").to_string();
    assert!(error.contains("a.fm") && removed > 0, "{error}: {removed}");
    assert_eq!(set.members()[1].count_pages().expect("counted"), 0);
}

#[test]
fn a_revisit_is_read_with_the_body_of_an_original_in_another_member() {
    let folder = folder();
    let set = filled(&paths(&folder, &["a.fm", "b.fm"])).expect("a set");
    let (of, url) = of_two_members();
    let named = Revisit { refers_to_url: Some(of.clone().into()), refers_to_ms: Some(TIME_MS), ..Revisit::unnamed() };
    let visit = Page::new(url.as_str(), TIME_MS + 1000, 200, "");
    set.put_page(&Page { kind: RecordKind::Revisit, revisit: Some(named), ..visit }).expect("put");
    let unresolved = || {
        let count = set.count_revisits(&mut |_| ControlFlow::Continue(())).expect("read").expect("not cancelled");
        (count.revisits, count.unresolved)
    };
    assert_eq!(unresolved(), (1, 1));
    assert!(set.get_page(&url).expect("read").expect("there").lacks_body());

    set.put_page(&Page::new(of.as_str(), TIME_MS, 200, "the original")).expect("put");
    assert_eq!(unresolved(), (1, 0));
    let lookup = Lookup::new(&url);
    let version = set.versions(&lookup).expect("read")[0];
    let (page, mut body) = set.get_reader(&lookup).expect("read").expect("there");
    let mut streamed = Vec::new();
    body.read_to_end(&mut streamed).expect("memory");
    assert!(streamed == b"the original" && !page.lacks_body());
    let ahead = set.get_ahead(Box::new(std::iter::once(url.clone().into_bytes())), 1).next().expect("one").1;
    let many = set.get_many(&[url.as_bytes()]).expect("read").remove(0);
    for page in [set.get(&lookup), set.get_version(&lookup, version), ahead, Ok(many)] {
        let page = page.expect("read").expect("there");
        assert!(page.body == b"the original" && page.url == url.as_bytes() && !page.lacks_body());
    }
    let member = set.member_of(&url).expect("a member");
    assert!(!member.get(&url).expect("read").expect("there").lacks_body(), "a member of the set knows the others");
    let alone = PageStore::open_read_only(member.engine().path(), Options::new()).expect("opened");
    assert!(alone.get(&url).expect("read").expect("there").lacks_body(), "the member alone does not have it");
}

/// Pages of two hosts of different members: a revisit under the second, an original under the
/// first, and what may be taken for one under the second.
fn with_a_revisit(store: &dyn PageWrite, (of, url): (&str, &str), profile: RevisitProfile) {
    let put = |page: &Page| store.put(page, PutRule::Always).expect("put");
    put(&Page::new(url, TIME_MS, 200, "older, of the revisit's own URL"));
    put(&Page::new(of, TIME_MS, 200, "the original"));
    let (refers_to_url, refers_to_ms) = (Some(of.into()), Some(TIME_MS));
    let named = Revisit { refers_to_url, refers_to_ms, profile, ..Revisit::unnamed() };
    let visit = Page::new(url, TIME_MS + 60_000, 200, "");
    put(&Page { kind: RecordKind::Revisit, revisit: Some(named), ..visit });
}

/// URLs of two hosts: of the first and of the second of two members.
fn of_two_members() -> (String, String) {
    let url_of = |member: usize| {
        let mut urls = (0_u32..).map(|host| format!("http://host{host}.example/"));
        urls.find(|url| number_of(url.as_bytes(), 2) == member).expect("hosts do not run out")
    };
    (url_of(0), url_of(1))
}

#[test]
fn a_revisit_gets_the_body_that_one_folder_gives_it_and_no_older_one_of_its_own_url() {
    for profile in [RevisitProfile::IdenticalPayload, RevisitProfile::ServerNotModified] {
        let folder = folder();
        let (of, url) = of_two_members();
        let alone = PageStore::create(folder.path().join("alone.fm"), Options::new()).expect("a store");
        let set = filled(&paths(&folder, &["a.fm", "b.fm"])).expect("a set");
        for store in [&alone as &dyn PageWrite, &set] {
            with_a_revisit(store, (&of, &url), profile.clone());
            let lookup = Lookup::new(&url);
            let mut streamed = Vec::new();
            let (_, mut body) = store.get_reader(&lookup).expect("read").expect("there");
            body.read_to_end(&mut streamed).expect("memory");
            drop(body);
            assert_eq!(streamed, b"the original");
            assert_eq!(store.get(&lookup).expect("read").expect("there").body, b"the original");
        }
        // Without the original both give the same.
        let mut bodies = Vec::new();
        for store in [&alone as &dyn PageWrite, &set] {
            assert!(store.remove(of.as_bytes(), None).expect("removed"));
            bodies.push(store.get(&Lookup::new(&url)).expect("read").expect("there").body);
        }
        assert_eq!(bodies[0], bodies[1]);
    }
}

#[test]
fn a_note_outlives_every_page_and_comes_along_with_a_backup() {
    let folder = folder();
    let set = filled(&made(&folder, &["a.fm", "b.fm"])).expect("opened");
    let rule = PruneRule { since_ms: Some(TIME_MS + 1), ..PruneRule::default() };
    let backups = paths(&folder, &["backup a.fm", "backup b.fm"]);
    for (member, to) in set.members().iter().zip(&backups) {
        let pruned = member.prune(rule, &mut |_| ControlFlow::Continue(())).expect("pruned");
        assert!(pruned.versions > 0 && member.count_pages().expect("counted") == 0);
        member.engine().compact().expect("compacted");
        let done = member.engine().backup(to, &BackupOptions::new(), &mut |_| ControlFlow::Continue(()));
        done.expect("backed up");
    }
    set.remove_all(&Scope::new(), &mut |_| ControlFlow::Continue(())).expect("removed");
    set.close().expect("closed");
    for set in [&backups, &paths(&folder, &["a.fm", "b.fm"])] {
        assert_eq!(ShardedStore::open(set, Options::new()).expect("opened").count(&Scope::new()).expect("counted"), 0);
    }
}

#[test]
fn lost_and_wrong_notes_are_written_again_where_they_are_proven() {
    let folder = folder();
    let set = made(&folder, &["a.fm", "b.fm", "c.fm"]);
    let change = |path: &Path, change: &dyn Fn(&PageStore)| {
        let member = PageStore::open(path, Options::new()).expect("opened");
        change(&member);
        member.close().expect("closed");
    };
    let mended = |paths: &[PathBuf]| ShardedStore::restore_notes(paths, Options::new());
    assert!(mended(&set).expect("nothing to do").is_empty());
    // Lost, and that of another member put over it.
    change(&set[1], &|member: &PageStore| assert!(member.engine().remove(key::MEMBER).expect("removed")));
    let first = note::read(&PageStore::open_read_only(&set[0], Options::new()).expect("opened"));
    let first = first.expect("read").expect("a note");
    change(&set[2], &|member: &PageStore| note::write(member, &first).expect("written"));
    refused(ShardedStore::open(&set, Options::new()), &set[1], "not a member");
    assert_eq!(mended(&set).expect("proven"), set[1..]);
    let store = ShardedStore::open(&set, Options::new()).expect("the set again");
    assert_eq!(store.count(&Scope::new()).expect("counted"), pages().len() as u64);
    store.close().expect("closed");
    drop(store);
    // In another place, of another set, without a page, with pages of others.
    change(&set[1], &|member: &PageStore| assert!(member.engine().remove(key::MEMBER).expect("removed")));
    let other = made(&folder, &["x.fm", "y.fm", "z.fm"]);
    let empty = folder.path().join("empty.fm");
    PageStore::create(&empty, Options::new()).expect("a store").close().expect("closed");
    for (paths, wrong, words) in [
        ([&set[0], &set[2], &set[1]], &set[2], "belong into another member"),
        ([&set[0], &other[1], &set[2]], &other[1], "a member of another store"),
        ([&set[0], &empty, &set[2]], &empty, "no page"),
    ] {
        let error = mended(&paths.map(PathBuf::clone)).expect_err("not proven");
        let said = error.to_string();
        assert!(matches!(&error, Error::NotMembers { path, .. } if path == wrong) && said.contains(words), "{said}");
    }
    assert!(mended(&set[..2]).expect("not all: opening says so").is_empty());
    assert!(ShardedStore::open(&other, Options::new()).is_ok(), "untouched");
}

#[test]
fn a_prune_keeps_the_bodies_of_revisits_that_are_not_where_their_host_belongs() {
    let folder = folder();
    let set = filled(&paths(&folder, &["a.fm", "b.fm"])).expect("a set");
    let (_, url) = of_two_members();
    let (of, past) = (format!("{url}of"), set.members()[0].alone());
    past.put_page(&Page::new(of.as_str(), TIME_MS, 200, "the original")).expect("put");
    let named = Revisit { refers_to_url: Some(of.clone().into()), refers_to_ms: Some(TIME_MS), ..Revisit::unnamed() };
    let visit = Page::new(url.as_str(), TIME_MS + 60_000, 200, "");
    past.put_page(&Page { kind: RecordKind::Revisit, revisit: Some(named), ..visit }).expect("put");
    let body = || past.get(&url).expect("read").expect("there").body;
    assert_eq!(body(), b"the original");
    let rule = PruneRule { since_ms: Some(TIME_MS + 1), ..PruneRule::default() };
    let spared = set.spared(rule, None, &mut |_| ControlFlow::Continue(())).expect("read").expect("not cancelled");
    for (member, spared) in set.members().iter().zip(&spared) {
        member.engine().prune_with(rule, spared, &mut |_| ControlFlow::Continue(())).expect("pruned");
    }
    assert_eq!(body(), b"the original");
}

#[test]
fn a_prune_of_all_members_keeps_the_originals_that_revisits_in_others_need() {
    let folder = folder();
    let (of, url) = of_two_members();
    let alone = PageStore::create(folder.path().join("alone.fm"), Options::new()).expect("a store");
    let set = filled(&paths(&folder, &["a.fm", "b.fm"])).expect("a set");
    for store in [&alone as &dyn PageWrite, &set] {
        with_a_revisit(store, (&of, &url), RevisitProfile::IdenticalPayload);
    }
    let go_on = |_: PruneStep| ControlFlow::Continue(());
    for (since_ms, dropped) in [(TIME_MS + 1, 1), (TIME_MS + 120_000, 2)] {
        let rule = PruneRule { since_ms: Some(since_ms), ..PruneRule::default() };
        assert_eq!(alone.prune(rule, &mut { go_on }).expect("pruned").versions, dropped);
        let spared = set.spared(rule, None, &mut { go_on }).expect("read").expect("not cancelled");
        let pruned = set.members().iter().zip(&spared).map(|(member, spared)| {
            member.engine().prune_with(rule, spared, &mut |_| ControlFlow::Continue(())).expect("pruned").versions
        });
        assert_eq!(pruned.sum::<u64>(), dropped);
        let found = set.get_page(&url).expect("read").map(|page| page.body);
        assert_eq!(found, (dropped == 1).then(|| b"the original".to_vec()));
    }
    // A member that is pruned by its handle keeps them too.
    with_a_revisit(&set, (&of, &url), RevisitProfile::IdenticalPayload);
    let rule = PruneRule { since_ms: Some(TIME_MS + 1), ..PruneRule::default() };
    let member = set.member_of(&of).expect("a member");
    assert_eq!(member.prune(rule, &mut { go_on }).expect("pruned").versions, 0);
}
