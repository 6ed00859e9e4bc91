//! Erasure rules: they last, go where the store goes, and are never silently lost.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use filemap_core::backup::{BackupOptions, CopyEvent, CopyOptions};
use filemap_core::check::VerifyOptions;
use filemap_core::erase::{Admission, RuleState};
use filemap_core::repair::RepairTo;
use filemap_core::{Error, Options, Record, StorageError, Store};

fn options() -> Options {
    Options::new().free_space_floor(0)
}

fn states(store: &Store) -> Vec<(u32, RuleState, String, Vec<u8>)> {
    store.rules().unwrap().into_iter().map(|r| (r.id, r.state, r.reason, r.what)).collect()
}

/// A store with a page, a rule in force, a lifted one and an unfinished one.
fn filled(path: &Path) -> Store {
    let store = Store::create(path, options()).unwrap();
    store.put(&Record::new(b"a", b"b")).unwrap();
    for (id, state) in [(1, RuleState::InForce), (2, RuleState::Lifted), (3, RuleState::Unfinished)] {
        assert_eq!(store.add_rule(&[id as u8; 3], "why").unwrap().id, id);
        assert!(store.set_rule_state(id, state).unwrap());
    }
    assert!(!store.set_rule_state(4, RuleState::Lifted).unwrap());
    store
}

fn expected() -> Vec<(u32, RuleState, String, Vec<u8>)> {
    let rule = |id, state, what: &[u8]| (id, state, "why".to_owned(), what.to_vec());
    vec![rule(1, RuleState::InForce, &[1; 3]), rule(2, RuleState::Lifted, &[]), rule(3, RuleState::Unfinished, &[3; 3])]
}

#[test]
fn inspection_shows_the_rules_and_the_begun_segments() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    filled(&path).close().unwrap();
    let longer = temp.path().join("b");
    let store = Store::create(&longer, options().segment_bytes(1 << 20).large_value_bytes(700 << 10)).unwrap();
    let mut rng = fastrand::Rng::with_seed(1);
    for n in 0..3 {
        let body: Vec<u8> = std::iter::repeat_with(|| rng.u8(..)).take(600 << 10).collect();
        store.put(&Record::new(&[n], &body)).unwrap();
    }
    store.close().unwrap();
    let items = |path: &Path| {
        let mut items = Vec::new();
        let mut sink = |item| {
            items.push(item);
            ControlFlow::Continue(())
        };
        filemap_core::check::inspect(path, &mut sink).unwrap();
        items
    };
    let field = |item: &filemap_core::check::Inspected, name: &str| {
        item.fields.iter().find(|(found, _)| *found == name).map(|(_, value)| value.clone()).unwrap_or_default()
    };
    let rules = items(&path.join("RULES"));
    assert!(rules.iter().all(|item| item.problem.is_none()), "{rules:?}");
    assert_eq!((rules[0].kind.as_str(), field(&rules[0], "rules")), ("rules", "3".to_owned()));
    let told: Vec<_> = rules[1..].iter().map(|r| [field(r, "id"), field(r, "state"), field(r, "reason")]).collect();
    assert_eq!(told, [["1", "inforce", "why"], ["2", "lifted", "why"], ["3", "unfinished", "why"]]);
    let superblock = items(&longer.join("SUPERBLOCK"));
    let kinds: Vec<_> = superblock.iter().map(|item| (item.kind.as_str(), item.problem.is_some())).collect();
    assert_eq!(kinds, [("superblock", false), ("superblock", false), ("begun segments", false)]);
    assert_eq!(
        (field(&superblock[1], "magic"), field(&superblock[1], "hash_seed")),
        ("FILEMAP".into(), "secret".into())
    );
    let begun = field(&superblock[2], "segments");
    assert!(begun.split(' ').any(|ordinal| ordinal == "1"), "a second segment was begun: {begun:?}");
}

