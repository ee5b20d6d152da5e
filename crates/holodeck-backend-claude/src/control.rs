//! Requests to the CLI and their answers, matched by id. Every request ends when the CLI exits.

use std::{
    collections::HashMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use serde_json::Value;
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

use crate::wire;

/// Sends lines to the task that writes to the CLI.
#[derive(Clone, Debug)]
pub(crate) struct Outgoing(mpsc::UnboundedSender<Write>);

#[derive(Debug)]
pub(crate) enum Write {
    Line(String),
    /// Close the input; the CLI finishes its work and exits.
    Close,
}

impl Outgoing {
    pub(crate) fn new() -> (Self, mpsc::UnboundedReceiver<Write>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Self(sender), receiver)
    }

    /// Ignores that the CLI may have exited; the reader of its output reports that.
    pub(crate) fn line(&self, line: String) {
        let _ = self.0.send(Write::Line(line));
    }

    pub(crate) fn close(&self) {
        let _ = self.0.send(Write::Close);
    }
}

/// The receivers of answers, by the id of the request.
type Waiting = HashMap<String, oneshot::Sender<Result<Value, String>>>;

/// Requests to the CLI that have no answer yet.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    waiting: Mutex<Option<Waiting>>,
    last: AtomicU64,
}

/// Why a request to the CLI failed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ControlError {
    /// The CLI refused it, with this message.
    #[error("{0}")]
    Refused(String),
    /// The CLI exited.
    #[error("it exited")]
    Disconnected,
    /// The CLI did not answer in time.
    #[error("no answer within {} s", .0.as_secs_f64())]
    TimedOut(Duration),
}

impl Pending {
    pub(crate) fn new() -> Self {
        Self {
            waiting: Mutex::new(Some(HashMap::new())),
            last: AtomicU64::new(0),
        }
    }

    pub(crate) async fn request(
        &self,
        outgoing: &Outgoing,
        request: &Value,
        time_limit: Duration,
    ) -> Result<Value, ControlError> {
        let id = format!("hd_{}", self.last.fetch_add(1, Ordering::Relaxed));
        let (answer, answered) = oneshot::channel();
        match &mut *self.lock() {
            Some(waiting) => waiting.insert(id.clone(), answer),
            None => return Err(ControlError::Disconnected),
        };
        outgoing.line(wire::control_request(&id, request));
        match timeout(time_limit, answered).await {
            Ok(Ok(Ok(value))) => Ok(value),
            Ok(Ok(Err(refusal))) => Err(ControlError::Refused(refusal)),
            Ok(Err(_)) => Err(ControlError::Disconnected),
            Err(_) => {
                if let Some(waiting) = &mut *self.lock() {
                    waiting.remove(&id);
                }
                Err(ControlError::TimedOut(time_limit))
            }
        }
    }

    /// Passes an answer to its request. Ignores answers to unknown requests.
    pub(crate) fn answer(&self, id: &str, outcome: Result<Value, String>) {
        let waiting = self.lock().as_mut().and_then(|waiting| waiting.remove(id));
        if let Some(waiting) = waiting {
            let _ = waiting.send(outcome);
        }
    }

    /// Fails all open requests, because the CLI has exited.
    pub(crate) fn fail_all(&self) {
        self.lock().take();
    }

    fn lock(&self) -> MutexGuard<'_, Option<Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    const LONG: Duration = Duration::from_mins(1);

    fn id_of(write: Option<Write>) -> String {
        let Some(Write::Line(line)) = write else {
            panic!("{write:?}");
        };
        let line: Value = serde_json::from_str(&line).unwrap();
        line["request_id"].as_str().unwrap().to_owned()
    }

    #[tokio::test]
    async fn answers_reach_their_requests() {
        let (outgoing, mut written) = Outgoing::new();
        let pending = Pending::new();
        let ask = json!({"subtype": "mcp_status"});
        let (one, two, ()) = tokio::join!(
            pending.request(&outgoing, &ask, LONG),
            pending.request(&outgoing, &ask, LONG),
            async {
                let (first, second) = (id_of(written.recv().await), id_of(written.recv().await));
                pending.answer("never asked", Ok(json!(0)));
                pending.answer(&second, Err("no".to_owned()));
                pending.answer(&first, Ok(json!(1)));
            }
        );
        assert_eq!(
            (one, two),
            (Ok(json!(1)), Err(ControlError::Refused("no".to_owned())))
        );
    }

    #[tokio::test]
    async fn all_requests_fail_at_once_when_the_program_exits() {
        let (outgoing, mut written) = Outgoing::new();
        let pending = Pending::new();
        let ask = json!({"subtype": "initialize"});
        let (one, ()) = tokio::join!(pending.request(&outgoing, &ask, LONG), async {
            written.recv().await;
            pending.fail_all();
        });
        assert_eq!(one, Err(ControlError::Disconnected));
        assert_eq!(
            pending.request(&outgoing, &ask, LONG).await,
            Err(ControlError::Disconnected)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_without_an_answer_times_out() {
        let (outgoing, _written) = Outgoing::new();
        let error = Pending::new()
            .request(&outgoing, &json!({}), LONG)
            .await
            .unwrap_err();
        assert_eq!(error, ControlError::TimedOut(LONG));
    }
}
