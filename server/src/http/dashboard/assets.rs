//! The page and its parts, as they were packed into the program (`server/build.rs`).
//!
//! The names below `/assets/` have a digest of their contents, so a browser keeps them for ever;
//! the page itself is asked for each time.

use super::super::routes::{Answer, PLAIN, plain};
use bytes::Bytes;
use hyper::{
    HeaderMap, StatusCode,
    header::{
        ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, HeaderValue,
        VARY,
    },
};

/// A file.
pub struct Packed {
    pub path: &'static str,
    pub plain: &'static [u8],
    pub gzip: Option<&'static [u8]>,
}

include!(concat!(env!("OUT_DIR"), "/dashboard.rs"));

/// What the page may do: run its own scripts, use its own style, and ask this server. No script or
/// style within the page counts, nor anything from elsewhere.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The page of a program without one.
const MISSING: &str = concat!(
    "plinth ",
    env!("CARGO_PKG_VERSION"),
    "\n\nThe dashboard is not in this program: it was built without npm. To have it, in the source:\n\n    \
     (cd dashboard && npm ci && npm run build)\n    cargo build --release\n\n\
     /metrics     figures for Prometheus (docs/metrics.md)\n/api/state   all that the dashboard shows, as JSON\n"
);

/// The file at a path, if there is one; at `/` always.
pub(in crate::http) fn answer(path: &str, headers: &HeaderMap) -> Option<Answer> {
    let wanted = if path == "/" { "/index.html" } else { path };
    match FILES.iter().find(|file| file.path == wanted) {
        Some(file) => Some(file.answer(headers)),
        None if path == "/" => {
            Some(plain(StatusCode::OK, PLAIN, Bytes::from_static(MISSING.as_bytes())))
        }
        None => None,
    }
}

/// Whether this path is part of the page, and says nothing about this host.
pub(in crate::http) fn is_of_page(path: &str) -> bool {
    path == "/" || FILES.iter().any(|file| file.path == path)
}

impl Packed {
    fn content_type(&self) -> &'static str {
        match self.path.rsplit_once('.').map(|(_, end)| end) {
            Some("html") => "text/html; charset=utf-8",
            Some("js") => "text/javascript; charset=utf-8",
            Some("css") => "text/css; charset=utf-8",
            Some("svg") => "image/svg+xml",
            _ => "application/octet-stream",
        }
    }

    fn answer(&self, headers: &HeaderMap) -> Answer {
        let gzip = self.gzip.filter(|_| takes_gzip(headers));
        let bytes = Bytes::from_static(gzip.unwrap_or(self.plain));
        let mut answer = plain(StatusCode::OK, self.content_type(), bytes);
        let mut set =
            |name, value| answer.headers_mut().insert(name, HeaderValue::from_static(value));
        if gzip.is_some() {
            set(CONTENT_ENCODING, "gzip");
        }
        if self.path.starts_with("/assets/") {
            set(CACHE_CONTROL, "public, max-age=31536000, immutable");
        } else {
            set(CACHE_CONTROL, "no-cache");
        }
        set(VARY, "Accept-Encoding");
        set(CONTENT_SECURITY_POLICY, POLICY);
        answer
    }
}

/// Whether a client takes gzip. One that refuses it says `q=0`.
fn takes_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|choice| {
        let (name, weight) = choice.split_once(';').unwrap_or((choice, ""));
        let weight = weight.trim().strip_prefix("q=").and_then(|weight| weight.parse::<f32>().ok());
        name.trim().eq_ignore_ascii_case("gzip") && weight.is_none_or(|weight| weight > 0.0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_taken_where_it_is_not_refused() {
        let of = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(value));
            takes_gzip(&headers)
        };
        assert!(of("gzip") && of("deflate, GZIP;q=0.5, br"));
        assert!(!of("br") && !of("gzip;q=0") && !of(""));
        assert!(!takes_gzip(&HeaderMap::new()));
    }

    /// With or without npm: the page is there, and if it is the real one, it is small and strict.
    #[test]
    fn the_page_is_small_and_runs_nothing_but_its_own_files() {
        let page = answer("/", &HeaderMap::new()).expect("a page");
        let policy = page.headers()[CONTENT_SECURITY_POLICY].to_str().expect("text");
        assert!(
            policy.starts_with("default-src 'none'") && policy.contains("frame-ancestors 'none'")
        );
        assert!(!policy.contains("unsafe") && !policy.contains("data:"));
        let compressed = |file: &Packed| file.gzip.map_or(file.plain.len(), <[u8]>::len);
        assert!(FILES.iter().map(compressed).sum::<usize>() < 150_000);
        for file in FILES {
            assert!(!file.content_type().starts_with("application/"), "{}", file.path);
        }
        if let Some(page) = FILES.iter().find(|file| file.path == "/index.html") {
            let text = String::from_utf8_lossy(page.plain).to_lowercase();
            assert!(!text.contains("<style") && !text.contains("style="), "{text}");
            let inline = text
                .match_indices("<script")
                .any(|(at, _)| !text[at..].split('>').next().unwrap_or_default().contains("src="));
            assert!(!inline && !text.contains("http://") && !text.contains("https://"), "{text}");
        } else {
            assert!(MISSING.contains("npm ci && npm run build"));
        }
        assert!(answer("/assets/../index.html", &HeaderMap::new()).is_none());
        assert!(answer("/nothing", &HeaderMap::new()).is_none());
    }
}
