//! The texts that judges and programs receive, with secrets masked.
//!
//! [`MaskedInput`] can only be created by masking, and [`Grader::ask`](crate::Grader::ask) takes nothing else, so that no
//! judge and no program sees a secret. It also lists what was masked: a verdict on a text that was hidden says nothing
//! about that text. It never holds or names the value of a secret.

use std::fmt;

use holodeck_backend_api::{ExecutionResult, Redactions};
use holodeck_model::{MetricConfig, Redactor};
use serde_json::{Map, Value};

use crate::{CalledTool, ConversationTurn, EvalInput};

/// A kind of text of an input that a metric may read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum InputText {
    /// The question.
    Question,
    /// The answer.
    Answer,
    /// The expected answer.
    GroundTruth,
    /// The passages of the case.
    Context,
    /// The passages that tools retrieved.
    Retrieved,
    /// The passages of a turn of a conversation.
    TurnPassages,
    /// The arguments of a tool call.
    Arguments,
    /// The result of a tool call.
    ToolResult,
    /// The goal of a conversation's user.
    Goal,
    /// The name of the test case.
    CaseName,
    /// The values that a turn passes to code graders.
    TurnConfig,
    /// The `vars` of the case.
    Vars,
}

impl InputText {
    /// The texts of a conversation as a judge sees it.
    pub(crate) const TRANSCRIPT: [Self; 4] =
        [Self::Question, Self::Answer, Self::Arguments, Self::ToolResult];
}

/// A text that was masked. It names the place and never the value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MaskedText {
    /// The kind of text.
    pub text: InputText,
    /// The tool, for a text of a call.
    pub tool: Option<String>,
    /// The turn of the conversation, from 1; `None` for the only one.
    pub turn: Option<usize>,
}

impl MaskedText {
    /// A text that is not part of a tool call.
    pub fn new(text: InputText, turn: Option<usize>) -> Self {
        Self {
            text,
            tool: None,
            turn,
        }
    }

    /// The texts of a stored turn that were masked, as its record lists them. `turn` is its number in a conversation.
    pub fn of_stored(result: &ExecutionResult, redacted: &Redactions, turn: Option<usize>) -> Vec<Self> {
        let whole = [
            (redacted.input, InputText::Question),
            (redacted.answer, InputText::Answer),
        ];
        let whole = whole.into_iter().filter(|(is_masked, _)| *is_masked);
        let whole = whole.map(|(_, text)| Self::new(text, turn));
        let calls = result.tool_calls.iter().flat_map(|call| {
            let parts = [
                (&redacted.arguments, InputText::Arguments),
                (&redacted.results, InputText::ToolResult),
            ];
            let masked = parts.into_iter().filter(|(ids, _)| ids.contains(&call.call_id));
            masked.map(move |(_, text)| Self::of_call(text, &call.name, turn))
        });
        whole.chain(calls).collect()
    }

    /// A text of a call of `tool`.
    pub fn of_call(text: InputText, tool: &str, turn: Option<usize>) -> Self {
        Self {
            tool: Some(tool.to_owned()),
            ..Self::new(text, turn)
        }
    }
}

impl fmt::Display for MaskedText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.text {
            InputText::Question => "the question",
            InputText::Answer => "the answer",
            InputText::GroundTruth => "`ground_truth`",
            InputText::Context => "`retrieval_context`",
            InputText::Retrieved => "the retrieved passages",
            InputText::TurnPassages => "the passages",
            InputText::Arguments => "the arguments",
            InputText::ToolResult => "the result",
            InputText::Goal => "the goal",
            InputText::CaseName => "the name of the case",
            InputText::TurnConfig => "`turn_config`",
            InputText::Vars => "`vars`",
        })?;
        if let Some(tool) = &self.tool {
            write!(f, " of tool `{tool}`")?;
        }
        match self.turn {
            Some(turn) => write!(f, " in turn {turn}"),
            None => Ok(()),
        }
    }
}

