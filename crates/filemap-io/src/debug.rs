//! `Debug` that prints only some fields of a struct: iterators, handles, options with secrets.

/// Implements `Debug` with the given fields; `..` stands for the others.
///
/// ```
/// struct Listing { after: u64, waiting: Vec<Box<dyn Send>> }
///
/// filemap_io::debug_fields!(Listing: after);
/// let listing = Listing { after: 7, waiting: Vec::new() };
/// assert_eq!(format!("{listing:?}"), "Listing { after: 7, .. }");
/// ```
#[macro_export]
macro_rules! debug_fields {
    ($of:ident $(: $($field:ident),+)?) => {
        impl ::std::fmt::Debug for $of {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.debug_struct(stringify!($of))$($(.field(stringify!($field), &self.$field))+)?.finish_non_exhaustive()
            }
        }
    };
}
