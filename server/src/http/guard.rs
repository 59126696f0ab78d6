//! The `Host` header and the token: which requests are answered.
//!
//! A page in a browser on this host can ask a loopback address, under a name that its author lets
//! point there (DNS rebinding), and could read the answer. The browser sends that name as `Host`.
//! So on a loopback address only names of loopback are answered.

use super::{
    Site,
    routes::{Answer, refusal},
};
use hyper::{
    Request, StatusCode,
    header::{AUTHORIZATION, HOST, HeaderValue, WWW_AUTHENTICATE},
};
use std::net::IpAddr;

/// The refusal of a request that may not be made.
pub(super) fn refuse(site: &Site, request: &Request<()>) -> Option<Answer> {
    if site.address.listen.ip().is_loopback() && !names_loopback(request) {
        let text = "this address answers requests to localhost, 127.0.0.1 or [::1] alone: ask by one of these names, or \
                    let the proxy in front send one as Host\n";
        return Some(refusal(StatusCode::FORBIDDEN, text));
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
    fn a_token_is_found_after_its_scheme() {
        let of = |text: &'static str| bearer(&HeaderValue::from_static(text)).map(<[u8]>::to_vec);
        assert_eq!(of("Bearer abc"), Some(b"abc".to_vec()));
        assert_eq!(of("bearer  abc "), Some(b"abc".to_vec()));
        assert_eq!((of("Basic abc="), of("Bearer"), of("")), (None, None, None));
    }
}
