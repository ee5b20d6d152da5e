//! Reads a JSON file with the cases of a run one case at a time: memory does not grow with their texts.

use std::{cell::RefCell, collections::BTreeMap, fmt, fs::File, io::BufReader, path::Path};

use holodeck_model::{Combination, Partial, REPORT_SCHEMA_VERSION, Replayed};
use serde::{
    Deserializer,
    de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::Value;

use super::{
    ReadRunError, describe_combination,
    file_case::{FileCase, FileNotRun},
};
use crate::compare::baseline::{BASELINE_VERSION, BaselineCase, OLD_BASELINE_VERSION};

/// Receives the cases of a file, in its order.
pub(super) trait CaseSink {
    fn case(&mut self, case: FileCase);
    fn not_run(&mut self, case: FileNotRun);
    fn baseline_case(&mut self, case: BaselineCase);
}

/// Everything of a file except its cases.
#[derive(Default)]
pub(super) struct FileHead {
    has_results: bool,
    pub(super) baseline: Option<u64>,
    /// Absent in files of HoloDeck 0.7.
    pub(super) schema_version: Option<u64>,
    pub(super) agent_name: String,
    pub(super) run_id: Option<String>,
    pub(super) at: String,
    pub(super) model: Option<String>,
    pub(super) ended: Option<String>,
    pub(super) because: Option<String>,
    pub(super) provenance: Vec<String>,
    pub(super) judge: JudgeOfAgent,
    pub(super) agent_parts: BTreeMap<String, String>,
}

/// The judge of an agent, which HoloDeck 0.7 names only in the agent's configuration.
#[derive(Default)]
pub(super) enum JudgeOfAgent {
    /// The file has no configuration.
    #[default]
    Unknown,
    /// The default judge of HoloDeck 0.7.
    Default,
    Named(String),
}

/// Reads a file; passes its cases to `sink`.
pub(super) fn scan(path: &Path, sink: &mut dyn CaseSink) -> Result<FileHead, ReadRunError> {
    let shown = || path.display().to_string();
    let malformed = |reason: String| ReadRunError::Malformed {
        path: shown(),
        reason,
    };
    let file = File::open(path).map_err(|source| ReadRunError::Io {
        path: shown(),
        source,
    })?;
    let mut json = serde_json::Deserializer::from_reader(BufReader::with_capacity(1 << 16, file));
    let found = RefCell::new(Found {
        head: FileHead::default(),
        sink,
    });
    let object = Object {
        found: &found,
        level: Level::File,
    };
    let read = object.deserialize(&mut json).and_then(|()| json.end());
    read.map_err(|error| match error.io_error_kind() {
        Some(kind) => ReadRunError::Io {
            path: shown(),
            source: kind.into(),
        },
        None => malformed(error.to_string()),
    })?;
    let head = found.into_inner().head;
    let is_known = |version: &u64| *version == u64::from(REPORT_SCHEMA_VERSION);
    if let Some(other) = head.schema_version.filter(|version| !is_known(version)) {
        return Err(malformed(format!(
            "it is a run file of format version {other}; this holodeck reads version {REPORT_SCHEMA_VERSION} and files of \
             HoloDeck 0.7"
        )));
    }
    match head.baseline {
        Some(OLD_BASELINE_VERSION | BASELINE_VERSION) => Ok(head),
        Some(other) => Err(malformed(format!(
            "it is a baseline of format version {other}; this holodeck reads versions {OLD_BASELINE_VERSION} and \
             {BASELINE_VERSION}"
        ))),
        None if head.has_results => Ok(head),
        None => Err(malformed(
            "expected a journal, a run file, a JSON report or a baseline".to_owned(),
        )),
    }
}

struct Found<'s> {
    head: FileHead,
    sink: &'s mut dyn CaseSink,
}

/// The objects that are read key by key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    /// The top level: a run file, a report or a baseline.
    File,
    /// The report inside of a run file.
    Report,
}

struct Object<'f, 's> {
    found: &'f RefCell<Found<'s>>,
    level: Level,
}

