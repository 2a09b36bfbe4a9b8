//! `http:URL`: each record is posted, and the status says what became of it.
//!
//! ```text
//!   record --> POST, value as body, all else as headers --> 2xx            done
//!                                                           429, 5xx       failed: again, after Retry-After or --retry
//!                                                           anything else  given up: no further attempt fares better
//! ```

mod headers;

use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::RETRY_AFTER;
use hyper::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use keyway::{Outcome, Record};
use rustix::process::{Resource, getrlimit, setrlimit};
use rustls::{ClientConfig, RootCertStore};
use tokio::time::{Instant, timeout_at};

use super::Finish;

/// A connection that is not there by then is a failed attempt.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Connections that were idle for so long are closed.
const IDLE_TIME: Duration = Duration::from_secs(60);

/// Longest wait that a server may ask for.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(300);

/// Most bytes of an answer's body that are read, so that its connection can be used again.
const LONGEST_BODY_BYTES: usize = 64 * 1024;

/// Most of these that are shown where the answer is no success.
const SHOWN_BYTES: usize = 200;

/// Files that the process has open beside the connections: those of librdkafka, logs, threads' queues.
const OTHER_FILES: u64 = 512;

/// Reads the URL of `http:URL`.
pub(super) fn url(text: &str) -> Result<Uri, String> {
    let url: Uri = text.parse().map_err(|error| format!("{error}"))?;
    if !matches!(url.scheme_str(), Some("http" | "https")) {
        return Err("a URL begins with http:// or https://".to_owned());
    }
    match url.authority() {
        Some(authority) if authority.as_str().contains('@') => {
            Err("a URL with a user or a password is not taken".to_owned())
        }
        Some(authority) if !authority.host().is_empty() => Ok(url),
        _ => Err("the URL names no host".to_owned()),
    }
}

/// Posts records to a server.
#[derive(Debug)]
pub(super) struct Post {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    url: Uri,
    timeout: Duration,
    finish: Finish,
}

impl Post {
    pub(super) fn new(
        url: Uri,
        timeout: Duration,
        calls: u32,
        finish: Finish,
    ) -> Result<Self, String> {
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
        connector.set_nodelay(true);
        connector.enforce_http(false);
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls(&url)?)
            .https_or_http()
            .enable_http1()
            .wrap_connector(connector);
        let client = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE_TIME)
            .pool_timer(TokioTimer::new())
            .build(connector);
        allow_files(u64::from(calls) + OTHER_FILES);
        Ok(Self {
            client,
            url,
            timeout,
            finish,
        })
    }

    /// Has a record handled by the server.
    pub(super) async fn handle(&self, record: &Record) -> Outcome {
        let request = match self.request(record) {
            Ok(request) => request,
            // No further attempt would read it.
            Err(unreadable) => return Outcome::GiveUp(format!("http: {unreadable}").into()),
        };
        let deadline = Instant::now() + self.timeout;
        let reason = match timeout_at(deadline, self.client.request(request)).await {
            Ok(Ok(answer)) => return self.outcome(answer, record, deadline).await,
            Ok(Err(error)) => with_causes(&error),
            Err(_) => format!("no answer within {:?} (--handler-timeout)", self.timeout),
        };
        Outcome::Failed(format!("http: {reason}").into())
    }

    fn request(&self, record: &Record) -> Result<Request<Full<Bytes>>, String> {
        let value = Bytes::copy_from_slice(record.value().unwrap_or_default());
        let mut request = Request::new(Full::new(value));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.url.clone();
        *request.headers_mut() = headers::of(record)?;
        Ok(request)
    }

    async fn outcome(
        &self,
        answer: Response<Incoming>,
        record: &Record,
        deadline: Instant,
    ) -> Outcome {
        let (head, body) = answer.into_parts();
        // The status has decided: what becomes of the body is no matter.
        let begins = beginning(body, deadline).await;
        let reason = || format!("http: {}{begins}", head.status).into();
        match verdict(head.status, &head.headers) {
            Verdict::Done => self.finish.of(record),
            Verdict::Again(None) => Outcome::Failed(reason()),
            Verdict::Again(after) => Outcome::Retry { after },
            Verdict::GivenUp => Outcome::GiveUp(reason()),
        }
    }
}

