//! Errors as clients receive them: RFC 9457.

use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use holodeck_chat::{FileError, RunError};
use holodeck_events::StoreError;
use http::{HeaderValue, StatusCode, header};
use serde_json::{Map, Value};

/// An error as clients receive it.
#[derive(Clone, Debug)]
pub(crate) struct Problem(Box<Parts>);

#[derive(Clone, Debug)]
struct Parts {
    status: StatusCode,
    /// Names it for programs.
    code: &'static str,
    detail: String,
    more: Map<String, Value>,
    /// The field of the request that it is about.
    param: Option<String>,
    /// Seconds after which another try makes sense.
    retry_after: Option<u32>,
    /// Whether a client must not send the request again by itself: something was done for it.
    has_effect: bool,
}

pub(crate) type Result<T, E = Problem> = std::result::Result<T, E>;

impl Problem {
    pub(crate) fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self(Box::new(Parts {
            status,
            code,
            detail: detail.into(),
            more: Map::new(),
            param: None,
            retry_after: None,
            has_effect: false,
        }))
    }

    pub(crate) fn invalid(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "INVALID_REQUEST", detail)
    }

    pub(crate) fn session_not_found(session_id: &str) -> Self {
        StoreError::SessionNotFound {
            session_id: session_id.to_owned(),
        }
        .into()
    }

    pub(crate) fn run_not_found(run_id: &str) -> Self {
        let detail = format!("run `{run_id}` does not exist");
        Self::new(StatusCode::NOT_FOUND, "RUN_NOT_FOUND", detail)
    }

    pub(crate) fn run_elsewhere(run_id: &str) -> Self {
        let detail = format!("run `{run_id}` belongs to another process");
        Self::new(StatusCode::CONFLICT, "RUN_ELSEWHERE", detail)
    }

    pub(crate) fn agent_not_found(name: &str) -> Self {
        let detail = format!("there is no agent `{name}` here");
        Self::new(StatusCode::NOT_FOUND, "AGENT_NOT_FOUND", detail)
    }

    pub(crate) fn not_supported(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "NOT_SUPPORTED", detail)
    }

    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.0.more.insert(name.to_owned(), value.into());
        self
    }

    pub(crate) fn retry_after(mut self, seconds: u32) -> Self {
        self.0.retry_after = Some(seconds);
        self
    }

    /// Names the field of the request that it is about.
    pub(crate) fn about(mut self, param: impl Into<String>) -> Self {
        self.0.param = Some(param.into());
        self
    }

    /// Keeps clients from sending the request again by themselves: something was done already.
    pub(crate) fn after_effect(mut self) -> Self {
        self.0.has_effect = true;
        self
    }

    pub(crate) fn param(&self) -> Option<&str> {
        self.0.param.as_deref()
    }

    /// Whether a question has an answer already, or none in time.
    pub(crate) fn is_resolved(&self) -> bool {
        matches!(self.0.code, "ALREADY_RESOLVED" | "EXPIRED")
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.0.status
    }

    pub(crate) fn code(&self) -> &'static str {
        self.0.code
    }

    pub(crate) fn detail(&self) -> &str {
        &self.0.detail
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        use StoreError as E;
        let detail = error.to_string();
        let conflict = |code| Self::new(StatusCode::CONFLICT, code, &detail);
        match error {
            E::RunInProgress { .. } => conflict("RUN_IN_PROGRESS").retry_after(1),
            E::SessionExists { .. } => conflict("SESSION_EXISTS"),
            E::SessionDeleted { .. } => conflict("SESSION_DELETED"),
            E::NotAfterARun { .. } => conflict("RUN_NOT_OVER"),
            E::RunExists { .. } | E::RunNotOpen { .. } | E::StaleOwner { .. } => conflict("RUN_NOT_OPEN"),
            E::AlreadySent { run_id } => conflict("ALREADY_SENT").with("runId", run_id),
            E::MessageIdReused { run_id } => {
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, "MESSAGE_ID_REUSED", detail).with("runId", run_id)
            }
            E::SessionNotFound { .. } => Self::new(StatusCode::NOT_FOUND, "SESSION_NOT_FOUND", detail),
            E::ApprovalNotFound { .. } => Self::new(StatusCode::NOT_FOUND, "APPROVAL_NOT_FOUND", detail),
            E::AlreadyResolved { decision, .. } => {
                conflict("ALREADY_RESOLVED").with("decision", decision.as_str())
            }
            E::Expired { .. } => conflict("EXPIRED"),
            E::ScopeNotAllowed { .. } => Self::new(StatusCode::BAD_REQUEST, "SCOPE_NOT_ALLOWED", detail),
            E::CursorAhead { head, .. } => conflict("CURSOR_AHEAD").with("headIndex", head),
            E::Full => Self::new(StatusCode::INSUFFICIENT_STORAGE, "PERSISTENCE_FAILED", detail),
            // What failed inside is for the log.
            _ => Self::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "PERSISTENCE_FAILED",
                "events could not be stored",
            )
            .retry_after(5),
        }
    }
}

