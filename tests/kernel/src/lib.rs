//! Tests of the store on the real kernel. Five harnesses share one workload:
//!
//! - [`kill`]: a writer killed with SIGKILL, again and again over the same store;
//! - [`differ`]: processes that read beside a worker compare everything with the oracle;
//! - [`replay`]: every block write of ext4 or XFS is recorded, and disks are made as a power loss
//!   may leave them;
//! - [`device`]: the device fails the writes of one file, or its flushes;
//! - [`full`]: the file system is full when one file is to grow.
//!
//! All but the first two need root, /dev/fuse and loop devices; [`system::missing`] says what is
//! missing.

pub mod aim;
pub mod device;
pub mod differ;
pub mod disk;
pub mod full;
pub mod image;
pub mod kill;
pub mod mounts;
pub mod ops;
pub mod oracle;
pub mod random;
pub mod replay;
pub mod system;
pub mod visitor;
pub mod writer;
