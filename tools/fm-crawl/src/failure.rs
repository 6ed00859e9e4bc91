//! Errors of the crawler as failures of the command line, with their exit codes.

use crawl::Error;
use fm_cli::{Failure, canonical};

/// The failure of an error.
pub fn of(error: Error) -> Failure {
    let words = error.to_string();
    match error {
        Error::Usage(words) => Failure::Usage(words),
        Error::Rules { store, has, wanted } => {
            let [has, wanted] = [has, wanted].map(|(name, version)| named(&name, version));
            Failure::Usage(format!("{}: the store has the rules `{has}`, not `{wanted}`", store.display()))
        }
        Error::Damage(words) => Failure::Damage(words),
        // Another owner took the shard while it was opened.
        Error::Locked(_) | Error::Taken { .. } => Failure::Locked(words),
        Error::Files { source, .. } => Failure::of_storage(&source, words),
        Error::Store(error) => error.into(),
        Error::Set(error) => error.into(),
        Error::Frontier(frontier::Error::Storage(error)) | Error::Outbox(mailbox::Error::Storage(error)) => {
            Failure::of_storage(&error, words)
        }
        Error::Outbox(mailbox::Error::Gap { .. }) => Failure::Damage(words),
        Error::Outbox(mailbox::Error::OtherShards { .. }) => Failure::Usage(format!("--shards: {words}")),
        _ => Failure::Io(words),
    }
}

/// Rules as they are given on the command line.
fn named(name: &str, version: u32) -> String {
    urlindex::canonical::named(name, version).map_or_else(|| name.to_owned(), |rules| canonical::words(&*rules))
}
