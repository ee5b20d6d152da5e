//! Stored calibrations: how a judge agreed with people, kept beside the agent file for runs that require it.
//!
//! A file has verdicts, not texts. Its numbers are computed again when it is read, and a file whose numbers do not agree
//! is damaged. This detects mistakes; it is no signature, so changes of these files belong in a review.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use holodeck_eval::calibration::{Calibration, LabelledVerdict};
use holodeck_model::{CalibrationMinimum, hex_prefix, io_reason, read_text_input};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::{CalibrationRun, JudgedLabel, describe_shortfall, digest_item};
use holodeck_runs::ExitCode;

/// The version of the format.
const FORMAT: u32 = 1;

/// The folder beside the agent file.
const FOLDER: &str = "calibration";

/// The largest file that is read.
const MAX_BYTES: u64 = 64 << 20;

/// Characters of the metric's name in the name of the file.
const NAME_CHARS: usize = 40;

/// Computed numbers may differ by this.
const ROUNDING: f64 = 1e-9;

/// The identity of a judge.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "callers construct it as a literal")]
pub struct CalibratedJudge {
    /// The name of the metric.
    pub metric: String,
    /// The names of its judges.
    pub judges: Vec<String>,
    /// Each part that shapes its verdicts, with its digest.
    pub parts: BTreeMap<String, String>,
    /// Parts that the environment sets. A replay does not have them.
    pub environment: BTreeMap<String, String>,
}

/// A calibration as its file has it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredCalibration {
    holodeck_calibration: u32,
    metric: String,
    judges: Vec<String>,
    threshold: Option<f64>,
    calibrated_at: Timestamp,
    labels: usize,
    kappa: f64,
    kappa_ci: Option<[f64; 2]>,
    parts: BTreeMap<String, String>,
    environment: BTreeMap<String, String>,
    verdicts: Vec<StoredVerdict>,
    checksum: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredVerdict {
    /// Digest of the answer or the conversation, and of what the judge saw with it.
    row: String,
    people: bool,
    judge: bool,
    score: f64,
}

/// Why a file cannot be used.
#[derive(Debug)]
enum Unusable {
    Missing,
    Other(String),
}

/// Whether verdicts come from the judge itself or from a recording, for which the environment does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "a verdict is either asked for or not")]
pub enum VerdictSource {
    /// The judge is asked in this environment.
    Live,
    /// Nothing is asked: a recording or shards have the verdicts.
    Recorded,
}

impl CalibratedJudge {
    /// The file of its calibration, below the folder of the agent file.
    pub fn file(&self) -> PathBuf {
        let safe = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        let name: String = self.metric.chars().take(NAME_CHARS).map(safe).collect();
        // The parts include the whole name, so that different names never share a file.
        let parts = serde_json::to_vec(&(&self.metric, &self.parts)).unwrap_or_default();
        PathBuf::from(FOLDER).join(format!("{name}-{}.json", digest(&parts)))
    }

    /// Checks that the stored calibration of this judge exists below the folder `dir` and reaches the minimum. Returns
    /// what is wrong otherwise.
    pub fn check(
        &self,
        dir: &Path,
        minimum: CalibrationMinimum,
        source: VerdictSource,
    ) -> Result<(), String> {
        let file = self.file();
        let shown = file.display();
        let stored = match StoredCalibration::read(&dir.join(&file)) {
            Ok(stored) => stored,
            Err(Unusable::Missing) => return Err(self.describe_missing(dir)),
            Err(Unusable::Other(reason)) => return Err(format!("`{shown}` {reason}")),
        };
        if let Some(differences) = self.describe_differences(&stored, source) {
            return Err(format!("`{shown}` is of another judge: {differences}"));
        }
        if stored.labels < minimum.min_labels as usize {
            return Err(format!(
                "its calibration has {} labels, fewer than `min_labels` {}",
                stored.labels, minimum.min_labels
            ));
        }
        if !suffices(stored.kappa, minimum.min_kappa) {
            return Err(format!(
                "κ of its calibration is {:.3}, below `min_kappa` {}",
                stored.kappa, minimum.min_kappa
            ));
        }
        Ok(())
    }