/// What a status makes of a record.
#[derive(Debug, PartialEq)]
enum Verdict {
    Done,
    /// After this, or what the policy says.
    Again(Option<Duration>),
    GivenUp,
}

fn verdict(status: StatusCode, headers: &HeaderMap) -> Verdict {
    if status.is_success() {
        return Verdict::Done;
    }
    if status != StatusCode::TOO_MANY_REQUESTS && !status.is_server_error() {
        return Verdict::GivenUp;
    }
    let seconds = headers.get(RETRY_AFTER).and_then(|value| {
        let digits = value.to_str().ok()?.trim();
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        // More than a number holds is as good as the longest.
        is_number.then(|| digits.parse().unwrap_or(u64::MAX))
    });
    Verdict::Again(
        seconds
            // At once is what nobody who is asked too much can mean.
            .filter(|&seconds| seconds > 0)
            .map(|seconds| Duration::from_secs(seconds).min(LONGEST_RETRY_AFTER)),
    )
}

/// Reads a body to its end, so that the connection is free again, and tells how it begins.
async fn beginning(mut body: Incoming, deadline: Instant) -> String {
    let (mut shown, mut read) = (Vec::new(), 0);
    while read < LONGEST_BODY_BYTES {
        let Ok(Some(Ok(frame))) = timeout_at(deadline, body.frame()).await else {
            break;
        };
        let data = frame.into_data().unwrap_or_default();
        read += data.len();
        let room = SHOWN_BYTES - shown.len();
        shown.extend_from_slice(&data[..data.len().min(room)]);
    }
    match shown.trim_ascii() {
        b"" => String::new(),
        shown => format!(": {:?}", String::from_utf8_lossy(shown)),
    }
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// The system's certificates, for a URL that needs some.
fn tls(url: &Uri) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    if url.scheme_str() == Some("https") {
        let found = rustls_native_certs::load_native_certs();
        roots.add_parsable_certificates(found.certs);
        if roots.is_empty() {
            let mut reason = "no certificates of authorities were found; SSL_CERT_FILE or SSL_CERT_DIR says where they are"
                .to_owned();
            for error in found.errors {
                reason = format!("{reason}: {error}");
            }
            return Err(reason);
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

/// Raises what the process may have open, as far as it may do that itself: many systems begin with 1,024.
fn allow_files(needed: u64) {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return;
    }
    limit.current = Some(limit.maximum.map_or(needed, |most| most.min(needed)));
    let is_enough = limit.current == Some(needed);
    if setrlimit(Resource::Nofile, limit).is_err() || !is_enough {
        tracing::warn!(
            "http: so many calls at once may need {needed} open files, and the system allows fewer (ulimit -n)"
        );
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_a_scheme_and_a_host_and_no_password() {
        for text in ["http://h", "https://h:8443/a?b=c", "http://[::1]:80/"] {
            assert!(url(text).is_ok(), "{text}");
        }
        for text in [
            "",
            "h",
            "/a",
            "h:80",
            "ftp://h/",
            "http://",
            "http:///a",
            "http://u:p@h/",
            "http://h /",
        ] {
            assert!(url(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_status_decides_and_retry_after_says_when() {
        let after = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, text.parse().unwrap());
            verdict(StatusCode::SERVICE_UNAVAILABLE, &headers)
        };
        let seconds = |seconds| Verdict::Again(Some(Duration::from_secs(seconds)));
        assert_eq!(after("7"), seconds(7));
        assert_eq!(after("3600"), seconds(300));
        assert_eq!(after("99999999999999999999"), seconds(300));
        for text in ["0", "", "-1", "1.5", "Wed, 21 Oct 2026 07:28:00 GMT"] {
            assert_eq!(after(text), Verdict::Again(None), "{text}");
        }
        for (status, expected) in [
            (200, Verdict::Done),
            (204, Verdict::Done),
            (301, Verdict::GivenUp),
            (400, Verdict::GivenUp),
            (404, Verdict::GivenUp),
            (429, Verdict::Again(None)),
            (500, Verdict::Again(None)),
            (599, Verdict::Again(None)),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(verdict(status, &HeaderMap::new()), expected, "{status}");
        }
    }
}
