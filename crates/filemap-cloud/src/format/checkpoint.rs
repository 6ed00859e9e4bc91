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
}

impl Checkpoint {
    pub(crate) fn encode(self) -> String {
        format!("{FORMAT}\nlifetime_ms {}\nnext {}\n", self.lifetime.as_millis(), self.next)
    }

    /// Decodes it; `None` if this program does not know such a checkpoint.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Checkpoint> {
        let text = std::str::from_utf8(bytes).ok()?;
        let rest = text.strip_prefix(FORMAT)?.strip_prefix("\nlifetime_ms ")?;
        let (lifetime, next) = rest.strip_suffix('\n')?.split_once("\nnext ")?;
        Some(Checkpoint { lifetime: Duration::from_millis(lifetime.parse().ok()?), next: next.parse().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_comes_back_and_no_part_of_it_does() {
        let checkpoint = Checkpoint { lifetime: Duration::from_millis(3_600_500), next: 1 << 40 };
        let text = checkpoint.encode();
        assert_eq!(Checkpoint::decode(text.as_bytes()), Some(checkpoint));
        assert!((0..text.len()).all(|end| Checkpoint::decode(&text.as_bytes()[..end]).is_none()));
        for wrong in [text.replace("checkpoint 1", "checkpoint 2"), format!("{text}colour blue\n")] {
            assert_eq!(Checkpoint::decode(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
