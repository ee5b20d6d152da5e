//! Reads a recording and finds entries by key. The content of entries stays in the file until it is needed.

use std::{
    collections::HashMap,
    fs::File,
    io::{BufRead, BufReader, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use holodeck_backend_api::ModelRequest;
use holodeck_model::{is_later_trial, is_repeated_unit, open_input};
use jiff::Timestamp;
use serde::Deserialize;

use crate::{
    CassetteError,
    entry::{CHOICE, Entry, FORMAT_VERSION, Header, is_beside_models, is_tool_provider, request_key},
    nearest,
};

/// The first bytes of a recording.
const HEADER_START: [u8; 20] = *b"{\"holodeck_cassette\"";

/// A recording, indexed by key. Entries stay in the file until they are read, so memory does not grow with their size.
#[derive(Debug)]
pub struct Cassette {
    path: PathBuf,
    file: Mutex<File>,
    places: Vec<Place>,
    by_key: HashMap<String, Vec<usize>>,
    info: RecordingInfo,
    /// The models that were asked: provider and name as the YAML had them.
    asked: Vec<(String, String)>,
    has_tools: bool,
    has_choices: bool,
}

/// When and with which models a cassette was recorded; every report of a replayed run shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordingInfo {
    /// The time of the newest entry.
    pub at: Timestamp,
    /// The models that answered, by their own names.
    pub models: Vec<String>,
}

impl RecordingInfo {
    /// `recorded <date>, <model>`.
    pub fn describe(&self) -> String {
        format!(
            "recorded {}, {}",
            self.at.strftime("%Y-%m-%d"),
            self.models.join(", ")
        )
    }
}

#[derive(Debug)]
struct Place {
    offset: u64,
    length: usize,
    unit: Option<String>,
}

/// Only the fields that the index needs; the rest of a line is skipped.
#[derive(Deserialize)]
struct Sketch {
    key: String,
    recorded_at: Timestamp,
    request: RequestSketch,
    response: ResponseSketch,
}

#[derive(Deserialize)]
struct RequestSketch {
    #[serde(default)]
    provider: String,
    model: String,
    #[serde(default)]
    unit: Option<String>,
}

#[derive(Deserialize)]
struct ResponseSketch {
    #[serde(default)]
    model: Option<String>,
}

/// Larger recordings are not read.
const MAX_BYTES: u64 = 4 * 1024 * 1024 * 1024;

impl Cassette {
    /// Opens and indexes a cassette.
    pub fn open(path: &Path) -> Result<Self, CassetteError> {
        let io = |source| CassetteError::Io {
            path: path.display().to_string(),
            source,
        };
        let malformed = |line: usize, reason: String| CassetteError::Malformed {
            path: path.display().to_string(),
            line,
            reason,
        };
        let file = open_input(path, MAX_BYTES).map_err(io)?;
        let mut reader = BufReader::new(file.try_clone().map_err(io)?);
        let mut line = String::new();
        let mut offset = reader.read_line(&mut line).map_err(io)? as u64;
        let header: Header = serde_json::from_str(&line)
            .map_err(|_| malformed(1, "expected a header `{\"holodeck_cassette\": 2}`".to_owned()))?;
        if header.holodeck_cassette != FORMAT_VERSION {
            return Err(CassetteError::Version {
                path: path.display().to_string(),
                found: header.holodeck_cassette,
            });
        }
        let mut places = Vec::new();
        let mut by_key: HashMap<String, Vec<usize>> = HashMap::new();
        let mut newest: Option<Timestamp> = None;
        let mut models: Vec<String> = Vec::new();
        let mut asked: Vec<(String, String)> = Vec::new();
        let mut has_tools = false;
        let mut has_choices = false;
        for number in 2.. {
            line.clear();
            let length = reader.read_line(&mut line).map_err(io)?;
            if length == 0 {
                break;
            }
            if !line.trim().is_empty() {
                let sketch: Sketch =
                    serde_json::from_str(&line).map_err(|error| malformed(number, error.to_string()))?;
                newest = newest.max(Some(sketch.recorded_at));
                let of_tools = is_tool_provider(&sketch.request.provider);
                has_tools |= of_tools;
                has_choices |= sketch.request.provider == CHOICE;
                let of_model = (sketch.request.provider.clone(), sketch.request.model.clone());
                if !is_beside_models(&sketch.request.provider) && !asked.contains(&of_model) {
                    asked.push(of_model);
                }
                let model = sketch.response.model.unwrap_or(sketch.request.model);
                if !is_beside_models(&sketch.request.provider) && !models.contains(&model) {
                    models.push(model);
                }
                by_key.entry(sketch.key).or_default().push(places.len());
                places.push(Place {
                    offset,
                    length,
                    unit: sketch.request.unit,
                });
            }
            offset += length as u64;
        }
        let at = newest.ok_or_else(|| CassetteError::Empty {
            path: path.display().to_string(),
        })?;
        let info = RecordingInfo { at, models };
        Ok(Self {
            path: path.to_owned(),
            file: Mutex::new(file),
            places,
            by_key,
            info,
            asked,
            has_tools,
            has_choices,
        })
    }

    /// Whether a file is a recording, judging by its first bytes.
    pub fn is_cassette(path: &Path) -> bool {
        let mut start = [0; HEADER_START.len()];
        let read = open_input(path, MAX_BYTES).and_then(|mut file| file.read_exact(&mut start));
        read.is_ok() && Self::has_header(&start)
    }

    /// Whether a file that starts with these bytes is a recording; 20 bytes are enough.
    pub fn has_header(start: &[u8]) -> bool {
        start.starts_with(&HEADER_START)
    }

    /// When and with which models it was recorded.
    pub fn info(&self) -> &RecordingInfo {
        &self.info
    }

    /// The models that were asked: provider and name as the YAML had them. A request to any other is not in it.
    pub fn asked(&self) -> &[(String, String)] {
        &self.asked
    }

    /// Whether it contains tool results; older recordings do not.
    pub fn has_tools(&self) -> bool {
        self.has_tools
    }

    /// Whether it contains the tools that were selected for messages.
    pub fn has_choices(&self) -> bool {
        self.has_choices
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Places of the entries with `key`, in the order of the recording: those of `unit` if it has any, else those
    /// that may answer several units.
    pub(crate) fn candidates(&self, key: &str, unit: Option<&str>) -> Vec<usize> {
        let all = self.by_key.get(key).map_or(&[][..], Vec::as_slice);
        let unit_of = |place: usize| self.places.get(place)?.unit.as_deref();
        let own: Vec<usize> = all
            .iter()
            .copied()
            .filter(|&place| unit.is_some() && unit_of(place) == unit)
            .collect();
        if !own.is_empty() {
            return own;
        }
        // The answer of a later trial or opinion is only its own.
        let all = all.iter().copied();
        all.filter(|&place| unit.is_none() || !unit_of(place).is_some_and(is_repeated_unit))
            .collect()
    }

    /// Whether these are entries of `unit`.
    pub(crate) fn belong_to(&self, places: &[usize], unit: Option<&str>) -> bool {
        let first = places.first().and_then(|&place| self.places.get(place));
        first.is_some_and(|place| place.unit.as_deref() == unit)
    }

    /// Reads one entry, and checks that its request still matches its key.
    pub(crate) fn entry(&self, place: usize) -> Result<Entry, CassetteError> {
        let entry = self.read(place)?;
        if request_key(&entry.request) != entry.key {
            return Err(CassetteError::Malformed {
                path: self.path.display().to_string(),
                line: place + 2,
                reason: "the recorded request was edited; record it again".to_owned(),
            });
        }
        Ok(entry)
    }

    /// All entries, in order.
    pub(crate) fn entries(&self) -> impl Iterator<Item = Result<Entry, CassetteError>> {
        (0..self.places.len()).map(|place| self.read(place))
    }

    /// The text of a miss: the nearest recorded request, and what differs.
    pub(crate) fn describe_miss(&self, request: &ModelRequest) -> String {
        if let Some(unit) = &request.unit
            && self.by_key.contains_key(&request_key(request))
        {
            let fewer = if is_later_trial(unit) {
                "trials"
            } else {
                "opinions of judges"
            };
            if is_repeated_unit(unit) {
                return format!(
                    "`{}` holds no answer for `{unit}`: it was recorded with fewer {fewer}; record it again",
                    self.path.display()
                );
            }
        }
        let nearest = self
            .entries()
            .filter_map(Result::ok)
            .filter(|entry| !is_beside_models(&entry.request.provider))
            .map(|entry| (nearest::distance(&entry.request, request), entry))
            .min_by_key(|(distance, _)| *distance);
        let file = self.path.display();
        match nearest {
            Some((_, entry)) => {
                let unit = entry
                    .request
                    .unit
                    .as_deref()
                    .map(|unit| format!(" ({unit})"))
                    .unwrap_or_default();
                format!(
                    "`{file}` holds no answer to this request\nthe nearest recorded one{unit} differs in:\n{}",
                    nearest::describe(&entry.request, request)
                )
            }
            None => format!("`{file}` holds no answer to this request"),
        }
    }

    fn read(&self, place: usize) -> Result<Entry, CassetteError> {
        let io = |source| CassetteError::Io {
            path: self.path.display().to_string(),
            source,
        };
        let Some(at) = self.places.get(place) else {
            return Err(CassetteError::Empty {
                path: self.path.display().to_string(),
            });
        };
        let mut bytes = vec![0; at.length];
        {
            let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
            file.seek(SeekFrom::Start(at.offset)).map_err(io)?;
            file.read_exact(&mut bytes).map_err(io)?;
        }
        serde_json::from_slice(&bytes).map_err(|error| CassetteError::Malformed {
            path: self.path.display().to_string(),
            line: place + 2,
            reason: error.to_string(),
        })
    }
}
