//! The least of an HTTP server: it takes requests whole and answers as a closure says.

use std::sync::{Arc, Mutex};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

/// A request: method, path and version, the headers in lower case, the body.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) line: String,
    pub(crate) headers: String,
    pub(crate) body: Vec<u8>,
}

/// A server on loopback, for as long as the test runs.
pub(crate) struct Http {
    pub(crate) url: String,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Http {
    /// `answer` gives a status line's rest, as in `200 OK`, and a body of JSON.
    pub(crate) async fn start(
        answer: impl Fn(&Request) -> (&'static str, String) + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::<Mutex<Vec<Request>>>::default();
        let kept = Arc::clone(&requests);
        let answer = Arc::new(answer);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (kept, answer) = (Arc::clone(&kept), Arc::clone(&answer));
                tokio::spawn(async move {
                    let Some(request) = read(&mut stream).await else {
                        return;
                    };
                    let (status, body) = answer(&request);
                    kept.lock().unwrap().push(request);
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

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }
}

async fn read(stream: &mut TcpStream) -> Option<Request> {
    let mut bytes = Vec::new();
    loop {
        if let Some(request) = whole(&bytes) {
            return Some(request);
        }
        if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
            return None;
        }
    }
}

fn whole(bytes: &[u8]) -> Option<Request> {
    let head = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let text = String::from_utf8_lossy(&bytes[..head]).into_owned();
    let (line, headers) = text.split_once("\r\n")?;
    let headers = headers.to_ascii_lowercase();
    let body = &bytes[head + 4..];
    let length = headers
        .lines()
        .find_map(|header| header.strip_prefix("content-length:")?.trim().parse().ok());
    let is_whole = match length {
        Some(length) => body.len() >= length,
        None if headers.contains("transfer-encoding: chunked") => body.ends_with(b"0\r\n\r\n"),
        None => true,
    };
    is_whole.then(|| Request {
        line: line.to_owned(),
        headers,
        body: body.to_owned(),
    })
}
