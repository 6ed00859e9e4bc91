//! Power losses at any moment, kills, and calls that fail: no answer changes, no URL is lost.

use std::collections::BTreeSet;
use std::sync::Mutex;

use filemap_io::sim::{Failure, Fault, Level, Loss};

use super::*;
use crate::journal::{Failpoint, plant};

/// Result of a check; the error describes what is wrong.
type Judged<T> = std::result::Result<T, String>;

const URLS: u64 = 120;
const KEPT: u64 = 8;

/// A request as its client knows it.
#[derive(Clone, Debug)]
struct Sent {
    time_ms: u64,
    urls: Vec<u64>,
    /// The answers that it got.
    told: Option<Verdicts>,
    /// True if they were durable.
    is_durable: bool,
}

impl Sent {
    /// URLs that these answers make it fetch.
    fn new_of<'a>(&'a self, answers: &'a Verdicts) -> impl Iterator<Item = u64> + 'a {
        self.urls.iter().zip(answers.iter()).filter(|(_, verdict)| *verdict == NEW).map(|(url, _)| *url)
    }
}

/// Describes what is wrong with a set that a crash left, for clients that send again whatever was
/// not answered durably.
fn judge(sent: &[Sent], disk: &SimDisk, clock: &Clock) -> Judged<()> {
    let set = open(disk, clock.options().keep_requests(KEPT)).map_err(|error| format!("does not open: {error}"))?;
    for sent in sent.iter().filter(|sent| sent.is_durable) {
        let urls: Vec<Vec<u8>> = sent.urls.iter().map(|i| url(*i)).collect();
        let there = set.contains(&urls).map_err(|error| format!("does not answer: {error}"))?;
        if there.iter().any(|verdict| verdict.is_new()) {
            return Err(format!("{sent:?} was durable and its URLs are {there:?}"));
        }
    }
    let mut fetched: BTreeSet<u64> = BTreeSet::new();
    for sent in sent {
        fetched.extend(sent.told.iter().flat_map(|told| sent.new_of(told)));
    }
    for (i, one) in sent.iter().enumerate() {
        let is_recent = i + KEPT as usize >= sent.len();
        let again = add(&set, Some(id(one.time_ms)), &one.urls);
        match (&again, &one.told) {
            (Ok(again), Some(told)) if one.is_durable && again != told => {
                return Err(format!("{one:?} is answered anew: {:?}", again.iter().collect::<Vec<_>>()));
            }
            (Ok(again), _) => fetched.extend(one.new_of(again)),
            (Err(Error::Request { refusal: RequestRefusal::Forgotten, .. }), Some(_))
                if one.is_durable && !is_recent => {}
            (Err(error), _) => return Err(format!("{one:?}: {error}")),
        }
        set.commit().map_err(|error| format!("does not sync: {error}"))?;
    }
    let all: BTreeSet<u64> = sent.iter().flat_map(|sent| sent.urls.iter().copied()).collect();
    let lost: Vec<&u64> = all.difference(&fetched).collect();
    match lost.is_empty() {
        true => Ok(()),
        false => Err(format!("nobody was told to fetch {lost:?}")),
    }
}

/// Sends requests of one client until a call fails; `sent` is what the client knows then.
fn requests(
    set: &IdempotentSet,
    clock: &Clock,
    rng: &mut fastrand::Rng,
    sent: &Mutex<Vec<Sent>>,
    count: u64,
) -> Result<()> {
    for time_ms in 1..=count {
        clock.set(time_ms);
        let (from, len) = (rng.u64(..URLS), rng.u64(1..8));
        let urls: Vec<u64> = (from..from + len).collect();
        let known = |change: &dyn Fn(&mut Sent)| {
            let mut sent = sent.lock().expect("one thread");
            change(sent.last_mut().expect("sent"));
        };
        let one = Sent { time_ms, urls: urls.clone(), told: None, is_durable: false };
        sent.lock().expect("one thread").push(one);
        let told = add(set, Some(id(time_ms)), &urls)?;
        // Some answers reach the client at once, some when they are durable.
        let is_early = rng.bool();
        if is_early {
            known(&|sent| sent.told = Some(told.clone()));
        }
        if !is_early || rng.u8(..3) == 0 {
            set.commit()?;
            known(&|sent| sent.told = Some(told.clone()));
            sent.lock().expect("one thread").iter_mut().for_each(|sent| sent.is_durable = sent.told.is_some());
        }
    }
    Ok(())
}

