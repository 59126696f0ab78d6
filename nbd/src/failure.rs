//! Why a request failed, as the client gets it.

use crate::protocol::Refused;
use plinth_engine::error::FileError;

/// The protocol's error, and a text for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub error: Refused,
    pub text: String,
}

impl Failure {
    pub fn new(error: Refused, text: impl Into<String>) -> Self {
        Self { error, text: text.into() }
    }
}

impl From<FileError> for Failure {
    fn from(error: FileError) -> Self {
        let refused = match error {
            FileError::NoSpace | FileError::TooLarge => Refused::NoSpace,
            FileError::NotPermitted => Refused::NotPermitted,
            FileError::Invalid(_) => Refused::Invalid,
            FileError::NotSupported => Refused::NotSupported,
            FileError::Dismounted => Refused::ShuttingDown,
            _ => Refused::Io,
        };
        Self::new(refused, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_gets_the_error_that_a_program_would_get() {
        for error in [
            FileError::NoSpace,
            FileError::NotPermitted,
            FileError::Invalid("why"),
            FileError::NotSupported,
            FileError::ExtentLost { file: 1, extent: 2, tried: 3 },
        ] {
            let (errno, text) = (error.errno().unsigned_abs(), error.to_string());
            let failure = Failure::from(error);
            assert_eq!((failure.error as u32, failure.text), (errno, text));
        }
        assert_eq!(Failure::from(FileError::TooLarge).error, Refused::NoSpace);
        assert_eq!(Failure::from(FileError::Dismounted).error, Refused::ShuttingDown);
    }
}
