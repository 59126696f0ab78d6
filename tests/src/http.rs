//! An instance that answers HTTP, and clients that ask it.

use crate::{Instance, wait_for};
use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    os::unix::fs::PermissionsExt,
    time::Duration,
};

/// Starts the instance again with HTTP on a free port of loopback.
pub fn serve_http(instance: &mut Instance, more: &[&str]) -> u16 {
    instance.kill_instance();
    let before = instance.alert_log().len();
    instance.start_with(&[&["--http", "127.0.0.1:0"], more].concat());
    let port = |log: &str| {
        let (_, rest) = log.get(before..)?.split_once("answers HTTP on ")?;
        rest.split_once(',')?.0.rsplit_once(':')?.1.parse().ok()
    };
    wait_for("HTTP to be answered", || port(&instance.alert_log()).is_some());
    port(&instance.alert_log()).expect("just seen")
}

/// A connection whose reads do not wait for ever.
#[must_use]
pub fn connect(port: u16) -> TcpStream {
    let socket = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
    socket.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    socket
}

/// The answer to a request: its head and its body.
pub fn ask_on(mut stream: impl Read + Write, request: &str) -> (String, String) {
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = Vec::new();
    // With TLS the end may come without a farewell.
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8(answer).expect("text");
    let (head, body) =
        answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head in {answer:?}"));
    (head.to_owned(), body.to_owned())
}

/// The text of a request, after which the connection ends.
#[must_use]
pub fn request(line: &str, host: &str, more: &str) -> String {
    format!("{line} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{more}\r\n")
}

/// The answer to a request over a connection of its own.
pub fn ask(port: u16, line: &str, host: &str, more: &str) -> (String, String) {
    ask_on(connect(port), &request(line, host, more))
}

/// The answer to a POST of JSON, beside other headers.
pub fn post(port: u16, path: &str, json: &str, more: &str) -> (String, String) {
    let mut question = request(
        &format!("POST {path}"),
        "localhost",
        &format!("Content-Type: application/json\r\nContent-Length: {}\r\n{more}", json.len()),
    );
    question.push_str(json);
    ask_on(connect(port), &question)
}

/// A file with a token.
pub fn token_file(instance: &Instance, mode: u32) -> String {
    let path = instance.path("token");
    fs::write(&path, "0123456789abcdef0123\n").expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("its mode");
    path.display().to_string()
}
