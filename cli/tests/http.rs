//! `keyway run --handler http:URL` with a server in the test's process.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use common::{Event, Run, assert_keys_in_order, count};
use rustix::process::{Resource, getrlimit, setrlimit};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// What a server was asked.
struct Request {
    line: String,
    /// Names in small letters, in their order.
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Request {
    fn read(input: &mut impl BufRead) -> Option<Self> {
        let text = |input: &mut dyn BufRead| {
            let mut line = String::new();
            let read = input.read_line(&mut line).ok()?;
            (read > 0).then(|| line.trim_end().to_owned())
        };
        let line = text(input)?;
        let mut headers = Vec::new();
        loop {
            let header = text(input)?;
            let Some((name, value)) = header.split_once(':') else {
                break;
            };
            headers.push((name.to_lowercase(), value.trim().to_owned()));
        }
        let mut request = Self {
            line,
            headers,
            body: Vec::new(),
        };
        let length = request.header("content-length").parse().unwrap();
        request.body = vec![0; length];
        input.read_exact(&mut request.body).ok()?;
        Some(request)
    }

    fn header(&self, name: &str) -> &str {
        let mut found = self.headers.iter().filter(|header| header.0 == name);
        let header = found
            .next()
            .unwrap_or_else(|| panic!("{name}: {:?}", self.headers));
        &header.1
    }

    fn attempt(&self) -> u32 {
        self.header("keyway-attempt").parse().unwrap()
    }
}

const OK: &str = "200 OK";

/// A server on this machine whose answers are a status line's end, with further headers behind it where they are needed.
struct Server {
    address: String,
    connections: Arc<AtomicUsize>,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    fn start(answer: impl Fn(&Request) -> String + Send + Sync + 'static) -> Self {
        Self::over(answer, b"body", |stream| Some(Box::new(stream)))
    }

    fn over(
        answer: impl Fn(&Request) -> String + Send + Sync + 'static,
        body: &'static [u8],
        wrap: impl Fn(TcpStream) -> Option<Box<dyn Stream>> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Self {
            address: format!("http://{}/", listener.local_addr().unwrap()),
            connections: Arc::default(),
            requests: Arc::default(),
        };
        let (connections, requests) = (
            Arc::clone(&server.connections),
            Arc::clone(&server.requests),
        );
        let (answer, wrap) = (Arc::new(answer), Arc::new(wrap));
        thread::spawn(move || {
            for stream in listener.incoming() {
                connections.fetch_add(1, Ordering::Relaxed);
                let (requests, answer, wrap) = (
                    Arc::clone(&requests),
                    Arc::clone(&answer),
                    Arc::clone(&wrap),
                );
                let stream = stream.unwrap();
                thread::spawn(move || {
                    let mut stream = BufReader::new(wrap(stream)?);
                    while let Some(request) = Request::read(&mut stream) {
                        let said = answer(&request);
                        requests.lock().unwrap().push(request);
                        let length = body.len();
                        let head = format!("HTTP/1.1 {said}\r\ncontent-length: {length}\r\n\r\n");
                        stream.get_mut().write_all(head.as_bytes()).ok()?;
                        stream.get_mut().write_all(body).ok()?;
                        stream.get_mut().flush().ok()?;
                    }
                    Some(())
                });
            }
        });
        server
    }

    fn run(&self, arguments: &str) -> Run {
        run(&self.address, arguments)
    }

