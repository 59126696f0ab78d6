//! The `Host` header, the page that a request comes from, and the token: which requests are
//! answered.
//!
//! A page in a browser on this host can ask a loopback address, under a name that its author lets
//! point there (DNS rebinding), and could read the answer. The browser sends that name as `Host`.
//! So on a loopback address only names of loopback are answered.
//!
//! Scripts of other pages are refused by `Origin` and `Sec-Fetch-Site`, which browsers send and
//! scrapers do not. They could not read the answer, and shall not make the server work either.
//!
//! The page's own files need no token: a browser sends none when it opens a page, and they say
//! nothing about this host. The page asks for the token, and sends it with its questions.

use super::{
    Site,
    dashboard::assets,
    routes::{Answer, refusal},
};
use hyper::{
    Request, StatusCode,
    header::{AUTHORIZATION, HOST, HeaderMap, HeaderValue, ORIGIN, WWW_AUTHENTICATE},
};
use std::net::IpAddr;

/// The refusal of a request that may not be made.
pub(super) fn refuse(site: &Site, request: &Request<()>) -> Option<Answer> {
    if site.address.listen.ip().is_loopback() && !names_loopback(request) {
        let text = "this address answers requests to localhost, 127.0.0.1 or [::1] alone: ask by one of these names, or \
                    let the proxy in front send one as Host\n";
        return Some(refusal(StatusCode::FORBIDDEN, text));
    }
    if !is_of_own_page(request.headers()) {
        let text = "scripts of other pages are not answered\n";
        return Some(refusal(StatusCode::FORBIDDEN, text));
    }
    if assets::is_of_page(request.uri().path()) {
        return None;
    }
    let token = site.token.as_ref()?;
    let shown = request.headers().get(AUTHORIZATION).and_then(bearer);
    if shown.is_some_and(|shown| token.is(shown, site.instance.alert())) {
        return None;
    }
    let text =
        "a token is needed: Authorization: Bearer TOKEN, with the token of serve --http-token\n";
    let mut answer = refusal(StatusCode::UNAUTHORIZED, text);
    answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    Some(answer)
}

/// Whether a request comes from no page, or from a page of this server.
fn is_of_own_page(headers: &HeaderMap) -> bool {
    let host = headers.get(HOST).map(HeaderValue::as_bytes).unwrap_or_default();
    let is_own = |origin: &HeaderValue| {
        let origin = origin.as_bytes();
        let name =
            [&b"http://"[..], b"https://"].iter().find_map(|scheme| origin.strip_prefix(*scheme));
        name.is_some_and(|name| name.eq_ignore_ascii_case(host))
    };
    // `none`: the user has typed the address, or follows a bookmark. A link on another page may
    // lead here.
    let site = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
    let opens = headers.get("sec-fetch-mode").is_some_and(|mode| mode == "navigate");
    let is_near = matches!(site, None | Some(b"same-origin" | b"none")) || opens;
    is_near && headers.get_all(ORIGIN).iter().all(is_own)
}

/// The token in a header's value.
fn bearer(value: &HeaderValue) -> Option<&[u8]> {
    let (scheme, token) = value.as_bytes().split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}

fn names_loopback(request: &Request<()>) -> bool {
    let mut hosts = request.headers().get_all(HOST).iter();
    let one = hosts.next().and_then(|host| host.to_str().ok());
    let of_target = request.uri().authority();
    hosts.next().is_none()
        && one.is_some_and(is_loopback)
        && of_target.is_none_or(|target| is_loopback(target.as_str()))
}

/// Whether a host, perhaps with a port, is loopback.
fn is_loopback(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    name.eq_ignore_ascii_case("localhost")
        || address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_loopback_are_loopback() {
        for host in ["localhost", "LOCALHOST:9742", "127.0.0.1", "127.8.9.1:80", "[::1]", "[::1]:9"]
        {
            assert!(is_loopback(host), "{host}");
        }
        for host in [
            "",
            ":80",
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.nip.io:80",
            "10.0.0.1",
            "[::1",
            "user@localhost",
            "localhost:x",
        ] {
            assert!(!is_loopback(host), "{host}");
        }
    }

    #[test]
    fn a_second_host_header_or_a_foreign_target_is_refused() {
        let request = |uri: &str, hosts: &[&str]| {
            let request = Request::builder().uri(uri);
            let with =
                |request: hyper::http::request::Builder, host: &&str| request.header(HOST, *host);
            hosts.iter().fold(request, with).body(()).expect("a request")
        };
        assert!(names_loopback(&request("/metrics", &["localhost"])));
        assert!(!names_loopback(&request("/metrics", &[])));
        assert!(!names_loopback(&request("/metrics", &["localhost", "evil.example"])));
        assert!(!names_loopback(&request("http://evil.example/metrics", &["localhost"])));
    }

    #[test]
    fn scripts_of_other_pages_are_refused() {
        let of = |more: &[(&'static str, &'static str)]| {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, HeaderValue::from_static("localhost:9742"));
            for (name, value) in more {
                headers.append(*name, HeaderValue::from_static(value));
            }
            is_of_own_page(&headers)
        };
        assert!(of(&[]) && of(&[("origin", "http://localhost:9742")]));
        assert!(of(&[("origin", "https://LOCALHOST:9742"), ("sec-fetch-site", "same-origin")]));
        assert!(of(&[("sec-fetch-site", "none"), ("sec-fetch-mode", "navigate")]));
        assert!(of(&[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")]));
        for refused in [
            &[("origin", "null")][..],
            &[("origin", "http://evil.example")],
            &[("origin", "http://localhost:1")],
            &[("origin", "localhost:9742")],
            &[("origin", "http://localhost:9742"), ("origin", "http://evil.example")],
            &[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "cors")],
            &[("sec-fetch-site", "same-site"), ("sec-fetch-mode", "no-cors")],
        ] {
            assert!(!of(refused), "{refused:?}");
        }
    }

    #[test]
    fn a_token_is_found_after_its_scheme() {
        let of = |text: &'static str| bearer(&HeaderValue::from_static(text)).map(<[u8]>::to_vec);
        assert_eq!(of("Bearer abc"), Some(b"abc".to_vec()));
        assert_eq!(of("bearer  abc "), Some(b"abc".to_vec()));
        assert_eq!((of("Basic abc="), of("Bearer"), of("")), (None, None, None));
    }
}
