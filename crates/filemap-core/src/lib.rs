//! filemap-core
