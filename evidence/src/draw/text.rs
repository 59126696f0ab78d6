//! Text from outside, made safe to show.
//!
//! A report can hold any bytes, and a name from it lands on a page and on a terminal. Markup
//! becomes text. Characters that are not seen, but that change what is seen (control characters,
//! overrides of the writing direction, those without width), are shown as escapes.

use std::fmt::Write;

/// As text or as the value of an attribute in double quotes, of XML and HTML.
#[must_use]
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => push_visible(&mut out, other),
        }
    }
    out
}

/// For a terminal.
#[must_use]
pub fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        push_visible(&mut out, character);
    }
    out
}

/// At most this many characters: of longer text the middle is left out, as its ends tell more.
#[must_use]
pub fn shortened(text: &str, characters_max: usize) -> String {
    let count = text.chars().count();
    if count <= characters_max {
        return text.to_owned();
    }
    let kept = characters_max.saturating_sub(1);
    let tail = kept / 2;
    let head: String = text.chars().take(kept - tail).collect();
    let tail: String = text.chars().skip(count - tail).collect();
    format!("{}…{}", head.trim_end(), tail.trim_start())
}

/// As a file's name: small letters, digits and `-`.
#[must_use]
pub fn slug(text: &str) -> String {
    let mut out = String::new();
    for character in text.chars().take(60) {
        if character.is_ascii_alphanumeric() {
            out.push(character.to_ascii_lowercase());
        } else if !out.is_empty() && !out.ends_with('-') {
            out.push('-');
        }
    }
    let out = out.trim_end_matches('-');
    if out.is_empty() { "chart".to_owned() } else { out.to_owned() }
}

fn push_visible(out: &mut String, character: char) {
    if is_hidden(character) {
        // Writing to a string does not fail.
        let _ = write!(out, "\\u{{{:x}}}", u32::from(character));
    } else {
        out.push(character);
    }
}

fn is_hidden(character: char) -> bool {
    let code = u32::from(character);
    let is_direction = matches!(code, 0x061c | 0x200e | 0x200f | 0x202a..=0x202e | 0x2066..=0x2069);
    let is_without_width =
        matches!(code, 0xad | 0x200b | 0x2060..=0x2064 | 0xfeff | 0xe0000..=0xe007f);
    let is_line_end = matches!(code, 0x2028 | 0x2029);
    let is_no_character = code & 0xfffe == 0xfffe || matches!(code, 0xfdd0..=0xfdef);
    character.is_control() || is_direction || is_without_width || is_line_end || is_no_character
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_becomes_text() {
        assert_eq!(
            escaped("<script>alert('1' & \"2\")</script>"),
            "&lt;script&gt;alert(&#39;1&#39; &amp; &quot;2&quot;)&lt;/script&gt;"
        );
    }

    #[test]
    fn characters_that_change_what_is_seen_are_shown_as_escapes() {
        assert_eq!(visible("a\u{202e}b\u{1b}[2J\n"), "a\\u{202e}b\\u{1b}[2J\\u{a}");
        assert_eq!(escaped("\u{fffe}\u{0}"), "\\u{fffe}\\u{0}");
        assert_eq!(visible("Größe 8 µs – 漢字"), "Größe 8 µs – 漢字");
    }

    #[test]
    fn long_text_keeps_both_ends() {
        assert_eq!(shortened("bare metal", 10), "bare metal");
        assert_eq!(shortened("production-east-2", 9), "prod…st-2");
        assert_eq!(shortened("ab", 0), "…");
    }

    #[test]
    fn a_slug_stays_in_its_directory() {
        assert_eq!(slug("../../etc/passwd"), "etc-passwd");
        assert_eq!(slug("random read"), "random-read");
        assert_eq!(slug("漢字"), "chart");
    }
}
