//! Rust errors as Python exceptions. The classes are in `filemap._errors`, since most derive from
//! two classes.

use std::io;

use filemap::Error;
use filemap_core::{Error as EngineError, StorageError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();

/// A failure that is not an exception yet. Created without the interpreter.
#[derive(Debug)]
pub enum Failure {
    Pages(Error),
    Seen(urlindex::Error),
    Refused { url: String, rule: u32 },
    Python(PyErr),
}

impl Failure {
    /// A page that could not be put.
    pub fn putting(url: &[u8], error: Error) -> Failure {
        match error {
            Error::Engine(EngineError::Refused { rule }) => {
                Failure::Refused { url: String::from_utf8_lossy(url).into_owned(), rule }
            }
            error => Failure::Pages(error),
        }
    }

    /// A body that could not be read to its end.
    pub fn reading(url: &[u8], error: io::Error) -> Failure {
        match error.downcast::<EngineError>() {
            Ok(error) => Failure::Pages(error.into()),
            Err(source) => {
                let what = String::from_utf8_lossy(url).into_owned();
                Failure::Pages(Error::Read { what, offset: 0, source })
            }
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Pages(error)
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Failure {
        Failure::Pages(error.into())
    }
}

impl From<urlindex::Error> for Failure {
    fn from(error: urlindex::Error) -> Failure {
        Failure::Seen(error)
    }
}

impl From<PyErr> for Failure {
    fn from(error: PyErr) -> Failure {
        Failure::Python(error)
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> PyErr {
        match failure {
            Failure::Python(error) => error,
            Failure::Pages(error) => of_pages(&error),
            Failure::Seen(error) => of_seen(&error),
            Failure::Refused { url, rule } => {
                let said = format!(
                    "{url}: erased, and rule {rule} of the store refuses it; `fm-tool erase STORE --list` says why, \
                     `--lift {rule}` lifts the rule"
                );
                with(make("RefusedError", said), "rule", rule)
            }
        }
    }
}

fn of_pages(error: &Error) -> PyErr {
    let said = error.to_string();
    match error {
        Error::Engine(engine) => of_engine(engine, said),
        Error::Unreadable { source, .. } | Error::LostOriginal { source, .. } => {
            let (file, offset) = place(source);
            corrupt(said, file, offset)
        }
        Error::Meta { .. } => corrupt(said, None, None),
        Error::Url { .. } => make("InvalidUrlError", said),
        Error::Remote { is_damage: true, .. } => corrupt(said, None, None),
        // For example an invalid URL: the server's message says so.
        Error::Remote { is_of_one_page: true, .. } => invalid(said),
        Error::Remote { .. } => make("RemoteError", said),
        Error::Read { source, .. } | Error::Spool { source, .. } | Error::Write(source) => io_error(source, said),
        Error::Variant { .. } | Error::HeadersTooLarge { .. } | Error::Cursor { .. } => invalid(said),
        // A rule without a number is the caller's own.
        Error::Rule { id: 0, what } => invalid(what.clone()),
        _ => make("FileMapError", said),
    }
}

/// A crawl that cannot begin or continue.
pub fn of_crawl(error: &crawl::Error) -> PyErr {
    let said = error.to_string();
    match error {
        crawl::Error::Usage(_) | crawl::Error::Rules { .. } => invalid(said),
        crawl::Error::Store(error) => of_pages(error),
        crawl::Error::Set(error) => of_seen(error),
        crawl::Error::Files { source, .. } => of_storage(source, said),
        crawl::Error::Io { source, .. } => io_error(source, said),
        error if error.is_locked() => make_os("LockedError", 11, said),
        error if error.is_damage() => corrupt(said, None, None),
        _ => make("FileMapError", said),
    }
}

fn of_engine(error: &EngineError, said: String) -> PyErr {
    match error {
        EngineError::Storage(storage) => of_storage(storage, said),
        EngineError::NotAStore { .. } => make("NotAStoreError", said),
        EngineError::NotEmpty { .. } => make("StoreExistsError", said),
        EngineError::KeyLength { .. } | EngineError::MetaTooLarge { .. } | EngineError::ValueTooLarge { .. } => {
            invalid(said)
        }
        EngineError::NoSpace { .. } => io_error(&io::Error::from_raw_os_error(28), said),
        EngineError::Refused { rule } => with(make("RefusedError", said), "rule", *rule),
        EngineError::Outrun { .. } => make("OutrunError", said),
        EngineError::ReadOnly => make("ReadOnlyError", said),
        EngineError::Closed => closed(),
        EngineError::Source(source) => io_error(source, said),
        _ => make("FileMapError", said),
    }
}

fn of_storage(error: &StorageError, said: String) -> PyErr {
    match error {
        StorageError::Io { source, .. } => io_error(source, said),
        StorageError::Corrupt { file, offset, .. } => corrupt(said, Some(file.clone()), Some(*offset)),
        StorageError::Locked { pid, .. } => with(make_os("LockedError", 11, said), "pid", *pid),
        StorageError::InvalidOption { .. } => invalid(said),
        _ => make("FileMapError", said),
    }
}

fn of_seen(error: &urlindex::Error) -> PyErr {
    let said = error.to_string();
    match error {
        urlindex::Error::Storage(StorageError::Io { source, .. }) if source.kind() == io::ErrorKind::AlreadyExists => {
            make("StoreExistsError", said)
        }
        urlindex::Error::Storage(StorageError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            make("NotAStoreError", said)
        }
        urlindex::Error::Storage(storage) => of_storage(storage, said),
        urlindex::Error::NotASet { .. } => make("NotAStoreError", said),
        urlindex::Error::ReadOnly { .. } => make("ReadOnlyError", said),
        urlindex::Error::UrlLength { .. } => invalid(said),
        _ => make("FileMapError", said),
    }
}

/// The file and offset of damage.
fn place(error: &Error) -> (Option<String>, Option<u64>) {
    match error {
        Error::Unreadable { source, .. } | Error::LostOriginal { source, .. } => place(source),
        Error::Engine(EngineError::Storage(StorageError::Corrupt { file, offset, .. })) => {
            (Some(file.clone()), Some(*offset))
        }
        _ => (None, None),
    }
}

/// Damage.
pub fn corrupt(said: String, file: Option<String>, offset: Option<u64>) -> PyErr {
    with(with(make("CorruptError", said), "file", file), "offset", offset)
}

/// The store, or the iterator's store, is closed.
pub fn closed() -> PyErr {
    make("ClosedError", "the store is closed".to_owned())
}

/// The handle was opened before a `fork`, by the parent process.
pub fn forked() -> PyErr {
    make(
        "ForkedError",
        "this handle was opened before a fork, and only the parent process may use it: open the store again in the child"
            .to_owned(),
    )
}

/// An argument has an invalid value.
pub fn invalid(said: impl Into<String>) -> PyErr {
    make("InvalidValueError", said.into())
}

/// An exception of `filemap._errors` with a message.
pub fn make(class: &str, said: String) -> PyErr {
    Python::attach(|py| match class_of(py, class) {
        Ok(class) => PyErr::from_type(class, (said,)),
        Err(error) => error,
    })
}

/// A failed system call, with its error number.
pub fn io_error(error: &io::Error, said: String) -> PyErr {
    make_os("StoreIOError", error.raw_os_error().unwrap_or(5), said)
}

fn make_os(class: &str, errno: i32, said: String) -> PyErr {
    Python::attach(|py| match class_of(py, class) {
        Ok(class) => PyErr::from_type(class, (errno, said)),
        Err(error) => error,
    })
}

/// An error in the middle of many items, with the results so far as `done`.
pub fn with_done<'py>(error: PyErr, py: Python<'py>, done: impl IntoPyObject<'py>) -> PyErr {
    // If the attribute cannot be set, the exception is returned without it.
    let _ = error.value(py).setattr("done", done);
    error
}

fn with<T: for<'py> IntoPyObject<'py>>(error: PyErr, name: &str, value: T) -> PyErr {
    Python::attach(|py| match error.value(py).setattr(name, value) {
        Ok(()) => error,
        Err(other) => other,
    })
}

fn class_of<'py>(py: Python<'py>, class: &str) -> PyResult<Bound<'py, PyType>> {
    let module = MODULE.get_or_try_init(py, || py.import("filemap._errors").map(Bound::unbind))?;
    Ok(module.bind(py).getattr(class)?.cast_into()?)
}
