//! Ends an event stream on which a server stays silent for too long.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::Stream;
use holodeck_http::{HttpError, HttpUrl, SseEvent, SseStream};
use tokio::time::{Instant, Sleep, sleep};

/// A server's event stream with a limit on silence.
pub(crate) struct Attentive {
    events: SseStream,
    url: HttpUrl,
    patience: Option<Patience>,
}

struct Patience {
    limit: Duration,
    ends: Pin<Box<Sleep>>,
}

impl Attentive {
    pub(crate) fn new(events: SseStream, url: HttpUrl, silence: Option<Duration>) -> Self {
        let patience = |limit| Patience {
            limit,
            ends: Box::pin(sleep(limit)),
        };
        Self {
            events,
            url,
            patience: silence.map(patience),
        }
    }
}

impl Stream for Attentive {
    type Item = Result<SseEvent, HttpError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.events).poll_next(cx);
        let Some(patience) = &mut this.patience else {
            return polled;
        };
        if polled.is_ready() {
            patience.ends.as_mut().reset(Instant::now() + patience.limit);
            return polled;
        }
        match patience.ends.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Some(Err(HttpError::Timeout {
                url: this.url.clone(),
                after: patience.limit,
            }))),
            Poll::Pending => Poll::Pending,
        }
    }
}
