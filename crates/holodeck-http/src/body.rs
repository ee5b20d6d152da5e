//! A response body, limited in size and time while it is read.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use tokio::time::{Instant, Sleep};

use crate::coding::Coding;
use crate::error::compressed;
use crate::transport::classify;
use crate::{HttpError, HttpUrl};

/// The bytes of an answer as they arrive, bounded in size and time. Ends after the first error.
pub struct Body {
    url: HttpUrl,
    first: Option<Bytes>,
    rest: BoxStream<'static, Result<Bytes, HttpError>>,
    limit: u64,
    seen: u64,
    deadline: Option<Deadline>,
    ended: bool,
}

struct Deadline {
    sleep: Pin<Box<Sleep>>,
    after: Duration,
}

impl Body {
    /// Starts without waiting, since even the first bytes may take long.
    pub(crate) fn of(response: reqwest::Response, coding: Coding, url: HttpUrl, limit: u64) -> Self {
        let from = url.clone();
        let bytes = response
            .bytes_stream()
            .map(move |bytes| bytes.map_err(|error| classify(error, &from)));
        Self {
            rest: coding.expand(bytes, url.clone()),
            url,
            first: None,
            limit,
            seen: 0,
            deadline: None,
            ended: false,
        }
    }

    /// Waits for the first bytes; until they are returned, the request can be retried.
    pub(crate) async fn begin(
        response: reqwest::Response,
        coding: Coding,
        url: HttpUrl,
        limit: u64,
    ) -> Result<Self, HttpError> {
        let announced = response.content_length();
        let mut body = Self::of(response, coding, url, limit);
        if announced.is_some_and(|length| length > limit) {
            return Err(body.too_large(limit));
        }
        body.first = body.rest.next().await.transpose()?;
        Ok(body)
    }

    /// The bytes with which it begins, if they are not read yet.
    pub(crate) fn first_bytes(&self) -> &[u8] {
        self.first.as_deref().unwrap_or_default()
    }

    /// Sets how many bytes are read at most.
    pub(crate) fn limited(mut self, limit: u64) -> Self {
        self.limit = limit;
        self
    }

    /// Sets the deadline for reading, and the time-out to report then.
    pub(crate) fn until(mut self, deadline: Instant, after: Duration) -> Self {
        self.deadline = Some(Deadline {
            sleep: Box::pin(tokio::time::sleep_until(deadline)),
            after,
        });
        self
    }

    /// Reads the rest into one buffer.
    pub async fn collect(mut self) -> Result<Bytes, HttpError> {
        let Some(first) = self.next().await.transpose()? else {
            return Ok(Bytes::new());
        };
        let Some(second) = self.next().await.transpose()? else {
            return Ok(first);
        };
        let mut all = Vec::from(first);
        all.extend_from_slice(&second);
        while let Some(bytes) = self.next().await.transpose()? {
            all.extend_from_slice(&bytes);
        }
        Ok(all.into())
    }

    /// At most the first `count` bytes; an error ends them early.
    pub(crate) async fn start(mut self, count: usize) -> Start {
        let mut start = Start::default();
        while start.bytes.len() < count {
            match self.next().await {
                Some(Ok(bytes)) => start.bytes.extend_from_slice(&bytes),
                Some(Err(broken)) => {
                    if start.bytes.is_empty() {
                        return Start::without(&broken);
                    }
                    start.is_cut = true;
                    break;
                }
                None => break,
            }
        }
        // Whether something follows is not awaited.
        start.is_cut |= start.bytes.len() >= count;
        start.bytes.truncate(count);
        start
    }

    pub(crate) fn url(&self) -> &HttpUrl {
        &self.url
    }

    pub(crate) fn too_large(&self, limit: u64) -> HttpError {
        HttpError::TooLarge {
            url: self.url.clone(),
            limit,
        }
    }
}

/// How a body begins.
#[derive(Default)]
pub(crate) struct Start {
    pub(crate) bytes: Vec<u8>,
    /// More followed or may have followed.
    pub(crate) is_cut: bool,
}

impl Start {
    /// The start of a body that could not be read: why, where a person would see only bytes.
    pub(crate) fn without(error: &HttpError) -> Self {
        let bytes = match error {
            HttpError::Encoded { encoding, damage, .. } => {
                format!("the answer {}", compressed(encoding, damage.as_deref())).into_bytes()
            }
            _ => Vec::new(),
        };
        Self {
            is_cut: bytes.is_empty(),
            bytes,
        }
    }
}

impl Stream for Body {
    type Item = Result<Bytes, HttpError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        if this.ended {
            return Poll::Ready(None);
        }
        if let Some(deadline) = &mut this.deadline
            && deadline.sleep.as_mut().poll(cx).is_ready()
        {
            this.ended = true;
            let (url, after) = (this.url.clone(), deadline.after);
            return Poll::Ready(Some(Err(HttpError::Timeout { url, after })));
        }
        let polled = match this.first.take() {
            Some(bytes) => Poll::Ready(Some(Ok(bytes))),
            None => this.rest.poll_next_unpin(cx),
        };
        let item = match polled {
            Poll::Ready(Some(Ok(bytes))) => {
                this.seen = this.seen.saturating_add(bytes.len() as u64);
                if this.seen <= this.limit {
                    return Poll::Ready(Some(Ok(bytes)));
                }
                Some(Err(this.too_large(this.limit)))
            }
            Poll::Ready(Some(Err(error))) => Some(Err(error)),
            Poll::Ready(None) => None,
            Poll::Pending => return Poll::Pending,
        };
        this.ended = true;
        Poll::Ready(item)
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body")
            .field("url", &self.url)
            .field("seen", &self.seen)
            .finish_non_exhaustive()
    }
}
