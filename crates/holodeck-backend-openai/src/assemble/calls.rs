//! Puts the tool calls of an answer together from their fragments. Servers omit, repeat and mix up ids and indexes, so
//! the text decides where a call begins. Names are never joined, and what cannot be read as calls is an error: a call must
//! not disappear inside another one.

use holodeck_backend_api::{BackendError, ToolCall};
use holodeck_model::{is_deep_json, parse_deciding};
use serde_json::{Map, Value};

use super::completeness::Completeness;
use crate::{
    dialect::echo,
    failure,
    json::{halves, numbers, parse_lenient},
    wire::CallFragment,
};

/// The tool calls of one answer.
#[derive(Debug, Default)]
pub(super) struct Calls {
    partial: Vec<PartialCall>,
    /// The number of the chunk, to recognise two calls in one.
    chunk: usize,
    /// Arguments arrived that belong to no call.
    stray: bool,
}

#[derive(Debug, Default)]
struct PartialCall {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
    completeness: Completeness,
    /// Its name came again before any argument, and nothing says whether that is another call.
    may_be_two: bool,
    /// Its first arguments were the word for none, and nothing says whether those that came later are of another call.
    begins_with_none: bool,
    /// Its fields that are not known here.
    others: Map<String, Value>,
    /// The chunk in which it began.
    chunk: usize,
}

/// A fragment whose absent fields are empty.
struct Fragment {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
    others: Map<String, Value>,
}

impl From<CallFragment> for Fragment {
    fn from(fragment: CallFragment) -> Self {
        let function = fragment.function.unwrap_or_default();
        let mut others = fragment.others;
        if !function.others.is_empty() {
            others.insert("function".to_owned(), Value::Object(function.others));
        }
        Self {
            index: fragment.index,
            // Some servers write a missing id as a word.
            id: fragment.id.filter(|id| id != "null").unwrap_or_default(),
            name: function.name.unwrap_or_default(),
            arguments: match function.arguments {
                Value::String(piece) => piece,
                Value::Null => String::new(),
                whole => whole.to_string(),
            },
            others,
        }
    }
}

impl Calls {
    pub(super) fn is_empty(&self) -> bool {
        self.partial.is_empty()
    }

    /// Whether a call has no arguments, which an answer that was cut may have lost.
    pub(super) fn has_cut(&self) -> bool {
        self.partial.iter().any(PartialCall::has_no_arguments)
    }

    /// Adds the calls of a whole answer: each entry is one.
    pub(super) fn push_whole(&mut self, entries: impl IntoIterator<Item = CallFragment>) {
        for entry in entries {
            self.start(entry.into());
        }
    }

    /// Adds the fragments of a chunk.
    pub(super) fn push_chunk(&mut self, fragments: impl IntoIterator<Item = CallFragment>) {
        self.chunk += 1;
        for fragment in fragments {
            self.push_fragment(fragment.into());
        }
    }

    fn push_fragment(&mut self, fragment: Fragment) {
        let place = self.place_of(&fragment);
        let chunk = self.chunk;
        let call = place.and_then(|place| self.partial.get_mut(place));
        let Some(call) = call.filter(|call| !call.ends_before(&fragment, chunk)) else {
            self.start(fragment);
            return;
        };
        if call.completeness.is_complete() && !fragment.arguments.trim().is_empty() {
            // Of another call, whose beginning is missing.
            self.stray = true;
            return;
        }
        let says_no_id = fragment.id.is_empty() || call.id != fragment.id;
        let adds_no_argument = !call.is_begun() && fragment.arguments.trim().is_empty();
        call.may_be_two |=
            !fragment.name.is_empty() && !call.name.is_empty() && says_no_id && adds_no_argument;
        call.index = call.index.or(fragment.index);
        if call.id.is_empty() {
            call.id = fragment.id;
        }
        if call.name.is_empty() {
            call.name = fragment.name;
        }
        if call.has_word_for_none() && !fragment.arguments.trim().is_empty() {
            // The same call, which has arguments after all.
            call.begins_with_none = says_no_id;
            call.may_be_two |= says_no_id;
            call.arguments.clear();
            call.completeness = Completeness::default();
        }
        call.append(&fragment.arguments);
        echo::merge_fields(&mut call.others, fragment.others);
    }

    /// The call that a fragment continues, unless it begins a new one.
    fn place_of(&self, fragment: &Fragment) -> Option<usize> {
        let at_index = |call: &PartialCall| fragment.index.is_some() && call.index == fragment.index;
        let has_id = |call: &PartialCall| !fragment.id.is_empty() && call.id == fragment.id;
        let find = |is_own: &dyn Fn(&PartialCall) -> bool| self.partial.iter().rposition(is_own);
        let lacks_id = |call: &PartialCall| fragment.id.is_empty() || call.id.is_empty();
        find(&|call| at_index(call) && has_id(call))
            .or_else(|| find(&|call| at_index(call) && lacks_id(call)))
            .or_else(|| find(&has_id))
            .or_else(|| {
                // Some servers send a new id with each fragment.
                let at_index = find(&at_index);
                at_index.filter(|_| fragment.name.is_empty())
            })
            .or_else(|| {
                let last = self.partial.len().checked_sub(1)?;
                let open = self.partial.get(last)?;
                let continues = match fragment.index {
                    _ if !fragment.name.is_empty() => {
                        let no_index = fragment.index.is_none() || open.index.is_none();
                        no_index && (fragment.id.is_empty() || open.id.is_empty())
                    }
                    Some(_) => {
                        let no_id = fragment.id.is_empty() || open.id.is_empty();
                        no_id && !open.completeness.is_complete()
                    }
                    None => fragment.id.is_empty() || !open.completeness.is_complete(),
                };
                let adds_nothing = fragment.id.is_empty()
                    && fragment.name.is_empty()
                    && fragment.arguments.trim().is_empty();
                (continues || adds_nothing).then_some(last)
            })
    }

