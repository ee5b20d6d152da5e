//! Observers of an execution, such as metrics and audit logs. They cannot change it, and a slow or broken one does not
//! delay it.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
    time::Duration,
};

use holodeck_backend_api::{ToolCall, ToolResult};
use jiff::Timestamp;
use serde::Serialize;
use tokio::sync::watch;

/// Observes executions. A closure that takes a [`&HookEvent`](HookEvent) is one.
///
/// A hook gets a shared reference and returns nothing, so it can neither change an event nor decide anything:
///
/// ```
/// use holodeck_orchestrator::{Hook, HookEvent, HookPoint};
///
/// struct CountCalls(std::sync::atomic::AtomicUsize);
///
/// impl Hook for CountCalls {
///     fn on_event(&self, event: &HookEvent) {
///         if let HookPoint::PreToolUse { .. } = event.point {
///             self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
///         }
///     }
/// }
/// ```
///
/// A hook that changes its event does not compile:
///
/// ```compile_fail,E0594
/// use holodeck_orchestrator::{Hook, HookEvent};
///
/// struct Rename;
///
/// impl Hook for Rename {
///     fn on_event(&self, event: &HookEvent) {
///         event.session_id = "another".to_owned();
///     }
/// }
/// ```
///
/// Neither does one that returns a decision:
///
/// ```compile_fail,E0053
/// use holodeck_orchestrator::{Hook, HookEvent};
///
/// struct Block;
///
/// impl Hook for Block {
///     fn on_event(&self, event: &HookEvent) -> bool {
///         false
///     }
/// }
/// ```
pub trait Hook: Send + Sync {
    /// Receives an event. Called on a thread of its own, for one event after the other.
    fn on_event(&self, event: &HookEvent);
}

impl<F: Fn(&HookEvent) + Send + Sync> Hook for F {
    fn on_event(&self, event: &HookEvent) {
        self(event);
    }
}

/// Something that happened in an execution.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct HookEvent {
    /// Its id; an event that is delivered twice has the same one.
    pub event_id: String,
    /// The execution.
    pub session_id: String,
    /// When it happened.
    pub at: Timestamp,
    /// The observed moment.
    #[serde(flatten)]
    pub point: HookPoint,
}

impl HookEvent {
    /// An event of the execution `session_id`.
    pub fn new(event_id: String, session_id: String, at: Timestamp, point: HookPoint) -> Self {
        Self {
            event_id,
            session_id,
            at,
            point,
        }
    }
}

/// A moment of an execution that hooks observe.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "point")]
#[non_exhaustive]
pub enum HookPoint {
    /// The execution begins.
    SessionStart,
    /// The execution is over.
    SessionEnd,
    /// A tool is called.
    PreToolUse {
        /// The call.
        call: ToolCall,
    },
    /// A tool answered.
    PostToolUse {
        /// The answer.
        result: ToolResult,
    },
    /// A nested agent begins.
    SubagentStart {
        /// The call that started it.
        call_id: String,
    },
    /// A nested agent is over.
    SubagentStop {
        /// The call that started it.
        call_id: String,
    },
}

/// How many events may wait for the hooks; further ones are dropped and counted.
const QUEUE: usize = 1024;

/// How long the hooks may take after the end of an execution.
pub const FLUSH_LIMIT: Duration = Duration::from_secs(2);

/// The numbers of hook calls and of lost events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HookReport {
    /// Calls of hooks that returned.
    pub delivered: u64,
    /// Calls of hooks that panicked.
    pub panicked: u64,
    /// Events that found the queue full.
    pub dropped: u64,
    /// Whether the hooks were still busy when the time was up.
    pub unfinished: bool,
}

/// Passes events to hooks, in the order of their registration, on a thread of its own.
pub(crate) struct HookDispatcher {
    sender: Mutex<Option<SyncSender<Arc<HookEvent>>>>,
    shared: Arc<Shared>,
    done: watch::Receiver<bool>,
}

#[derive(Default)]
struct Shared {
    delivered: AtomicU64,
    panicked: AtomicU64,
    dropped: AtomicU64,
    stop: AtomicBool,
}

impl HookDispatcher {
    pub(crate) fn start(hooks: &[Arc<dyn Hook>]) -> Self {
        let shared = Arc::new(Shared::default());
        let (finished, done) = watch::channel(hooks.is_empty());
        if hooks.is_empty() {
            return Self {
                sender: Mutex::new(None),
                shared,
                done,
            };
        }
        let (sender, receiver) = sync_channel(QUEUE);
        let (hooks, counts) = (hooks.to_vec(), Arc::clone(&shared));
        let thread = thread::Builder::new().name("holodeck-hooks".to_owned());
        let started = thread.spawn(move || {
            deliver(&hooks, &receiver, &counts);
            let _ = finished.send(true);
        });
        if let Err(error) = &started {
            tracing::warn!(target: "holodeck::hooks", %error, "hooks do not run");
        }
        Self {
            sender: Mutex::new(started.is_ok().then_some(sender)),
            shared,
            done,
        }
    }

    /// Queues an event; never waits.
    pub(crate) fn dispatch(&self, event: &Arc<HookEvent>) {
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = &*sender
            && sender.try_send(Arc::clone(event)).is_err()
        {
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until the hooks have received everything, at most `limit`.
    pub(crate) async fn finish(&self, limit: Duration) -> HookReport {
        drop(self.sender.lock().unwrap_or_else(PoisonError::into_inner).take());
        let mut done = self.done.clone();
        // An error means that the thread has ended.
        let unfinished = tokio::time::timeout(limit, done.wait_for(|done| *done))
            .await
            .is_err();
        self.shared.stop.store(true, Ordering::Relaxed);
        let report = HookReport {
            delivered: self.shared.delivered.load(Ordering::Relaxed),
            panicked: self.shared.panicked.load(Ordering::Relaxed),
            dropped: self.shared.dropped.load(Ordering::Relaxed),
            unfinished,
        };
        if report.panicked > 0 || report.dropped > 0 || unfinished {
            tracing::warn!(
                target: "holodeck::hooks",
                panicked = report.panicked,
                dropped = report.dropped,
                unfinished,
                "hooks did not receive every event"
            );
        }
        report
    }
}

fn deliver(hooks: &[Arc<dyn Hook>], receiver: &Receiver<Arc<HookEvent>>, counts: &Shared) {
    for event in receiver {
        for hook in hooks {
            if counts.stop.load(Ordering::Relaxed) {
                return;
            }
            let result = catch_unwind(AssertUnwindSafe(|| hook.on_event(&event)));
            let count = match result {
                Ok(()) => &counts.delivered,
                Err(_) => &counts.panicked,
            };
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}
