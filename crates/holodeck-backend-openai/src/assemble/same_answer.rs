//! One answer in every form that servers give it: whole or streamed, its text, reasoning and arguments cut at every place,
//! its calls in any order with any ids and indexes, its usage and its reason in every place. All give the same deltas.

use holodeck_backend_api::TokenUsage;
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde::Deserialize as _;
use serde_json::{Map, Value, json};

use super::*;

/// An answer, as it must be read.
#[derive(Clone, Debug)]
struct Answer {
    text: &'static str,
    reasoning: &'static str,
    calls: Vec<(&'static str, Value)>,
    usage: Option<(u64, u64)>,
    reason: String,
}

/// The result of reading an answer.
#[derive(Debug, Default, PartialEq)]
struct Read {
    text: String,
    reasoning: String,
    calls: Vec<(String, Value)>,
    usage: Option<TokenUsage>,
    stop_reason: Option<StopReason>,
    error: Option<String>,
}

fn read(chunks: &[Value], is_whole: bool) -> Read {
    let mut assembler = Assembler::new(ReasoningInContent::Auto, false, Tags::default());
    let mut deltas = Vec::new();
    for chunk in chunks {
        let chunk = Chunk::deserialize(chunk).unwrap();
        if is_whole {
            assembler.push_whole(chunk, &mut deltas);
        } else {
            assembler.push(chunk, &mut deltas);
        }
    }
    match assembler.finish() {
        Ok(rest) => deltas.extend(rest),
        Err(error) => {
            return Read {
                error: Some(error.to_string()),
                ..Read::default()
            };
        }
    }
    let mut read = Read::default();
    for delta in deltas {
        match delta {
            ModelDelta::Text(text) => read.text.push_str(&text),
            ModelDelta::Reasoning(text) => read.reasoning.push_str(&text),
            ModelDelta::TextWasReasoning => read.reasoning.push_str(&std::mem::take(&mut read.text)),
            ModelDelta::ToolCall(call) => read.calls.push((call.name, call.arguments)),
            ModelDelta::Usage(usage) => read.usage = Some(usage),
            ModelDelta::Finish { stop_reason, .. } => read.stop_reason = Some(stop_reason),
            other => panic!("{other:?}"),
        }
    }
    read
}

impl Answer {
    /// The reading that every form must give. It is stated here by the families of reasons, not by the assembler.
    fn expected(&self) -> Read {
        let failed = |error: String| Read {
            error: Some(error),
            ..Read::default()
        };
        let (calls, reason) = (!self.calls.is_empty(), self.reason.as_str());
        let family = StopReason::from(reason.to_owned()).family();
        // OpenAI's words become those of the events.
        let known = match reason {
            "stop" => StopReason::EndTurn,
            "length" => StopReason::MaxTokens,
            "content_filter" => StopReason::Refusal,
            "tool_calls" | "function_call" => StopReason::ToolUse,
            other => StopReason::from(other.to_owned()),
        };
        let stop_reason = match family {
            StopFamily::Failure => {
                return failed(format!(
                    "the endpoint did not complete its answer (finish_reason `{reason}`)"
                ));
            }
            StopFamily::Calls if !calls => {
                return failed("the endpoint reported tool calls but sent none".to_owned());
            }
            StopFamily::End if calls => StopReason::ToolUse,
            _ => known,
        };
        Read {
            text: self.text.to_owned(),
            reasoning: self.reasoning.to_owned(),
            calls: self
                .calls
                .iter()
                .map(|(name, arguments)| ((*name).to_owned(), arguments.clone()))
                .collect(),
            usage: self
                .usage
                .map(|(prompt, completion)| TokenUsage::new(prompt, completion)),
            stop_reason: Some(stop_reason),
            error: None,
        }
    }
}

/// Where the reasoning is.
#[derive(Clone, Copy, Debug)]
enum ReasoningPlace {
    ReasoningContent,
    Reasoning,
    Both,
    Think,
    Parts,
}

/// Where the usage is in a stream.
#[derive(Clone, Copy, Debug)]
enum UsagePlace {
    OwnChunk,
    LastChoice,
    InChoice,
    XGroq,
    EveryChunk,
    ThenZeros,
    First,
}

/// How the calls are named and ordered.
#[derive(Clone, Copy, Debug)]
enum Naming {
    /// An index and an id with the first fragment.
    Both,
    /// An index and an id with each fragment.
    BothAlways,
    Index,
    /// An id with each fragment, and no index.
    Ids,
    /// Neither, or the same for all: only one after the other.
    Neither,
    IndexZero,
}

impl Naming {
    /// Whether fragments of different calls can be distinguished, so that they may come in any order.
    fn allows_any_order(self) -> bool {
        !matches!(self, Self::Neither | Self::IndexZero)
    }