    fn requests(&self) -> Vec<Request> {
        std::mem::take(&mut self.requests.lock().unwrap())
    }
}

trait Stream: Read + Write {}
impl<S: Read + Write> Stream for S {}

fn run(address: &str, arguments: &str) -> Run {
    Run::start(&format!("--handler http:{address} {arguments}"))
}

fn reasons(events: &[Event]) -> BTreeSet<String> {
    let failed = events.iter().filter(|event| event.is("failed"));
    failed
        .map(|event| event.0["reason"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_record_is_posted_with_all_that_it_has_and_2xx_is_done() {
    let server = Server::start(|_| "204 No Content".to_owned());
    let (summary, events) = server.run("--generate 100,10,20 --until-idle 2s").success();
    assert_eq!(
        (&summary["records"], &summary["failed"]),
        (&100.into(), &0.into()),
        "{:?}",
        reasons(&events)
    );
    assert_keys_in_order(&events);
    let requests = server.requests();
    assert_eq!(requests.len(), 100);
    let mut ids = BTreeSet::new();
    for request in &requests {
        assert_eq!(request.line, "POST / HTTP/1.1");
        assert_eq!(request.body, b".".repeat(20));
        assert!(request.header("keyway-key").starts_with("key-"));
        assert!(request.header("keyway-timestamp").parse::<u64>().unwrap() > 0);
        assert_eq!(request.attempt(), 1);
        let place =
            ["topic", "partition", "offset"].map(|part| request.header(&format!("keyway-{part}")));
        assert_eq!(request.header("idempotency-key"), place.join("/"));
        ids.insert(request.header("idempotency-key").to_owned());
    }
    assert_eq!(ids.len(), 100);
    let done = events
        .iter()
        .filter(|event| event.is("done"))
        .map(Event::place);
    let done = done.map(|(topic, partition, offset)| format!("{topic}/{partition}/{offset}"));
    assert_eq!(done.collect::<BTreeSet<_>>(), ids);
}

/// Without reading answers to their end it fails with a connection for each record.
#[test]
fn connections_are_used_again() {
    let server = Server::over(
        |_| OK.to_owned(),
        &[b'.'; 50_000],
        |stream| Some(Box::new(stream)),
    );
    let run = server.run("--concurrency 4 --generate 400,20,10 --until-idle 2s");
    assert_eq!(run.success().0["records"], 400);
    let connections = server.connections.load(Ordering::Relaxed);
    assert!((1..=8).contains(&connections), "{connections}");
}

/// Without Retry-After it fails: the second attempt comes after a millisecond.
#[test]
fn who_is_asked_too_much_says_when_to_ask_again() {
    let server = Server::start(|request| match request.attempt() {
        1 => "429 Too Many Requests\r\nretry-after: 2".to_owned(),
        _ => OK.to_owned(),
    });
    let run = server.run("--retry 1ms,1,1ms,0 --generate 4,4,10 --until-idle 5s");
    let (summary, events) = run.success();
    assert_eq!(
        (&summary["records"], &summary["failed"]),
        (&4.into(), &4.into())
    );
    let mut at: BTreeMap<_, Vec<u64>> = BTreeMap::new();
    for event in events.iter().filter(|event| event.is("start")) {
        at.entry(event.place())
            .or_default()
            .push(event.0["ns"].as_u64().unwrap());
    }
    for times in at.values() {
        assert!(times[1] - times[0] >= 1_900_000_000, "{times:?}");
    }
    let ids: Vec<_> = server
        .requests()
        .iter()
        .map(|it| it.header("idempotency-key").to_owned())
        .collect();
    assert_eq!(ids.len(), 8);
    assert_eq!(
        ids.iter().collect::<BTreeSet<_>>().len(),
        4,
        "the same for each attempt"
    );
}

#[test]
fn a_server_that_fails_is_asked_again_and_what_it_refuses_is_a_dead_letter() {
    let server = Server::start(
        |request| match (request.header("keyway-key"), request.attempt()) {
            ("key-0", _) => "422 Unprocessable Entity".to_owned(),
            (_, 1) => "503 Service Unavailable".to_owned(),
            _ => OK.to_owned(),
        },
    );
    let run = server
        .run("--retry 1ms,1,1ms,5 --dead-letter generated.dead --generate 12,4,10 --until-idle 2s");
    let (summary, events) = run.success();
    assert_eq!(summary["records"], 12);
    assert_eq!((count(&events, "done"), count(&events, "dead")), (9, 3));
    assert_eq!(server.requests().len(), 3 + 2 * 9);
    let expected = [
        r#"http: 422 Unprocessable Entity: "body""#,
        r#"http: 503 Service Unavailable: "body""#,
    ];
    assert_eq!(reasons(&events), expected.map(str::to_owned).into());
}

#[test]
fn what_is_refused_stays_incomplete_without_a_dead_letter_topic() {
    let server = Server::start(|_| "404 Not Found".to_owned());
    let run = server.run("--generate 4,4,10 --until-idle 2s");
    let (status, summary, _) = run.end();
    assert_eq!(status.code(), Some(1));
    assert_eq!(summary.unwrap()["records"], 0);
    assert_eq!(server.requests().len(), 4, "one attempt each");
}

#[test]
fn what_is_done_is_sent_on() {
    let server = Server::start(|_| OK.to_owned());
    let run = server.run(
        "--output generated.out --retry 1ms,1,1ms,1 -X message.max.bytes=2000 --generate 4,4,5000 --until-idle 2s",
    );
    let (_, summary, events) = run.end();
    assert_eq!(summary.unwrap()["failed"], 4);
    for reason in reasons(&events) {
        assert!(reason.contains("generated.out"), "{reason}");
    }
}

#[test]
fn a_server_that_is_not_there_is_a_failed_attempt_until_it_is() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    let mut run = run(&address, "--retry 1ms,1,1ms,0 --generate 1,1,10");
    run.wait_until("some attempts", |events| count(events, "failed") >= 3);
    run.signal("TERM");
    run.signal("INT");
    let (_, _, events) = run.end();
    for reason in reasons(&events) {
        assert!(reason.contains("onnection refused"), "{reason}");
    }
}

/// Without the timeout it fails: the run does not end.
#[test]
fn an_answer_that_does_not_come_is_a_failed_attempt() {
    let server = Server::start(|request| {
        if request.attempt() == 1 {
            thread::sleep(Duration::from_secs(600));
        }
        OK.to_owned()
    });
    let run =
        server.run("--handler-timeout 300ms --retry 1ms,1,1ms,0 --generate 4,4,10 --until-idle 2s");
    let (summary, events) = run.success();
    assert_eq!(
        (&summary["records"], &summary["failed"]),
        (&4.into(), &4.into())
    );
    for reason in reasons(&events) {
        assert!(reason.contains("no answer within 300ms"), "{reason}");
    }
}

/// None is answered before a thousand have come. The command begins with fewer files than it has calls: where it does not
/// raise that it fails: they never come together.
#[test]
fn a_thousand_calls_run_at_once() {
    const CALLS: usize = 1_000;
    // This process has as many connections.
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).unwrap();
    let inside = Arc::new((Mutex::new(0), Condvar::new()));
    let waiting = Arc::clone(&inside);
    let server = Server::start(move |_| {
        let (count, all) = &*waiting;
        let mut count = count.lock().unwrap();
        *count += 1;
        all.notify_all();
        let patience = Duration::from_secs(60);
        let (count, _) = all
            .wait_timeout_while(count, patience, |count| *count < CALLS)
            .unwrap();
        match *count < CALLS {
            true => "500 Too Few".to_owned(),
            false => OK.to_owned(),
        }
    });
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -S -n 256; exec \"$0\" \"$@\""]);
    let run = Run::of(
        command.arg(env!("CARGO_BIN_EXE_keyway")),
        &["--handler", &format!("http:{}", server.address)],
        &format!(
            "--handler-timeout 1m --concurrency {CALLS} --generate {CALLS},{CALLS},10 --until-idle 2s"
        ),
    );
    let (summary, events) = run.success();
    assert_eq!(
        (&summary["records"], &summary["failed"]),
        (&CALLS.into(), &0.into()),
        "{:?}",
        reasons(&events)
    );
    assert_eq!(summary["max_running"], CALLS);
}

