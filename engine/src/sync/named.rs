//! Enums whose values the simulator knows by name.

/// An enum whose values have names, for the command line and its tables, and a sentence about each.
macro_rules! named {
    ($(#[$meta:meta])* $kind:ident { $($value:ident $name:literal $what:literal)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $kind {
            $(#[doc = $what] $value,)*
        }

        #[cfg(feature = "testing")]
        impl $kind {
            pub const ALL: &'static [Self] = &[$(Self::$value,)*];

            /// Its name, as the command line and tables have it.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$value => $name,)*
                }
            }

            /// A description in the words of the field.
            #[must_use]
            pub fn what(self) -> &'static str {
                match self {
                    $(Self::$value => $what,)*
                }
            }
        }
    };
}

pub(crate) use named;
