//! A text without what it has got on its way: line ends of other systems, the marks of a mail that
//! quotes it, a page that is nothing but `<pre>`, a blank line after each line.
//!
//! Invariant: a text that has got none of this is left as it is.

/// Of the first lines, as many as tell how a text is quoted.
const LINES: usize = 400;
/// Marks of a mail that quotes a mail and so on.
const QUOTES_MAX: usize = 8;

pub(super) fn text(text: String) -> String {
    let text = if is_of_old_macs(&text) { text.replace('\r', "\n") } else { text };
    let text = if is_preformatted(&text) { unescaped(&text) } else { text };
    let text = unquoted(text);
    if is_spaced(&text) { unspaced(&text) } else { text }
}

fn is_of_old_macs(text: &str) -> bool {
    !text.contains('\n') && text.bytes().filter(|byte| *byte == b'\r').count() > 1
}

/// Whether it is a page without a table.
fn is_preformatted(text: &str) -> bool {
    let has = |tags: [&str; 2]| tags.iter().any(|tag| text.contains(tag));
    has(["<pre", "<PRE"]) && !has(["<td", "<TD"]) && !has(["<th", "<TH"])
}

/// The text between `<pre>` and `</pre>`.
fn unescaped(text: &str) -> String {
    let start = ["<pre", "<PRE"].iter().filter_map(|tag| text.find(tag)).min().unwrap_or(0);
    let inner = text.get(start..).unwrap_or(text);
    let inner = inner.split_once('>').map_or(inner, |(_, inner)| inner);
    let end = ["</pre", "</PRE"].iter().filter_map(|tag| inner.rfind(tag)).max();
    let inner = end.and_then(|end| inner.get(..end)).unwrap_or(inner);
    let mut plain = inner.to_owned();
    for (entity, letter) in
        [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&nbsp;", " "), ("&#160;", " ")]
    {
        plain = plain.replace(entity, letter);
    }
    plain.replace("&amp;", "&")
}

/// Without `> ` at the begin of each line.
fn unquoted(mut text: String) -> String {
    for _ in 0..QUOTES_MAX {
        let lines = || text.lines().take(LINES).filter(|line| !line.trim().is_empty());
        let quoted = lines().filter(|line| line.starts_with('>')).count();
        if quoted < 5 || quoted * 10 < lines().count() * 9 {
            break;
        }
        let mut plain = String::with_capacity(text.len());
        for line in text.split_inclusive('\n') {
            let inner = line.strip_prefix('>').map(|rest| rest.strip_prefix(' ').unwrap_or(rest));
            plain.push_str(inner.unwrap_or(line));
        }
        text = plain;
    }
    text
}

/// Whether each other line is blank, and each between is mostly none.
fn is_spaced(text: &str) -> bool {
    let is_blank = |line: &str| line.trim().is_empty();
    let (mut own, mut between, mut filled) = (0_u32, 0_u32, 0_u32);
    for (at, line) in text.lines().take(LINES).enumerate() {
        if at % 2 == 1 {
            between += 1;
            if !is_blank(line) {
                return false;
            }
        } else {
            own += 1;
            filled += u32::from(!is_blank(line));
        }
    }
    between >= 10 && filled * 2 > own
}

fn unspaced(text: &str) -> String {
    text.split_inclusive('\n').step_by(2).collect()
}

#[cfg(test)]
mod tests {
    use super::text;

    const PLAIN: &str = "a 1\n-- --\nb <2\n\nc 3 & d\ne 4\nf 5\ng 6\nh 7\ni 8\nj 9\nk 10\n";

    #[test]
    fn a_text_of_its_own_is_left_as_it_is() {
        assert_eq!(text(PLAIN.to_owned()), PLAIN);
        let crlf = PLAIN.replace('\n', "\r\n");
        assert_eq!(text(crlf.clone()), crlf);
        assert_eq!(text(String::new()), "");
    }

    #[test]
    fn what_mails_and_pages_put_around_a_text_is_taken_off() {
        let quoted: String = PLAIN.lines().map(|line| format!("> {line}\n")).collect();
        let trimmed: String =
            PLAIN.lines().map(|line| format!("> {line}").trim_end().to_owned() + "\n").collect();
        let twice: String = quoted.lines().map(|line| format!(">{line}\n")).collect();
        let escaped = PLAIN.replace('&', "&amp;").replace('<', "&lt;");
        for form in [
            PLAIN.replace('\n', "\r"),
            PLAIN.replace('\n', "\n\n"),
            quoted,
            trimmed,
            twice,
            format!("<html><body><pre>{escaped}</pre></body></html>"),
        ] {
            assert_eq!(text(form.clone()), PLAIN, "{form}");
        }
    }
}
