//! A file's bytes as text: unpacked, and from whatever encoding it is in.
//!
//! Invariant: no more than [`SIZE_MAX`] bytes come out, however small the file was.

use super::ImportError;
use flate2::read::MultiGzDecoder;
use std::io::Read;

/// Of a report, unpacked.
pub(crate) const SIZE_MAX: usize = 64 << 20;

/// # Errors
/// If it is too large, or cannot be unpacked.
pub(super) fn text(bytes: &[u8]) -> Result<(String, bool), ImportError> {
    if bytes.starts_with(&[0x1f, 0x8b]) {
        let (unpacked, is_cut) = unpacked(bytes)?;
        return Ok((plain(&unpacked)?, is_cut));
    }
    Ok((plain(bytes)?, false))
}

/// And whether the packed file ends too early.
fn unpacked(bytes: &[u8]) -> Result<(Vec<u8>, bool), ImportError> {
    let mut unpacked = Vec::new();
    let limit = SIZE_MAX as u64 + 1;
    let ended = MultiGzDecoder::new(bytes).take(limit).read_to_end(&mut unpacked);
    if unpacked.len() > SIZE_MAX {
        return Err(too_large());
    }
    match ended {
        Ok(_) => Ok((unpacked, false)),
        Err(_) if !unpacked.is_empty() => Ok((unpacked, true)),
        Err(error) => Err(ImportError::new(format!("cannot be unpacked with gzip: {error}"))),
    }
}

fn too_large() -> ImportError {
    ImportError::new("is larger than 64 MiB unpacked: it is no report, or many; give one")
}

fn plain(bytes: &[u8]) -> Result<String, ImportError> {
    if bytes.len() > SIZE_MAX {
        return Err(too_large());
    }
    for (magic, what, remedy) in [
        (&b"PK\x03\x04"[..], "a zip archive", "unpack it first"),
        (b"%PDF", "a PDF", "save the report as HTML or text"),
        (b"BZh", "packed with bzip2", "unpack it first"),
        (b"\xfd7zXZ", "packed with xz", "unpack it first"),
        (b"\x28\xb5\x2f\xfd", "packed with zstd", "unpack it first"),
    ] {
        if bytes.starts_with(magic) {
            return Err(ImportError::new(format!("is {what}: {remedy}")));
        }
    }
    if let Some(rest) = bytes.strip_prefix(b"\xef\xbb\xbf") {
        return Ok(utf8(rest));
    }
    if let Some(rest) = bytes.strip_prefix(b"\xff\xfe") {
        return Ok(utf16(rest, u16::from_le_bytes));
    }
    if let Some(rest) = bytes.strip_prefix(b"\xfe\xff") {
        return Ok(utf16(rest, u16::from_be_bytes));
    }
    // UTF-16 without its mark: every other byte of the beginning is 0.
    let start = bytes.get(..bytes.len().min(256)).unwrap_or_default();
    let zeros = |odd: usize| {
        start.len() >= 16
            && start.iter().skip(odd).step_by(2).filter(|byte| **byte == 0).count() * 10
                > start.len() / 2 * 9
    };
    match (zeros(0), zeros(1)) {
        (false, true) => Ok(utf16(bytes, u16::from_le_bytes)),
        (true, false) => Ok(utf16(bytes, u16::from_be_bytes)),
        _ => Ok(utf8(bytes)),
    }
}

/// UTF-8, and bytes that are none as Latin-1: there 0xa0 is the blank between thousands.
fn utf8(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|byte| char::from(*byte)));
    }
    text
}

fn utf16(bytes: &[u8], word: fn([u8; 2]) -> u16) -> String {
    let words = bytes.chunks_exact(2).filter_map(|pair| Some(word(pair.try_into().ok()?)));
    char::decode_utf16(words).map(|letter| letter.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
}

#[cfg(test)]
mod tests {
    use super::text;
    use flate2::{Compression, write::GzEncoder};
    use std::io::Write;

    fn packed(bytes: &[u8]) -> Vec<u8> {
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(bytes).expect("to memory");
        packed.finish().expect("to memory")
    }

    #[test]
    fn encodings_and_gzip_give_the_same_text() {
        let words: Vec<u16> = "Größe 1".encode_utf16().collect();
        let mut little = vec![0xff, 0xfe];
        little.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        let mut big = vec![0xfe, 0xff];
        big.extend(words.iter().flat_map(|word| word.to_be_bytes()));
        let inputs = ["Größe 1".as_bytes().to_vec(), little, big];
        for bytes in inputs {
            assert_eq!(text(&bytes).expect("text").0, "Größe 1");
            assert_eq!(text(&packed(&bytes)).expect("text").0, "Größe 1");
        }
    }

    #[test]
    fn bytes_that_are_no_utf_8_are_latin_1() {
        assert_eq!(text(b"Gr\xf6\xdfe 1\xa0234").expect("text").0, "Größe 1\u{a0}234");
    }

    #[test]
    fn a_small_file_that_unpacks_to_much_is_refused() {
        let bomb = packed(&vec![0; 65 << 20]);
        assert!(bomb.len() < 1 << 20);
        assert!(text(&bomb).is_err());
    }

    #[test]
    fn a_packed_file_that_is_cut_gives_its_beginning() {
        let noise: Vec<u8> = (0..20_000_u32).map(|n| b'a' + (n * n % 23) as u8).collect();
        let mut bytes = packed(&noise);
        bytes.truncate(bytes.len() - 20);
        assert!(text(&bytes).expect("its beginning").1);
    }
}
