//! A server that is posted to, and answers as it is told: the other end of a webhook.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

/// A body is not longer here.
const LONGEST_BODY: usize = 64 * 1024;

/// A request that came.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// Its path.
    pub path: String,
    /// Its header `idempotency-key`.
    pub idempotency_key: String,
    /// Its body.
    pub body: String,
    /// How many of the same `idempotency-key` came before it.
    pub earlier: usize,
    /// When it was there.
    pub at: Instant,
    /// The status that it was answered with.
    pub status: u16,
}

/// What a request is answered.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// Seconds of the header `retry-after`.
    pub retry_after: Option<u64>,
}

impl Answer {
    /// This status and nothing else.
    pub fn status(status: u16) -> Self {
        Self {
            status,
            retry_after: None,
        }
    }

    /// Not now, but after so many seconds.
    pub fn later(seconds: u64) -> Self {
        Self {
            status: 503,
            retry_after: Some(seconds),
        }
    }
}

/// A server on a port of its own; it ends with the process.
pub struct Receiver {
    address: SocketAddr,
    deliveries: Arc<Mutex<Vec<Delivery>>>,
}

impl Receiver {
    /// Starts it. `answer` decides on each request, whose status is not set yet.
    ///
    /// # Errors
    /// When no port can be opened.
    pub fn start(answer: impl Fn(&Delivery) -> Answer + Send + Sync + 'static) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let deliveries = Arc::<Mutex<Vec<Delivery>>>::default();
        let book = Arc::clone(&deliveries);
        let answer = Arc::new(answer);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (answer, book) = (Arc::clone(&answer), Arc::clone(&book));
                // A connection that breaks off is its client's business.
                thread::spawn(move || serve(&stream, &*answer, &book).ok());
            }
        });
        Ok(Self {
            address,
            deliveries,
        })
    }

    /// The URL of a path.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// What has come so far, in order.
    pub fn deliveries(&self) -> Vec<Delivery> {
        let deliveries = self.deliveries.lock();
        deliveries.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Answers the requests of a connection, one after the other.
fn serve(
    mut stream: &TcpStream,
    answer: &dyn Fn(&Delivery) -> Answer,
    book: &Mutex<Vec<Delivery>>,
) -> io::Result<()> {
    let mut reader = BufReader::new(stream);
    while let Some(mut delivery) = read(&mut reader)? {
        let answer = {
            let mut book = book.lock().unwrap_or_else(PoisonError::into_inner);
            let same = |other: &&Delivery| other.idempotency_key == delivery.idempotency_key;
            delivery.earlier = book.iter().filter(same).count();
            let answer = answer(&delivery);
            delivery.status = answer.status;
            book.push(delivery);
            answer
        };
        let retry_after = answer.retry_after.map_or(String::new(), |seconds| {
            format!("retry-after: {seconds}\r\n")
        });
        let head = format!("HTTP/1.1 {} as told\r\n{retry_after}", answer.status);
        // In one piece: the second would wait for the acknowledgement of the first.
        stream.write_all(format!("{head}content-length: 0\r\n\r\n").as_bytes())?;
    }
    Ok(())
}

/// The next request; `None` at the end of the connection.
fn read(reader: &mut impl BufRead) -> io::Result<Option<Delivery>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut headers = HashMap::new();
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else {
            break;
        };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length");
    let length: usize = length.and_then(|text| text.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length.min(LONGEST_BODY)];
    reader.read_exact(&mut body)?;
    Ok(Some(Delivery {
        path,
        idempotency_key: headers.remove("idempotency-key").unwrap_or_default(),
        body: String::from_utf8_lossy(&body).into_owned(),
        earlier: 0,
        at: Instant::now(),
        status: 0,
    }))
}