/// The fields of a metric that its judge reads and that hold a secret.
pub(crate) fn fields_with_secrets(config: &MetricConfig, redactor: &Redactor) -> Vec<&'static str> {
    fn texts<'a>(
        field: &'static str,
        texts: impl IntoIterator<Item = &'a String>,
    ) -> (&'static str, Vec<&'a str>) {
        (field, texts.into_iter().map(String::as_str).collect())
    }
    let fields = match config {
        MetricConfig::Geval(metric) => vec![
            ("criteria", vec![metric.criteria.as_str()]),
            texts("evaluation_steps", metric.evaluation_steps.iter().flatten()),
            texts(
                "rubric",
                metric
                    .rubric
                    .iter()
                    .flatten()
                    .map(|level| &level.expected_outcome),
            ),
            texts("custom_prompt", &metric.custom_prompt),
        ],
        MetricConfig::Standard(metric) => vec![texts("custom_prompt", &metric.custom_prompt)],
        MetricConfig::GoalSuccess(metric) => vec![texts("goal", &metric.goal)],
        // A program of the author has its secrets on purpose.
        MetricConfig::Rag(_) | MetricConfig::Code(_) => Vec::new(),
    };
    let holds_secret = |text: &&str| !redactor.find(text).is_empty();
    let fields = fields
        .into_iter()
        .filter(|(_, texts)| texts.iter().any(&holds_secret));
    fields.map(|(field, _)| field).collect()
}

/// An input whose texts are masked.
#[derive(Clone, Debug)]
pub struct MaskedInput<'a> {
    /// The original; only what cannot hold a secret is taken from it.
    original: EvalInput<'a>,
    whole: Texts,
    structured_output: Option<Value>,
    ground_truth: Option<String>,
    retrieval_context: Option<Vec<String>>,
    context: Option<Vec<String>>,
    retrieved: Option<Vec<String>>,
    goal: Option<String>,
    case_name: Option<String>,
    turn_config: Option<Map<String, Value>>,
    vars: Option<Map<String, Value>>,
    turns: Option<Vec<(Texts, Option<Vec<String>>)>>,
    masked: Vec<MaskedText>,
}

/// The texts of a turn.
#[derive(Clone, Debug)]
struct Texts {
    question: String,
    answer: String,
    calls: Vec<(Value, Option<String>)>,
}

/// Masks texts and lists those that held a secret.
struct Masking<'a> {
    redactor: &'a Redactor,
    masked: Vec<MaskedText>,
    turn: Option<usize>,
}

