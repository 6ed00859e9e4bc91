//! Error responses: what failed, where, and what to do (`application/problem+json`, RFC 9457).
//!
//! Invariant: every error of the store maps to one status. A status of 500 or above carries its
//! cause to the log.

use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use filemap::Error;
use filemap_core::{Error as EngineError, StorageError};
use urlindex::idempotent::RequestRefusal;

use crate::wire::{PROBLEM_TYPE, Problem};

/// A failed request.
#[derive(Debug)]
pub(super) struct Refusal {
    status: StatusCode,
    detail: String,
    headers: Vec<(HeaderName, HeaderValue)>,
    is_absent: bool,
    is_damage: bool,
    is_of_one_page: bool,
    rule: Option<u32>,
}

/// The cause of a status of 500 or above; for the log.
#[derive(Clone, Debug)]
pub(super) struct Cause(pub(super) String);

pub(super) type Answer = std::result::Result<Response, Refusal>;

impl Refusal {
    pub(super) fn new(status: StatusCode, detail: impl Into<String>) -> Refusal {
        Refusal {
            status,
            detail: detail.into(),
            headers: Vec::new(),
            is_absent: false,
            is_damage: false,
            is_of_one_page: false,
            rule: None,
        }
    }

    /// The request is malformed.
    pub(super) fn bad(detail: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::BAD_REQUEST, detail)
    }

    /// The store has no such page.
    pub(super) fn absent(detail: impl Into<String>) -> Refusal {
        Refusal { is_absent: true, ..Refusal::new(StatusCode::NOT_FOUND, detail) }
    }

    /// An access rule withholds the page.
    pub(super) fn blocked(detail: impl Into<String>) -> Refusal {
        let refusal = Refusal::new(StatusCode::UNAVAILABLE_FOR_LEGAL_REASONS, detail);
        Refusal { is_of_one_page: true, ..refusal }
    }

    /// The changes since a cursor are no longer known.
    pub(super) fn outrun(detail: &str) -> Refusal {
        Refusal::new(StatusCode::GONE, format!("{detail}: begin anew, without `since`"))
    }

    /// A failure of stored files.
    pub(super) fn of_storage(error: &StorageError, detail: String) -> Refusal {
        Refusal { is_damage: error.is_corrupt(), ..Refusal::new(of_storage(error), detail) }
    }

    /// The answer is unknown: part of the store is lost.
    pub(super) fn damage(detail: impl Into<String>) -> Refusal {
        Refusal { is_damage: true, ..Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, detail) }
    }

    /// The same for an external seen set: its failure is not the server's.
    pub(super) fn of_others(self, what: &str) -> Refusal {
        if self.status != StatusCode::INTERNAL_SERVER_ERROR {
            return self;
        }
        let detail = format!("{what} is kept elsewhere and could not be reached: ask again: {}", self.detail);
        Refusal { status: StatusCode::SERVICE_UNAVAILABLE, detail, ..self }
    }

    pub(super) fn status(&self) -> StatusCode {
        self.status
    }

    pub(super) fn detail(&self) -> &str {
        &self.detail
    }

    pub(super) fn header(mut self, name: HeaderName, value: HeaderValue) -> Refusal {
        self.headers.push((name, value));
        self
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let title = self.status.canonical_reason().unwrap_or("Failed").to_owned();
        let problem = Problem {
            status: self.status.as_u16(),
            title,
            detail: self.detail.clone(),
            is_absent: self.is_absent,
            is_damage: self.is_damage,
            is_of_one_page: self.is_of_one_page,
            rule: self.rule,
        };
        let body = serde_json::to_vec(&problem).unwrap_or_default();
        let mut response = (self.status, body).into_response();
        response.headers_mut().extend(self.headers);
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_TYPE));
        if self.status.is_server_error() {
            response.extensions_mut().insert(Cause(self.detail));
        }
        response
    }
}

