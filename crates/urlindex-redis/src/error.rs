//! The error of sets on Redis, and what to do about a failure of the client or a server: ask again
//! on a new connection, load the functions, or give up.

use std::io;

use redis::{ErrorKind, RedisError, ServerErrorKind};
use urlindex::StorageError;
use urlindex::idempotent::{RequestId, RequestRefusal};

/// The result of operations on a set.
pub type Result<T> = std::result::Result<T, Error>;

/// What can go wrong with a set on Redis.
///
/// ```
/// use urlindex_redis::{Error, RedisOptions, RedisUrlSet};
///
/// let error = RedisUrlSet::open("redis://localhost/no name", &RedisOptions::new()).unwrap_err();
/// assert!(matches!(error, Error::Location { .. }) && error.to_string().contains("redis://HOST:PORT/NAME"));
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text is no location of a set. It is not repeated where it has a password.
    #[error("{location}: {why}; a set's location is redis://HOST:PORT/NAME")]
    Location {
        /// What was given, without what is secret.
        location: String,
        /// What is wrong with it.
        why: String,
    },
    /// The servers did not answer within [`crate::RedisOptions::patience`]. Whether URLs were
    /// added is not known: asked for again by this handle, or by a request with the same id, they
    /// are answered as if for the first time.
    #[error("{location} does not answer ({op}): {why}; ask again by this handle, or with this id")]
    Unreachable {
        /// The set.
        location: String,
        /// What was asked.
        op: &'static str,
        /// The last failure.
        why: String,
    },
    /// The servers refuse it, and would again: the password, rights, memory.
    #[error("{location} refuses ({op}): {why}")]
    Refused {
        /// The set.
        location: String,
        /// What was asked.
        op: &'static str,
        /// The server's reason.
        why: String,
    },
    /// There is no set of this name. Create it.
    #[error("{location}: there is no set of this name; create it")]
    NoSet {
        /// The set.
        location: String,
    },
    /// There is a set of this name.
    #[error("{location}: there is a set of this name; open it, or choose another name")]
    Exists {
        /// The set.
        location: String,
    },
    /// What says how the set is laid out cannot be read. Without it nothing can.
    #[error("{location}: its note (key `{key}`) cannot be read: {why}")]
    Note {
        /// The set.
        location: String,
        /// The key of the note.
        key: String,
        /// The reason.
        why: String,
    },
    /// The servers would lose URLs by themselves. Set them up as docs/CLOUD.md says.
    #[error("{location} is no place for a set: {why}")]
    Unsuitable {
        /// The set.
        location: String,
        /// The setting.
        why: String,
    },
    /// An option has a value that makes no sense.
    #[error("option {name}: {why}")]
    Option {
        /// The option.
        name: &'static str,
        /// The reason.
        why: String,
    },
    /// A request is not answered. Nothing was added by it now.
    #[error("request {id}: {refusal}")]
    Request {
        /// The request's id.
        id: RequestId,
        /// The reason.
        refusal: RequestRefusal,
    },
}

impl From<Error> for urlindex::Error {
    fn from(error: Error) -> urlindex::Error {
        match error {
            Error::Request { id, refusal } => urlindex::Error::Request { id, refusal },
            Error::Option { name, why } => StorageError::option(name, why).into(),
            other => StorageError::io("a call", "Redis")(io::Error::other(other)).into(),
        }
    }
}

/// What to do about a failure of the client or the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remedy {
    /// Connect anew and ask again.
    Again,
    /// Load the functions first.
    Load,
    /// It would fail again.
    Never,
}

pub(crate) fn remedy(error: &RedisError) -> Remedy {
    match (error.kind(), error.code()) {
        (_, Some("OOM" | "WRONGTYPE" | "NOPERM" | "NOAUTH" | "WRONGPASS")) => Remedy::Never,
        (ErrorKind::AuthenticationFailed | ErrorKind::InvalidClientConfig, _) => Remedy::Never,
        (ErrorKind::UnexpectedReturnType | ErrorKind::Server(ServerErrorKind::NoPerm), _) => Remedy::Never,
        _ if error.to_string().contains("Function not found") => Remedy::Load,
        // A mistake of ours in a command, or of a server too old to know it.
        (ErrorKind::Server(ServerErrorKind::ResponseError), Some("ERR")) => Remedy::Never,
        _ => Remedy::Again,
    }
}
