//! Words that depend on numbers.

use std::fmt::Display;

/// A number of things with a regular plural: `1 disk`, `2 disks`.
#[must_use]
pub fn counted<N: Display + PartialEq + From<u8>>(count: N, noun: &str) -> String {
    let plural = if count == N::from(1) { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

/// An enum whose variants SQL shows as words: `Display` and the engine's protocol write the same
/// ones.
macro_rules! sql_words {
    ($(#[$outer:meta])* $vis:vis enum $name:ident {
        $($(#[$inner:meta])* $variant:ident = $word:literal,)+
    }) => {
        $(#[$outer])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
        $vis enum $name {
            $($(#[$inner])* #[serde(rename = $word)] $variant,)+
        }

        impl $name {
            /// As SQL shows it.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.word())
            }
        }
    };
}
pub(crate) use sql_words;

#[cfg(test)]
mod tests {
    use super::*;
    use serde::{
        Deserialize,
        de::value::{Error, StrDeserializer},
    };

    sql_words! {
        enum State {
            Begun = "RUN",
            Ended = "DONE",
        }
    }

    #[test]
    fn a_state_is_the_same_word_in_sql_and_in_the_protocol() {
        for (state, word) in [(State::Begun, "RUN"), (State::Ended, "DONE")] {
            assert_eq!(state.to_string(), word);
            let read = State::deserialize(StrDeserializer::<Error>::new(word));
            assert_eq!(read, Ok(state));
        }
    }

    #[test]
    fn one_is_no_plural() {
        assert_eq!(
            [0_u64, 1, 2].map(|count| counted(count, "disk")),
            ["0 disks", "1 disk", "2 disks"]
        );
    }
}
