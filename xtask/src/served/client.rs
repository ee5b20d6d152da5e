//! Clients of a server, over blocking sockets.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

/// Asks, and returns the status and the body.
pub(crate) fn ask(address: &str, method: &str, path: &str, body: &str) -> Result<(u16, String)> {
    let mut stream = TcpStream::connect(address)?;
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.0\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: \
         {length}\r\n\r\n{body}"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer
        .split_once("\r\n\r\n")
        .context("the server gave no whole answer")?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    Ok((status.context("the server gave no status")?, body.to_owned()))
}

/// The same for JSON that is expected to succeed.
pub(crate) fn ask_json(address: &str, method: &str, path: &str, body: &Value) -> Result<Value> {
    let (status, text) = ask(address, method, path, &body.to_string())?;
    ensure!((200..300).contains(&status), "{method} {path}: {status} {text}");
    serde_json::from_str(&text).with_context(|| format!("{method} {path}: {text}"))
}

/// A stream of server-sent events.
pub(crate) struct Events {
    reader: BufReader<TcpStream>,
    line: String,
}

/// An event as a client receives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) index: u64,
    pub(crate) data: String,
}

impl Event {
    pub(crate) fn json(&self) -> Result<Value> {
        serde_json::from_str(&self.data).context("an event is not JSON")
    }

    /// Whether it is of this type. Types are the first field.
    pub(crate) fn is(&self, kind: &str) -> bool {
        let rest = self.data.strip_prefix(r#"{"type":""#);
        rest.and_then(|rest| rest.strip_prefix(kind))
            .is_some_and(|rest| rest.starts_with('"'))
    }
}

impl Events {
    /// Follows a conversation after an event.
    pub(crate) fn follow(address: &str, session: &str, after: Option<u64>) -> Result<Self> {
        let after = after.map_or_else(|| "-1".to_owned(), |index| index.to_string());
        Self::open(
            address,
            &format!("/v1/sessions/{session}/events?follow=true&after={after}"),
        )
    }

    /// Returns the stored events of a conversation.
    pub(crate) fn stored(address: &str, session: &str) -> Result<Vec<Event>> {
        let mut events = Self::open(address, &format!("/v1/sessions/{session}/events"))?;
        let mut all = Vec::new();
        while let Some(event) = events.next()? {
            all.push(event);
        }
        Ok(all)
    }

    fn open(address: &str, path: &str) -> Result<Self> {
        let head = format!("GET {path} HTTP/1.0\r\nhost: {address}\r\n\r\n");
        Self::send(address, &head)
    }

    /// Asks for a streamed answer with a key, which may be that of an answer before.
    pub(crate) fn answer(address: &str, path: &str, key: &str, body: &Value) -> Result<Self> {
        let body = body.to_string();
        let length = body.len();
        Self::send(
            address,
            &format!(
                "POST {path} HTTP/1.0\r\nhost: {address}\r\ncontent-type: application/json\r\nidempotency-key: \
                 {key}\r\ncontent-length: {length}\r\n\r\n{body}"
            ),
        )
    }

    fn send(address: &str, request: &str) -> Result<Self> {
        let mut stream = TcpStream::connect(address)?;
        stream.write_all(request.as_bytes())?;
        // Small buffers: there are many of them.
        let mut events = Self {
            reader: BufReader::with_capacity(2048, stream),
            line: String::new(),
        };
        events.read_line()?;
        let asked = request.lines().next().unwrap_or_default();
        ensure!(events.line.contains(" 200 "), "{asked}: {}", events.line);
        while events.read_line()? && events.line != "\r\n" {}
        Ok(events)
    }

    fn read_line(&mut self) -> Result<bool> {
        self.line.clear();
        Ok(self.reader.read_line(&mut self.line)? > 0)
    }

    /// Reads to the end, and returns the number of bytes.
    pub(crate) fn rest(mut self) -> Result<u64> {
        Ok(std::io::copy(&mut self.reader, &mut std::io::sink())?)
    }

    /// The next event; `None` at the end of the stream.
    pub(crate) fn next(&mut self) -> Result<Option<Event>> {
        let (mut index, mut data) = (None, None);
        while self.read_line()? {
            if let Some(text) = self.line.strip_prefix("id: ") {
                index = text.trim().parse().ok();
            } else if let Some(text) = self.line.strip_prefix("data: ") {
                data = Some(text.trim_end().to_owned());
            } else if self.line == "\n"
                && let (Some(index), Some(data)) = (index.take(), data.take())
            {
                return Ok(Some(Event { index, data }));
            }
        }
        Ok(None)
    }
}