#[test]
fn rules_last_and_backups_copies_and_repairs_carry_them() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    let at = |name: &str| temp.path().join(name);
    let store = filled(&path);
    assert_eq!(states(&store), expected());
    let reader = Store::open_read_only(&path, options()).unwrap();
    assert_eq!(states(&reader), expected());
    for (from, name, copy_all) in [(&store, "backup", false), (&store, "copy", true), (&reader, "by a reader", false)] {
        let how = if copy_all { BackupOptions::new().copy_all() } else { BackupOptions::new() };
        from.backup(at(name), &how, &mut |_| ControlFlow::Continue(())).unwrap();
        assert_eq!(states(&Store::open_read_only(at(name), options()).unwrap()), expected(), "{name}");
    }
    store.close().unwrap();
    let mut go_on = |_| ControlFlow::Continue(());
    std::fs::remove_file(path.join("address.idx")).unwrap();
    let report = Store::repair(&path, RepairTo::New(&at("repaired")), &options(), &mut go_on).unwrap();
    assert!(report.is_complete());
    let report = Store::repair(&path, RepairTo::InPlace, &options(), &mut go_on).unwrap();
    assert!(report.is_complete());
    for repaired in [at("repaired"), path] {
        let store = Store::open(repaired, options()).unwrap();
        assert_eq!(states(&store), expected());
        assert_eq!(store.add_rule(b"x", "").unwrap().id, 4);
        assert_eq!(store.verify().unwrap().problems, []);
    }
}

#[test]
fn rules_that_are_missing_damaged_or_rolled_back_are_noticed_and_a_repair_says_that_they_are_lost() {
    let temp = tempfile::tempdir().unwrap();
    let (path, rules) = (temp.path().join("a"), temp.path().join("a/RULES"));
    let store = filled(&path);
    let older = std::fs::read(&rules).unwrap();
    store.set_rule_state(3, RuleState::InForce).unwrap();
    store.close().unwrap();
    let whole = std::fs::read(&rules).unwrap();
    let mut damaged = whole.clone();
    damaged[70] ^= 1;
    for (what, bytes) in [("missing", None), ("rolled back", Some(&older)), ("damaged", Some(&damaged))] {
        std::fs::remove_file(&rules).unwrap();
        bytes.iter().for_each(|bytes| std::fs::write(&rules, bytes).unwrap());
        let opened = Store::open(&path, options());
        assert!(
            matches!(&opened, Err(Error::Storage(StorageError::Corrupt { file, .. })) if file == "RULES"),
            "{what}: {opened:?}"
        );
        let reader = Store::open_read_only(&path, options()).unwrap();
        assert_eq!(reader.get(b"a").unwrap().unwrap().body, b"b", "{what}: it can be read");
        assert!(reader.rules().is_err(), "{what}");
        let backup = temp.path().join(format!("backup of {what}"));
        let backed_up = reader.backup(&backup, &BackupOptions::new(), &mut |_| ControlFlow::Continue(()));
        assert!(
            matches!(&backed_up, Err(Error::Storage(StorageError::Corrupt { file, .. })) if file == "RULES"),
            "{what}: {backed_up:?}"
        );
        assert!(!backup.exists(), "{what}");
        for is_quick in [false, true] {
            let options = if is_quick { VerifyOptions::new().quick() } else { VerifyOptions::new() };
            let report = reader.verify_with(&options, &mut |_| ControlFlow::Continue(())).unwrap();
            assert_eq!(report.problems.len(), 1, "{what}");
        }
        let to = temp.path().join(what);
        let mut go_on = |_| ControlFlow::Continue(());
        let report = Store::repair(&path, RepairTo::New(&to), &options(), &mut go_on).unwrap();
        assert!(report.losses.iter().any(|l| l.file == "RULES"), "{what}: {report:?}");
        assert!(Store::open(&to, options()).unwrap().rules().unwrap().is_empty(), "{what}");
        std::fs::write(&rules, &whole).unwrap();
        Store::open(&path, options()).unwrap();
    }
    std::fs::write(&rules, &damaged).unwrap();
    let report = Store::repair(&path, RepairTo::InPlace, &options(), &mut |_| ControlFlow::Continue(())).unwrap();
    assert!(!report.is_complete());
    assert_eq!(Store::open(&path, options()).unwrap().rules().unwrap(), []);
}

