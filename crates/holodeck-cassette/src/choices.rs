//! Records and replays which tools were chosen for a message, so that a replay needs no embedding model.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use async_trait::async_trait;
use holodeck_backend_api::{BackendError, ModelRequest, ToolFilter};
use holodeck_model::Redactor;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{
    Cassette,
    entry::CHOICE,
    recorder::Tape,
    replayer::{NoAnswer, ReplayCursor},
};

/// Wraps the filter that chooses the tools of a message, and records what it chooses.
pub struct RecordedChoices {
    filter: Arc<dyn ToolFilter>,
    tape: Arc<Tape>,
    among: Value,
}

impl RecordedChoices {
    /// Records on `tape` what `filter` chooses. `among` is what the choice depends on besides the message.
    pub fn new(filter: Arc<dyn ToolFilter>, tape: Arc<Tape>, among: Value) -> Self {
        Self { filter, tape, among }
    }
}

#[async_trait]
impl ToolFilter for RecordedChoices {
    async fn choose(
        &self,
        message: &str,
        used: &HashMap<String, usize>,
    ) -> Result<HashSet<String>, BackendError> {
        let started = Instant::now();
        let chosen = self.filter.choose(message, used).await?;
        let mut names: Vec<&String> = chosen.iter().collect();
        names.sort();
        let request = request(message, used, &self.among);
        self.tape.record_value(&request, &names, None, started);
        Ok(chosen)
    }
}

/// Returns the recorded choice for each message; nothing is chosen again.
pub struct ReplayedChoices {
    cursor: ReplayCursor,
    among: Value,
}

impl ReplayedChoices {
    /// Replays the choices in `cassette`; see [`Cassette::has_choices`].
    pub fn new(cassette: Arc<Cassette>, redactor: Arc<Redactor>, among: Value) -> Self {
        Self {
            cursor: ReplayCursor::new(cassette, redactor),
            among,
        }
    }
}

#[async_trait]
impl ToolFilter for ReplayedChoices {
    async fn choose(
        &self,
        message: &str,
        used: &HashMap<String, usize>,
    ) -> Result<HashSet<String>, BackendError> {
        let miss = |message: String| BackendError::replay_miss(message);
        match self.cursor.next(&request(message, used, &self.among)) {
            Ok(entry) => serde_json::from_str(&entry.response.text).map_err(|error| miss(error.to_string())),
            Err(NoAnswer::Cassette(error)) => Err(miss(error.to_string())),
            Err(NoAnswer::Miss(_)) => Err(miss(format!(
                "`{}` has no recorded choice of tools for the message {message:?}; record again",
                self.cursor.cassette.path().display()
            ))),
        }
    }
}

fn request(message: &str, used: &HashMap<String, usize>, among: &Value) -> ModelRequest {
    let used: BTreeMap<&String, &usize> = used.iter().collect();
    ModelRequest {
        provider: CHOICE.to_owned(),
        model: String::new(),
        body: json!({"message": message, "used": used, "among": among}).into(),
        unit: None,
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::{RecordMode, entry::Response};

    /// Chooses the tools that the message names.
    struct Live;

    #[async_trait]
    impl ToolFilter for Live {
        async fn choose(
            &self,
            message: &str,
            _: &HashMap<String, usize>,
        ) -> Result<HashSet<String>, BackendError> {
            Ok(message.split(' ').map(str::to_owned).collect())
        }
    }

    #[tokio::test]
    async fn a_recorded_choice_is_replayed_and_others_miss() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.jsonl");
        let redactor = Arc::new(Redactor::new(["hunter2-secret".to_owned()]));
        let tape = Tape::create(&path, Arc::clone(&redactor)).unwrap();
        let (none, once) = (HashMap::new(), HashMap::from([("a".to_owned(), 1)]));
        let recorded = RecordedChoices::new(Arc::new(Live), Arc::clone(&tape), json!(["a", "b"]));
        let first = recorded.choose("b a hunter2-secret", &none).await.unwrap();
        assert_eq!(first.len(), 3);
        let model = ModelRequest {
            provider: "openai".to_owned(),
            model: "m".to_owned(),
            body: json!({}).into(),
            unit: None,
        };
        tape.record(&model, Response::default(), 1);
        assert_eq!(tape.finish(RecordMode::Replace).unwrap(), 1);

        let cassette = Arc::new(Cassette::open(&path).unwrap());
        assert!(cassette.has_choices());
        assert_eq!(cassette.info().models, ["m"]);
        let replayed = |among| ReplayedChoices::new(Arc::clone(&cassette), Arc::clone(&redactor), among);
        let again = replayed(json!(["a", "b"]));
        let chosen = again.choose("b a hunter2-secret", &none).await.unwrap();
        assert!(
            chosen.contains("a") && chosen.contains("b") && chosen.len() == 3,
            "{chosen:?}"
        );
        for missing in [
            again.choose("b", &none).await,
            again.choose("b a hunter2-secret", &once).await,
            replayed(json!(["a"])).choose("b a hunter2-secret", &none).await,
        ] {
            let error = missing.unwrap_err().to_string();
            assert!(error.contains("has no recorded choice of tools"), "{error}");
        }
    }
}