/// A malformed query.
impl From<String> for Refusal {
    fn from(words: String) -> Refusal {
        Refusal::bad(words)
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        Refusal {
            is_damage: error.is_damage(),
            is_of_one_page: error.concerns_one_page(),
            rule: match &error {
                Error::Engine(EngineError::Refused { rule }) => Some(*rule),
                _ => None,
            },
            ..Refusal::new(status(&error), error.to_string())
        }
    }
}

impl From<urlindex::Error> for Refusal {
    fn from(error: urlindex::Error) -> Refusal {
        let status = match &error {
            urlindex::Error::Request { refusal: RequestRefusal::Forgotten, .. } => StatusCode::CONFLICT,
            urlindex::Error::Request { refusal: RequestRefusal::Reused, .. } => StatusCode::UNPROCESSABLE_ENTITY,
            urlindex::Error::Request { .. } => StatusCode::TOO_EARLY,
            urlindex::Error::UrlLength { .. } => StatusCode::BAD_REQUEST,
            urlindex::Error::Storage(StorageError::InvalidOption { .. }) => StatusCode::BAD_REQUEST,
            urlindex::Error::Storage(error) => of_storage(error),
            urlindex::Error::ReadOnly { .. } => StatusCode::FORBIDDEN,
            urlindex::Error::Unsupported { .. } => StatusCode::NOT_IMPLEMENTED,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Refusal { is_damage: error.is_corrupt(), ..Refusal::new(status, error.to_string()) }
    }
}

fn status(error: &Error) -> StatusCode {
    match error {
        Error::Url { .. } | Error::Variant { .. } | Error::Cursor { .. } => StatusCode::BAD_REQUEST,
        Error::HeadersTooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
        Error::Unsupported { .. } => StatusCode::NOT_IMPLEMENTED,
        Error::Engine(error) => of_engine(error),
        Error::Spool { source, .. } if is_full(source) => StatusCode::INSUFFICIENT_STORAGE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

fn of_engine(error: &EngineError) -> StatusCode {
    match error {
        EngineError::KeyLength { .. } => StatusCode::URI_TOO_LONG,
        EngineError::MetaTooLarge { .. } | EngineError::ValueTooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
        EngineError::Refused { .. } | EngineError::ReadOnly => StatusCode::FORBIDDEN,
        EngineError::NoSpace { .. } => StatusCode::INSUFFICIENT_STORAGE,
        EngineError::Outrun { .. } => StatusCode::GONE,
        EngineError::Closed => StatusCode::SERVICE_UNAVAILABLE,
        EngineError::Storage(error) => of_storage(error),
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

fn of_storage(error: &StorageError) -> StatusCode {
    match error {
        StorageError::Full { .. } => StatusCode::INSUFFICIENT_STORAGE,
        StorageError::Io { source, .. } if is_full(source) => StatusCode::INSUFFICIENT_STORAGE,
        StorageError::Poisoned { .. } => StatusCode::SERVICE_UNAVAILABLE,
        StorageError::InvalidOption { .. } => StatusCode::BAD_REQUEST,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// Returns whether the disk was full.
pub(super) fn is_full(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_its_status_and_only_the_servers_own_a_cause() {
        let of = |error: Error| Refusal::from(error).into_response();
        let full = of(EngineError::NoSpace { free_bytes: 1, floor_bytes: 2 }.into());
        assert_eq!(full.status(), StatusCode::INSUFFICIENT_STORAGE);
        assert!(full.extensions().get::<Cause>().is_some_and(|cause| cause.0.contains("below the floor of 2")));
        let refused = of(EngineError::Refused { rule: 3 }.into());
        assert_eq!(refused.status(), StatusCode::FORBIDDEN);
        assert!(refused.extensions().get::<Cause>().is_none());
        assert_eq!(refused.headers()[CONTENT_TYPE], PROBLEM_TYPE);
        assert_eq!(of(EngineError::Closed.into()).status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(of(Error::Unsupported { what: "order" }).status(), StatusCode::NOT_IMPLEMENTED);
    }
}