impl Masking<'_> {
    fn add(&mut self, text: MaskedText) {
        if !self.masked.contains(&text) {
            self.masked.push(text);
        }
    }

    fn text(&mut self, kind: InputText, text: &str) -> String {
        let mut text = text.to_owned();
        if self.redactor.mask_text(&mut text) {
            self.add(MaskedText::new(kind, self.turn));
        }
        text
    }

    fn texts(&mut self, kind: InputText, texts: Option<&[String]>) -> Option<Vec<String>> {
        texts.map(|texts| texts.iter().map(|text| self.text(kind, text)).collect())
    }

    fn turn(&mut self, question: &str, answer: &str, calls: &[CalledTool<'_>]) -> Texts {
        Texts {
            question: self.text(InputText::Question, question),
            answer: self.text(InputText::Answer, answer),
            calls: self.calls(calls),
        }
    }

    fn values(&mut self, kind: InputText, values: Option<&Map<String, Value>>) -> Option<Map<String, Value>> {
        let mut masked = values?.clone();
        let mut holds_secret = false;
        for value in masked.values_mut() {
            holds_secret |= self.redactor.mask_value(value);
        }
        if holds_secret {
            self.add(MaskedText::new(kind, None));
        }
        Some(masked)
    }

    fn calls(&mut self, calls: &[CalledTool<'_>]) -> Vec<(Value, Option<String>)> {
        let masked = calls.iter().map(|call| {
            let mut arguments = call.arguments.clone();
            if self.redactor.mask_value(&mut arguments) {
                self.add(MaskedText::of_call(InputText::Arguments, call.name, self.turn));
            }
            let mut result = call.result.map(str::to_owned);
            if result.as_mut().is_some_and(|text| self.redactor.mask_text(text)) {
                self.add(MaskedText::of_call(InputText::ToolResult, call.name, self.turn));
            }
            (arguments, result)
        });
        masked.collect()
    }
}

impl<'a> MaskedInput<'a> {
    /// Masks the texts of an input. `known` lists the texts that were masked before, such as those of a stored record.
    pub fn new(input: EvalInput<'a>, redactor: &Redactor, known: Vec<MaskedText>) -> Self {
        let mut masking = Masking {
            redactor,
            masked: known,
            turn: None,
        };
        let turns = input.conversation.map(|turns| {
            let turns = turns.iter().enumerate().map(|(place, turn)| {
                masking.turn = Some(place + 1);
                let texts = masking.turn(turn.input, turn.answer, &turn.tool_calls);
                let passages = masking.texts(InputText::TurnPassages, turn.retrieval_context.as_deref());
                (texts, passages)
            });
            turns.collect()
        });
        masking.turn = None;
        // The texts of a conversation are listed by turn.
        let listed = masking.masked.len();
        let whole = masking.turn(input.input, input.response, input.tool_calls);
        if input.conversation.is_some() {
            masking.masked.truncate(listed);
        }
        let mut structured_output = input.structured_output.cloned();
        if structured_output
            .as_mut()
            .is_some_and(|value| redactor.mask_value(value))
        {
            masking.add(MaskedText::new(InputText::Answer, None));
        }
        let turn_config = input.turn_config.map(|config| {
            let mut value = Value::Object(config.clone());
            if redactor.mask_value(&mut value) {
                masking.add(MaskedText::new(InputText::TurnConfig, None));
            }
            match value {
                Value::Object(config) => config,
                _ => Map::new(),
            }
        });
        let vars = masking.values(InputText::Vars, input.vars);
        Self {
            ground_truth: input
                .ground_truth
                .map(|text| masking.text(InputText::GroundTruth, text)),
            context: masking.texts(InputText::Context, input.context),
            retrieved: masking.texts(InputText::Retrieved, input.retrieved),
            retrieval_context: masking.texts(input.kind_of_passages(), input.retrieval_context),
            goal: input.goal.map(|text| masking.text(InputText::Goal, text)),
            case_name: input
                .test_case_name
                .map(|text| masking.text(InputText::CaseName, text)),
            masked: masking.masked,
            original: input,
            whole,
            structured_output,
            turn_config,
            vars,
            turns,
        }
    }

    /// The masked texts of the kinds that a metric reads.
    pub(crate) fn masked(&self, reads: &[InputText]) -> Vec<&MaskedText> {
        let masked = self.masked.iter();
        masked.filter(|masked| reads.contains(&masked.text)).collect()
    }

    /// The turns of the conversation.
    pub(crate) fn conversation(&self) -> Option<Vec<ConversationTurn<'_>>> {
        let turns = self.original.conversation?.iter().zip(self.turns.as_deref()?);
        let turns = turns.map(|(original, (texts, passages))| ConversationTurn {
            input: &texts.question,
            answer: &texts.answer,
            tool_calls: texts.calls(&original.tool_calls),
            retrieval_context: passages.clone(),
        });
        Some(turns.collect())
    }

    /// The calls of the turn, or of all turns.
    pub(crate) fn calls(&self) -> Vec<CalledTool<'_>> {
        self.whole.calls(self.original.tool_calls)
    }

    /// The input with its masked texts.
    pub(crate) fn input<'b>(
        &'b self,
        calls: &'b [CalledTool<'b>],
        conversation: Option<&'b [ConversationTurn<'b>]>,
    ) -> EvalInput<'b> {
        let original = &self.original;
        EvalInput {
            input: &self.whole.question,
            response: &self.whole.answer,
            ground_truth: self.ground_truth.as_deref(),
            structured_output: self.structured_output.as_ref(),
            tool_calls: calls,
            retrieval_context: self.retrieval_context.as_deref(),
            context: self.context.as_deref(),
            retrieved: self.retrieved.as_deref(),
            latency: original.latency,
            cost_usd: original.cost_usd,
            turn_index: original.turn_index,
            test_case_name: self.case_name.as_deref(),
            turn_config: self.turn_config.as_ref(),
            vars: self.vars.as_ref(),
            finish_reason: original.finish_reason,
            conversation,
            goal: self.goal.as_deref(),
        }
    }
}

impl Texts {
    fn calls<'b>(&'b self, originals: &[CalledTool<'b>]) -> Vec<CalledTool<'b>> {
        let calls = originals.iter().zip(&self.calls);
        let calls = calls.map(|(original, (arguments, result))| CalledTool {
            arguments,
            result: result.as_deref(),
            ..*original
        });
        calls.collect()
    }
}

impl EvalInput<'_> {
    /// The kind of the passages in `retrieval_context`.
    pub(crate) fn kind_of_passages(&self) -> InputText {
        if self.context.is_some() {
            InputText::Context
        } else {
            InputText::Retrieved
        }
    }
}
