//! Requests that are sent again: their answers, refusals, crashes, failures and damage.

mod crash;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use filemap_io::sim::SimDisk;

use super::options::RequestOptions;
use super::request::Verdicts;
use super::set::IdempotentSet;
use crate::disk::DiskOptions;
use crate::error::{Error, RequestRefusal, Result};
use crate::request_id::RequestId;
use crate::seen::{SeenSet, Verdict};
use crate::stored::{NewSet, StoredSet};
use crate::{BloomOptions, Whatwg};

const NEW: Option<Verdict> = Some(Verdict::New);

/// A clock that is set by hand.
#[derive(Clone, Default)]
struct Clock(Arc<AtomicU64>);

impl Clock {
    fn set(&self, now_ms: u64) {
        self.0.store(now_ms, Ordering::SeqCst);
    }

    fn options(&self) -> RequestOptions {
        let clock = Arc::clone(&self.0);
        RequestOptions::new().clock(move || clock.load(Ordering::SeqCst) as i64)
    }
}

fn disk_options() -> DiskOptions {
    DiskOptions::new().memory_bytes(32 << 10)
}

fn kinds() -> [NewSet; 4] {
    let bloom = NewSet::Bloom(BloomOptions::new(2_000, 1e-9));
    [NewSet::Disk(disk_options()), NewSet::Trie, NewSet::Growing { rate: 1e-9, seed: 0 }, bloom]
}

fn create(disk: &SimDisk, new: NewSet, options: RequestOptions) -> IdempotentSet {
    let set = StoredSet::create_in(disk.dir(), "seen", new, &Whatwg).expect("made");
    IdempotentSet::new(set, options).expect("opened")
}

fn open(disk: &SimDisk, options: RequestOptions) -> Result<IdempotentSet> {
    IdempotentSet::new(StoredSet::open_in(disk.dir(), "seen", disk_options())?, options)
}

fn url(i: u64) -> Vec<u8> {
    format!("http://h{}.example.com/page/{i}", i % 3).into_bytes()
}

/// The id of this time; one for each millisecond.
fn id(time_ms: u64) -> RequestId {
    RequestId::new(time_ms, [7; 10])
}

fn add(set: &IdempotentSet, id: Option<RequestId>, urls: &[u64]) -> Result<Verdicts> {
    let mut request = set.request(id);
    urls.iter().for_each(|i| set.push(&mut request, Some(&url(*i))));
    set.answer(&[request]).remove(0)
}

fn refused(answer: Result<Verdicts>) -> RequestRefusal {
    match answer {
        Err(Error::Request { refusal, .. }) => refusal,
        other => panic!("{other:?}"),
    }
}

fn new_count(verdicts: &Verdicts) -> usize {
    verdicts.iter().filter(|verdict| *verdict == NEW).count()
}

#[test]
fn a_request_sent_again_has_its_answers_and_another_one_finds_its_urls_seen() {
    for new in kinds() {
        let (disk, clock) = (SimDisk::new(1), Clock::default());
        clock.set(1_000);
        let set = create(&disk, new, clock.options());
        let first = add(&set, Some(id(1_000)), &[1, 2, 1]).expect("answered");
        assert_eq!(first.iter().take(2).collect::<Vec<_>>(), [NEW, NEW]);
        assert!(first.iter().nth(2).flatten().is_some_and(|again| !again.is_new()));
        assert_eq!((set.pending(), set.contains(&[url(1)]).expect("known")), (2, vec![Verdict::Seen]));
        assert_eq!(add(&set, Some(id(1_000)), &[1, 2, 1]).expect("again"), first);
        set.commit().expect("durable");
        assert_eq!(set.pending(), 0);
        assert_eq!(add(&set, Some(id(1_000)), &[1, 2, 1]).expect("again"), first);
        assert_eq!(new_count(&add(&set, Some(id(1_001)), &[2, 3]).expect("answered")), 1);
        assert_eq!(new_count(&add(&set, None, &[2, 3]).expect("answered")), 0);
        assert_eq!(refused(add(&set, Some(id(1_000)), &[1, 2])), RequestRefusal::Reused);
        set.close().expect("closed");
        let set = open(&disk, clock.options()).expect("opened");
        assert_eq!(add(&set, Some(id(1_000)), &[1, 2, 1]).expect("again"), first);
        assert_eq!((set.kept_requests(), set.set().len()), (2, 3));
    }
}

