//! From a path to an answer.

use super::{
    Site,
    connections::Seat,
    dashboard::{actions::Actions, assets, stream::Events},
    guard,
    metrics::Format,
};
use bytes::Bytes;
use http_body_util::{Either, Full};
use hyper::{
    Method, Request, Response, StatusCode,
    body::Incoming,
    header::{
        ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderMap, HeaderName,
        HeaderValue, REFERRER_POLICY, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS,
    },
};
use std::net::SocketAddr;

/// All at once, or a stream of events.
pub(super) type Body = Either<Full<Bytes>, Events>;
pub(super) type Answer = Response<Body>;

pub(super) const PLAIN: &str = "text/plain; charset=utf-8";
pub(super) const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";

/// Answers a request of a client at an address.
pub(super) async fn answer(
    site: &Site,
    seat: &Seat,
    request: Request<Incoming>,
    from: SocketAddr,
) -> Answer {
    let (head, body) = request.into_parts();
    let request = Request::from_parts(head, ());
    if let Some(refused) = guard::refuse(site, &request) {
        return refused;
    }
    let path = request.uri().path();
    if Actions::are_at(path) {
        if request.method() != Method::POST {
            let text = "this is asked by POST; the dashboard at / does so\n";
            return allowing("POST", text);
        }
        return site.actions.answer(path, request.headers(), body, from).await;
    }
    let asset = assets::answer(path, request.headers());
    if asset.is_none() && !["/metrics", "/api/state", "/api/events"].contains(&path) {
        let text = "there is nothing here; the dashboard is at /, figures are at /metrics\n";
        return refusal(StatusCode::NOT_FOUND, text);
    }
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        return allowing("GET, HEAD", "this can be read, by GET or HEAD, alone\n");
    }
    if let Some(asset) = asset {
        return asset;
    }
    let found = match path {
        "/api/state" => site.dashboard.state().await.map(|json| plain(StatusCode::OK, JSON, json)),
        "/api/events" => return events(site, seat, request.method()),
        _ => {
            let format = wanted(request.headers());
            let text = site.metrics.text(format).await;
            text.map(|text| plain(StatusCode::OK, format.content_type(), text))
        }
    };
    found.unwrap_or_else(|| {
        refusal(
            StatusCode::SERVICE_UNAVAILABLE,
            "the figures cannot be gathered now; the alert log may say why\n",
        )
    })
}

/// A stream, if there may be one more.
fn events(site: &Site, seat: &Seat, method: &Method) -> Answer {
    if method == Method::HEAD {
        return plain(StatusCode::OK, EVENTS, Bytes::new());
    }
    let Some(events) = site.dashboard.events() else {
        let text = "too many dashboards are open; close some\n";
        let mut refused = refusal(StatusCode::SERVICE_UNAVAILABLE, text);
        refused.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("10"));
        return refused;
    };
    let progress = seat.progress();
    let events = events.reporting(move || progress.note());
    plain(StatusCode::OK, EVENTS, Bytes::new()).map(|_| Either::Right(events))
}

/// The refusal of a method, with those that there are.
fn allowing(methods: &'static str, text: &'static str) -> Answer {
    let mut refused = refusal(StatusCode::METHOD_NOT_ALLOWED, text);
    refused.headers_mut().insert(ALLOW, HeaderValue::from_static(methods));
    refused
}

pub(super) fn refusal(status: StatusCode, text: &'static str) -> Answer {
    plain(status, PLAIN, Bytes::from_static(text.as_bytes()))
}

pub(super) fn plain(status: StatusCode, content_type: &'static str, text: Bytes) -> Answer {
    let mut answer = Response::new(Either::Left(Full::new(text)));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    for (name, value) in [
        (CONTENT_TYPE, content_type),
        (CACHE_CONTROL, "no-store"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
        (REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    answer
}

/// The format that a client prefers; the older one if it does not say.
fn wanted(headers: &HeaderMap) -> Format {
    let mut best = [0.0_f32; 2];
    let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    for choice in values.flat_map(|value| value.split(',')) {
        let mut parts = choice.split(';').map(str::trim);
        let place = match parts.next().unwrap_or_default().to_ascii_lowercase().as_str() {
            "application/openmetrics-text" => 0,
            "text/plain" | "text/*" | "*/*" => 1,
            _ => continue,
        };
        let weight = parts.find_map(|part| part.strip_prefix("q="));
        let weight = weight.and_then(|weight| weight.parse().ok()).unwrap_or(1.0);
        best[place] = best[place].max(weight);
    }
    if best[0] > 0.0 && best[0] >= best[1] { Format::OpenMetrics } else { Format::Prometheus }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No answer can be framed, guessed to be of another type, or run anything.
    #[test]
    fn every_answer_has_a_strict_policy() {
        let page = assets::answer("/", &HeaderMap::new()).expect("a page");
        for answer in
            [refusal(StatusCode::NOT_FOUND, "no"), plain(StatusCode::OK, JSON, Bytes::new()), page]
        {
            let of = |name: &str| answer.headers()[name].to_str().expect("text").to_owned();
            let policy = of("content-security-policy");
            assert!(policy.starts_with("default-src 'none';"), "{policy}");
            assert!(policy.ends_with("frame-ancestors 'none'"), "{policy}");
            assert!(!policy.contains("unsafe") && !policy.contains('*'), "{policy}");
            assert_eq!(of("x-content-type-options"), "nosniff");
            assert_eq!(of("referrer-policy"), "no-referrer");
            assert_eq!(of("cross-origin-resource-policy"), "same-origin");
            assert!(["no-store", "no-cache"].contains(&&*of("cache-control")));
        }
    }

    #[test]
    fn the_format_is_the_one_that_is_preferred() {
        let of = |accept: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, HeaderValue::from_static(accept));
            wanted(&headers)
        };
        let scraper = "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;\
             version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        assert_eq!(of(scraper), Format::OpenMetrics);
        assert_eq!(of("application/openmetrics-text"), Format::OpenMetrics);
        for accept in [
            "text/plain",
            "*/*",
            "",
            "text/html,*/*;q=0.8",
            "application/openmetrics-text;q=0",
            "application/openmetrics-text;q=0.1,text/plain;q=0.9",
            "q=;;,,",
        ] {
            assert_eq!(of(accept), Format::Prometheus, "{accept}");
        }
        assert_eq!(wanted(&HeaderMap::new()), Format::Prometheus);
    }
}