    /// Says whether another judge was calibrated under the name of this metric, and what differs.
    fn describe_missing(&self, dir: &Path) -> String {
        let folder = dir.join(FOLDER);
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        let files = entries
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "json"));
        let of_metric = files.filter_map(|path| {
            let stored = StoredCalibration::read(&path).ok()?;
            (stored.metric == self.metric).then_some(stored)
        });
        let newest = of_metric.max_by_key(|stored| stored.calibrated_at);
        match newest.and_then(|stored| self.describe_differences(&stored, VerdictSource::Live)) {
            Some(differences) => format!("it has changed since its calibration: {differences}"),
            None => "its judge was never calibrated".to_owned(),
        }
    }

    /// The differences between this judge and the calibrated one.
    fn describe_differences(&self, stored: &StoredCalibration, source: VerdictSource) -> Option<String> {
        let mut found = Vec::new();
        if self.metric != stored.metric {
            found.push(format!("its metric is `{}`", stored.metric));
        }
        let mut pairs = vec![(&self.parts, &stored.parts)];
        if source == VerdictSource::Live {
            pairs.push((&self.environment, &stored.environment));
        }
        for (now, before) in pairs {
            let mut names: Vec<&String> = now.keys().chain(before.keys()).collect();
            names.sort_unstable();
            names.dedup();
            let differing = names
                .into_iter()
                .filter(|name| now.get(*name) != before.get(*name));
            found.extend(differing.map(|name| format!("{name} differs")));
        }
        if self.judges != stored.judges {
            found.push(format!(
                "it was judged by {}, and now by {}",
                list(&stored.judges),
                list(&self.judges)
            ));
        }
        (!found.is_empty()).then(|| found.join(", "))
    }
}

/// A κ of exactly the minimum suffices, however its computation was rounded.
fn suffices(kappa: f64, minimum: f64) -> bool {
    kappa + ROUNDING >= minimum
}

