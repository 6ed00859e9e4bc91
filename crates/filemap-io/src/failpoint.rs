//! Failpoints: named faults that a test plants in its own thread, to prove that the test harness
//! catches them. Each crate declares its own with [`failpoints`](crate::failpoints!).

/// Declares an enum of faults, `plant(Option<Fault>)` for tests, and `planted(Fault) -> bool` for
/// the code that fails on demand. If the leading `cfg` condition is false, `plant` does not exist
/// and `planted` is a constant `false`. With a `rare` list the enum also has `ALL`: the faults
/// that are not rare.
///
/// ```
/// filemap_io::failpoints! {
///     debug_assertions;
///     /// What this crate can do wrongly.
///     enum Fault {
///         /// The file is not synced.
///         NotSynced,
///     }
/// }
///
/// assert!(!planted(Fault::NotSynced));
/// # #[cfg(debug_assertions)]
/// plant(Some(Fault::NotSynced));
/// # #[cfg(debug_assertions)]
/// assert!(planted(Fault::NotSynced));
/// ```
#[macro_export(local_inner_macros)]
macro_rules! failpoints {
    (
        $condition:meta;
        $(#[$attribute:meta])*
        $visibility:vis enum $fault:ident { $($(#[$about:meta])* $name:ident),* $(,)? }
        $(#[$why:meta])*
        rare { $($rare:ident),* $(,)? }
    ) => {
        failpoints! {
            $condition;
            $(#[$attribute])*
            $visibility enum $fault { $($(#[$about])* $name,)* $($rare),* }
        }

        #[cfg($condition)]
        impl $fault {
            /// The faults that random tests find quickly.
            $(#[$why])*
            $visibility const ALL: [$fault; [$($fault::$name),*].len()] = [$($fault::$name),*];
        }
    };
    (
        $condition:meta;
        $(#[$attribute:meta])*
        $visibility:vis enum $fault:ident { $($(#[$about:meta])* $name:ident),* $(,)? }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        $visibility enum $fault { $($(#[$about])* $name),* }

        #[cfg($condition)]
        ::std::thread_local! {
            static PLANTED: ::std::cell::Cell<::std::option::Option<$fault>> =
                const { ::std::cell::Cell::new(::std::option::Option::None) };
        }

        /// Plants a fault in this thread, or clears it.
        #[cfg($condition)]
        $visibility fn plant(fault: ::std::option::Option<$fault>) {
            PLANTED.set(fault);
        }

        /// Returns whether this thread has the fault planted.
        #[cfg($condition)]
        pub(crate) fn planted(fault: $fault) -> bool {
            PLANTED.get() == ::std::option::Option::Some(fault)
        }

        /// Always false: compiled without failpoints.
        #[cfg(not($condition))]
        #[inline(always)]
        pub(crate) fn planted(_: $fault) -> bool {
            false
        }
    };
}
