//! The forms of one request: an endpoint may refuse a part of it.

use std::sync::atomic::Ordering;

use holodeck_backend_api::BackendError;

use crate::{
    answer_format::{SchemaPlacement, SentFormat, refuses_format},
    core::Core,
    number_odds,
};

/// The optional parts of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Form {
    pub(crate) placement: Option<SchemaPlacement>,
    pub(crate) number_odds: bool,
}

/// The attempts of one model call, each in another form.
pub(crate) struct Attempts {
    pub(crate) form: Form,
    /// Whether log-probabilities are wanted, even if this endpoint refused them before.
    wants_log_probs: bool,
    tried: Vec<Form>,
    /// A recording contains only successful calls, so a refused form is a miss when it is replayed.
    first_miss: Option<BackendError>,
}

impl Attempts {
    pub(crate) fn new(core: &Core, number_odds: bool) -> Self {
        let wants_log_probs = number_odds && core.may_report_log_probs();
        Self {
            form: Form {
                placement: core.format.as_ref().map(SentFormat::placement),
                number_odds: wants_log_probs && !core.refuses_log_probs.load(Ordering::Relaxed),
            },
            wants_log_probs,
            tried: Vec::new(),
            first_miss: None,
        }
    }

    /// Changes to the next form if the error is about this one. Returns whether to call again.
    pub(crate) fn change_form(&mut self, error: &BackendError) -> bool {
        self.tried.push(self.form);
        let next = if matches!(error, BackendError::ReplayMiss { .. }) {
            self.first_miss.get_or_insert_with(|| error.clone());
            self.untried()
        } else if self.form.number_odds && number_odds::refuses(error) {
            Some(Form {
                number_odds: false,
                ..self.form
            })
        } else if self.form.placement == Some(SchemaPlacement::ResponseFormat) && refuses_format(error) {
            Some(Form {
                placement: Some(SchemaPlacement::Instructions),
                ..self.form
            })
        } else {
            None
        };
        if let Some(next) = next {
            self.form = next;
        }
        next.is_some()
    }

    /// The next form in which the recorded run may have asked.
    fn untried(&self) -> Option<Form> {
        let first = self.tried.first()?;
        let later = Some(SchemaPlacement::Instructions).filter(|_| first.placement.is_some());
        let placements = [first.placement, later.or(first.placement)];
        let mut forms = placements.into_iter().flat_map(|placement| {
            let odds = [first.number_odds, !first.number_odds && self.wants_log_probs];
            odds.map(|number_odds| Form {
                placement,
                number_odds,
            })
        });
        forms.find(|form| !self.tried.contains(form))
    }

    /// The error to report.
    pub(crate) fn explain(&mut self, error: BackendError) -> BackendError {
        self.first_miss.take().unwrap_or(error)
    }

    /// Keeps the form that worked; returns a notice the first time.
    pub(crate) fn settle(&mut self, core: &Core) -> Option<String> {
        self.first_miss = None;
        if self.wants_log_probs && !self.form.number_odds {
            core.refuses_log_probs.store(true, Ordering::Relaxed);
        }
        let format = core.format.as_ref()?;
        let placement = self.form.placement;
        if placement != Some(SchemaPlacement::Instructions)
            || format.placement() == SchemaPlacement::Instructions
        {
            return None;
        }
        format.use_instructions();
        core.notice_once(
            "the endpoint does not support `response_format`; the schema is sent to the model as instructions"
                .to_owned(),
        )
    }
}
