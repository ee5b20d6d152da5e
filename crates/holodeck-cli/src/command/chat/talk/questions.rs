//! Asks the person about tool calls, and what servers want to know.

use holodeck::{
    conversation::{RunError, RunHandle},
    events::{ApprovalAnswer, Resolution, StoreError},
    model::{
        events::{ApprovalRequested, ApprovalScope},
        printable,
    },
};
use serde_json::Value;

use super::Talk;
use crate::{
    command::chat::editor::Editor,
    failure::{Failure, Problem},
    render::{call_arguments, strong},
    terminal::forget_typed,
};

impl Talk<'_> {
    /// Asks a person about a call until there is an answer.
    pub(super) async fn decide(
        &mut self,
        asked: &ApprovalRequested,
        editor: &mut Editor,
        run: &RunHandle,
    ) -> Result<(), Failure> {
        forget_typed();
        if asked.answer_schema.is_some() {
            return self.answer_server(asked, editor, run).await;
        }
        let tool = printable(&asked.tool_name).into_owned();
        let args = asked.args.as_ref().map(call_arguments).unwrap_or_default();
        let masked = crate::terminal::mask_text(&args).into_owned();
        self.terminal
            .write_message(&format!("  ? {} {masked}\n", strong(&tool)));
        loop {
            let answer = editor
                .ask("    allow?  [y]es  [n]o  [a]lways in this session  [e]dit › ", "")
                .await?;
            let Some(answer) = answer else {
                run.cancel();
                return Ok(());
            };
            let answer = answer.trim();
            let (word, reason) = answer.split_once(char::is_whitespace).unwrap_or((answer, ""));
            let mut decision = match word {
                "y" | "yes" => ApprovalAnswer::new(&asked.approval_id, Resolution::Approve),
                "a" | "always" => {
                    let mut answer = ApprovalAnswer::new(&asked.approval_id, Resolution::Approve);
                    answer.scope = ApprovalScope::Session;
                    answer
                }
                "n" | "no" => ApprovalAnswer::new(&asked.approval_id, Resolution::Reject),
                "e" | "edit" => {
                    let Some(arguments) = self.edit(asked, editor).await? else {
                        continue;
                    };
                    ApprovalAnswer::new(&asked.approval_id, Resolution::Modify(arguments))
                }
                _ => continue,
            };
            decision.reason = (!reason.trim().is_empty()).then(|| reason.trim().to_owned());
            if self.is_answered(decision).await? {
                return Ok(());
            }
        }
    }

    /// Asks a person what a server wants to know.
    async fn answer_server(
        &mut self,
        asked: &ApprovalRequested,
        editor: &mut Editor,
        run: &RunHandle,
    ) -> Result<(), Failure> {
        let question = crate::terminal::mask_text(&asked.description).into_owned();
        self.terminal
            .write_message(&format!("  ? {}\n", printable(&question)));
        let mut text = asked.args.as_ref().map(ToString::to_string).unwrap_or_default();
        loop {
            let prompt = "    your answer; an empty line declines › ";
            let Some(given) = editor.ask(prompt, &printable(&text)).await? else {
                run.cancel();
                return Ok(());
            };
            let decision = if given.trim().is_empty() {
                Resolution::Reject
            } else {
                match serde_json::from_str::<Value>(&given) {
                    Ok(value) if value.is_object() => Resolution::Modify(value),
                    Ok(_) => {
                        self.complain("the answer must be a JSON object");
                        continue;
                    }
                    Err(error) => {
                        self.complain(&format!("not JSON: {error}"));
                        continue;
                    }
                }
            };
            text = given;
            if self
                .is_answered(ApprovalAnswer::new(&asked.approval_id, decision))
                .await?
            {
                return Ok(());
            }
        }
    }

    /// Stores an answer; false if the question must be asked again.
    async fn is_answered(&mut self, answer: ApprovalAnswer) -> Result<bool, Failure> {
        let answer = answer.by(self.user.as_deref());
        match self.chat.service().answer(answer).await {
            Ok(_) => Ok(true),
            // Not what the tool or the server accepts.
            Err(RunError::Refused { reason }) => {
                self.complain(&reason);
                Ok(false)
            }
            Err(RunError::Store(
                error @ (StoreError::AlreadyResolved { .. } | StoreError::Expired { .. }),
            )) => {
                self.complain(&error.to_string());
                Ok(true)
            }
            Err(error) => Err(Problem::execution(error.to_string()).into()),
        }
    }

    /// New arguments of a call; `None` if there are none.
    async fn edit(
        &mut self,
        asked: &ApprovalRequested,
        editor: &mut Editor,
    ) -> Result<Option<Value>, Failure> {
        let mut text = asked.args.as_ref().map(ToString::to_string).unwrap_or_default();
        loop {
            let Some(edited) = editor.ask("    arguments › ", &printable(&text)).await? else {
                return Ok(None);
            };
            match serde_json::from_str::<Value>(&edited) {
                Ok(value) if value.is_object() => return Ok(Some(value)),
                Ok(_) => self.complain("the arguments must be a JSON object"),
                Err(error) => self.complain(&format!("not JSON: {error}")),
            }
            text = edited;
        }
    }
}
