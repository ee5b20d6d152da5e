//! A minimal client: the requests of a test run at the same concurrency, with answers read and dropped.
//!
//! `floor_client [URL REQUESTS CONCURRENCY]` prints how long the requests took; without arguments it starts and exits.
//! Anything `holodeck test` costs beyond this is its own overhead.
#![allow(clippy::print_stdout, reason = "its figure is its output")]

use std::cell::Cell;
use std::error::Error;
use std::time::Instant;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{
    Request, StatusCode, Uri,
    client::conn::http1,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST},
};
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::{net::TcpStream, task::LocalSet};

type Failure = Box<dyn Error>;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, requests, concurrency] = arguments.as_slice() else {
        return Ok(());
    };
    let uri: Uri = format!("{url}/v1/chat/completions").parse()?;
    let (requests, concurrency): (usize, usize) = (requests.parse()?, concurrency.parse()?);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let started = Instant::now();
    runtime.block_on(LocalSet::new().run_until(send_all(uri, requests, concurrency)))?;
    let wall = started.elapsed().as_secs_f64();
    println!("{}", json!({"requests": requests, "wall_seconds": wall}));
    Ok(())
}

/// Each connection sends its next request after reading the answer to the last one.
async fn send_all(uri: Uri, requests: usize, concurrency: usize) -> Result<(), Failure> {
    let next = std::rc::Rc::new(Cell::new(0));
    let connections = (0..concurrency.min(requests)).map(|_| {
        let (uri, next) = (uri.clone(), std::rc::Rc::clone(&next));
        tokio::task::spawn_local(async move {
            connection(&uri, || {
                let index = next.get();
                next.set(index + 1);
                (index < requests).then_some(index)
            })
            .await
            .map_err(|error| error.to_string())
        })
    });
    for connection in connections.collect::<Vec<_>>() {
        connection.await??;
    }
    Ok(())
}

async fn connection(uri: &Uri, next: impl Fn() -> Option<usize>) -> Result<(), Failure> {
    let authority = uri.authority().ok_or("a URL names a host")?;
    let socket = TcpStream::connect(authority.as_str()).await?;
    socket.set_nodelay(true)?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(socket)).await?;
    tokio::task::spawn_local(connection);
    while let Some(index) = next() {
        let request = Request::post(uri.path())
            .header(HOST, authority.as_str())
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "text/event-stream")
            .header(AUTHORIZATION, "Bearer bench")
            .body(Full::new(body(index)))?;
        sender.ready().await?;
        let response = sender.send_request(request).await?;
        if response.status() != StatusCode::OK {
            return Err(format!("the server answered {}", response.status()).into());
        }
        let mut answer = response.into_body();
        let mut bytes = 0;
        while let Some(frame) = answer.frame().await {
            bytes += frame?.data_ref().map_or(0, Bytes::len);
        }
        if bytes == 0 {
            return Err("the server sent an empty answer".into());
        }
    }
    Ok(())
}

/// The size of the product's request for a case of the bench.
fn body(index: usize) -> Bytes {
    let body = json!({
        "model": "bench",
        "messages": [
            {"role": "system", "content": "You answer questions about orders and returns in one or two sentences."},
            {"role": "user", "content": format!("Question {index}: how long do I have to return order {index}?")},
        ],
        "stream": true,
        "stream_options": {"include_usage": true},
    });
    body.to_string().into()
}
