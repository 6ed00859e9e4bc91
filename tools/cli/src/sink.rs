//! Checks where output may go: never through a symbolic link, which somebody else may have made,
//! nor into a store's folder.
//!
//! Links below `/dev` and in `/proc/self/fd` are the system's own (`/dev/stdout`) and are
//! followed, except in a folder that everybody may write to, such as `/dev/shm`.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::outcome::Failure;

/// The permission bit by which everybody may write to a folder.
const OTHERS_WRITE: u32 = 0o002;

/// Refuses a path whose last component is a symbolic link, whatever its target.
pub fn refuse_link(path: &Path) -> Result<(), Failure> {
    check_link(path).map_err(|error| Failure::io("write to", path, &error))
}

fn check_link(path: &Path) -> io::Result<()> {
    // Without a slash or dot at the end, which would follow the link.
    let path: &Path = &path.components().collect::<PathBuf>();
    let is_link = fs::symlink_metadata(path).is_ok_and(|about| about.is_symlink());
    if !is_link || is_of_the_system(path) {
        return Ok(());
    }
    let leads = fs::read_link(path).unwrap_or_default();
    let leads = leads.display();
    Err(io::Error::other(format!("it is a symbolic link to {leads}; output does not follow links: give the target")))
}

/// Refuses a folder that is a store's, or lies in one.
pub fn refuse_store(folder: &Path) -> Result<(), Failure> {
    // A link may lead into a store, even one above a folder that does not exist yet.
    let absolute = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let real = absolute.ancestors().find_map(|there| there.canonicalize().ok()).unwrap_or(absolute);
    if real.ancestors().any(|folder| folder.join("SUPERBLOCK").exists()) {
        let what = format!("{} lies in a store, whose files are its own; write elsewhere", folder.display());
        return Err(Failure::Io(what));
    }
    Ok(())
}

/// Refuses a new folder at `path` that would lie in a store or behind a link.
pub fn check_new_folder(path: &Path) -> Result<(), Failure> {
    refuse_store(folder_of(path))?;
    refuse_link(path)
}

/// The folder that `path` lies in; the current one for a bare name.
pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Opens a path for writing with these options, never through a link.
///
/// # Errors
/// A link; the system's error.
pub fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    check_link(path)?;
    if !is_of_the_system(path) {
        options.custom_flags(OFlags::NOFOLLOW.bits() as i32);
    }
    options.open(path)
}

/// Creates a temporary file that will replace another; removes one left by a crash.
///
/// # Errors
/// The system's error.
pub fn create_anew(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    OpenOptions::new().write(true).create_new(true).open(path)
}

/// Returns whether links at this path are the system's own.
fn is_of_the_system(path: &Path) -> bool {
    let Ok(folder) = folder_of(path).canonicalize() else { return false };
    let is_open_to_all = || fs::metadata(&folder).is_ok_and(|about| about.permissions().mode() & OTHERS_WRITE != 0);
    let descriptors = Path::new("/proc/self/fd").canonicalize();
    descriptors.is_ok_and(|descriptors| descriptors == folder) || folder.starts_with("/dev") && !is_open_to_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_are_refused_wherever_they_lead_but_those_of_the_system() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path();
        let (file, link, nowhere) = (folder.join("file"), folder.join("link"), folder.join("nowhere"));
        fs::write(&file, "x").unwrap();
        symlink(&file, &link).unwrap();
        symlink(folder.join("absent"), &nowhere).unwrap();
        for path in [&link, &nowhere] {
            assert!(refuse_link(path).unwrap_err().to_string().contains("symbolic link"));
            assert!(open(path, OpenOptions::new().write(true).create(true)).is_err());
        }
        let (inner, into) = (folder.join("folder"), folder.join("into"));
        fs::create_dir(&inner).unwrap();
        symlink(&inner, &into).unwrap();
        for end in ["", "/", "/.", "//"] {
            let path = format!("{}{end}", into.display());
            assert!(refuse_link(Path::new(&path)).is_err(), "{path}");
            assert!(refuse_link(Path::new(&format!("{}{end}", inner.display()))).is_ok());
        }
        assert!(!folder.join("absent").exists() && fs::read(&file).unwrap() == b"x");
        for path in
            [&file, &folder.join("new"), Path::new("/dev/stdout"), Path::new("/dev/null"), Path::new("/proc/self/fd/1")]
        {
            assert!(refuse_link(path).is_ok(), "{}", path.display());
        }
        assert!(open(Path::new("/dev/null"), OpenOptions::new().write(true)).is_ok());
        fs::remove_file(&link).unwrap();
        symlink("/dev/null", &link).unwrap();
        assert!(refuse_link(&link).is_err(), "a link elsewhere to a device is one");
    }
}
