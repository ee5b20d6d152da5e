//! The paths of an answer's parts, compiled, and what they find. Only here is JSONPath imported.

mod wanted;

use std::collections::HashSet;
use std::sync::Mutex;

use holodeck_model::{DetailedPath, ResponsePath, ResponsePaths};
use serde_json::Value;
use serde_json_path::JsonPath;

pub(crate) use self::wanted::Wanted;
use crate::{parts::Parts, reported};

/// A path of the YAML.
#[derive(Debug)]
pub(crate) struct PartPath {
    path: JsonPath,
    text: String,
    is_optional: bool,
    /// Whether all its steps are to one place, so that it finds one value or none.
    is_plain: bool,
    /// The list of which it selects items by `[*]`, a slice or a filter: it may select none of a list that is there.
    list: Option<JsonPath>,
    /// The items that it selects of that list.
    items: Option<JsonPath>,
}

/// The paths of all parts.
#[derive(Debug, Default)]
pub(crate) struct Paths {
    text: Option<PartPath>,
    tool_calls: Option<PartPath>,
    tool_results: Option<PartPath>,
    retrieval_context: Option<PartPath>,
    usage: Option<PartPath>,
    cost: Option<PartPath>,
    finish_reason: Option<PartPath>,
    error: Option<PartPath>,
    session: Option<PartPath>,
    matched: Mutex<HashSet<&'static str>>,
}

/// Compiles a path; the error says what is wrong with it.
pub(crate) fn parse(text: &str) -> Result<JsonPath, String> {
    JsonPath::parse(text.trim()).map_err(|error| error.to_string())
}

impl PartPath {
    pub(crate) fn new(path: &ResponsePath) -> Result<Self, String> {
        let text = path.path().trim().to_owned();
        let selector = selector(&text);
        let part = |end: Option<usize>| end.and_then(|end| parse(text.get(..end)?).ok());
        Ok(Self {
            path: parse(&text)?,
            is_optional: path.is_optional(),
            is_plain: wanted::steps(&text).is_some_and(|(_, rest)| rest.is_empty()),
            list: part(selector.map(|(start, _)| start)),
            items: part(selector.map(|(_, end)| end)),
            text,
        })
    }

    /// Adds what it looks at.
    pub(crate) fn want(&self, wanted: &mut Wanted) {
        wanted.add(&self.text);
    }

    /// The values that it finds.
    fn find<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        if self.is_plain
            && let Some((steps, _)) = wanted::steps(&self.text)
        {
            return wanted::walk(value, &steps).into_iter().collect();
        }
        self.path.query(value).all()
    }

    /// The list of what it finds: its items where it is one list. `None` if the part was not reported; an error if it had
    /// to be.
    fn items<'a>(&self, name: &str, value: &'a Value) -> Result<Option<Vec<&'a Value>>, String> {
        let found = self.find(value);
        if let [Value::Array(items)] = found.as_slice()
            && self.list.is_none()
        {
            return Ok(Some(items.iter().collect()));
        }
        if !found.is_empty() && !found.iter().all(|value| value.is_null()) {
            return Ok(Some(found));
        }
        let is_there = self.list.as_ref().is_some_and(|list| {
            let lists = list.query(value).all();
            !lists.is_empty() && lists.iter().all(|list| list.is_array())
        });
        let selects_none = self
            .items
            .as_ref()
            .is_some_and(|items| items.query(value).is_empty());
        if is_there && selects_none {
            return Ok(Some(Vec::new()));
        }
        self.absent(name, &found)
    }

    /// The one value that it finds.
    fn one<'a>(&self, name: &str, value: &'a Value) -> Result<Option<&'a Value>, String> {
        match self.find(value).as_slice() {
            [Value::Null] | [] => self.absent(name, &[]),
            [one] => Ok(Some(one)),
            several => Err(format!(
                "`response.{name}` ({}) matches {} values of the answer; it must match one",
                self.text,
                several.len()
            )),
        }
    }

    fn absent<T>(&self, name: &str, _: &[&Value]) -> Result<Option<T>, String> {
        if self.is_optional {
            return Ok(None);
        }
        Err(format!(
            "`response.{name}` ({}) matches nothing in the answer",
            self.text
        ))
    }

    /// The text of a piece of a stream, if this event has one.
    pub(crate) fn piece(&self, value: &Value) -> Result<Option<String>, String> {
        match self.find(value).as_slice() {
            [] | [Value::Null] => Ok(None),
            [Value::String(text)] => Ok(Some(text.clone())),
            [other] => Err(format!(
                "`stream.text` ({}) is {} and not a text",
                self.text,
                holodeck_model::json_kind(other)
            )),
            several => Err(format!(
                "`stream.text` ({}) matches {} values",
                self.text,
                several.len()
            )),
        }
    }

    /// Whether it finds something that says yes.
    pub(crate) fn holds(&self, value: &Value) -> bool {
        let found = self.find(value);
        found
            .iter()
            .any(|value| !matches!(value, Value::Null | Value::Bool(false)))
    }
}

