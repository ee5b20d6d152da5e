//! A scripted server that records requests.

use std::sync::{Arc, Mutex};

use holodeck_http::HttpUrl;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// One answer of the script, for one connection.
#[derive(Clone)]
pub(crate) enum Answer {
    /// Raw bytes, then the connection closes.
    Raw(Vec<u8>),
    /// Raw bytes, then nothing more and no close.
    RawThenHang(Vec<u8>),
    /// A head, then bytes without end.
    Endless(Vec<u8>),
}

pub(crate) struct Server {
    pub(crate) url: HttpUrl,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Answers the first request with the first answer and so on; the last one repeats.
    pub(crate) async fn start(answers: Vec<Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = HttpUrl::parse(&format!(
            "http://{}/v1?key=query-secret",
            listener.local_addr().unwrap()
        ))
        .unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (seen, answers) = (Arc::clone(&seen), answers.clone());
                tokio::spawn(async move { serve(stream, &seen, &answers).await });
            }
        });
        Self { url, requests }
    }

    /// The requests as text: head and body.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

pub(crate) fn status(line: &str, headers: &str, body: &str) -> Answer {
    let length = body.len();
    Answer::Raw(format!("HTTP/1.1 {line}\r\nContent-Length: {length}\r\n{headers}\r\n{body}").into_bytes())
}

pub(crate) fn ok_json(body: &str) -> Answer {
    status("200 OK", "Content-Type: application/json\r\n", body)
}

async fn serve(mut stream: TcpStream, seen: &Mutex<Vec<String>>, answers: &[Answer]) -> Option<()> {
    let request = read_request(&mut stream).await?;
    let number = {
        let mut seen = seen.lock().unwrap();
        seen.push(request);
        seen.len() - 1
    };
    match answers.get(number).or(answers.last())? {
        Answer::Raw(bytes) => {
            stream.write_all(bytes).await.ok()?;
            stream.shutdown().await.ok()?;
        }
        Answer::RawThenHang(bytes) => {
            stream.write_all(bytes).await.ok()?;
            // Ends when the client goes away.
            stream.read_u8().await.ok()?;
        }
        Answer::Endless(head) => {
            stream.write_all(head).await.ok()?;
            while stream.write_all(&[b'x'; 8 * 1024]).await.is_ok() {}
        }
    }
    Some(())
}

async fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| {
                    line.to_ascii_lowercase()
                        .strip_prefix("content-length: ")?
                        .parse()
                        .ok()
                })
                .unwrap_or(0);
            if body.len() >= length {
                return Some(text);
            }
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}