    fn start(&mut self, fragment: Fragment) {
        let mut call = PartialCall {
            index: fragment.index,
            id: fragment.id,
            name: fragment.name,
            others: fragment.others,
            chunk: self.chunk,
            ..PartialCall::default()
        };
        call.append(&fragment.arguments);
        self.partial.push(call);
    }

    /// Returns the calls in the order in which they began.
    pub(super) fn finish(self) -> Result<Vec<ToolCall>, BackendError> {
        if self.stray {
            return Err(failure::of_calls(
                "the endpoint sent arguments of a tool call without the call: its tool calls cannot be distinguished",
            ));
        }
        let mut calls: Vec<PartialCall> = Vec::with_capacity(self.partial.len());
        for call in self.partial {
            if let Some(known) = calls.last_mut().filter(|last| last.takes_arguments_of(&call)) {
                known.arguments = call.arguments;
                echo::merge_fields(&mut known.others, call.others);
                if known.id.is_empty() {
                    known.id = call.id;
                }
                continue;
            }
            match calls.iter_mut().find(|known| known.is_repeated_by(&call)) {
                Some(known) if known.has_no_arguments() => known.arguments = call.arguments,
                Some(_) => {}
                None => calls.push(call),
            }
        }
        calls.into_iter().map(PartialCall::into_call).collect()
    }
}

impl PartialCall {
    fn append(&mut self, piece: &str) {
        self.arguments.push_str(piece);
        self.completeness.push(piece);
    }

    fn is_begun(&self) -> bool {
        !self.arguments.trim().is_empty()
    }

    /// Whether `fragment` begins another call.
    fn ends_before(&self, fragment: &Fragment, chunk: usize) -> bool {
        if fragment.name.is_empty() || self.name.is_empty() {
            return false;
        }
        let in_one_chunk = self.chunk == chunk && !self.is_begun();
        fragment.name != self.name || self.completeness.is_complete() || in_one_chunk
    }

    /// Whether its arguments are the word for none.
    fn has_word_for_none(&self) -> bool {
        self.arguments.trim() == "null"
    }

    fn has_no_arguments(&self) -> bool {
        self.arguments.trim().is_empty() || self.has_word_for_none()
    }

    /// Whether `later` has only the arguments of this call.
    fn takes_arguments_of(&self, later: &Self) -> bool {
        let same_id = self.id == later.id || self.id.is_empty() || later.id.is_empty();
        later.name.is_empty() && later.is_begun() && !self.name.is_empty() && !self.is_begun() && same_id
    }

    /// Whether `later` is this call once more, as some servers send it at two indexes.
    fn is_repeated_by(&self, later: &Self) -> bool {
        let same_arguments = || {
            let (own, other) = (self.arguments.trim(), later.arguments.trim());
            self.has_no_arguments() || later.has_no_arguments() || own == other || parse(own) == parse(other)
        };
        !self.id.is_empty() && self.id == later.id && self.name == later.name && same_arguments()
    }

    /// Converts to a call. Arguments that are not JSON, or have a number or levels that a value cannot hold, stay a string; running the
    /// call then reports the error to the model.
    fn into_call(mut self) -> Result<ToolCall, BackendError> {
        self.arguments = numbers::unwrap(&halves::join(&self.arguments)).into_owned();
        halves::join_fields(&mut self.others);
        if self.name.is_empty() {
            return Err(failure::of_calls("the model called a tool without a name"));
        }
        if self.may_be_two && (!self.is_begun() || self.begins_with_none) {
            return Err(failure::of_calls(format!(
                "the endpoint sent the name of `{}` twice and arguments once at most: whether it calls it once or twice cannot be known",
                self.name
            )));
        }
        let arguments = parse(&self.arguments);
        if !arguments.is_string()
            && !self.arguments.trim().is_empty()
            && let Err(error) = parse_deciding(&self.arguments)
        {
            let message = format!(
                "the arguments of the model's call of `{}` have two readings: {error}",
                self.name
            );
            return Err(BackendError::protocol(message)
                .with_hint("try again, or use another model: which of the values it meant cannot be known"));
        }
        Ok(ToolCall {
            name: self.name,
            arguments,
            call_id: self.id,
            provider_fields: echo::of_call(self.others),
        })
    }
}

fn parse(arguments: &str) -> Value {
    // Some servers write none as a word.
    if matches!(arguments.trim(), "" | "null") {
        return Value::Object(Map::new());
    }
    if numbers::first_lossy(arguments).is_some() || is_deep_json(arguments) {
        return Value::from(arguments);
    }
    parse_lenient(arguments.as_bytes()).unwrap_or_else(|| Value::from(arguments))
}

#[cfg(test)]
mod tests;
