//! Answers that exist: rows of a table, matched to cases by name or by input. No agent is asked.

use std::{collections::HashMap, sync::Arc, time::Duration};

use async_stream::stream;
use futures::StreamExt as _;
use holodeck_backend_api::{BackendError, BackendEvent, TurnRequest};
use holodeck_model::{AnswerRow, Location, trial_case_name};

use crate::{
    asker::{Asker, Piece, Pieces},
    conversation::State,
    parts::Parts,
    paths::{Paths, usual_paths},
    template::Question,
};

/// The rows of a table by the case that they answer.
pub(crate) struct AnswersAsker {
    rows: Arc<[AnswerRow]>,
    by_name: HashMap<String, Vec<usize>>,
    by_input: HashMap<String, Vec<usize>>,
    paths: Paths,
    /// The table as the YAML names it.
    file: String,
    at: Option<Location>,
}

impl AnswersAsker {
    pub(crate) fn new(
        file: String,
        rows: Arc<[AnswerRow]>,
        at: Option<Location>,
    ) -> Result<Self, BackendError> {
        let mut by_name: HashMap<String, Vec<usize>> = HashMap::new();
        let mut by_input: HashMap<String, Vec<usize>> = HashMap::new();
        for (place, row) in rows.iter().enumerate() {
            let (map, key) = match (&row.name, &row.input) {
                (Some(name), _) => (&mut by_name, name),
                (None, Some(input)) => (&mut by_input, input),
                (None, None) => continue,
            };
            map.entry(key.clone()).or_default().push(place);
        }
        let paths = Paths::new(&usual_paths())
            .map_err(|(field, problem)| BackendError::config(format!("`{field}`: {problem}")))?;
        Ok(Self {
            rows,
            by_name,
            by_input,
            paths,
            file,
            at,
        })
    }

    /// The row of a trial of a case.
    fn find(&self, request: &TurnRequest) -> Option<&AnswerRow> {
        let name = request.unit.as_deref().map(trial_case_name);
        let named = name.and_then(|name| self.by_name.get(name));
        let of_message = |place: &&usize| {
            let row = self.rows.get(**place);
            row.is_some_and(|row| row.input.as_ref().is_none_or(|input| *input == request.message))
        };
        let places: Vec<&usize> = match named {
            Some(places) => places.iter().filter(of_message).collect(),
            None => self
                .by_input
                .get(&request.message)
                .map(|places| places.iter().collect())
                .unwrap_or_default(),
        };
        let trial = usize::try_from(request.trial).ok()?;
        self.rows.get(**places.get(trial)?)
    }
}

impl Asker for AnswersAsker {
    fn ask<'a>(&'a self, _: &'a mut State, question: Question, request: &TurnRequest) -> Pieces<'a> {
        let row = self.find(request).cloned();
        let trial = request.trial;
        drop(question);
        stream! {
            let Some(row) = row else {
                let which = match trial {
                    0 => "to this case".to_owned(),
                    later => format!("to trial {} of this case", u64::from(later) + 1),
                };
                let mut explanation = holodeck_backend_api::Explanation::new(format!(
                    "not run: `{}` has no answer {which}", self.file
                ))
                .with_hint("a row answers the case of its `name`, else the one whose `input` it has; several rows are trials");
                explanation.place.clone_from(&self.at);
                yield Err(BackendError::replay_miss(explanation));
                return;
            };
            let problem = |problem: String| {
                let mut explanation = holodeck_backend_api::Explanation::new(format!("`{}`, row {}: {problem}", self.file, row.number));
                explanation.place.clone_from(&self.at);
                BackendError::protocol(explanation)
            };
            if let Some(latency) = row.latency_ms {
                yield Ok(Piece::Event(BackendEvent::Replayed {
                    latency: Duration::from_millis(latency),
                    redacted: holodeck_backend_api::Redactions::default(),
                }));
            }
            let answer = serde_json::Value::Object(row.answer.clone());
            yield match self.paths.parts(&answer) {
                Err(wrong) => Err(problem(wrong)),
                Ok(parts) => match parts.error {
                    Some(error) => Err(problem(format!("an error was recorded: {error}"))),
                    None => Ok(Piece::Done(Box::new(Parts {
                        has_no_latency: row.latency_ms.is_none(),
                        ..parts
                    }))),
                },
            };
        }
        .boxed()
    }

    fn sends_history(&self) -> bool {
        true
    }

    fn names_session(&self) -> bool {
        false
    }
}
