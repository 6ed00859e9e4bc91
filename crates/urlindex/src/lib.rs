//! urlindex