fn list(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

/// Stores a complete calibration below the folder `dir`, and returns its file. `None` if it is not complete. An older
/// calibration of the same judge is replaced.
pub fn store_calibration(
    run: &CalibrationRun,
    judge: &CalibratedJudge,
    dir: &Path,
) -> io::Result<Option<PathBuf>> {
    let kappa = run
        .calibration
        .as_ref()
        .and_then(|calibration| calibration.kappa.ok());
    let Some(kappa) = kappa.filter(|_| run.exit() == ExitCode::Passed) else {
        return Ok(None);
    };
    let verdicts: Vec<StoredVerdict> = run.rows.iter().filter_map(StoredVerdict::of).collect();
    let mut stored = StoredCalibration {
        holodeck_calibration: FORMAT,
        metric: judge.metric.clone(),
        judges: judge.judges.clone(),
        threshold: run.threshold,
        calibrated_at: Timestamp::from_second(Timestamp::now().as_second()).unwrap_or_default(),
        labels: run.rows.len(),
        kappa: kappa.value,
        kappa_ci: kappa.interval.map(|interval| [interval.low, interval.high]),
        parts: judge.parts.clone(),
        environment: judge.environment.clone(),
        verdicts,
        checksum: String::new(),
    };
    stored.checksum = stored.compute_checksum();
    // A file that is refused later must not be written.
    stored.verify().map_err(io::Error::other)?;
    let file = dir.join(judge.file());
    stored.write(&file)?;
    Ok(Some(file))
}

impl StoredVerdict {
    fn of(row: &JudgedLabel) -> Option<Self> {
        let verdict = row.verdict.as_ref().ok()?;
        Some(Self {
            row: digest_item(&row.item),
            people: verdict.people,
            judge: verdict.judge,
            score: verdict.score,
        })
    }
}

impl StoredCalibration {
    fn read(path: &Path) -> Result<Self, Unusable> {
        let text = read_text_input(path, MAX_BYTES).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Unusable::Missing,
            _ => Unusable::Other(format!("cannot be read: {}", io_reason(&error))),
        })?;
        Self::parse(&text).map_err(Unusable::Other)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let damaged = |reason: String| format!("is damaged: {reason}");
        let value: Value = serde_json::from_str(text).map_err(|error| damaged(error.to_string()))?;
        let version = value.get("holodeck_calibration").and_then(Value::as_u64);
        match version {
            Some(version) if version == u64::from(FORMAT) => {}
            Some(version) if version > u64::from(FORMAT) => {
                return Err(format!(
                    "was written by a newer version of HoloDeck (format {version})"
                ));
            }
            _ => return Err(damaged("it has no `holodeck_calibration` version".to_owned())),
        }
        let stored: Self = serde_json::from_value(value).map_err(|error| damaged(error.to_string()))?;
        stored.verify().map_err(damaged)?;
        Ok(stored)
    }

    /// Computes all numbers again.
    fn verify(&self) -> Result<(), String> {
        if self.labels != self.verdicts.len() {
            return Err(format!(
                "it has {} labels and {} verdicts, so the calibration is not complete",
                self.labels,
                self.verdicts.len()
            ));
        }
        let mut rows: Vec<&String> = self.verdicts.iter().map(|verdict| &verdict.row).collect();
        rows.sort_unstable();
        if rows.windows(2).any(|pair| matches!(pair, [a, b] if a == b)) {
            return Err("an answer counts twice".to_owned());
        }
        let verdicts: Vec<LabelledVerdict> = self
            .verdicts
            .iter()
            .map(|verdict| LabelledVerdict {
                people: verdict.people,
                judge: verdict.judge,
                score: verdict.score,
                // κ does not depend on it.
                length: 0,
            })
            .collect();
        let calibration = Calibration::of(&verdicts).ok_or("it has no verdicts")?;
        let kappa = calibration.kappa.map_err(describe_shortfall)?;
        let is_same = |a: f64, b: f64| (a - b).abs() <= ROUNDING;
        if !is_same(kappa.value, self.kappa) {
            return Err(format!(
                "κ of its verdicts is {:.3}, and it says {:.3}",
                kappa.value, self.kappa
            ));
        }
        let has_interval = match (kappa.interval, self.kappa_ci) {
            (None, None) => true,
            (Some(computed), Some([low, high])) => is_same(computed.low, low) && is_same(computed.high, high),
            _ => false,
        };
        if !has_interval {
            return Err("its interval is not that of its verdicts".to_owned());
        }
        if self.checksum != self.compute_checksum() {
            return Err("it was changed after the calibration: its checksum differs".to_owned());
        }
        Ok(())
    }

    /// Digest of everything else.
    fn compute_checksum(&self) -> String {
        let mut rest = self.clone();
        rest.checksum.clear();
        digest(&serde_json::to_vec(&rest).unwrap_or_default())
    }

    /// One line for each field and for each verdict, so that a diff shows what changed.
    fn text(&self) -> serde_json::Result<String> {
        let value = serde_json::to_value(self)?;
        let mut text = String::from("{");
        for (position, (name, value)) in value.as_object().into_iter().flatten().enumerate() {
            let comma = if position == 0 { "" } else { "," };
            // Writing to a string cannot fail.
            let _ = write!(text, "{comma}\n  {}: ", Value::from(name.as_str()));
            match value {
                Value::Array(items) if items.iter().any(Value::is_object) => {
                    let lines: Vec<String> = items.iter().map(|item| format!("    {item}")).collect();
                    let _ = write!(text, "[\n{}\n  ]", lines.join(",\n"));
                }
                Value::Object(fields) if !fields.is_empty() => {
                    let lines: Vec<String> = fields
                        .iter()
                        .map(|(name, value)| format!("    {}: {value}", Value::from(name.as_str())))
                        .collect();
                    let _ = write!(text, "{{\n{}\n  }}", lines.join(",\n"));
                }
                other => {
                    let _ = write!(text, "{other}");
                }
            }
        }
        text.push_str("\n}\n");
        Ok(text)
    }

    /// Writes beside the file and renames: a reader sees a whole file, and a link is replaced, not followed.
    fn write(&self, path: &Path) -> io::Result<()> {
        let text = self.text()?;
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let partial = path.with_extension(format!("{}.partial", Uuid::new_v4().simple()));
        let written = (|| {
            let mut file = fs::OpenOptions::new()
                .create_new(true)
                .write(true)
                .open(&partial)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&partial, path)
        })();
        if written.is_err() {
            // It may not exist.
            let _ = fs::remove_file(&partial);
        }
        written
    }
}

pub(super) fn digest(bytes: &[u8]) -> String {
    hex_prefix(&Sha256::digest(bytes), 8)
}

#[cfg(test)]
mod tests;
