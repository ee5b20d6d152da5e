//! Serves HTTP connections of scripted servers: reads requests and sends their replies.

use std::{convert::Infallible, io, net::TcpListener, sync::Arc};

use bytes::Bytes;
use futures::stream::BoxStream;
use http_body_util::{BodyExt as _, Either, Full, StreamBody};
use hyper::{
    Request, Response, StatusCode,
    body::{Frame, Incoming},
    header::{CONTENT_TYPE, HeaderName, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::task::JoinSet;
use url::form_urlencoded;

use super::state::{OpenRequest, State};
use crate::{
    delivery::{Body, Rendered},
    received::ReceivedRequest,
};

type Reply = Response<Either<Full<Bytes>, StreamBody<BoxStream<'static, io::Result<Frame<Bytes>>>>>>;

/// Accepts connections until it is dropped.
pub(super) async fn serve(listener: TcpListener, state: Arc<State>) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else {
        return;
    };
    let mut connections = JoinSet::new();
    while let Ok((socket, _)) = listener.accept().await {
        // Otherwise a delayed acknowledgement would look like latency of the product.
        let _ = socket.set_nodelay(true);
        let state = Arc::clone(&state);
        connections.spawn(async move {
            let service = service_fn(|request| answer(request, Arc::clone(&state)));
            // A broken connection is a client that disconnected, or part of the reply.
            let _ = http1::Builder::new()
                .header_read_timeout(None)
                .serve_connection(TokioIo::new(socket), service)
                .await;
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn answer(request: Request<Incoming>, state: Arc<State>) -> Result<Reply, Infallible> {
    let open = OpenRequest::new(&state);
    let (parts, body) = request.into_parts();
    let body = match body.collect().await {
        Ok(body) => body.to_bytes(),
        Err(_gone) => Bytes::new(),
    };
    let rendered = match state.canned() {
        Some(rendered) => rendered,
        None => state.answer(received(&parts, &body)),
    };
    if !rendered.delivery.before.is_zero() {
        tokio::time::sleep(rendered.delivery.before).await;
    }
    if let Some(gate) = &rendered.delivery.gate {
        gate.opened().await;
    }
    Ok(respond(&rendered, open).await)
}

fn received(parts: &hyper::http::request::Parts, body: &[u8]) -> ReceivedRequest {
    let is_form = parts
        .headers
        .get(CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"application/x-www-form-urlencoded"));
    let body = if is_form {
        let fields = form_urlencoded::parse(body);
        fields
            .map(|(name, value)| (name.into_owned(), Value::from(value)))
            .collect()
    } else {
        serde_json::from_slice(body).unwrap_or(Value::Null)
    };
    let headers = parts.headers.iter().map(|(name, value)| {
        let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
        (name.as_str().to_owned(), value)
    });
    ReceivedRequest {
        method: parts.method.to_string(),
        path: parts.uri.to_string(),
        headers: headers.collect(),
        body,
        index: 0,
    }
}

async fn respond(rendered: &Arc<Rendered>, open: OpenRequest) -> Reply {
    let body = match &rendered.body {
        Body::Never => std::future::pending().await,
        Body::Whole(bytes) => Either::Left(Full::new(bytes.clone())),
        Body::Pieces(_) | Body::Flood { .. } => {
            let pieces = Arc::clone(rendered).pieces();
            let stream: BoxStream<'static, _> = Box::pin(futures::StreamExt::map(pieces, move |piece| {
                // The request stays open as long as its body is being sent.
                let _held = &open;
                piece.map(Frame::data)
            }));
            Either::Right(StreamBody::new(stream))
        }
    };
    let mut response = Response::new(body);
    *response.status_mut() =
        StatusCode::from_u16(rendered.delivery.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if let Ok(value) = HeaderValue::from_str(&rendered.content_type) {
        response.headers_mut().insert(CONTENT_TYPE, value);
    }
    for (name, value) in &rendered.delivery.headers {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::from_str(value)) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}
