//! One call of a model through its attempts: decides what follows after one that failed, wherever it did.

use std::{sync::atomic::Ordering, time::Duration};

use holodeck_backend_api::{Adaptation, BackendError, ModelDelta, ModelRequest, RequestBody};
use holodeck_http::HttpError;
use serde_json::Value;

use super::Driver;
use crate::{
    Endpoint,
    dialect::{Attempts, Refusal},
    failure, parameters,
};

/// Why an attempt came to no answer, before anything of one was passed on.
pub(super) struct Failed {
    error: BackendError,
    /// The failure alone, without the next step.
    cause: String,
    /// The part of the request that it may be about.
    refusal: Option<Refusal>,
    /// The failure as one of the transport, if it may pass or another model may answer.
    as_transport: Option<HttpError>,
    /// The words of a filter that refused the request.
    pub(super) refusal_of_filter: Option<String>,
}

impl Failed {
    /// The failure of an attempt to which no answer began.
    pub(super) fn before_answer(error: HttpError, driver: &Driver, body: &Value) -> Self {
        if !matches!(error, HttpError::Connect { .. }) {
            driver.reached.store(true, Ordering::Relaxed);
        }
        Self {
            error: driver.explain(&error, body),
            refusal: Refusal::of_http(&error),
            refusal_of_filter: failure::refused_by_filter(&error),
            cause: error.to_string(),
            as_transport: Some(error),
        }
    }

    /// The failure of an answer that began with 200; `broken` is that of its connection.
    pub(super) fn in_answer(error: BackendError, broken: Option<HttpError>, driver: &Driver) -> Self {
        Self {
            refusal: Refusal::of_answer(&error),
            as_transport: broken.or_else(|| failure::as_status(&error, &driver.endpoint)),
            refusal_of_filter: None,
            cause: error.to_string(),
            error,
        }
    }
}

/// The step after an attempt that failed.
pub(super) enum Next {
    Attempt,
    AttemptAfter { cause: String, wait: Duration },
    End(Box<BackendError>),
}

/// One call of a model through its attempts.
pub(super) struct Call {
    pub(super) model: String,
    pub(super) body: RequestBody,
    pub(super) attempts: Attempts,
    /// The error of the first attempt, which is reported if no other form is answered.
    first: Option<BackendError>,
    is_fallback: bool,
    /// How often a failure that passes was waited for, wherever it was.
    retries: u32,
}

impl Call {
    pub(super) fn new(driver: &Driver, request: &ModelRequest) -> Self {
        Self {
            attempts: driver.learnt.attempts(&request.model),
            model: request.model.clone(),
            body: request.body.clone(),
            first: None,
            is_fallback: false,
            retries: 0,
        }
    }

    /// Decides about the next attempt: each other form of the request is tried once, the same one as often as the policy
    /// says, and the fallback model once.
    pub(super) fn after(&mut self, driver: &Driver, failed: Failed) -> Next {
        if self.change(failed.refusal, &failed.error) {
            return Next::Attempt;
        }
        if let Some(failure) = &failed.as_transport {
            if let Some(wait) = self.retry(driver, failure) {
                let cause = failed.cause;
                tracing::debug!(
                    error = cause,
                    retry = self.retries,
                    wait_ms = wait.as_millis(),
                    "asking again"
                );
                return Next::AttemptAfter { cause, wait };
            }
            if self.fall_back(driver, failure, &failed.error) {
                return Next::Attempt;
            }
        }
        Next::End(Box::new(self.first_error(failed.error)))
    }

    /// Changes to the next form after a refusal; returns whether to ask again.
    fn change(&mut self, refusal: Option<Refusal>, error: &BackendError) -> bool {
        let Some(refusal) = refusal else { return false };
        let changes = self.attempts.change(refusal, &self.body);
        if changes {
            self.first.get_or_insert_with(|| error.clone());
        }
        changes
    }

    /// The wait before the same request is sent again, if its failure may pass.
    fn retry(&mut self, driver: &Driver, failure: &HttpError) -> Option<Duration> {
        let reached = driver.reached.load(Ordering::Relaxed);
        // Whether another form is left to be tried where the server does not say what it refuses.
        let may_change = self.attempts.may_change(&self.body);
        if self.is_fallback || failure::is_no_reason_to_retry(failure, reached, may_change) {
            return None;
        }
        let wait = driver.retry.next_wait(self.retries, failure)?;
        self.retries += 1;
        Some(wait)
    }

    /// Changes to the fallback model if the first one is busy or failed; returns whether to ask it.
    fn fall_back(&mut self, driver: &Driver, error: &HttpError, explained: &BackendError) -> bool {
        let Some(fallback) = driver.fallback_model.as_ref().filter(|_| !self.is_fallback) else {
            return false;
        };
        if !matches!(error.status(), Some(429 | 500..=599)) {
            return false;
        }
        tracing::warn!(error = %explained, model = self.model, fallback, "trying the fallback model");
        self.first.get_or_insert_with(|| explained.clone());
        self.is_fallback = true;
        self.body = self
            .body
            .with_own(parameters::adapt_to(fallback, self.body.own()));
        self.attempts = driver.learnt.attempts(fallback);
        self.model.clone_from(fallback);
        true
    }

    /// The parts of the request in another form.
    pub(super) fn adaptations(&self, endpoint: &Endpoint) -> Vec<Adaptation> {
        let changes = self.attempts.form.changes(self.body.own());
        let adaptations = changes.map(|change| Adaptation {
            endpoint: endpoint.url(),
            model: self.model.clone(),
            part: change.part().to_owned(),
            note: change.note().to_owned(),
        });
        adaptations.collect()
    }

    fn first_error(&mut self, error: BackendError) -> BackendError {
        self.first.take().unwrap_or(error)
    }

    /// Says which model sent the fields that go back with a call.
    pub(super) fn mark(&self, mut delta: ModelDelta) -> ModelDelta {
        if let ModelDelta::ToolCall(call) = &mut delta
            && let Some(fields) = &mut call.provider_fields
        {
            fields.model.clone_from(&self.model);
        }
        delta
    }
}
