//! Prometheus's own text (version 0.0.4) of an OpenMetrics text.
//!
//! The samples are the same. A descriptor names what the samples are called, with `_total` or
//! `_info`; an info is a gauge; there are no units, and no mark of the end.

/// Converts a whole text. Lines that begin with `#` are ours: no label can begin a line.
pub(super) fn of(open: &str) -> String {
    let mut text = String::with_capacity(open.len());
    let mut help = None;
    for line in open.lines() {
        if let Some(line) = line.strip_prefix("# HELP ") {
            help = line.split_once(' ');
        } else if let Some((name, kind)) =
            line.strip_prefix("# TYPE ").and_then(|line| line.split_once(' '))
        {
            let (suffix, kind) = match kind {
                "counter" => ("_total", "counter"),
                "info" => ("_info", "gauge"),
                "unknown" => ("", "untyped"),
                _ => ("", kind),
            };
            if let Some((_, help)) = help.take() {
                text.push_str(&format!("# HELP {name}{suffix} {help}\n"));
            }
            text.push_str(&format!("# TYPE {name}{suffix} {kind}\n"));
        } else if !line.starts_with('#') {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn descriptors_name_the_samples() {
        let open = "# HELP a_bytes Of a.\n# TYPE a_bytes counter\n# UNIT a_bytes bytes\na_bytes_total{x=\"# TYPE \"} 1\n\
             # HELP b Of b.\n# TYPE b info\nb_info{v=\"1\"} 1\n# HELP c Of c.\n# TYPE c gauge\nc 2\n# EOF\n";
        let plain = "# HELP a_bytes_total Of a.\n# TYPE a_bytes_total counter\na_bytes_total{x=\"# TYPE \"} 1\n\
             # HELP b_info Of b.\n# TYPE b_info gauge\nb_info{v=\"1\"} 1\n# HELP c Of c.\n# TYPE c gauge\nc 2\n";
        assert_eq!(super::of(open), plain);
    }
}
