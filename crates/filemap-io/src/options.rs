//! Option structs: each option is declared once, with its meaning, type and default.

/// Declares a struct of options with defaults. Adds `new`, `Default` and for each option a builder
/// method of its name, except for options under `by hand`, whose methods do more than set the
/// field.
///
/// ```
/// filemap_io::options! {
///     /// How bread is made.
///     #[derive(Clone, Debug)]
///     pub struct Bread {
///         /// Degrees Celsius; default 220.
///         heat: u16 = 220,
///         /// Minutes; default 50.
///         minutes: u16 = 50,
///     } by hand {
///         salt: Option<u8> = None,
///     }
/// }
/// let bread = Bread::new().heat(250);
/// assert_eq!((bread.heat, bread.minutes, bread.salt), (250, 50, None));
/// ```
#[macro_export(local_inner_macros)]
macro_rules! options {
    (
        $(#[$meta:meta])*
        pub struct $options:ident {
            $($(#[$doc:meta])* $vis:vis $field:ident: $type:ty = $default:expr),+ $(,)?
        }
        $(by hand { $($(#[$about:meta])* $own_vis:vis $own:ident: $own_type:ty = $own_default:expr),+ $(,)? })?
    ) => {
        $(#[$meta])*
        pub struct $options {
            $($vis $field: $type,)+
            $($($(#[$about])* $own_vis $own: $own_type,)+)?
        }

        impl ::std::default::Default for $options {
            fn default() -> $options {
                $options { $($field: $default,)+ $($($own: $own_default,)+)? }
            }
        }

        impl $options {
            /// The defaults.
            #[must_use]
            pub fn new() -> $options {
                $options::default()
            }
        }

        setters! {
            $options;
            $($(#[$doc])* $field: $type,)+
        }
    };
}

/// Adds builder methods that set the field of their name.
///
/// ```
/// struct Bread {
///     heat: u16,
/// }
///
/// filemap_io::setters! {
///     Bread;
///     /// Degrees Celsius.
///     heat: u16,
/// }
/// assert_eq!(Bread { heat: 220 }.heat(250).heat, 250);
/// ```
#[macro_export]
macro_rules! setters {
    ($options:ident; $($(#[$doc:meta])* $field:ident: $type:ty),+ $(,)?) => {
        impl $options {
            $(
                $(#[$doc])*
                #[must_use]
                pub fn $field(mut self, $field: $type) -> $options {
                    self.$field = $field;
                    self
                }
            )+
        }
    };
}
