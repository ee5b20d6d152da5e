//! A model that writes pieces at a fixed pace, each with the time at which it was written.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

/// How a model answers.
#[derive(Clone, Copy)]
pub(crate) struct Pace {
    pub(crate) pieces: u32,
    pub(crate) interval: Duration,
    /// Bytes added to each piece.
    pub(crate) padding: usize,
}

/// An OpenAI-compatible endpoint on loopback, with a thread for each request. It ends with the process.
pub(crate) struct PacedModel {
    address: String,
    started: Instant,
}

impl PacedModel {
    pub(crate) fn start(pace: Pace) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?.to_string();
        let started = Instant::now();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // A client that leaves ends its answer.
                thread::spawn(move || drop(answer(stream, pace, started)));
            }
        });
        Ok(Self { address, started })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Asks it without a server between.
    pub(crate) fn ask(&self) -> Result<Pieces> {
        let mut stream = TcpStream::connect(&self.address)?;
        stream
            .write_all(b"POST /v1/chat/completions HTTP/1.1\r\nhost: model\r\ncontent-length: 2\r\n\r\n{}")?;
        Ok(Pieces(BufReader::with_capacity(2048, stream)))
    }

    /// Microseconds since it started, as it writes them.
    pub(crate) fn now(&self) -> u64 {
        micros(self.started)
    }
}

/// The pieces of an answer, as the model writes them.
pub(crate) struct Pieces(BufReader<TcpStream>);

impl Pieces {
    /// When the next one was written; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<u64>> {
        let mut line = String::new();
        while self.0.read_line(&mut line)? > 0 {
            let written = line.strip_prefix("data: {").and_then(|_| {
                let chunk: Value = serde_json::from_str(line.strip_prefix("data: ")?).ok()?;
                let content = chunk.pointer("/choices/0/delta/content")?.as_str()?;
                content.split(' ').next()?.parse().ok()
            });
            if written.is_some() {
                return Ok(written);
            }
            line.clear();
        }
        Ok(None)
    }
}

fn micros(started: Instant) -> u64 {
    u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX)
}

fn answer(stream: TcpStream, pace: Pace, started: Instant) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream);
    let (mut line, mut length) = (String::new(), 0);
    while reader.read_line(&mut line)? > 0 && line != "\r\n" {
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().context("no length")?;
        }
        line.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let mut stream = reader.into_inner();
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")?;
    let padding = "x".repeat(pace.padding);
    let begin = Instant::now();
    for piece in 0..pace.pieces {
        let due = pace.interval * piece;
        thread::sleep(due.saturating_sub(begin.elapsed()));
        // A word is sent on when it is complete, because it may be the beginning of a secret.
        let content = format!("{} {padding} ", micros(started));
        stream.write_all(frame(&json!({ "content": content }), None).as_bytes())?;
    }
    let mut end = frame(&json!({}), Some("stop"));
    // Writing to a string does not fail.
    let _ = write!(end, "data: [DONE]\n\n");
    stream.write_all(end.as_bytes())?;
    Ok(())
}

fn frame(delta: &Value, finish_reason: Option<&str>) -> String {
    let chunk = json!({
        "id": "c", "object": "chat.completion.chunk", "created": 0, "model": "paced",
        "choices": [{ "index": 0, "delta": delta, "finish_reason": finish_reason }],
    });
    format!("data: {chunk}\n\n")
}
