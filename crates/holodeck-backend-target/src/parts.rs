//! The parts of an answer as a target reported them; a part that is absent was not reported.

use holodeck_backend_api::{TokenUsage, ToolCall};

/// The result of a tool call as a target reported it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ReportedResult {
    pub(crate) call_id: Option<String>,
    pub(crate) text: String,
    pub(crate) is_error: bool,
}

/// A tool call as a target reported it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ReportedCall {
    pub(crate) call: ToolCall,
    /// Whether the target named an id.
    pub(crate) has_id: bool,
    /// The result beside the call.
    pub(crate) result: Option<ReportedResult>,
}

/// The parts that one answer, or one event of a stream, reports.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Parts {
    pub(crate) text: Option<String>,
    pub(crate) tool_calls: Option<Vec<ReportedCall>>,
    pub(crate) tool_results: Option<Vec<ReportedResult>>,
    pub(crate) passages: Option<Vec<String>>,
    pub(crate) usage: Option<TokenUsage>,
    pub(crate) cost_usd: Option<f64>,
    pub(crate) finish_reason: Option<String>,
    pub(crate) session: Option<String>,
    pub(crate) error: Option<String>,
    /// Whether it is not known how long the answer took.
    pub(crate) has_no_latency: bool,
}

impl Parts {
    /// Adds what a later event of the same answer reports.
    pub(crate) fn add(&mut self, later: Self) {
        fn extend<T>(list: &mut Option<Vec<T>>, more: Option<Vec<T>>) {
            if let Some(more) = more {
                list.get_or_insert_default().extend(more);
            }
        }
        if let Some(text) = later.text {
            self.text.get_or_insert_default().push_str(&text);
        }
        extend(&mut self.tool_calls, later.tool_calls);
        extend(&mut self.tool_results, later.tool_results);
        extend(&mut self.passages, later.passages);
        self.usage = later.usage.or(self.usage);
        self.cost_usd = later.cost_usd.or(self.cost_usd);
        self.finish_reason = later.finish_reason.or(self.finish_reason.take());
        self.session = later.session.or(self.session.take());
        self.has_no_latency |= later.has_no_latency;
        self.error = self.error.take().or(later.error);
    }
}
