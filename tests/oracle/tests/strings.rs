//! The engine against the oracle: strings of operations with checkpoints, crashes and reopenings
//! in between.

use std::path::PathBuf;

use filemap_core::{Options, Store};
use filemap_oracle::string::{self, Ground, Op};
use proptest::prelude::*;

use crate::moment;

fn op() -> impl Strategy<Value = Op> {
    let key = 0u8..12;
    let time = -2i64..6;
    prop_oneof![
        8 => (key.clone(), time.clone(), 0usize..3000).prop_map(|(key, time, size)| Op::Put { key, time, size }),
        3 => (key.clone(), time.clone(), any::<bool>()).prop_map(|(key, time, same)| Op::PutIfChanged { key, time, same }),
        2 => (prop::collection::vec(key.clone(), 0..5), time.clone()).prop_map(|(keys, time)| Op::Batch { keys, time }),
        1 => (key.clone(), time, 0usize..300_000).prop_map(|(key, time, size)| Op::Stream { key, time, size }),
        3 => key.prop_map(|key| Op::Remove { key }),
        2 => Just(Op::Checkpoint),
        1 => Just(Op::Reopen),
        1 => Just(Op::Crash),
    ]
}

/// A folder of the file system; a crash continues with a copy of it.
struct Folder {
    temp: tempfile::TempDir,
    copies: u32,
}

impl Folder {
    fn new() -> Folder {
        Folder { temp: tempfile::tempdir().unwrap(), copies: 0 }
    }

    fn path(&self) -> PathBuf {
        self.temp.path().join(self.copies.to_string())
    }
}

impl Ground for Folder {
    fn create(&self, options: Options) -> Store {
        Store::create(self.path(), options).unwrap()
    }

    fn open(&self, options: Options) -> Store {
        Store::open(self.path(), options).unwrap()
    }

    fn open_read_only(&self, options: Options) -> Store {
        Store::open_read_only(self.path(), options).unwrap()
    }

    fn crash(&mut self) {
        let old = self.path();
        self.copies += 1;
        moment::copy(&old, &self.path());
    }
}

proptest! {

    #[test]
    fn any_string_of_operations_gives_what_the_model_gives(ops in prop::collection::vec(op(), 0..60)) {
        string::run(&mut Folder::new(), &ops, None);
    }

    #[test]
    fn with_a_bound_on_versions_the_newest_are_kept(ops in prop::collection::vec(op(), 0..60), keep in 1u32..4) {
        string::run(&mut Folder::new(), &ops, Some(keep));
    }
}