/// Runs a set, with crashes at many moments; the error is the first thing that one of them broke.
fn live(seed: u64, new: NewSet) -> Judged<u64> {
    let (disk, clock) = (SimDisk::new(seed), Clock::default());
    let mut rng = fastrand::Rng::with_seed(seed);
    let set = create(&disk, new, clock.options().keep_requests(KEPT));
    set.full_at(rng.u64(200..1_500));
    let sent: Arc<Mutex<Vec<Sent>>> = Arc::default();
    let broken = Arc::new(Mutex::new((None, 0u64)));
    let (sent_then, broken_then, clock_then, mut chance) =
        (Arc::clone(&sent), Arc::clone(&broken), clock.clone(), rng.fork());
    disk.observe(Some(Box::new(move |snapshot| {
        let mut broken = broken_then.lock().expect("one thread");
        if broken.0.is_some() || chance.u8(..3) > 0 {
            return;
        }
        let level = if chance.bool() { Level::Adversarial } else { Level::Ordered };
        let (loss, number) = (Loss::ALL[chance.usize(..4)], chance.u64(..));
        let image = if chance.u8(..5) == 0 { snapshot.kill() } else { snapshot.crash(level, loss, number) };
        let judged = judge(&sent_then.lock().expect("one thread"), &image, &clock_then);
        broken.1 += 1;
        broken.0 =
            judged.err().map(|what| format!("seed {seed}, call {}, {level:?} {loss:?}: {what}", snapshot.calls()));
    })));
    requests(&set, &clock, &mut rng, &sent, 40).expect("nothing fails here");
    set.close().expect("closed");
    disk.observe(None);
    let (broken, images) = std::mem::take(&mut *broken.lock().expect("one thread"));
    broken.map_or(Ok(images), Err)
}

#[test]
fn no_answer_changes_and_no_url_is_lost_whenever_the_power_fails() {
    let mut images = 0;
    for seed in 0..12 {
        for new in kinds() {
            images += live(seed, new).unwrap_or_else(|what| panic!("{what}"));
        }
    }
    assert!(images > 1_500, "{images}");
}

#[test]
fn planted_mistakes_are_found() {
    let mistakes = [
        Failpoint::AnswersNotSynced,
        Failpoint::SetBeforeAnswers,
        Failpoint::StrippedFirst,
        Failpoint::AnsweredAnew,
        Failpoint::ForgottenUnnoted,
    ];
    for mistake in mistakes {
        plant(Some(mistake));
        let found = (100..160).find_map(|seed| live(seed, kinds()[seed as usize % 2].clone()).err());
        plant(None);
        assert!(found.is_some(), "{mistake:?} was not found");
    }
    plant(Some(Failpoint::RecoveredUnsynced));
    let found = (0..40).find_map(|seed| live_through_recovery(seed, kinds()[seed as usize % 2].clone()).err());
    plant(None);
    assert!(found.is_some(), "what is recovered was not synced, and nothing was lost");
}

