//! filemap
