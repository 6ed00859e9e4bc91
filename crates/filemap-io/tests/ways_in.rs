//! Files that may be opened in a store's directory, and by whom: permissions, links, other file
//! types, other owners. Nothing outside the directory is ever touched.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;
use std::time::SystemTime;

use filemap_io::system::create_dir;
use filemap_io::{Access, Dir, OsDir};

const SOMEBODY_ELSE: u32 = 54_321;

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|about| about.uid() == 0)
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Runs a test of this file in another process under a umask.
fn under_umask(umask: &str, test: &str, path: &Path) {
    let script = format!("umask {umask} && exec \"$0\" \"$@\"");
    let run = Command::new("sh")
        .args(["-c", &script])
        .arg(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .env("FILEMAP_UMASK_PATH", path)
        .output()
        .unwrap();
    assert!(run.status.success(), "umask {umask}: {}", String::from_utf8_lossy(&run.stdout));
    assert!(path.join("LOCK").exists(), "the test of the other process did not run");
}

/// Creates things under the umask of the process. A no-op unless another test starts it.
#[test]
fn the_creator() {
    let Some(path) = std::env::var_os("FILEMAP_UMASK_PATH") else { return };
    let path = Path::new(&path);
    create_dir(path).unwrap();
    let dir = OsDir::open(path).unwrap();
    dir.open("key0.dat", Access::Create).unwrap().write_at(b"x", 0).unwrap();
    let held = dir.lock("LOCK").unwrap();
    dir.open("key0.dat", Access::Write).unwrap();
    drop(held);
    dir.lock("LOCK").unwrap();
}

#[test]
fn a_directory_is_0700_and_a_file_0600_whatever_the_umask() {
    for umask in ["000", "022", "027", "077", "0277", "0777"] {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("pages.fm");
        under_umask(umask, "ways_in::the_creator", &path);
        assert_eq!(mode(&path), 0o700, "directory under umask {umask}");
        for name in ["key0.dat", "LOCK"] {
            assert_eq!(mode(&path.join(name)), 0o600, "{name} under umask {umask}");
        }
    }
}

#[test]
fn an_existing_directory_keeps_its_permissions() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    fs::create_dir(&path).unwrap();
    set_mode(&path, 0o750);
    create_dir(&path).unwrap();
    assert_eq!(mode(&path), 0o750);
}

#[test]
fn a_directory_that_everyone_may_write_to_is_refused_unless_it_is_sticky() {
    let temp = tempfile::tempdir().unwrap();
    for (mode, fine) in [(0o700, true), (0o755, true), (0o775, true), (0o777, false), (0o702, false), (0o1777, true)] {
        set_mode(temp.path(), mode);
        let opened = OsDir::open(temp.path());
        assert_eq!(opened.is_ok(), fine, "{mode:o}");
        if let Err(e) = opened {
            assert_eq!(e.kind(), ErrorKind::InvalidInput);
            assert!(e.to_string().contains("chmod o-w"), "{e}");
        }
    }
}

/// Content, modification time, mode and owner of a file.
type State = (Vec<u8>, SystemTime, u32, u32);

fn state(path: &Path) -> State {
    let about = fs::metadata(path).unwrap();
    (fs::read(path).unwrap(), about.modified().unwrap(), about.mode(), about.uid())
}

/// Puts something at `path` that is not a file of the store; `outside` is a file that it may lead
/// to.
type Plant = fn(path: &Path, outside: &Path);

const PLANTS: [(&str, Plant); 6] = [
    ("symbolic link", |path, outside| symlink(outside, path).unwrap()),
    ("symbolic link", |path, outside| symlink(outside.with_extension("absent"), path).unwrap()),
    ("hard links", |path, outside| fs::hard_link(outside, path).unwrap()),
    ("directory", |path, _| fs::create_dir(path).unwrap()),
    ("FIFO", |path, _| assert!(Command::new("mkfifo").arg(path).status().unwrap().success())),
    ("socket", |path, _| drop(UnixListener::bind(path).unwrap())),
];

