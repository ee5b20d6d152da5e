use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Mutex, PoisonError},
};

type Closure<Request, Reply> = Box<dyn Fn(&Request) -> Reply + Send + Sync>;

/// Where replies come from.
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
            // A panic here would only close the connection, and the test might go on.
            Self::Closure(script) => catch_unwind(AssertUnwindSafe(|| script(request))).ok(),
        }
    }

    /// Counts the replies left over, and forgets them.
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

/// What a server says of a request that no reply is left for.
pub(crate) fn nothing_left(index: usize) -> String {
    format!("request {}: the script has no reply left, or panicked", index + 1)
}