fn certificate(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/certificate");
    folder.join(name).to_str().unwrap().to_owned()
}

/// A server that shows the certificate of the tests, which is its own authority.
fn over_tls() -> Server {
    let certificate_chain =
        vec![CertificateDer::from_pem_file(certificate("localhost.pem")).unwrap()];
    let key = PrivatePkcs8KeyDer::from(std::fs::read(certificate("localhost.key")).unwrap());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(certificate_chain, key.into())
        .unwrap();
    let config = Arc::new(config);
    Server::over(
        |_| OK.to_owned(),
        b"body",
        move |stream| {
            let session = ServerConnection::new(Arc::clone(&config)).ok()?;
            Some(Box::new(StreamOwned::new(session, stream)))
        },
    )
}

/// Without the system's certificates, or with any, one of the two fails.
#[test]
fn who_a_server_is_over_https_is_checked_against_the_authorities_that_ssl_cert_file_names() {
    let server = over_tls();
    let address = server
        .address
        .replace("http://127.0.0.1", "https://localhost");
    let handler = format!("http:{address}");
    let options = "--retry 1ms,1,1ms,2 --generate 10,5,10 --until-idle 2s";
    let run = |authorities: &str| {
        Run::of(
            common::keyway("")
                .env("SSL_CERT_FILE", authorities)
                .env_remove("SSL_CERT_DIR"),
            &["--handler", &handler],
            options,
        )
    };
    let (summary, _) = run(&certificate("localhost.pem")).success();
    assert_eq!(
        (&summary["records"], &summary["failed"]),
        (&10.into(), &0.into())
    );
    assert_eq!(server.requests().len(), 10);

    let (status, summary, events) = run(&certificate("other.pem")).end();
    assert_eq!(
        (status.code(), &summary.unwrap()["records"]),
        (Some(1), &0.into())
    );
    for reason in reasons(&events) {
        assert!(reason.contains("certificate"), "{reason}");
    }
    assert!(server.requests().is_empty());
}
