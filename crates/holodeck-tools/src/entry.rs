//! One tool with the checks and limits of its calls: arguments, time, cancellation and size.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt;
use holodeck_backend_api::{
    CallRefusal, Elicitation, ElicitationAnswer, ElicitationHost, Tool, ToolCall, ToolCx, ToolError,
    ToolKind, ToolOutput, ToolSpec,
};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use crate::SetupError;
use crate::arguments::Arguments;

/// Maximum size of one tool result; the rest is truncated.
pub const MAX_OUTPUT_BYTES: usize = 256 * 1024;

/// How long a cancelled tool may take to stop.
const GRACE: Duration = Duration::from_secs(2);

/// A tool with the checks and limits of its calls.
pub(crate) struct Entry {
    tool: Arc<dyn Tool>,
    arguments: Arguments,
    timeout: Duration,
}

impl Entry {
    /// A tool whose schema must be valid.
    pub(crate) fn strict(tool: Arc<dyn Tool>, timeout: Duration) -> Result<Self, SetupError> {
        let spec = tool.spec();
        let arguments = Arguments::new(&spec.parameters).map_err(|reason| SetupError::Schema {
            name: spec.name.clone(),
            reason,
        })?;
        Ok(Self {
            tool,
            arguments,
            timeout,
        })
    }

    /// A tool that checks its arguments itself if its schema is invalid.
    pub(crate) fn lenient(tool: Arc<dyn Tool>, timeout: Duration) -> Self {
        let spec = tool.spec();
        let arguments = Arguments::new(&spec.parameters).unwrap_or_else(|reason| {
            tracing::debug!(
                tool = spec.name,
                reason,
                "the parameters are not a valid JSON Schema"
            );
            Arguments::unchecked()
        });
        Self {
            tool,
            arguments,
            timeout,
        }
    }

    pub(crate) fn spec(&self) -> &ToolSpec {
        self.tool.spec()
    }

    pub(crate) fn kind(&self) -> ToolKind {
        self.tool.kind()
    }
}

/// Calls a tool within its limits.
pub(crate) async fn run_call(entry: &Entry, call: &ToolCall, cx: ToolCx) -> Result<ToolOutput, ToolError> {
    let arguments = match entry.arguments.check(&call.arguments) {
        Ok(arguments) => arguments,
        Err(problems) => {
            let text = format!("invalid arguments: {problems}");
            return Ok(ToolOutput::refused(CallRefusal::InvalidArguments, text));
        }
    };
    if cx.cancel.is_cancelled() {
        return Err(ToolError::Cancelled);
    }
    let stop = cx.cancel.child_token();
    let (asking, is_asking) = watch::channel(0_usize);
    let elicitation = cx.elicitation.clone().map(|person| {
        let patient = PatientElicitation { person, asking };
        Arc::new(patient) as Arc<dyn ElicitationHost>
    });
    let inner = ToolCx {
        cancel: stop.clone(),
        elicitation,
        ..cx.clone()
    };
    let running = AssertUnwindSafe(entry.tool.call(arguments, inner)).catch_unwind();
    tokio::pin!(running);
    // A cancelled tool is awaited, so that processes it started have ended when the call returns.
    let result = tokio::select! {
        biased;
        result = &mut running => result,
        () = cx.cancel.cancelled() => {
            let _ = timeout(GRACE, &mut running).await;
            return Err(ToolError::Cancelled);
        }
        () = time_out(entry.timeout, is_asking) => {
            stop.cancel();
            let _ = timeout(GRACE, &mut running).await;
            return Ok(ToolOutput::error(format!("no answer within {} s", entry.timeout.as_secs_f64())));
        }
    };
    match result {
        Ok(output) => output.map(truncate_output),
        Err(_panic) => Err(ToolError::Unavailable {
            name: call.name.clone(),
            reason: "it panicked".to_owned(),
        }),
    }
}

/// Stops the clock of a call while a person is asked.
struct PatientElicitation {
    person: Arc<dyn ElicitationHost>,
    /// How many questions are open.
    asking: watch::Sender<usize>,
}

#[async_trait]
impl ElicitationHost for PatientElicitation {
    async fn elicit(&self, question: Elicitation) -> ElicitationAnswer {
        let _open = OpenQuestion::new(&self.asking);
        self.person.elicit(question).await
    }
}

/// Counts as an open question until it is dropped.
struct OpenQuestion<'a>(&'a watch::Sender<usize>);

impl<'a> OpenQuestion<'a> {
    fn new(asking: &'a watch::Sender<usize>) -> Self {
        asking.send_modify(|open| *open += 1);
        Self(asking)
    }
}

impl Drop for OpenQuestion<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|open| *open = open.saturating_sub(1));
    }
}

/// Waits for `limit`, without the time in which a person is asked.
async fn time_out(limit: Duration, mut is_asking: watch::Receiver<usize>) {
    let mut left = limit;
    loop {
        let began = Instant::now();
        let asked = timeout(left, is_asking.wait_for(|open| *open > 0))
            .await
            .map(|asked| asked.is_ok());
        left = left.saturating_sub(began.elapsed());
        match asked {
            Err(_elapsed) => return,
            Ok(true) if is_asking.wait_for(|open| *open == 0).await.is_ok() => {}
            // Nothing can ask any more.
            Ok(_) => return sleep(left).await,
        }
    }
}

fn truncate_output(mut output: ToolOutput) -> ToolOutput {
    let mut size = 0;
    output.details.passages.retain(|passage| {
        size += passage.text.len();
        size <= MAX_OUTPUT_BYTES
    });
    if output.text.len() > MAX_OUTPUT_BYTES {
        output.details.truncated = true;
        output
            .text
            .truncate(output.text.floor_char_boundary(MAX_OUTPUT_BYTES));
        output
            .text
            .push_str("\n[truncated: the result is longer than 256 KiB]");
    }
    output
}