#[test]
fn of_requests_that_come_together_each_url_is_new_in_one_and_a_repeated_id_is_answered_alike() {
    let (disk, clock) = (SimDisk::new(1), Clock::default());
    let set = create(&disk, NewSet::Trie, clock.options());
    let request = |of: u64, urls: &[u64]| {
        let mut request = set.request(Some(id(of)));
        urls.iter().for_each(|i| set.push(&mut request, Some(&url(*i))));
        request
    };
    let together =
        [request(1, &[1, 2]), request(2, &[2, 3]), request(1, &[1, 2]), request(1, &[9]), request(1, &[1, 2])];
    let answers = set.answer(&together);
    let counts: Vec<Option<usize>> = answers.iter().map(|answer| answer.as_ref().ok().map(new_count)).collect();
    assert_eq!(counts, [Some(2), Some(1), Some(2), None, Some(2)]);
    assert!(matches!(answers[3], Err(Error::Request { refusal: RequestRefusal::Reused, .. })));
}

#[test]
fn what_is_no_url_has_no_verdict_and_takes_no_place_of_another() {
    let (disk, clock) = (SimDisk::new(1), Clock::default());
    for new in kinds() {
        let set = create(&disk, new, clock.options());
        let mut request = set.request(Some(id(1)));
        let long = vec![b'x'; 65_536];
        [None, Some(&b"http://a/"[..]), Some(b""), Some(&long), Some(b"http://b/")]
            .into_iter()
            .for_each(|url| set.push(&mut request, url));
        assert_eq!(request.len(), 5);
        let answers = set.answer(&[request]).remove(0).expect("answered");
        assert_eq!(answers.iter().collect::<Vec<_>>(), [None, NEW, None, None, NEW]);
        drop(set);
        disk.names().iter().for_each(|name| disk.remove(name));
    }
}

#[test]
fn an_id_that_may_have_been_answered_and_forgotten_is_refused() {
    let (disk, clock) = (SimDisk::new(1), Clock::default());
    let options = || clock.options().keep_requests(10);
    let set = create(&disk, NewSet::Disk(disk_options()), options());
    set.full_at(1_000);
    let life = |set: &IdempotentSet, times: std::ops::Range<u64>| {
        for time in times {
            clock.set(time);
            add(set, Some(id(time)), &[time]).expect("answered");
            set.commit().expect("durable");
        }
    };
    life(&set, 1..200);
    let again = |set: &IdempotentSet, time: u64| add(set, Some(id(time)), &[time]);
    for at_opening in [false, true] {
        let opened = at_opening.then(|| open(&disk.kill(), options()).expect("opened"));
        let set = opened.as_ref().unwrap_or(&set);
        let kept = set.kept_requests();
        assert!((10..60).contains(&kept), "{kept}");
        for time in 1..200 {
            match time + kept >= 200 {
                true => assert_eq!(new_count(&again(set, time).expect("kept")), 1),
                false => assert_eq!(refused(again(set, time)), RequestRefusal::Forgotten),
            }
        }
    }
    // By age, whatever files exist.
    clock.set(24 * 3_600_000 + 100);
    assert_eq!(refused(add(&set, Some(id(100)), &[1_000])), RequestRefusal::Forgotten);
    assert_eq!(refused(add(&set, Some(id(24 * 3_600_000 + 100 + 600_001)), &[1_000])), RequestRefusal::Ahead);
    assert_eq!(new_count(&again(&set, 199).expect("its answers are there, and stay")), 1);
    life(&set, 24 * 3_600_000 + 400..24 * 3_600_000 + 450);
    assert!(set.kept_requests() < 60, "{}", set.kept_requests());
    assert_eq!(refused(again(&set, 199)), RequestRefusal::Forgotten);
}

#[test]
fn files_stay_few_and_short_and_a_closed_set_needs_none_of_them() {
    let (disk, clock) = (SimDisk::new(1), Clock::default());
    let set = create(&disk, NewSet::Trie, clock.options().keep_requests(1));
    set.full_at(2_000);
    for time in 1..300 {
        clock.set(time);
        add(&set, Some(id(time)), &[time, time + 1, time + 2]).expect("answered");
        set.commit().expect("durable");
    }
    set.close().expect("closed");
    let files: Vec<String> = disk.names().into_iter().filter(|name| name.ends_with(".requests")).collect();
    let bytes: usize = files.iter().map(|name| disk.bytes(name).expect("there").len()).sum();
    assert!((1..=3).contains(&files.len()) && bytes < 4_000, "{files:?} {bytes}");
    files.iter().for_each(|name| disk.remove(name));
    let set = StoredSet::open_in(disk.dir(), "seen", disk_options()).expect("opened");
    assert_eq!(set.len(), 301);
}

