//! Reading and writing little-endian fields, without ever reading past the end.

use crate::FormatError;
use std::ops::Range;

/// The largest value of a counter on a disk. A counter that is increased a billion times a second
/// reaches it after three centuries.
pub(crate) const COUNTER_MAX: u64 = u64::MAX / 2;

pub(crate) fn get<const N: usize>(bytes: &[u8], at: Range<usize>) -> [u8; N] {
    let mut field = [0; N];
    field.copy_from_slice(&bytes[at]);
    field
}

pub(crate) fn get_u16(bytes: &[u8], at: Range<usize>) -> u16 {
    u16::from_le_bytes(get(bytes, at))
}

pub(crate) fn get_u32(bytes: &[u8], at: Range<usize>) -> u32 {
    u32::from_le_bytes(get(bytes, at))
}

pub(crate) fn get_u64(bytes: &[u8], at: Range<usize>) -> u64 {
    u64::from_le_bytes(get(bytes, at))
}

/// Reads a number that is only ever increased by one. A value that it cannot have reached is
/// refused: increasing it further would overflow.
pub(crate) fn get_counter(
    bytes: &[u8],
    at: Range<usize>,
    field: &'static str,
) -> Result<u64, FormatError> {
    match get_u64(bytes, at) {
        value if value <= COUNTER_MAX => Ok(value),
        value => Err(FormatError::Field { field, value }),
    }
}

pub(crate) fn get_i64(bytes: &[u8], at: Range<usize>) -> i64 {
    i64::from_le_bytes(get(bytes, at))
}

pub(crate) fn put(bytes: &mut [u8], at: Range<usize>, field: &[u8]) {
    bytes[at].copy_from_slice(field);
}

/// Writes a string into a field of fixed length, padded with zeros.
pub(crate) fn put_text(bytes: &mut [u8], at: Range<usize>, text: &str) {
    let end = at.start + text.len();
    assert!(end <= at.end, "names are checked before they come here");
    bytes[at.start..end].copy_from_slice(text.as_bytes());
    bytes[end..at.end].fill(0);
}

pub(crate) fn get_text(
    bytes: &[u8],
    at: Range<usize>,
    field: &'static str,
) -> Result<String, FormatError> {
    let text = &bytes[at];
    let length = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
    if text[length..].iter().any(|byte| *byte != 0) {
        return Err(FormatError::Text { field });
    }
    let text = std::str::from_utf8(&text[..length]).map_err(|_| FormatError::Text { field })?;
    if text.chars().any(char::is_control) {
        return Err(FormatError::Text { field });
    }
    Ok(text.to_owned())
}
