//! An error that may be the refusal of a part of a request.

use holodeck_backend_api::BackendError;
use holodeck_http::HttpError;

use crate::failure::{self, ErrorDetails};

/// An error of the server about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    status: u16,
    /// In lower case.
    pub(crate) text: String,
    /// The parameter that it names.
    pub(crate) param: Option<String>,
}

impl Refusal {
    /// The refusal in an answer with an error status.
    pub(crate) fn of_http(error: &HttpError) -> Option<Self> {
        let text = error.body()?;
        let details = ErrorDetails::of_body(text);
        Some(Self {
            status: error.status()?,
            text: text.to_lowercase(),
            param: details.param,
        })
    }

    /// The refusal in an answer that began with 200.
    pub(crate) fn of_answer(error: &BackendError) -> Option<Self> {
        let BackendError::Provider {
            status,
            explanation,
            param,
            ..
        } = error
        else {
            return None;
        };
        Some(Self {
            status: (*status)?,
            text: explanation.message.to_lowercase(),
            param: param.clone(),
        })
    }

    /// Whether the server may have refused a part that the error does not name.
    pub(crate) fn is_vague(&self) -> bool {
        matches!(self.status, 400 | 422 | 500 | 501)
            && !failure::is_about_length(&self.text)
            && !failure::is_about_content(&self.text)
            && !failure::is_about_key(&self.text)
    }

    /// Whether the status says that the request is wrong, and not that the server failed.
    pub(crate) fn is_about_the_request(&self) -> bool {
        matches!(self.status, 400 | 422)
    }

    /// Whether the server may have refused a part that the error names.
    pub(crate) fn may_name(&self) -> bool {
        matches!(self.status, 200 | 400 | 403 | 404 | 405 | 415 | 422 | 500 | 501)
    }

    /// Whether the error names streaming.
    pub(crate) fn names_streaming(&self) -> bool {
        let is_param = self.param.is_some();
        self.names("stream", &[]) || (!is_param && failure::is_about_streaming(&self.text))
    }

    /// Whether the error names this parameter or a part of it, or has one of the words.
    pub(crate) fn names(&self, param: &str, words: &[&str]) -> bool {
        if let Some(named) = &self.param {
            let named = named.split(['.', '[']).next().unwrap_or_default();
            return named == param;
        }
        words.iter().any(|word| self.text.contains(word))
    }
}