#[test]
fn a_repair_says_that_rules_may_be_lost_with_the_superblock() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    let with_rule = || options().canonicalizer("bytes", 1);
    let is_told = |to: &str, path: &Path| {
        let to = RepairTo::New(&path.with_file_name(to));
        let report = Store::repair(path, to, &with_rule(), &mut |_| ControlFlow::Continue(())).unwrap();
        report.unwitnessed.iter().any(|what| what.contains("rules of erasures"))
    };
    filled(&path).close().unwrap();
    std::fs::write(path.join("SUPERBLOCK"), "").unwrap();
    let opened = Store::open(&path, options());
    assert!(
        matches!(&opened, Err(Error::Storage(StorageError::Corrupt { file, .. })) if file == "SUPERBLOCK"),
        "{opened:?}"
    );
    assert!(!is_told("with rules", &path));
    assert_eq!(states(&Store::open(temp.path().join("with rules"), with_rule()).unwrap()), expected());
    std::fs::remove_file(path.join("RULES")).unwrap();
    assert!(is_told("emptied", &path));
    std::fs::remove_file(path.join("SUPERBLOCK")).unwrap();
    assert!(is_told("removed", &path));
}

/// Refuses keys that begin with x by rule 5, and bodies that have a z by rule 6.
struct Refusing;

impl Admission for Refusing {
    fn refuses(&self, key: &[u8], _: i64) -> Option<u32> {
        key.starts_with(b"x").then_some(5)
    }

    fn wants_bodies(&self) -> bool {
        true
    }

    fn refuses_body(&self, record: &Record<'_>) -> Option<u32> {
        record.body.contains(&b'z').then_some(6)
    }
}

#[test]
fn whatever_way_a_version_comes_in_the_rules_are_asked() {
    let temp = tempfile::tempdir().unwrap();
    let store = Store::create(temp.path().join("a"), options()).unwrap();
    store.set_admission(Some(Arc::new(Refusing)));
    let refused = |result: Result<(), Error>| match result {
        Err(Error::Refused { rule }) => rule,
        other => panic!("{other:?}"),
    };
    for (key, body, rule) in [(b"x", b"a", 5), (b"a", b"z", 6)] {
        let record = Record::new(key, body);
        assert_eq!(refused(store.put(&record).map(|_| ())), rule);
        assert_eq!(refused(store.put_if_changed(&record).map(|_| ())), rule);
        assert_eq!(refused(store.put_batch(&[Record::new(b"b", b"b"), record]).map(|_| ())), rule);
    }
    assert_eq!(refused(store.put_stream(b"x", b"", 1).map(|_| ())), 5);
    assert_eq!(store.keys().count(), 0, "nothing of a batch is stored either");
    let from = Store::create(temp.path().join("b"), options()).unwrap();
    for (key, body) in [(b"a", b"a"), (b"x", b"a"), (b"b", b"z")] {
        from.put(&Record::new(key, body)).unwrap();
    }
    let mut rules = Vec::new();
    let copied = from.copy_to(&store, CopyOptions::new(), &mut |event| {
        if let CopyEvent::Refused(_, rule) = event {
            rules.push(rule);
        }
        ControlFlow::Continue(())
    });
    let copied = copied.unwrap();
    rules.sort_unstable();
    assert_eq!((copied.versions, copied.refused, rules), (1, 2, vec![5, 6]));
    assert_eq!(store.keys().count(), 1);
    store.set_admission(None);
    store.put(&Record::new(b"x", b"z")).unwrap();
}
