//! A small web server on this machine.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What a path answers: raw bytes; a head and then the same bytes for ever; nothing.
#[derive(Clone)]
pub(crate) enum Page {
    Raw(Vec<u8>),
    Endless(String, Vec<u8>),
    Hanging,
}

pub(crate) struct Web {
    pub(crate) origin: String,
    requests: Arc<Mutex<Vec<String>>>,
    pages: Arc<Mutex<HashMap<String, Page>>>,
}

impl Web {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let web = Self {
            origin: format!("http://{}", listener.local_addr().unwrap()),
            requests: Arc::default(),
            pages: Arc::default(),
        };
        let (requests, pages) = (Arc::clone(&web.requests), Arc::clone(&web.pages));
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (requests, pages) = (Arc::clone(&requests), Arc::clone(&pages));
                tokio::spawn(async move { answer(stream, &requests, &pages).await });
            }
        });
        web
    }

    pub(crate) fn put(&self, path: &str, page: Page) {
        self.pages.lock().unwrap().insert(path.to_owned(), page);
    }

    /// The heads of the requests since the last call.
    pub(crate) fn requests(&self) -> Vec<String> {
        std::mem::take(&mut self.requests.lock().unwrap())
    }
}

/// An answer with a status line, headers and a body.
pub(crate) fn page(status: &str, headers: &str, body: &[u8]) -> Page {
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n{headers}\r\n");
    Page::Raw([head.as_bytes(), body].concat())
}

pub(crate) fn redirect(to: &str) -> Page {
    page("302 Found", &format!("Location: {to}\r\n"), b"")
}

async fn answer(
    mut stream: TcpStream,
    requests: &Mutex<Vec<String>>,
    pages: &Mutex<HashMap<String, Page>>,
) -> Option<()> {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    let head = String::from_utf8(bytes).unwrap();
    let path = head.split(' ').nth(1)?.to_owned();
    requests.lock().unwrap().push(head);
    let found = pages.lock().unwrap().get(&path).cloned();
    match found.unwrap_or_else(|| page("404 Not Found", "", b"")) {
        Page::Raw(bytes) => stream.write_all(&bytes).await.ok()?,
        Page::Endless(head, bytes) => {
            stream.write_all(head.as_bytes()).await.ok()?;
            while stream.write_all(&bytes).await.is_ok() {}
        }
        // Ends when the client goes away.
        Page::Hanging => {
            stream.read_u8().await.ok()?;
        }
    }
    stream.shutdown().await.ok()
}
