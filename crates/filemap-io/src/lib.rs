//! The I/O seam of FileMap: everything that the store asks of an operating system, as three small
//! traits.
//!
//! It exists so that one simulated disk can stand under the whole engine: `filemap-core` never
//! names `std::fs`, an `mmap` or a system call, it is handed a [`Dir`]. [`OsDir`] is the real one;
//! `sim`, behind the feature of that name, has the simulated one.
//!
//! Invariants:
//! - a name is a plain file name inside the directory; the engine never builds a path;
//! - a map's words are atomics, since the file may be written while it is mapped, and nobody can
//!   get at it as a byte slice. The engine's maps are only ever read; `urlindex` alone stores
//!   through one ([`File::map_writable`]), whose file has all its space before it is mapped;
//! - nothing is durable before [`File::sync`] (its bytes and length) and [`Dir::sync`] (its name)
//!   returned `Ok`.

#[macro_use]
mod debug;
mod error;
mod failpoint;
pub mod files;
mod guard;
pub mod header;
mod latch;
pub mod layout;
mod map;
mod memory;
mod named;
mod options;
mod os;
mod seam;
#[cfg(feature = "sim")]
pub mod sim;
mod stamp;
pub mod varint;

use std::ops::ControlFlow;

pub use error::StorageError;
pub use latch::{Latch, guard};
pub use map::LargeWords;
pub use memory::LargeMemory;
pub use os::OsDir;
pub use seam::{Access, Advice, Dir, File, Identity, Lock, Locking, Map, Word};
pub use stamp::Stamp;

/// What is asked of the operating system beside the traits: directories, limits, any file.
pub mod system {
    pub use crate::os::{create_dir, is_shortage, open_file_limit, open_to_inspect, remove_dir, rename_dir};
}

/// Progress callback of a long verb; it cancels the verb with `Break`.
pub type Progress<'a, T> = dyn FnMut(T) -> ControlFlow<()> + 'a;

#[cfg(not(target_pointer_width = "64"))]
compile_error!("FileMap maps files of many gigabytes and is not built for 32-bit targets");
#[cfg(not(target_endian = "little"))]
compile_error!("FileMap maps its little-endian index directly and is not built for big-endian machines");
