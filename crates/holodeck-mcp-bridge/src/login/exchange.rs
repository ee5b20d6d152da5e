//! The requests of the OAuth library over holodeck-http: no redirect is followed, bodies and time are limited, and the last
//! answer is remembered for errors.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use holodeck_http::{Exchange, Headers, HttpClient, HttpError, HttpUrl, Verb};
use http::{HeaderMap, Method, Request, Response};
use rmcp::transport::auth::{OAuthHttpClient, OAuthHttpClientFuture, OAuthHttpRequest};
use secrecy::SecretString;
use serde_json::Value;
use url::form_urlencoded;

use crate::login::address::origin_is_safe;

/// How long a request may take.
const LIMIT: Duration = Duration::from_secs(30);

/// The headers of an answer that the library reads.
const READ: [&str; 3] = ["content-type", "location", "www-authenticate"];

/// Sends the requests of a login.
#[derive(Clone)]
pub(crate) struct Exchanger {
    http: HttpClient,
    /// The MCP server, which decides whether this machine may be asked.
    server: HttpUrl,
    /// The `resource` of token requests, if it is known from the login.
    resource: Option<String>,
    last: Arc<Mutex<Option<LastAnswer>>>,
}

/// The last answer, in words for an error.
#[derive(Clone, Debug)]
pub(crate) struct LastAnswer {
    /// The address, the status, and the reason if the answer gives one.
    pub(crate) words: String,
    /// The `error` of an OAuth answer.
    pub(crate) code: Option<String>,
}

impl Exchanger {
    pub(crate) fn new(http: HttpClient, server: HttpUrl) -> Self {
        Self {
            http,
            server,
            resource: None,
            last: Arc::default(),
        }
    }

    /// Sends `resource` in token requests exactly as the login did.
    pub(crate) fn for_resource(mut self, resource: &str) -> Self {
        self.resource = Some(resource.to_owned());
        self
    }

    /// The last answer, or why there was none.
    pub(crate) fn last(&self) -> Option<LastAnswer> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn remember(&self, answer: LastAnswer) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
    }

    async fn send(&self, request: Request<Vec<u8>>) -> Result<Response<Vec<u8>>, HttpError> {
        let (parts, body) = request.into_parts();
        let url = HttpUrl::parse(&parts.uri.to_string())?;
        let refused = |reason: &str| HttpError::Request {
            url: url.clone(),
            reason: reason.to_owned(),
        };
        if !origin_is_safe(&url, &self.server) {
            return Err(refused(
                "it is neither https nor on this machine beside the server",
            ));
        }
        let verb = match parts.method {
            Method::GET => Verb::Get,
            Method::POST => Verb::Post,
            _ => return Err(refused("only GET and POST are sent")),
        };
        let headers = headers(&parts.headers)?;
        let body = (verb == Verb::Post).then(|| self.with_resource(&parts.headers, body));
        let sent = self.http.exchange(verb, &url, &headers, body.map(Into::into));
        let read = async {
            let answer = sent.await?;
            let head = head(&answer);
            // The server of an open session may answer with a stream that has no end.
            if answer.is_event_stream() {
                return Ok((head, Vec::new()));
            }
            answer.bytes().await.map(|body| (head, body.to_vec()))
        };
        let timed_out = |_elapsed| HttpError::Timeout {
            url: url.clone(),
            after: LIMIT,
        };
        let (mut response, body) = tokio::time::timeout(LIMIT, read).await.map_err(timed_out)??;
        self.remember(LastAnswer::of(&url, &response, &body));
        *response.body_mut() = body;
        Ok(response)
    }

    fn with_resource(&self, headers: &HeaderMap, body: Vec<u8>) -> Vec<u8> {
        let is_form = headers
            .get("content-type")
            .is_some_and(|kind| kind == "application/x-www-form-urlencoded");
        let Some(resource) = self.resource.as_deref().filter(|_| is_form) else {
            return body;
        };
        let mut form = form_urlencoded::Serializer::new(String::new());
        for (name, value) in form_urlencoded::parse(&body) {
            let value = if name == "resource" { resource } else { &*value };
            form.append_pair(&name, value);
        }
        form.finish().into_bytes()
    }
}

impl OAuthHttpClient for Exchanger {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move {
            self.send(request.request).await.map_err(|error| {
                self.remember(LastAnswer {
                    words: error.to_string(),
                    code: None,
                });
                error.into()
            })
        })
    }
}

impl LastAnswer {
    fn of(url: &HttpUrl, response: &Response<Vec<u8>>, body: &[u8]) -> Self {
        let status = response.status();
        let fields: Option<Value> = serde_json::from_slice(body).ok();
        let text = |name: &str| fields.as_ref()?.get(name)?.as_str().map(str::to_owned);
        let code = text("error");
        let mut words = format!("{url} answered {status}");
        if let Some(code) = &code {
            words = format!("{words}: {code}");
            if let Some(reason) = text("error_description") {
                words = format!("{words} ({reason})");
            }
        } else if status.is_redirection() {
            words = match location(url, response) {
                Some(target) => format!("{words} with another address, {target}, which is not followed"),
                None => words,
            };
        } else if fields.is_none() {
            let kind = response.headers().get("content-type");
            let kind = kind
                .and_then(|kind| kind.to_str().ok())
                .unwrap_or("no content type");
            words = format!("{words} with {kind} instead of JSON");
        }
        Self { words, code }
    }
}

fn location(url: &HttpUrl, response: &Response<Vec<u8>>) -> Option<HttpUrl> {
    let target = response.headers().get("location")?.to_str().ok()?;
    url.resolve(target).ok()
}

fn headers(given: &HeaderMap) -> Result<Headers, HttpError> {
    let mut headers = Headers::new();
    headers.insert("accept", "application/json")?;
    for (name, value) in given {
        let value = SecretString::from(value.to_str().unwrap_or_default());
        headers.insert_secret(name.as_str(), &value)?;
    }
    Ok(headers)
}

fn head(answer: &Exchange) -> Response<Vec<u8>> {
    let mut head = Response::new(Vec::new());
    if let Ok(status) = answer.status().try_into() {
        *head.status_mut() = status;
    }
    for name in READ {
        for value in answer.all(name) {
            if let Ok(value) = value.try_into() {
                head.headers_mut().append(name, value);
            }
        }
    }
    head
}
