//! Enums whose variants have names: values of command-line options, words in messages.

/// Declares an enum with a name for each variant. Adds `ALL`, the variants in order of
/// declaration, and `name`.
///
/// ```
/// filemap_io::named_enum! {
///     /// A side.
///     #[derive(Clone, Copy, Debug, PartialEq)]
///     pub enum Side {
///         /// Left.
///         Left => "left",
///         /// Right.
///         Right => "right",
///     }
/// }
/// assert_eq!((Side::ALL, Side::Right.name()), ([Side::Left, Side::Right], "right"));
/// ```
#[macro_export]
macro_rules! named_enum {
    ($(#[$meta:meta])* $vis:vis enum $type:ident {
        $($(#[$doc:meta])* $variant:ident $(= $number:literal)? => $name:literal,)+
    }) => {
        $(#[$meta])*
        $vis enum $type {
            $($(#[$doc])* $variant $(= $number)?,)+
        }

        impl $type {
            /// All variants, in order of declaration.
            $vis const ALL: [$type; [$($name),+].len()] = [$($type::$variant),+];

            /// The variant's name in command lines and messages, in lower case.
            $vis fn name(self) -> &'static str {
                match self {
                    $($type::$variant => $name,)+
                }
            }
        }
    };
}
