//! The object of a checkpoint: what it needs, and how long it lives unless it is refreshed. Lines
//! of name and value, also readable by people.

use std::time::Duration;

/// The first line.
const FORMAT: &str = "filemap checkpoint 1";

/// A checkpoint, as its object states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Checkpoint {
    /// It expires when its object is older than this.
    pub(crate) lifetime: Duration,
    /// The first unused sequence in its view: segments rewritten by later commits must stay.
    pub(crate) next: u64,
    /// Number of times that the object was replaced: so the tag of each is another, also where it
    /// is the digest of the bytes.
    pub(crate) refreshes: u64,
}

impl Checkpoint {
    /// The last content of an expired checkpoint, before its object is deleted: it needs nothing,
    /// and whoever reads it refreshes it no more.
    pub(crate) const ENDED: Checkpoint = Checkpoint { lifetime: Duration::ZERO, next: u64::MAX, refreshes: 0 };

    /// Returns whether it has ended: a checkpoint of a caller has a lifetime.
    pub(crate) fn is_ended(self) -> bool {
        self.lifetime.is_zero()
    }

    /// Returns whether it is this one, perhaps with another number of refreshes.
    pub(crate) fn is_of(self, other: Checkpoint) -> bool {
        (self.lifetime, self.next) == (other.lifetime, other.next)
    }

    pub(crate) fn encode(self) -> String {
        let Checkpoint { lifetime, next, refreshes } = self;
        format!("{FORMAT}\nlifetime_ms {}\nnext {next}\nrefreshes {refreshes}\n", lifetime.as_millis())
    }

    /// Decodes it; `None` if this program does not know such a checkpoint.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Checkpoint> {
        let text = std::str::from_utf8(bytes).ok()?;
        let rest = text.strip_prefix(FORMAT)?.strip_prefix("\nlifetime_ms ")?;
        let (lifetime, rest) = rest.strip_suffix('\n')?.split_once("\nnext ")?;
        let (next, refreshes) = rest.split_once("\nrefreshes ")?;
        let lifetime = Duration::from_millis(lifetime.parse().ok()?);
        Some(Checkpoint { lifetime, next: next.parse().ok()?, refreshes: refreshes.parse().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_comes_back_and_no_part_of_it_does() {
        let checkpoint = Checkpoint { lifetime: Duration::from_millis(3_600_500), next: 1 << 40, refreshes: 7 };
        let text = checkpoint.encode();
        assert_eq!(Checkpoint::decode(Checkpoint::ENDED.encode().as_bytes()), Some(Checkpoint::ENDED));
        assert!(Checkpoint::ENDED.is_ended() && !checkpoint.is_ended());
        assert_eq!(Checkpoint::decode(text.as_bytes()), Some(checkpoint));
        assert!((0..text.len()).all(|end| Checkpoint::decode(&text.as_bytes()[..end]).is_none()));
        for wrong in [text.replace("checkpoint 1", "checkpoint 2"), format!("{text}colour blue\n")] {
            assert_eq!(Checkpoint::decode(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
