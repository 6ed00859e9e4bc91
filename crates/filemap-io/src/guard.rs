//! Permission and type checks of folders and files when they are opened.
//!
//! A name in a store's directory may have been planted by somebody else: a link that leads out of
//! it, a FIFO that would hang an opening, a device that acts when it is opened, a file that
//! another user can change later. So a name is judged before it is opened (the wrong kind of thing
//! is never opened at all) and the open file is judged again (nothing can have been put in its
//! place meanwhile). The rules:
//!
//! - the directory may not be writable by everyone, unless it is sticky as `/tmp` is. A group may:
//!   an administrator said who is in it (user-private groups rely on that);
//! - a file is regular, belongs to the owner of the directory and is not writable by everyone; one
//!   that is written has one name;
//! - whoever writes owns the directory. Root is no exception: what it would create, the owner
//!   could not open. Readers may be anyone to whom the permissions give access.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;

use rustix::fs::{FileType, Stat};

const EVERYONE_WRITES: u32 = 0o002;
const STICKY: u32 = 0o1000;
const PERMISSIONS: u32 = 0o7777;

fn refuse(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

/// Judges an open directory; its owner.
pub(crate) fn directory(about: &Metadata) -> io::Result<u32> {
    let mode = about.mode() & PERMISSIONS;
    if mode & EVERYONE_WRITES != 0 && mode & STICKY == 0 {
        let advice = "take that right away (chmod o-w), or keep the store elsewhere";
        return Err(refuse(format!("everyone may write to this directory (mode {mode:04o}); {advice}")));
    }
    Ok(about.uid())
}

/// Whether this process may write to a directory of `owner`.
pub(crate) fn writer(owner: u32) -> io::Result<()> {
    let user = rustix::process::geteuid().as_raw();
    if user != owner {
        return Err(refuse(format!(
            "the store belongs to user {owner}, and this process runs as user {user}; write as its owner, or read only"
        )));
    }
    Ok(())
}

/// Judges what kind of thing stands under a name, without opening it.
pub(crate) fn name(found: &Stat) -> io::Result<()> {
    let kind = match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => return Ok(()),
        FileType::Symlink => "a symbolic link",
        FileType::Directory => "a directory",
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        _ => "a device",
    };
    Err(refuse(format!("it is {kind}, not a regular file, and none of the store's; move it away")))
}

/// Judges an open file.
pub(crate) fn open_file(about: &Metadata, owner: u32, writes: bool) -> io::Result<()> {
    if !about.is_file() {
        return Err(refuse("not a regular file".to_owned()));
    }
    let (mode, links, user) = (about.mode() & PERMISSIONS, about.nlink(), about.uid());
    // None at all: it was removed while it was being opened. Reading harms nobody, and a snapshot
    // of hard links is read.
    if links > 1 && writes {
        return Err(refuse(format!(
            "it has {links} hard links, so that it can be changed from elsewhere; put a copy of its own in its place"
        )));
    }
    if user != owner {
        return Err(refuse(format!("it belongs to user {user}, and the store to user {owner}; see who put it there")));
    }
    if mode & EVERYONE_WRITES != 0 {
        return Err(refuse(format!("everyone may write to it (mode {mode:04o}); take that right away (chmod o-w)")));
    }
    Ok(())
}
