//! A store over several folders, named by its location `shards:/disk1/a.fm,/disk2/b.fm`: which
//! folders those are, and upkeep, which runs on one after the other.
//!
//! Invariant: a member that fails, and a reader that closes the output, keep a verb from no other
//! member; each failure is reported, and the worst is the outcome. Only a signal leaves members
//! out, and it says so.

use std::path::{Path, PathBuf};

use filemap::sharded::{self, ShardedStore};
use filemap::{Options, PageStore, PageWrite};
use fm_cli::{Failure, Outcome, Output, interrupt, words};
use serde_json::json;

use crate::flags::Shared;

/// Returns whether a path is the location of such a store.
pub fn is_shards(path: &Path) -> bool {
    sharded::is_location(path)
}

/// The folders that a location names; `None` for another path.
pub fn members(path: &Path) -> Result<Option<Vec<PathBuf>>, Failure> {
    Ok(sharded::paths(path).transpose()?)
}

/// As [`members`], of folders that are one store, whole and in order.
pub fn checked(path: &Path) -> Result<Option<Vec<PathBuf>>, Failure> {
    let Some(members) = members(path)? else { return Ok(None) };
    ShardedStore::open_read_only(&members, Options::new())?;
    Ok(Some(members))
}

/// Returns whether anything exists at the path of a member.
pub fn is_there(path: &Path) -> bool {
    members(path).is_ok_and(|members| members.is_some_and(|members| members.iter().any(|member| member.exists())))
}

/// Refuses the location where one store is needed.
pub fn refuse(path: &Path) -> Result<(), Failure> {
    refuse_as(path, "this verb works on one store, and this is one over several folders: run it on the path of each")
}

/// Refuses the location, and says what to do instead.
pub fn refuse_as(path: &Path, words: &str) -> Result<(), Failure> {
    match sharded::paths(path) {
        None => Ok(()),
        // What it names may have a password in it: such an error does not repeat it.
        Some(members) => members.map_err(Failure::from).and_then(|_| {
            let location = path.display();
            Err(Failure::Usage(format!("{location}: {words}")))
        }),
    }
}

/// Refuses the first flag that is given and means nothing for such a store; each with the reason.
pub fn refuse_flags(path: &Path, flags: &[(&str, bool, &str)]) -> Result<(), Failure> {
    match flags.iter().find(|(_, is_given, _)| *is_given) {
        None => Ok(()),
        Some((flag, _, why)) => refuse_as(path, &format!("{flag} is for a store in one folder: {why}")),
    }
}

/// Runs a verb on each member, under its path. Whatever fails, the heading too, the others have
/// their turn. Returns the worst outcome, or the first failure once all were tried; later ones are
/// reported at once.
pub fn each(
    members: &[PathBuf],
    shared: &Shared,
    run: impl FnMut(usize, &Path) -> Result<Outcome, Failure>,
) -> Result<Outcome, Failure> {
    each_until(members, interrupt::asked, |member| head(member, shared), run)
}

/// As [`each`], until told to stop between two members; `head` names the next one.
fn each_until(
    members: &[PathBuf],
    is_asked: impl Fn() -> bool,
    head: impl Fn(&Path) -> Result<(), Failure>,
    mut run: impl FnMut(usize, &Path) -> Result<Outcome, Failure>,
) -> Result<Outcome, Failure> {
    let (mut ended, mut done) = (Ended::default(), 0);
    for (number, member) in members.iter().enumerate() {
        if is_asked() {
            let (folders, next) = (words::count(members.len() as u64, "folder"), member.display());
            let left_out = format_args!("{done} of {folders} done; {next} and those after it are left out");
            ended.add(Ok(interrupt::stopped(left_out)), member);
            break;
        }
        ended.add(head(member).map(|()| Outcome::Done), member);
        let ran = run(number, member);
        done += u64::from(matches!(&ran, Ok(outcome) if !matches!(outcome, Outcome::Interrupted(_))));
        ended.add(ran, member);
    }
    ended.end()
}

/// What members have given so far.
struct Ended {
    worst: Outcome,
    failed: Option<Failure>,
    /// The reader of the output closed it: no error if nothing else is.
    is_closed: bool,
}

impl Default for Ended {
    fn default() -> Self {
        Self { worst: Outcome::Done, failed: None, is_closed: false }
    }
}

impl Ended {
    fn add(&mut self, given: Result<Outcome, Failure>, member: &Path) {
        match given {
            Ok(outcome) => self.worst = self.worst.and(outcome),
            Err(Failure::PipeClosed) => self.is_closed = true,
            Err(failure) if self.failed.is_none() => self.failed = Some(named(failure, member)),
            Err(failure) => words::complain(named(failure, member)),
        }
    }

    /// The first failure, else the worst outcome. An interruption counts for more than a failure,
    /// which is then reported here.
    fn end(self) -> Result<Outcome, Failure> {
        match (self.failed, self.worst) {
            (Some(failure), Outcome::Interrupted(_)) => {
                words::complain(failure);
                Ok(self.worst)
            }
            (Some(failure), _) => Err(failure),
            (None, Outcome::Done) if self.is_closed => Err(Failure::PipeClosed),
            (None, worst) => Ok(worst),
        }
    }
}

/// As [`each`], of members that are open together, each by its handle: for upkeep that concerns
/// the others too. Closes them.
pub fn each_open(
    store: &ShardedStore,
    shared: &Shared,
    mut run: impl FnMut(usize, &PageStore, &Path) -> Result<Outcome, Failure>,
) -> Result<Outcome, Failure> {
    let members = store.members();
    let paths: Vec<PathBuf> = members.iter().map(|member| member.engine().path().to_owned()).collect();
    let ended = each(&paths, shared, |number, path| run(number, &members[number], path));
    Outcome::closed(ended, store.close())
}

