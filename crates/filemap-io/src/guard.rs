//! Permission and type checks of folders and files when they are opened.
//!
//! A name in a store's directory may have been planted by somebody else: a link out of the
//! directory, a FIFO that would block the opening, a device that acts when opened, a file that
//! another user can change later. So the name is checked before it is opened (the wrong kind of
//! file is never opened), and the open file is checked again, in case it was swapped in between.
//! The rules:
//!
//! - the directory is not writable by everyone, unless it is sticky as `/tmp` is. It may be
//!   writable by a group, whose members an administrator chose (user-private groups rely on that);
//! - a file is regular, belongs to the owner of the directory and is not writable by everyone; a
//!   file opened for writing has one name;
//! - a writer owns the directory. Root is not an exception: the owner could not open what root
//!   creates. Readers may be anyone whom the permissions let in.

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

/// Checks an open directory and returns its owner.
pub(crate) fn directory(about: &Metadata) -> io::Result<u32> {
    let mode = about.mode() & PERMISSIONS;
    if mode & EVERYONE_WRITES != 0 && mode & STICKY == 0 {
        let advice = "remove that permission (chmod o-w), or keep the store elsewhere";
        return Err(refuse(format!("everyone may write to this directory (mode {mode:04o}); {advice}")));
    }
    Ok(about.uid())
}

/// Refuses writing to a directory of another user.
pub(crate) fn writer(owner: u32) -> io::Result<()> {
    let user = rustix::process::geteuid().as_raw();
    if user != owner {
        return Err(refuse(format!(
            "the store belongs to user {owner}, and this process runs as user {user}; write as its owner, or read only"
        )));
    }
    Ok(())
}

/// Checks the type of a file by its name, without opening it.
pub(crate) fn name(found: &Stat) -> io::Result<()> {
    let kind = match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => return Ok(()),
        FileType::Symlink => "a symbolic link",
        FileType::Directory => "a directory",
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        _ => "a device",
    };
    Err(refuse(format!("it is {kind}, not a regular file of the store; move it away")))
}

/// Checks an open file.
pub(crate) fn open_file(about: &Metadata, owner: u32, writes: bool) -> io::Result<()> {
    if !about.is_file() {
        return Err(refuse("not a regular file".to_owned()));
    }
    let (mode, links, user) = (about.mode() & PERMISSIONS, about.nlink(), about.uid());
    // 0 links: the file was removed while it was being opened. Extra links are harmless for
    // reading, and snapshots made of hard links must stay readable.
    if links > 1 && writes {
        return Err(refuse(format!(
            "it has {links} hard links, so it can be changed from elsewhere; replace it by a copy"
        )));
    }
    if user != owner {
        return Err(refuse(format!(
            "it belongs to user {user}, and the store to user {owner}; check who put it there"
        )));
    }
    if mode & EVERYONE_WRITES != 0 {
        return Err(refuse(format!("everyone may write to it (mode {mode:04o}); remove that permission (chmod o-w)")));
    }
    Ok(())
}
