//! The events of a turn as they arrive.

use std::{future::poll_fn, pin::Pin};

use futures_core::Stream;

use crate::{BackendError, BackendEvent};

/// The events of one turn; the last one is [`BackendEvent::End`] or an error.
pub type EventStream<'a> = Pin<Box<dyn Stream<Item = Result<BackendEvent, BackendError>> + Send + 'a>>;

/// The next item of a stream, without a combinator crate.
pub(crate) async fn next<T>(stream: &mut Pin<Box<dyn Stream<Item = T> + Send + '_>>) -> Option<T> {
    poll_fn(|cx| stream.as_mut().poll_next(cx)).await
}