#[test]
fn what_is_no_plain_file_of_the_store_is_refused_under_every_access_and_never_touched() {
    for (kind, plant) in PLANTS {
        let temp = tempfile::tempdir().unwrap();
        let outside = temp.path().join("outside");
        fs::write(&outside, "not yours").unwrap();
        let before = state(&outside);
        let inside = temp.path().join("store");
        create_dir(&inside).unwrap();
        plant(&inside.join("f"), &outside);
        let dir = OsDir::open(&inside).unwrap();
        let read = dir.open("f", Access::Read).map(drop);
        // Reading a file with other names is harmless.
        assert!(kind != "hard links" || read.is_ok());
        let refusals = [read, dir.open("f", Access::Write).map(drop), dir.lock("f").map(drop)];
        for refusal in refusals.into_iter().skip(usize::from(kind == "hard links")) {
            let e = refusal.expect_err(kind);
            assert_eq!(e.kind(), ErrorKind::InvalidInput, "{kind}");
            assert!(e.to_string().contains(kind), "{kind}: {e}");
        }
        let e = dir.open("f", Access::Create).map(drop).expect_err(kind);
        assert_eq!(e.kind(), ErrorKind::AlreadyExists, "{kind}");
        assert_eq!(state(&outside), before, "{kind}");
        assert!(!outside.with_extension("absent").exists());
    }
}

#[test]
fn a_file_that_everyone_may_write_to_is_refused() {
    let temp = tempfile::tempdir().unwrap();
    let dir = OsDir::open(temp.path()).unwrap();
    dir.open("f", Access::Create).unwrap();
    set_mode(&temp.path().join("f"), 0o644);
    dir.open("f", Access::Write).unwrap();
    set_mode(&temp.path().join("f"), 0o606);
    for access in [Access::Read, Access::Write] {
        assert!(dir.open("f", access).unwrap_err().to_string().contains("chmod o-w"));
    }
}

#[test]
fn a_file_of_another_owner_than_its_directory_is_refused() {
    if !is_root() {
        return eprintln!("skipped: only root can give files away");
    }
    let temp = tempfile::tempdir().unwrap();
    let dir = OsDir::open(temp.path()).unwrap();
    dir.open("f", Access::Create).unwrap();
    chown(temp.path().join("f"), Some(SOMEBODY_ELSE), None).unwrap();
    let refusals =
        [dir.open("f", Access::Read).map(drop), dir.open("f", Access::Write).map(drop), dir.lock("f").map(drop)];
    for refusal in refusals {
        let e = refusal.unwrap_err();
        assert!(e.to_string().contains(&SOMEBODY_ELSE.to_string()), "{e}");
    }
}

#[test]
fn another_users_store_is_read_and_not_written_by_root_either() {
    if !is_root() {
        return eprintln!("skipped: only root can give files away");
    }
    let temp = tempfile::tempdir().unwrap();
    fs::write(temp.path().join("f"), "theirs").unwrap();
    chown(temp.path().join("f"), Some(SOMEBODY_ELSE), None).unwrap();
    chown(temp.path(), Some(SOMEBODY_ELSE), None).unwrap();
    let dir = OsDir::open(temp.path()).unwrap();
    let mut text = [0; 6];
    assert_eq!(dir.open("f", Access::Read).unwrap().read_at(&mut text, 0).unwrap(), 6);
    let refusals =
        [dir.open("f", Access::Write).map(drop), dir.open("new", Access::Create).map(drop), dir.lock("LOCK").map(drop)];
    for refusal in refusals {
        assert!(refusal.unwrap_err().to_string().contains("write as its owner, or read only"));
    }
    assert_eq!(dir.list().unwrap(), ["f"]);
}

#[test]
fn a_directory_that_is_replaced_after_it_was_opened_misleads_nobody() {
    let temp = tempfile::tempdir().unwrap();
    let (path, moved) = (temp.path().join("a"), temp.path().join("b"));
    create_dir(&path).unwrap();
    let dir = OsDir::open(&path).unwrap();
    fs::rename(&path, &moved).unwrap();
    create_dir(&path).unwrap();
    dir.open("f", Access::Create).unwrap();
    assert!(moved.join("f").exists() && !path.join("f").exists());
}
