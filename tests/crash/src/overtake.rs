//! A reader whose writer overtakes it: in the middle of a call of the reader, the writer writes a
//! checkpoint, compacts, and removes what it emptied. Nothing of that changes what is to be seen.
//! Sometimes a call of the reader fails just then.

use std::cell::RefCell;

use filemap_core::{Error, Store, sim};
use filemap_io::sim::{Calls, Failure, Fault, Interrupt, SimDisk};

use crate::contents::{Contents, contents, pages};
use crate::trouble::Trouble;
use filemap_oracle::{After, Oracle};

/// Calls of the reader, one of which is overtaken; and those after it, one of which may fail.
const CALLS: u64 = 96;
const CALLS_AFTER: u64 = 24;

/// A writer that is to overtake its reader.
struct Overtaking {
    writer: Store,
    disk: SimDisk,
    /// Calls of the reader until one fails, if one is to.
    failing: Option<u64>,
}

impl Overtaking {
    fn run(&self) -> Result<(), Error> {
        self.writer.checkpoint()?;
        assert_eq!(self.writer.compact()?.stuck_segments, 0, "compaction met damage");
        sim::empty_keys(&self.writer, 0)?;
        let at = self.failing.map(|calls| self.disk.calls() + 1 + calls);
        self.disk.fail(at.map(|at| Failure { at, fault: Fault::Eio, only_syncs: false, forever: false }));
        Ok(())
    }
}

thread_local! {
    static WAITING: RefCell<Option<Overtaking>> = const { RefCell::new(None) };
    static TROUBLE: RefCell<Option<Error>> = const { RefCell::new(None) };
}

/// Returns the interrupt to put over the reader's directory.
pub(crate) fn interrupt() -> Interrupt {
    Interrupt::never(Calls::All, || {
        if let Some(waiting) = WAITING.take() {
            sim::as_another_thread(|| TROUBLE.set(waiting.run().err()));
        }
    })
}

/// Lets the writer overtake its reader, which shows `shown`, at some call.
///
/// # Errors
/// Says what is wrong.
pub(crate) fn overtaken(
    disk: &SimDisk,
    (reader, interrupt): (&Store, &Interrupt),
    writer: &Store,
    oracle: &Oracle,
    shown: &Contents,
) -> Result<(), String> {
    let mut rng = fastrand::Rng::with_seed(disk.calls());
    let failing = rng.bool().then(|| rng.u64(..CALLS_AFTER));
    WAITING.set(Some(Overtaking { writer: writer.clone(), disk: disk.clone(), failing }));
    interrupt.after(rng.u64(..CALLS));
    // A list comes first: it meets what a failure has left.
    let read = || pages(reader, shown).and_then(|()| contents(reader, oracle, After::Kill));
    let mut result = reader.refresh().map_err(Trouble::Error).and_then(|()| read());
    if disk.failed() > 0 && matches!(result, Err(Trouble::Error(_))) {
        result = read();
    }
    interrupt.disarm();
    WAITING.set(None);
    disk.fail(None);
    TROUBLE.take().map_or(Ok(()), |e| Err(format!("the writer that overtakes a reader: {e}")))?;
    result.map(|_| ()).map_err(|e| format!("a reader that is overtaken: {e}"))
}