/// Runs a set until it is killed or a sync fails, and opens it again; the power fails during that.
fn live_through_recovery(seed: u64, new: NewSet) -> Judged<u64> {
    let (disk, clock) = (SimDisk::new(seed), Clock::default());
    let mut rng = fastrand::Rng::with_seed(seed);
    let set = create(&disk, new, clock.options().keep_requests(KEPT));
    set.full_at(rng.u64(200..1_500));
    let sent = Mutex::new(Vec::new());
    if rng.bool() {
        let at = disk.calls() + rng.u64(1..60);
        disk.fail(Some(Failure { at, fault: Fault::Eio, only_syncs: true, forever: false }));
    }
    let _ = requests(&set, &clock, &mut rng, &sent, 1 + seed % 12);
    disk.heal();
    // One more request, neither answered to the client nor synced.
    let last = Sent { time_ms: 500, urls: vec![URLS + 50, URLS + 51], told: None, is_durable: false };
    clock.set(last.time_ms);
    let _ = add(&set, Some(id(last.time_ms)), &last.urls);
    sent.lock().expect("one thread").push(last);
    // As if the process were killed: the set is not closed.
    std::mem::forget(set);
    let killed = disk.kill();
    let sent = sent.into_inner().expect("one thread");
    let broken = Arc::new(Mutex::new((None, 0u64)));
    let (broken_then, clock_then, sent_then) = (Arc::clone(&broken), clock.clone(), sent.clone());
    killed.observe(Some(Box::new(move |snapshot| {
        let mut broken = broken_then.lock().expect("one thread");
        for (number, loss) in (0..).zip(Loss::ALL) {
            let image = snapshot.crash(Level::Adversarial, loss, snapshot.calls() * 8 + number);
            broken.1 += 1;
            let judged = judge(&sent_then, &image, &clock_then).err();
            let judged = judged.map(|what| format!("seed {seed}, call {} {loss:?}: {what}", snapshot.calls()));
            broken.0 = broken.0.take().or(judged);
        }
    })));
    let opened = open(&killed, clock.options().keep_requests(KEPT)).map(drop);
    killed.observe(None);
    let (broken, images) = std::mem::take(&mut *broken.lock().expect("one thread"));
    opened.map_err(|error| format!("seed {seed}: does not open: {error}"))?;
    broken.map_or(Ok(images), Err)
}

#[test]
fn a_power_loss_while_a_killed_set_is_opened_loses_no_url_and_no_answer() {
    let mut images = 0;
    for seed in 0..40 {
        for new in kinds() {
            images += live_through_recovery(seed, new).unwrap_or_else(|what| panic!("{what}"));
        }
    }
    assert!(images > 1_000, "{images}");
}

/// Runs a set in which call `at` fails; returns whether it did.
fn live_with_failure(at: u64, fault: Fault, forever: bool, new: NewSet) -> Judged<bool> {
    let (disk, clock) = (SimDisk::new(at), Clock::default());
    let set = create(&disk, new, clock.options().keep_requests(KEPT));
    set.full_at(600);
    disk.fail(Some(Failure { at: disk.calls() + at, fault, only_syncs: false, forever }));
    let sent = Mutex::new(Vec::new());
    let mut rng = fastrand::Rng::with_seed(at);
    let done = requests(&set, &clock, &mut rng, &sent, 25);
    let sent = sent.into_inner().expect("one thread");
    let has_failed = disk.failed() > 0;
    disk.heal();
    if done.is_err() && !forever {
        // It continues or reports that it cannot; either way it does not lie.
        let retried = sent.last().map(|last| add(&set, Some(id(last.time_ms)), &last.urls));
        if let Some(Err(error)) = retried {
            assert!(!matches!(error, Error::Request { .. }), "{error}");
        }
    }
    drop(set);
    for (number, loss) in (0..).zip(Loss::ALL) {
        let image = disk.crash(Level::Adversarial, loss, number);
        judge(&sent, &image, &clock).map_err(|what| format!("call {at}, {fault:?} {forever}: {what}"))?;
    }
    judge(&sent, &disk, &clock).map_err(|what| format!("call {at}, {fault:?} {forever}, no crash: {what}"))?;
    Ok(has_failed)
}

#[test]
fn a_call_that_fails_loses_no_url_and_changes_no_answer() {
    let mut failed = 0;
    for new in kinds() {
        for fault in [Fault::Eio, Fault::Enospc, Fault::ShortWrite] {
            // Half of a sector is overwritten then, where these two have durable URLs: no system
            // does that.
            if fault == Fault::ShortWrite && matches!(new, NewSet::Disk(_) | NewSet::Bloom(_)) {
                continue;
            }
            for forever in [false, true] {
                for at in (1..220).step_by(8) {
                    let has = live_with_failure(at, fault, forever, new.clone());
                    failed += u64::from(has.unwrap_or_else(|what| panic!("{what}")));
                }
            }
        }
    }
    assert!(failed > 200, "{failed}");
}