impl From<RunError> for Problem {
    fn from(error: RunError) -> Self {
        let detail = error.to_string();
        match error {
            RunError::Refused { reason } => Self::invalid(reason),
            RunError::Store(error) => error.into(),
            RunError::QueueFull { .. } => {
                Self::new(StatusCode::TOO_MANY_REQUESTS, "QUEUE_FULL", detail).retry_after(5)
            }
            // What its tools did by then is not known.
            RunError::Lost { run_id, error } => Self::from(error).with("runId", run_id).after_effect(),
            RunError::Execution(result) => {
                let has_effect = !result.tools_used.is_empty();
                let result = serde_json::to_value(&*result).unwrap_or_default();
                let failed = Self::new(StatusCode::BAD_GATEWAY, "RUN_FAILED", detail).with("result", result);
                if has_effect { failed.after_effect() } else { failed }
            }
            RunError::UserRequired => Self::new(StatusCode::BAD_REQUEST, "USER_REQUIRED", detail),
            RunError::FileNotFound { .. } => Self::new(StatusCode::NOT_FOUND, "FILE_NOT_FOUND", detail),
            RunError::File(error) => error.into(),
            _ => Self::closing(),
        }
    }
}

impl From<FileError> for Problem {
    fn from(error: FileError) -> Self {
        let detail = error.to_string();
        match error {
            FileError::TooLarge { .. } => Self::new(StatusCode::PAYLOAD_TOO_LARGE, "TOO_LARGE", detail),
            FileError::Quota { .. } => Self::new(StatusCode::INSUFFICIENT_STORAGE, "QUOTA_EXCEEDED", detail),
            FileError::Unsupported { .. } => {
                Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UNSUPPORTED_FILE", detail)
            }
            FileError::NotFound { .. } => Self::new(StatusCode::NOT_FOUND, "FILE_NOT_FOUND", detail),
            _ => Self::new(StatusCode::SERVICE_UNAVAILABLE, "PERSISTENCE_FAILED", detail).retry_after(5),
        }
    }
}

impl Problem {
    /// The same with its texts changed; `None` if all stay as they are.
    pub(crate) fn masked(&self, mask: impl Fn(&str) -> String) -> Option<Self> {
        let mut masked = self.clone();
        masked.0.detail = mask(&self.0.detail);
        masked.0.param = self.0.param.as_deref().map(&mask);
        for value in masked.0.more.values_mut() {
            if let Value::String(text) = value {
                *text = mask(text);
            }
        }
        let is_same = masked.0.detail == self.0.detail
            && masked.0.param == self.0.param
            && masked.0.more == self.0.more;
        (!is_same).then_some(masked)
    }

    /// The object that clients read.
    pub(crate) fn body(&self) -> Value {
        let problem = &self.0;
        let mut body = Map::new();
        let title = problem.status.canonical_reason().unwrap_or("Error");
        body.insert("type".to_owned(), "about:blank".into());
        body.insert("title".to_owned(), title.into());
        body.insert("status".to_owned(), problem.status.as_u16().into());
        body.insert("detail".to_owned(), problem.detail.as_str().into());
        body.insert("code".to_owned(), problem.code.into());
        body.extend(problem.more.clone());
        Value::Object(body)
    }

    pub(crate) fn closing() -> Self {
        let detail = "the server is stopping";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "CLOSING", detail).retry_after(5)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::from(self.body().to_string()));
        let problem = &self.0;
        *response.status_mut() = problem.status;
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        );
        if let Some(seconds) = problem.retry_after {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        if problem.has_effect {
            headers.insert("x-should-retry", HeaderValue::from_static("false"));
        }
        if problem.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        // For routes whose clients read another form.
        response.extensions_mut().insert(self);
        response
    }
}
