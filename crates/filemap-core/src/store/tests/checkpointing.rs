//! Other operations in the middle of a checkpoint.

use std::ops::ControlFlow;

use crate::format::names;
use crate::sync::lock;
use crate::upkeep::check::VerifyOptions;
use crate::upkeep::checkpoint::Task;
use crate::{Options, Record, Store};

#[test]
fn verify_finds_nothing_wrong_in_the_middle_of_a_checkpoint() {
    let temp = tempfile::tempdir().unwrap();
    let store = Store::create(temp.path().join("a"), Options::new().free_space_floor(0)).unwrap();
    let put = |keys: std::ops::Range<u8>| keys.for_each(|i| assert!(store.put(&Record::new(&[i], b"v")).is_ok()));
    put(0..100);
    let upkeep = store.upkeep().unwrap();
    let mut begun = false;
    let report = store.verify_with(&VerifyOptions::new(), &mut |progress| {
        // Before the index is checked: replace its leaves without writing the superblock.
        if progress.file == names::keys(0) && !std::mem::replace(&mut begun, true) {
            put(100..200);
            let mut c = lock(upkeep.checkpointer());
            let frozen = upkeep.freeze(&c, &Task::default()).unwrap().unwrap();
            upkeep.apply(&mut c, &frozen.table, Task::default()).unwrap();
            c.keys.flush().unwrap();
            c.index.flush().unwrap();
            c.keys.publish();
        }
        ControlFlow::Continue(())
    });
    // This checkpoint never ends: closing must not write.
    store.writing().unwrap().poison_because("a test".into());
    assert!(begun);
    assert_eq!(report.unwrap().problems, []);
}
