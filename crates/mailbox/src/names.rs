//! File names of mailboxes and outboxes: the only place that builds and parses them.

/// The lock of a folder of mailboxes.
pub(crate) const MAILBOXES_LOCK: &str = "mailboxes.lock";
/// The note with the number of shards.
pub(crate) const NOTE: &str = "mailboxes";
/// The note while it is being written.
pub(crate) const NEW_NOTE: &str = "mailboxes.new";
/// The log of an outbox.
pub(crate) const OUTBOX: &str = "outbox";
/// The lock of an outbox.
pub(crate) const OUTBOX_LOCK: &str = "outbox.lock";

/// The log of a shard's mailbox.
pub(crate) fn mailbox(shard: u32) -> String {
    format!("shard-{shard}")
}

/// The file of a log that begins at this place.
pub(crate) fn log_file(log: &str, base: u64) -> String {
    format!("{log}.{base:020}.mail")
}

/// The place at which a file of a log begins; `None` for any other file.
pub(crate) fn parse_log_file(log: &str, file: &str) -> Option<u64> {
    let digits = file.strip_prefix(log)?.strip_prefix('.')?.strip_suffix(".mail")?;
    digits.parse().ok().filter(|base| log_file(log, *base) == file)
}

/// The file of a log while it is being written.
pub(crate) fn new_log_file(log: &str, base: u64) -> String {
    format!("{}.new", log_file(log, base))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_log_are_known_by_their_names() {
        assert_eq!(parse_log_file("shard-1", &log_file("shard-1", 512)), Some(512));
        let others = ["shard-1.512.mail", "shard-11.00000000000000000512.mail", "shard-1", "outbox.lock"];
        assert!(others.iter().all(|file| parse_log_file("shard-1", file).is_none()));
        assert_eq!(parse_log_file("shard-1", &new_log_file("shard-1", 512)), None);
    }
}