impl<'de> DeserializeSeed<'de> for Object<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Object<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with the results of a run")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<(), M::Error> {
        let list = |kind| List {
            found: self.found,
            kind,
        };
        while let Some(key) = map.next_key::<String>()? {
            let is_file = self.level == Level::File;
            match key.as_str() {
                "report" if is_file => map.next_value_seed(Object {
                    found: self.found,
                    level: Level::Report,
                })?,
                "results" => {
                    self.found.borrow_mut().head.has_results = true;
                    map.next_value_seed(list(ListKind::Results))?;
                }
                "not_run" => map.next_value_seed(list(ListKind::NotRun))?,
                "cases" if is_file => map.next_value_seed(list(ListKind::Baseline))?,
                key if FileHead::FIELDS.contains(&key) => {
                    let value: Value = map.next_value()?;
                    self.found.borrow_mut().head.set(key, value);
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

#[derive(Clone, Copy)]
enum ListKind {
    Results,
    NotRun,
    Baseline,
}

struct List<'f, 's> {
    found: &'f RefCell<Found<'s>>,
    kind: ListKind,
}

impl<'de> DeserializeSeed<'de> for List<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for List<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of cases")
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut cases: S) -> Result<(), S::Error> {
        match self.kind {
            ListKind::Results => {
                while let Some(case) = cases.next_element()? {
                    self.found.borrow_mut().sink.case(case);
                }
            }
            ListKind::NotRun => {
                while let Some(case) = cases.next_element()? {
                    self.found.borrow_mut().sink.not_run(case);
                }
            }
            ListKind::Baseline => {
                while let Some(case) = cases.next_element()? {
                    self.found.borrow_mut().sink.baseline_case(case);
                }
            }
        }
        Ok(())
    }
}

impl FileHead {
    const FIELDS: [&'static str; 16] = [
        "holodeck_baseline",
        "schema_version",
        "agent_name",
        "agent",
        "run_id",
        "run",
        "timestamp",
        "saved_at",
        "model",
        "ended",
        "ended_because",
        "replayed",
        "combination",
        "partial",
        "agent_parts",
        "metadata",
    ];

    fn set(&mut self, key: &str, value: Value) {
        let text = value.as_str().map(ToOwned::to_owned);
        match key {
            "holodeck_baseline" => self.baseline = Some(value.as_u64().unwrap_or_default()),
            "schema_version" if value.is_null() => {}
            "schema_version" => self.schema_version = Some(value.as_u64().unwrap_or_default()),
            "agent_name" | "agent" => self.agent_name = text.unwrap_or_default(),
            "run_id" | "run" => self.run_id = text,
            "timestamp" | "saved_at" => self.at = text.unwrap_or_default(),
            "model" => self.model = text,
            "ended" => self.ended = text,
            "ended_because" => self.because = text,
            "replayed" => {
                let replayed = serde_json::from_value::<Option<Replayed>>(value).ok().flatten();
                self.provenance.extend(replayed.as_ref().map(Replayed::describe));
            }
            "combination" => {
                let values = serde_json::from_value::<Option<Combination>>(value)
                    .ok()
                    .flatten();
                self.provenance.extend(values.as_ref().map(describe_combination));
            }
            "partial" => {
                let partial = serde_json::from_value::<Option<Partial>>(value).ok().flatten();
                self.provenance.extend(partial.map(Partial::describe));
            }
            "agent_parts" => self.agent_parts = serde_json::from_value(value).unwrap_or_default(),
            _ => self.set_metadata(&value),
        }
    }

    fn set_metadata(&mut self, metadata: &Value) {
        let config = metadata.get("agent_config").unwrap_or(&Value::Null);
        self.model = config.get("model").and_then(describe_model);
        if config.is_object() {
            let judge = config
                .get("evaluations")
                .and_then(|evaluations| evaluations.get("model"));
            let judge = judge.and_then(describe_model);
            self.judge = judge.map_or(JudgeOfAgent::Default, JudgeOfAgent::Named);
        }
    }
}

/// `openai gpt-4o`.
fn describe_model(model: &Value) -> Option<String> {
    let name = model.get("name")?.as_str()?;
    Some(match model.get("provider").and_then(Value::as_str) {
        Some(provider) => format!("{provider} {name}"),
        None => name.to_owned(),
    })
}
