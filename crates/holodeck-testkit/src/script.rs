//! Gives each request its reply: from a list, or from a closure.

use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Mutex, PoisonError},
};

type Closure<Request, Reply> = Box<dyn Fn(&Request) -> Reply + Send + Sync>;

/// The source of replies.
pub(crate) enum Script<Request, Reply> {
    /// The n-th request gets the n-th reply.
    List(Mutex<VecDeque<Reply>>),
    /// A reply by request.
    Closure(Closure<Request, Reply>),
}

impl<Request, Reply> Script<Request, Reply> {
    pub(crate) fn list(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self::List(Mutex::new(replies.into_iter().collect()))
    }

    /// The reply to a request, unless the list is used up or the closure panics.
    pub(crate) fn reply(&self, request: &Request) -> Option<Reply> {
        match self {
            Self::List(replies) => replies.lock().unwrap_or_else(PoisonError::into_inner).pop_front(),
            // A panic here would only close the connection, and the test might continue.
            Self::Closure(script) => catch_unwind(AssertUnwindSafe(|| script(request))).ok(),
        }
    }

    /// Removes the unused replies and returns their number.
    pub(crate) fn drain(&self) -> usize {
        match self {
            Self::List(replies) => {
                let mut left = replies.lock().unwrap_or_else(PoisonError::into_inner);
                left.drain(..).len()
            }
            Self::Closure(_) => 0,
        }
    }
}

/// The violation of a request without a reply.
pub(crate) fn nothing_left(index: usize) -> String {
    format!("request {}: the script has no reply left, or panicked", index + 1)
}
