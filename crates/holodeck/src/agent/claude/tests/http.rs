//! A minimal HTTP server: reads complete requests and answers them with a closure.

use std::sync::{Arc, Mutex};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

/// A request: method, path and version, the headers in lower case, the body.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) line: String,
    pub(super) headers: String,
    pub(super) body: Vec<u8>,
}

/// A server on loopback that runs until the test ends.
pub(super) struct Http {
    pub(super) url: String,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Http {
    /// `answer` returns a status, such as `200 OK`, and a JSON body.
    pub(super) async fn start(
        answer: impl Fn(&Request) -> (&'static str, String) + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::<Mutex<Vec<Request>>>::default();
        let received = Arc::clone(&requests);
        let answer = Arc::new(answer);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (received, answer) = (Arc::clone(&received), Arc::clone(&answer));
                tokio::spawn(async move {
                    let Some(request) = read(&mut stream).await else {
                        return;
                    };
                    let (status, body) = answer(&request);
                    received.lock().unwrap().push(request);
                    let reply = format!(
                        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: \
                         close\r\n\r\n{body}",
                        body.len()
                    );
                    let _ = stream.write_all(reply.as_bytes()).await;
                });
            }
        });
        Self { url, requests }
    }

    pub(super) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }
}

async fn read(stream: &mut TcpStream) -> Option<Request> {
    let mut bytes = Vec::new();
    loop {
        if let Some(request) = parse_request(&bytes) {
            return Some(request);
        }
        if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
            return None;
        }
    }
}

fn parse_request(bytes: &[u8]) -> Option<Request> {
    let head = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let text = String::from_utf8_lossy(&bytes[..head]).into_owned();
    let (line, headers) = text.split_once("\r\n")?;
    let headers = headers.to_ascii_lowercase();
    let body = &bytes[head + 4..];
    let length = headers
        .lines()
        .find_map(|header| header.strip_prefix("content-length:")?.trim().parse().ok());
    let is_complete = match length {
        Some(length) => body.len() >= length,
        None if headers.contains("transfer-encoding: chunked") => body.ends_with(b"0\r\n\r\n"),
        None => true,
    };
    is_complete.then(|| Request {
        line: line.to_owned(),
        headers,
        body: body.to_owned(),
    })
}