/// The first brackets of a path that select items (`[*]`, a slice, a filter): where they begin and end.
fn selector(text: &str) -> Option<(usize, usize)> {
    let mut quote = None;
    let mut is_escaped = false;
    let (mut depth, mut open) = (0_usize, 0);
    for (place, letter) in text.char_indices() {
        if let Some(end) = quote {
            if std::mem::take(&mut is_escaped) {
                continue;
            }
            match letter {
                '\\' => is_escaped = true,
                letter if letter == end => quote = None,
                _ => {}
            }
            continue;
        }
        match letter {
            '"' | '\'' => quote = Some(letter),
            '[' => {
                if depth == 0 {
                    open = place;
                }
                depth += 1;
            }
            ']' if depth == 1 => {
                depth = 0;
                let inner = text.get(open + 1..place).unwrap_or_default().trim();
                let is_slice = inner.contains(':') && !inner.starts_with(['"', '\'']);
                if inner == "*" || inner.starts_with('?') || is_slice {
                    return Some((open, place + 1));
                }
            }
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    None
}

/// The parts of an answer where no paths are written, by the names of their fields.
pub(crate) fn usual_paths() -> ResponsePaths {
    let optional = |name: &str| {
        Some(ResponsePath::Detailed(DetailedPath {
            path: format!("$.{name}"),
            optional: true,
        }))
    };
    ResponsePaths {
        text: Some(ResponsePath::Path("$.text".to_owned())),
        tool_calls: optional("tool_calls"),
        tool_results: optional("tool_results"),
        retrieval_context: optional("retrieval_context"),
        usage: optional("usage"),
        cost: optional("cost"),
        finish_reason: optional("finish_reason"),
        error: optional("error"),
        session: optional("session"),
    }
}

impl Paths {
    /// Compiles the paths; an error names the field and says what is wrong.
    pub(crate) fn new(paths: &ResponsePaths) -> Result<Self, (String, String)> {
        let mut compiled = Self::default();
        for (name, path) in paths.each() {
            let path = PartPath::new(path).map_err(|problem| (name.to_owned(), problem))?;
            if let Some(slot) = compiled.slot(name) {
                *slot = Some(path);
            }
        }
        Ok(compiled)
    }

    fn slot(&mut self, name: &str) -> Option<&mut Option<PartPath>> {
        Some(match name {
            "text" => &mut self.text,
            "tool_calls" => &mut self.tool_calls,
            "tool_results" => &mut self.tool_results,
            "retrieval_context" => &mut self.retrieval_context,
            "usage" => &mut self.usage,
            "cost" => &mut self.cost,
            "finish_reason" => &mut self.finish_reason,
            "error" => &mut self.error,
            "session" => &mut self.session,
            _ => return None,
        })
    }

    /// The parts of one answer that is whole.
    pub(crate) fn parts(&self, answer: &Value) -> Result<Parts, String> {
        let mut parts = self.parts_but_text(answer, true)?;
        if parts.error.is_some() {
            return Ok(parts);
        }
        if let Some(path) = &self.text {
            let text = path.one("text", answer)?;
            self.saw("text", text.is_some());
            parts.text = match text {
                Some(Value::String(text)) => Some(text.clone()),
                Some(other) => {
                    return Err(format!(
                        "`response.text` ({}) is {} and not a text",
                        path.text,
                        holodeck_model::json_kind(other)
                    ));
                }
                None => None,
            };
        }
        Ok(parts)
    }

    /// The parts of a whole answer beside its text, or of one event of a stream, in which every part may be missing.
    pub(crate) fn parts_but_text(&self, answer: &Value, is_whole: bool) -> Result<Parts, String> {
        let mut parts = Parts::default();
        if let Some(path) = &self.error {
            let found = path.find(answer);
            let found = found
                .into_iter()
                .find(|value| !matches!(value, Value::Null | Value::Bool(false)));
            self.saw("error", found.is_some());
            if let Some(error) = found {
                parts.error = Some(reported::text(error));
                return Ok(parts);
            }
        }
        parts.tool_calls = self.list(
            "tool_calls",
            self.tool_calls.as_ref(),
            answer,
            is_whole,
            reported::call,
        )?;
        parts.tool_results = self.list(
            "tool_results",
            self.tool_results.as_ref(),
            answer,
            is_whole,
            reported::result,
        )?;
        parts.passages = self.list(
            "retrieval_context",
            self.retrieval_context.as_ref(),
            answer,
            is_whole,
            reported::passage,
        )?;
        parts.usage = self.value("usage", self.usage.as_ref(), answer, is_whole, reported::usage)?;
        parts.cost_usd = self.value("cost", self.cost.as_ref(), answer, is_whole, reported::cost)?;
        parts.finish_reason = self.value(
            "finish_reason",
            self.finish_reason.as_ref(),
            answer,
            is_whole,
            reported::word,
        )?;
        parts.session = self.value("session", self.session.as_ref(), answer, is_whole, reported::id)?;
        Ok(parts)
    }

    fn list<T>(
        &self,
        name: &'static str,
        path: Option<&PartPath>,
        answer: &Value,
        is_whole: bool,
        read: impl Fn(&Value) -> Result<T, String>,
    ) -> Result<Option<Vec<T>>, String> {
        let Some(path) = path else { return Ok(None) };
        let items = path.items(name, answer);
        let items = if is_whole {
            items?
        } else {
            items.unwrap_or_default()
        };
        self.saw(name, items.is_some());
        let Some(items) = items else { return Ok(None) };
        let items = items.into_iter().map(read).collect::<Result<Vec<T>, String>>();
        items
            .map(Some)
            .map_err(|problem| format!("`response.{name}` ({}): {problem}", path.text))
    }

    fn value<T>(
        &self,
        name: &'static str,
        path: Option<&PartPath>,
        answer: &Value,
        is_whole: bool,
        read: impl Fn(&Value) -> Result<T, String>,
    ) -> Result<Option<T>, String> {
        let Some(path) = path else { return Ok(None) };
        let value = if is_whole || path.find(answer).len() > 1 {
            path.one(name, answer)?
        } else {
            path.find(answer).into_iter().find(|value| !value.is_null())
        };
        self.saw(name, value.is_some());
        let value = value.map(read).transpose();
        value.map_err(|problem| format!("`response.{name}` ({}): {problem}", path.text))
    }

    fn saw(&self, name: &'static str, is_there: bool) {
        if is_there {
            let mut matched = self
                .matched
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            matched.insert(name);
        }
    }

    /// The optional paths that have matched in no answer so far; none before the first answer.
    pub(crate) fn unmatched(&self) -> Vec<String> {
        let matched = self
            .matched
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if matched.is_empty() {
            return Vec::new();
        }
        let all = [
            ("tool_calls", &self.tool_calls),
            ("tool_results", &self.tool_results),
            ("retrieval_context", &self.retrieval_context),
            ("usage", &self.usage),
            ("cost", &self.cost),
            ("finish_reason", &self.finish_reason),
            ("session", &self.session),
        ];
        let unmatched = all.into_iter().filter_map(|(name, path)| {
            let path = path.as_ref()?;
            (!matched.contains(name)).then(|| format!("`response.{name}` ({})", path.text))
        });
        unmatched.collect()
    }
}

#[cfg(test)]
mod tests;