#[test]
fn a_killed_set_opened_by_any_tool_has_what_was_answered() {
    for new in kinds() {
        let (disk, clock) = (SimDisk::new(1), Clock::default());
        let set = create(&disk, new.clone(), clock.options());
        add(&set, Some(id(1)), &[1, 2]).expect("answered");
        set.commit().expect("durable");
        let killed = disk.kill();
        let plain = StoredSet::open_in(killed.dir(), "seen", disk_options()).expect("opened");
        assert!([1, 2].iter().all(|i| !plain.contains(&url(*i)).expect("known").is_new()));
        // The journal does not bring back what is forgotten then.
        let can_forget = plain.forget(&[url(1)]).is_ok();
        assert_eq!(can_forget, !matches!(new, NewSet::Growing { .. }));
        if can_forget {
            plain.close().expect("closed");
            let set = open(&killed, clock.options()).expect("opened");
            assert_eq!(set.contains(&[url(1)]).expect("known"), [Verdict::New], "{new:?}");
            assert_eq!(new_count(&add(&set, Some(id(1)), &[1, 2]).expect("again")), 2);
        }
    }
}

#[test]
fn requests_to_another_set_are_refused_as_damage_and_a_new_set_is_not_made_over_them() {
    let (disk, clock) = (SimDisk::new(1), Clock::default());
    let set = create(&disk, NewSet::Disk(disk_options().seed(1)), clock.options());
    add(&set, Some(id(1)), &[1]).expect("answered");
    set.close().expect("closed");
    let requests: Vec<String> = disk.names().into_iter().filter(|name| name.ends_with(".requests")).collect();
    let taken = requests.iter().map(|name| (name.clone(), disk.bytes(name).expect("there"))).collect::<Vec<_>>();
    disk.names().iter().for_each(|name| disk.remove(name));
    let other = create(&disk, NewSet::Disk(disk_options().seed(2)), clock.options());
    other.close().expect("closed");
    taken.iter().for_each(|(name, bytes)| disk.set_bytes(name, bytes));
    let opened = open(&disk, clock.options());
    assert!(opened.as_ref().is_err_and(Error::is_corrupt), "{opened:?}");
    disk.names().iter().filter(|name| !name.ends_with(".requests")).for_each(|name| disk.remove(name));
    let made = StoredSet::create_in(disk.dir(), "seen", NewSet::Trie, &Whatwg);
    assert!(made.is_err(), "{made:?}");
}

/// An id with a time in the future is kept, and current ids are answered all the same.
#[test]
fn an_id_of_a_time_to_come_stands_in_nobodys_way() {
    let (disk, clock) = (SimDisk::new(1), Clock::default());
    let set = create(&disk, NewSet::Trie, clock.options().keep_requests(5));
    set.full_at(500);
    let ahead = 1_000 + 500_000;
    clock.set(1_000);
    let early = add(&set, Some(id(ahead)), &[9_999]).expect("answered");
    for time in 1_001..1_200 {
        clock.set(time);
        assert_eq!(new_count(&add(&set, Some(id(time)), &[time]).expect("not forgotten")), 1);
        set.commit().expect("durable");
    }
    // An id made a moment ago that arrives only now.
    assert_eq!(new_count(&add(&set, Some(RequestId::new(1_198, [9; 10])), &[7_777]).expect("not forgotten")), 1);
    assert_eq!(add(&set, Some(id(ahead)), &[9_999]).expect("kept until its time has come"), early);
    assert_eq!(refused(add(&set, Some(id(1_010)), &[1_010])), RequestRefusal::Forgotten);
}

#[test]
fn a_reader_has_what_a_server_has_answered_and_a_merge_does_not_leave_it_out() {
    for new in kinds() {
        let (disk, clock) = (SimDisk::new(1), Clock::default());
        let set = create(&disk, new.clone(), clock.options());
        add(&set, Some(id(1)), &[1, 2]).expect("answered");
        set.commit().expect("durable");
        for image in [disk.clone(), disk.kill()] {
            let reader = StoredSet::read_in(image.dir(), "seen", disk_options()).expect("opened");
            let mut verdicts = Vec::new();
            let urls = [url(1), url(2), url(3)];
            let urls: Vec<&[u8]> = urls.iter().map(Vec::as_slice).collect();
            reader.contains_batch(&urls, &mut verdicts).expect("known");
            assert_eq!(verdicts.iter().map(|one| one.is_new()).collect::<Vec<_>>(), [false, false, true], "{new:?}");
            assert!(!reader.contains(&url(2)).expect("known").is_new());
            let other = StoredSet::create_in(SimDisk::new(2).dir(), "to", new.clone(), &Whatwg).expect("made");
            // A bitmap or filter may have the URLs in its file already: then none wait.
            if matches!(new, NewSet::Trie | NewSet::Disk(_)) {
                assert_eq!(reader.waiting(), 2);
            }
            if reader.waiting() > 0 {
                let refused = other.merge(&reader).expect_err("it would leave two out").to_string();
                assert!(refused.contains("2 URLs"), "{refused}");
            }
        }
        set.close().expect("closed");
        assert_eq!(StoredSet::read_in(disk.dir(), "seen", disk_options()).expect("opened").waiting(), 0);
    }
}

