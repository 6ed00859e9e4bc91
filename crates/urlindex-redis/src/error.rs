//! The error of sets on Redis, and the remedy for a failure of the client or a server: retry on a
//! new connection, load the functions, or give up.

use std::io;

use redis::{ErrorKind, RedisError, ServerErrorKind};
use urlindex::StorageError;
use urlindex::idempotent::{RequestId, RequestRefusal};

/// The result of operations on a set.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a set on Redis.
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
    /// The text is not the location of a set. It is shown without any password.
    #[error("{location}: {why}; a set's location is redis://HOST:PORT/NAME")]
    Location {
        /// The text given, without secrets.
        location: String,
        /// The reason.
        why: String,
    },
    /// The servers did not answer within [`crate::RedisOptions::patience`]. URLs may have been
    /// added or not: if this handle, or a request with the same id, asks for them again, they are
    /// answered as if for the first time.
    #[error("{location} does not answer ({op}): {why}; ask again with this handle, or with this id")]
    Unreachable {
        /// The set.
        location: String,
        /// The operation.
        op: &'static str,
        /// The last failure.
        why: String,
    },
    /// The servers refuse the operation, and would again: the password, rights, memory.
    #[error("{location} refuses ({op}): {why}")]
    Refused {
        /// The set.
        location: String,
        /// The operation.
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
    /// A set of this name exists already.
    #[error("{location}: there is a set of this name; open it, or choose another name")]
    Exists {
        /// The set.
        location: String,
    },
    /// The note with the set's layout cannot be read. Without it the set is unreadable.
    #[error("{location}: its note (key `{key}`) cannot be read: {why}")]
    Note {
        /// The set.
        location: String,
        /// The key of the note.
        key: String,
        /// The reason.
        why: String,
    },
    /// The servers' settings let them drop URLs. Set them up as docs/CLOUD.md says.
    #[error("{location} is not suitable for a set: {why}")]
    Unsuitable {
        /// The set.
        location: String,
        /// The setting.
        why: String,
    },
    /// An option has an invalid value.
    #[error("option {name}: {why}")]
    Option {
        /// The option.
        name: &'static str,
        /// The reason.
        why: String,
    },
    /// The servers refuse a request. This call added nothing.
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

/// The remedy for a failure of the client or the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remedy {
    /// Connect anew and retry.
    Again,
    /// Load the functions first.
    Load,
    /// Give up: it would fail again.
    Never,
}

pub(crate) fn remedy(error: &RedisError) -> Remedy {
    match (error.kind(), error.code()) {
        (_, Some("OOM" | "WRONGTYPE" | "NOPERM" | "NOAUTH" | "WRONGPASS")) => Remedy::Never,
        (ErrorKind::AuthenticationFailed | ErrorKind::InvalidClientConfig, _) => Remedy::Never,
        (ErrorKind::UnexpectedReturnType | ErrorKind::Server(ServerErrorKind::NoPerm), _) => Remedy::Never,
        _ if error.to_string().contains("Function not found") => Remedy::Load,
        // A wrong command, or a server too old to know it.
        (ErrorKind::Server(ServerErrorKind::ResponseError), Some("ERR")) => Remedy::Never,
        _ => Remedy::Again,
    }
}