    fn fragment(self, place: usize, number: usize, (name, piece): (&str, &str)) -> Value {
        let is_first = number == 0;
        let mut fragment = json!({"function": {"arguments": piece}});
        let (index, id) = match self {
            Self::Both => (Some(place), is_first),
            Self::BothAlways => (Some(place), true),
            Self::Index => (Some(place), false),
            Self::Ids => (None, true),
            Self::Neither => (None, false),
            Self::IndexZero => (Some(0), false),
        };
        if is_first {
            fragment["function"]["name"] = json!(name);
        }
        if let Some(index) = index {
            fragment["index"] = json!(index);
        }
        if id {
            fragment["id"] = json!(format!("id{place}"));
        }
        fragment
    }
}

/// How a server streams an answer.
#[derive(Clone, Debug)]
struct Form {
    reasoning: ReasoningPlace,
    usage: UsagePlace,
    naming: Naming,
    /// The letters in a piece.
    cut: usize,
    /// Which call comes next.
    order: Vec<usize>,
    /// The reason comes with the last piece, and not in a chunk of its own.
    reason_with_last: bool,
}

fn pieces(text: &str, cut: usize) -> Vec<String> {
    let letters: Vec<char> = text.chars().collect();
    letters.chunks(cut.max(1)).map(String::from_iter).collect()
}

/// The deltas of a reasoning, in its place.
fn reasoning_deltas(text: &str, form: &Form) -> Vec<Value> {
    if text.is_empty() {
        return Vec::new();
    }
    let deltas = |text: &str, delta: &dyn Fn(String) -> Value| -> Vec<Value> {
        pieces(text, form.cut).into_iter().map(delta).collect()
    };
    match form.reasoning {
        ReasoningPlace::ReasoningContent => deltas(text, &|piece| json!({"reasoning_content": piece})),
        ReasoningPlace::Reasoning => deltas(text, &|piece| json!({"reasoning": piece})),
        ReasoningPlace::Both => deltas(
            text,
            &|piece| json!({"reasoning": piece, "reasoning_content": piece}),
        ),
        ReasoningPlace::Think => deltas(
            &format!("<think>{text}</think>"),
            &|piece| json!({"content": piece}),
        ),
        ReasoningPlace::Parts => deltas(
            text,
            &|piece| json!({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": piece}]}]}),
        ),
    }
}

/// The fragments of calls, in the order of a form. The heads come in order, as the calls do.
fn call_deltas(answer: &Answer, form: &Form) -> Vec<Value> {
    let mut queues: Vec<_> = answer
        .calls
        .iter()
        .enumerate()
        .map(|(place, (name, arguments))| {
            let pieces = pieces(&arguments.to_string(), form.cut).into_iter().enumerate();
            let fragments: Vec<Value> = pieces
                .map(|(number, piece)| form.naming.fragment(place, number, (name, &piece)))
                .collect();
            fragments.into_iter()
        })
        .collect();
    let mut all = Vec::new();
    if form.naming.allows_any_order() {
        all.extend(queues.iter_mut().filter_map(Iterator::next));
        for place in &form.order {
            all.extend(queues.get_mut(*place).and_then(Iterator::next));
        }
    }
    all.extend(queues.into_iter().flatten());
    all.into_iter()
        .map(|fragment| json!({"tool_calls": [fragment]}))
        .collect()
}

fn counts(usage: (u64, u64)) -> Value {
    json!({"prompt_tokens": usage.0, "completion_tokens": usage.1, "total_tokens": usage.0 + usage.1})
}

fn streamed(answer: &Answer, form: &Form) -> Vec<Value> {
    let mut deltas = vec![json!({"role": "assistant", "content": ""})];
    deltas.extend(reasoning_deltas(answer.reasoning, form));
    deltas.extend(
        pieces(answer.text, form.cut)
            .into_iter()
            .map(|piece| json!({"content": piece})),
    );
    deltas.extend(call_deltas(answer, form));
    let mut chunks: Vec<Value> = deltas
        .into_iter()
        .map(|delta| json!({"id": "c1", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": null}]}))
        .collect();
    if !form.reason_with_last {
        chunks.push(json!({"choices": [{"index": 0, "delta": {}, "finish_reason": null}]}));
    }
    let last = chunks.len() - 1;
    chunks[last]["choices"][0]["finish_reason"] = json!(answer.reason);
    let Some(usage) = answer.usage else { return chunks };
    match form.usage {
        UsagePlace::OwnChunk => chunks.push(json!({"choices": [], "usage": counts(usage)})),
        UsagePlace::LastChoice => chunks[last]["usage"] = counts(usage),
        UsagePlace::InChoice => chunks[last]["choices"][0]["usage"] = counts(usage),
        UsagePlace::XGroq => chunks[last]["x_groq"] = json!({"usage": counts(usage)}),
        UsagePlace::EveryChunk => {
            for chunk in &mut chunks[..last] {
                chunk["usage"] = counts((usage.0, 1));
            }
            chunks[last]["usage"] = counts(usage);
        }
        UsagePlace::ThenZeros => {
            chunks[last]["usage"] = counts(usage);
            chunks.push(json!({"choices": [], "usage": counts((0, 0))}));
        }
        UsagePlace::First => chunks[0]["usage"] = counts(usage),
    }
    chunks
}

fn whole(answer: &Answer, form: &Form) -> Value {
    let mut message = Map::from_iter([
        ("role".to_owned(), json!("assistant")),
        ("content".to_owned(), json!(answer.text)),
    ]);
    if !answer.reasoning.is_empty() {
        let uncut = Form {
            cut: usize::MAX,
            ..form.clone()
        };
        match form.reasoning {
            ReasoningPlace::Think => {
                message.insert(
                    "content".to_owned(),
                    json!(format!("<think>{}</think>{}", answer.reasoning, answer.text)),
                );
            }
            ReasoningPlace::Parts => {
                let mut parts = reasoning_deltas(answer.reasoning, &uncut)[0]["content"].clone();
                parts
                    .as_array_mut()
                    .unwrap()
                    .push(json!({"type": "text", "text": answer.text}));
                message.insert("content".to_owned(), parts);
            }
            _ => message.extend(
                reasoning_deltas(answer.reasoning, &uncut)[0]
                    .as_object()
                    .unwrap()
                    .clone(),
            ),
        }
    }
    let calls = answer.calls.iter().enumerate();
    let calls: Vec<Value> = calls
        .map(|(place, (name, arguments))| form.naming.fragment(place, 0, (name, &arguments.to_string())))
        .collect();
    if !calls.is_empty() {
        message.insert("tool_calls".to_owned(), json!(calls));
    }
    let mut answered = json!({"choices": [{"index": 0, "message": message, "finish_reason": answer.reason}]});
    if let Some(usage) = answer.usage {
        match form.usage {
            UsagePlace::XGroq => answered["x_groq"] = json!({"usage": counts(usage)}),
            UsagePlace::InChoice => answered["choices"][0]["usage"] = counts(usage),
            _ => answered["usage"] = counts(usage),
        }
    }
    answered
}

/// A reason of the table or another word, in any case.
fn reason() -> impl Strategy<Value = String> {
    let table = include_str!("../../../../fixtures/dialects/finish-reasons/reasons.tsv");
    let words = table
        .lines()
        .skip(1)
        .filter_map(|line| line.split('\t').next().map(str::to_owned));
    let others = ["in_progress", "OTHER", "2", "Ende"].map(str::to_owned);
    let words: Vec<String> = words.chain(others).collect();
    (
        prop::sample::select(words),
        prop::collection::vec(any::<bool>(), 40),
    )
        .prop_map(|(word, upper)| {
            // OpenAI's own words are those of the protocol; the others are kept as they were sent.
            let letters = word.chars().zip(upper.into_iter().cycle());
            letters
                .map(|(letter, upper)| {
                    if upper {
                        letter.to_ascii_uppercase()
                    } else {
                        letter.to_ascii_lowercase()
                    }
                })
                .collect()
        })
}

fn answer() -> impl Strategy<Value = Answer> {
    let arguments = prop::sample::select(vec![
        json!({}),
        json!({"city": "Paris"}),
        json!({"city": "Rome", "deep": {"a": [1, {"b": "}{\"]["}], "c": "\\\""}}),
        json!({"text": "grüße 🎉 \u{0}"}),
    ]);
    let call = (
        prop::sample::select(vec!["weather", "clock", "weatherclock"]),
        arguments,
    );
    let usage = prop::option::of((1_u64..9_000, 2_u64..9_000));
    (
        prop::sample::select(vec![
            "",
            "30 days",
            "grüße 🎉 <b>",
            "a <think> b </think> c",
            "{\"x\": 1}",
        ]),
        prop::sample::select(vec!["", "hm", "so 🎉 then\n\nthat"]),
        prop::collection::vec(call, 0..4),
        usage,
        reason(),
    )
        .prop_map(|(text, reasoning, calls, usage, reason)| Answer {
            text,
            reasoning,
            calls,
            usage,
            reason,
        })
}

fn form() -> impl Strategy<Value = Form> {
    use Naming::{Both, BothAlways, Ids, Index, IndexZero, Neither};
    use ReasoningPlace::{Both as BothFields, Parts, Reasoning, ReasoningContent, Think};
    use UsagePlace::{EveryChunk, First, InChoice, LastChoice, OwnChunk, ThenZeros, XGroq};

    (
        prop::sample::select(vec![ReasoningContent, Reasoning, BothFields, Think, Parts]),
        prop::sample::select(vec![
            OwnChunk, LastChoice, InChoice, XGroq, EveryChunk, ThenZeros, First,
        ]),
        prop::sample::select(vec![Both, BothAlways, Index, Ids, Neither, IndexZero]),
        1_usize..40,
        prop::collection::vec(0_usize..4, 0..60),
        any::<bool>(),
    )
        .prop_map(|(reasoning, usage, naming, cut, order, reason_with_last)| Form {
            reasoning,
            usage,
            naming,
            cut,
            order,
            reason_with_last,
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn an_answer_is_the_same_in_every_form(answer in answer(), form in form()) {
        let expected = answer.expected();
        prop_assert_eq!(&read(&streamed(&answer, &form), false), &expected, "streamed");
        prop_assert_eq!(&read(&[whole(&answer, &form)], true), &expected, "whole");
    }
}

#[test]
fn a_full_answer_is_the_same_at_every_cut() {
    let answer = Answer {
        text: "grüße 🎉",
        reasoning: "hm 🎉",
        calls: vec![
            ("weather", json!({"city": "Paris"})),
            ("clock", json!({"city": "Rome"})),
        ],
        usage: Some((7, 3)),
        reason: "tool_calls".to_owned(),
    };
    for cut in 1..60 {
        for naming in [
            Naming::Both,
            Naming::Index,
            Naming::Ids,
            Naming::Neither,
            Naming::IndexZero,
        ] {
            for reasoning in [
                ReasoningPlace::Reasoning,
                ReasoningPlace::Think,
                ReasoningPlace::Parts,
            ] {
                let form = Form {
                    reasoning,
                    usage: UsagePlace::OwnChunk,
                    naming,
                    cut,
                    order: vec![1, 0, 1, 1, 0],
                    reason_with_last: cut % 2 == 0,
                };
                assert_eq!(
                    read(&streamed(&answer, &form), false),
                    answer.expected(),
                    "{form:?}"
                );
            }
        }
    }
}