#[test]
fn a_request_without_an_id_that_adds_nothing_writes_nothing() {
    for new in kinds() {
        let (disk, clock) = (SimDisk::new(1), Clock::default());
        clock.set(1_000);
        let set = create(&disk, new.clone(), clock.options());
        assert_eq!(new_count(&add(&set, None, &[1, 2]).expect("answered")), 2);
        assert!(set.is_changed(), "{new:?}");
        // They are not durable yet: a commit for the second request takes them along.
        assert_eq!(new_count(&add(&set, None, &[2, 1, 1]).expect("answered")), 0);
        set.commit().expect("durable");
        assert_eq!(new_count(&add(&set, None, &[1]).expect("answered")), 0);
        assert!(!set.is_changed(), "{new:?}");
        assert_eq!(new_count(&add(&set, None, &[1, 3]).expect("answered")), 1);
        assert!(set.is_changed(), "{new:?}");
        set.commit().expect("durable");
        let first = add(&set, Some(id(1_000)), &[1, 3]).expect("answered");
        assert!(set.is_changed() && new_count(&first) == 0, "an answer to an id is kept: {new:?}");
        set.close().expect("closed");
        let set = open(&disk, clock.options()).expect("opened");
        assert_eq!(new_count(&add(&set, None, &[1, 2, 3, 4]).expect("answered")), 1, "{new:?}");
        assert_eq!(add(&set, Some(id(1_000)), &[1, 3]).expect("answered"), first, "{new:?}");
    }
}

#[test]
fn a_request_made_for_another_set_is_refused() {
    let (disk, clock) = (SimDisk::new(1), Clock::default());
    let set = create(&disk, NewSet::Disk(disk_options()), clock.options());
    let others = [NewSet::Disk(disk_options().seed(7)), NewSet::Trie];
    for (new, seed) in others.into_iter().zip(2..) {
        let other = create(&SimDisk::new(seed), new, clock.options());
        let mut request = other.request(None);
        other.push(&mut request, Some(b"http://a/"));
        assert!(set.answer(&[request]).remove(0).is_err());
    }
}

/// Flips every bit of the journal, and cuts its files at every length.
#[test]
fn a_flipped_bit_never_changes_an_answer() {
    let (disk, clock) = (SimDisk::new(1), Clock::default());
    let set = create(&disk, NewSet::Disk(disk_options()), clock.options());
    set.full_at(300);
    let answers: Vec<Verdicts> = (1..=8)
        .map(|time| {
            let answers = add(&set, Some(id(time)), &[time, time + 1]).expect("answered");
            set.commit().expect("durable");
            answers
        })
        .collect();
    let killed = disk.kill();
    let files: Vec<String> = killed.names().into_iter().filter(|name| name.ends_with(".requests")).collect();
    assert!(files.len() > 2, "{files:?}");
    let (mut found, mut tried) = (0, 0);
    for file in &files {
        let whole = killed.bytes(file).expect("there");
        let flipped = (0..whole.len() * 8).map(|bit| {
            let mut damaged = whole.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            damaged
        });
        let cut = (0..whole.len()).map(|len| whole[..len].to_vec());
        for (number, damaged) in flipped.chain(cut).enumerate() {
            let image = killed.kill();
            image.set_bytes(file, &damaged);
            tried += 1;
            let Ok(set) = open(&image, clock.options()) else {
                found += 1;
                continue;
            };
            for (time, answers) in (1..).zip(&answers) {
                let again = add(&set, Some(id(time)), &[time, time + 1]).expect("answered");
                assert_eq!(&again, answers, "damage {number} of {file}");
            }
        }
    }
    // Only the older note and the padding of groups have no meaning.
    assert!(tried > 2_000 && found * 10 > tried * 8, "{found} of {tried}");
}