/// The outcome of the members and of what concerns them together. A failure does not hide damage
/// that was found, and a closed pipe hides nothing.
pub fn both(each: Result<Outcome, Failure>, together: Result<Outcome, Failure>) -> Result<Outcome, Failure> {
    match (each, together) {
        (Ok(one), Ok(other)) => Ok(one.and(other)),
        (Ok(Outcome::Done), failed) => failed,
        (Ok(one), Err(Failure::PipeClosed)) => Ok(one),
        (Ok(one), Err(failure)) => {
            words::complain(failure);
            Ok(one)
        }
        (Err(closed), Ok(Outcome::Done)) => Err(closed),
        (Err(_), other) => other,
    }
}

/// Says which member comes next.
fn head(member: &Path, shared: &Shared) -> Result<(), Failure> {
    let mut out = Output::stdout(shared.flags);
    if out.is_json() {
        out.json(&json!({ "member": member.display().to_string() }))?;
    } else if shared.flags.says() {
        out.shown(member.as_os_str().as_encoded_bytes())?;
        out.line(":")?;
    }
    out.finish()
}

/// The failure with the path of its member.
fn named(failure: Failure, member: &Path) -> Failure {
    let path = member.display().to_string();
    failure.map(|words| if words.contains(&path) { words } else { format!("{path}: {words}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn such_a_location_is_never_taken_for_a_folder() {
        for location in ["shards:a,b", "Shards:/disk1/a.fm,/disk2/b.fm"] {
            let path = Path::new(location);
            assert!(is_shards(path) && !is_there(path));
            assert_eq!(members(path).expect("folders").map(|members| members.len()), Some(2));
            let refused = refuse(path);
            assert!(matches!(refused, Err(Failure::Usage(words)) if words.contains("the path of each")));
        }
        let secret = refuse(Path::new("shards:a,s3://key:5e3c7e7@bucket"));
        assert!(matches!(secret, Err(Failure::Usage(words)) if !words.contains("5e3c7e7")));
        assert!(!is_shards(Path::new("./shards:a,b")) && refuse(Path::new("pages.fm")).is_ok());
    }

    /// Runs three members, of which each gives what `run` says, until `stop` of them had a turn.
    fn three(
        stop: usize,
        head: impl Fn() -> Result<(), Failure>,
        mut run: impl FnMut(usize) -> Result<Outcome, Failure>,
    ) -> (Result<Outcome, Failure>, Vec<usize>) {
        let members = ["a.fm", "b.fm", "c.fm"].map(PathBuf::from);
        let ran = std::cell::RefCell::new(Vec::new());
        let ended = each_until(
            &members,
            || ran.borrow().len() == stop,
            |_| head(),
            |number, _| {
                ran.borrow_mut().push(number);
                run(number)
            },
        );
        (ended, ran.into_inner())
    }

    #[test]
    fn a_closed_pipe_keeps_no_member_from_its_turn_and_hides_no_failure() {
        let closed = || Err(Failure::PipeClosed);
        let (ended, ran) = three(3, closed, |_| Ok(Outcome::Done));
        assert!(matches!(ended, Err(Failure::PipeClosed)) && ran == [0, 1, 2]);
        let (ended, ran) = three(3, closed, |number| Ok(if number == 0 { Outcome::Damaged } else { Outcome::Done }));
        assert!(matches!(ended, Ok(Outcome::Damaged)) && ran == [0, 1, 2]);
        let fails = |number: usize| match number {
            0 => Err(Failure::Io("no disk".to_owned())),
            _ => Err(Failure::PipeClosed),
        };
        let (ended, ran) = three(3, closed, fails);
        assert!(matches!(ended, Err(Failure::Io(words)) if words == "a.fm: no disk") && ran == [0, 1, 2]);
    }

    #[test]
    fn an_interruption_between_members_is_the_outcome_whatever_came_before() {
        let head = || Ok(());
        for stop in [0, 1, 2] {
            let (ended, ran) = three(stop, head, |_| Ok(Outcome::Done));
            assert!(matches!(ended, Ok(Outcome::Interrupted(_))) && ran.len() == stop, "{stop}");
            let (ended, _) = three(stop, head, |_| Err(Failure::Damage("gone".to_owned())));
            assert!(matches!(ended, Ok(Outcome::Interrupted(_))), "{stop}");
        }
        let (ended, ran) = three(3, head, |_| Ok(Outcome::Done));
        assert!(matches!(ended, Ok(Outcome::Done)) && ran == [0, 1, 2], "all had their turn");
    }

    #[test]
    fn a_failure_hides_no_damage_and_a_closed_pipe_hides_nothing() {
        let io = || Err(Failure::Io("no disk".to_owned()));
        let pipe = || Err(Failure::PipeClosed);
        assert!(matches!(both(Ok(Outcome::Damaged), io()), Ok(Outcome::Damaged)));
        assert!(matches!(both(Ok(Outcome::Done), io()), Err(Failure::Io(_))));
        assert!(matches!(both(pipe(), io()), Err(Failure::Io(_))));
        assert!(matches!(both(pipe(), Ok(Outcome::Damaged)), Ok(Outcome::Damaged)));
        assert!(matches!(both(Ok(Outcome::Damaged), pipe()), Ok(Outcome::Damaged)));
        assert!(matches!(both(pipe(), Ok(Outcome::Done)), Err(Failure::PipeClosed)));
    }
}
