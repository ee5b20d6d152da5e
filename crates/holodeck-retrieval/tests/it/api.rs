//! A scripted JSON API on loopback.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// A request.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) method: String,
    /// Including the query string.
    pub(crate) path: String,
    /// Null if empty.
    pub(crate) body: Value,
}

/// Status and body.
pub(crate) type Answer = (u16, Value);

pub(crate) type Handler = Arc<dyn Fn(Call) -> BoxFuture<'static, Answer> + Send + Sync>;

/// Serves until it is dropped.
pub(crate) struct Api {
    port: u16,
    serving: JoinHandle<()>,
}

impl Api {
    pub(crate) async fn serve(handler: Handler) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let serving = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let handler = Arc::clone(&handler);
                tokio::spawn(async move {
                    let service = service_fn(|request| answer(request, Arc::clone(&handler)));
                    let _ = http1::Builder::new()
                        .serve_connection(TokioIo::new(socket), service)
                        .await;
                });
            }
        });
        Self { port, serving }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

impl Drop for Api {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn answer(request: Request<Incoming>, handler: Handler) -> Result<Response<Full<Bytes>>, Infallible> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let call = Call {
        method: parts.method.to_string(),
        path: parts.uri.to_string(),
        body: serde_json::from_slice(&body).unwrap_or_default(),
    };
    let (status, body) = handler(call).await;
    let body = Full::new(Bytes::from(serde_json::to_vec(&body).unwrap()));
    let response = Response::builder()
        .status(status)
        .header("content-type", "application/json");
    Ok(response.body(body).unwrap())
}
