//! Asks the person about tool calls, and what servers want to know.

use std::{sync::Arc, time::Duration};

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
    render::{call_arguments, dim, strong, whole_arguments},
    terminal::forget_typed,
};

/// The answers to a question about a call.
const ANSWERS: &str = "    `n` and `t` may have a reason; `A`: in all conversations; `t`: ends the answer\n";

/// How often a question is looked up while its answer is typed.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

impl Talk<'_> {
    /// Asks a person about a call until there is an answer.
    pub(super) async fn decide(
        &mut self,
        asked: &ApprovalRequested,
        editor: &mut Editor,
        run: &RunHandle,
    ) -> Result<(), Failure> {
        // Several questions may be asked together: the answer to another one may have been for this one, too.
        if self.is_over(asked).await? {
            return Ok(());
        }
        forget_typed();
        if asked.answer_schema.is_some() {
            return self.answer_server(asked, editor, run).await;
        }
        let tool = printable(&asked.tool_name).into_owned();
        let args = asked.args.as_ref().map(call_arguments).unwrap_or_default();
        let masked = crate::terminal::mask_text(&args).into_owned();
        self.terminal
            .write_message(&format!("  ? {} {masked}\n", strong(&tool)));
        if let Some(whole) = asked.args.as_ref().and_then(whole_arguments) {
            self.terminal.write_message(&format!("    {whole}\n"));
        }
        if !asked.paths.is_empty() {
            let paths = crate::terminal::mask_text(&asked.paths.join(", ")).into_owned();
            let outside = format!("    not simply in the agent's folders: {}\n", printable(&paths));
            self.terminal.write_message(&outside);
        }
        loop {
            let prompt = "    allow?  [y]es  [n]o  [a]lways in this session  [e]dit › ";
            let answer = editor.ask(prompt, "", self.end_of(asked)).await?;
            let Some(answer) = answer else {
                run.cancel();
                return Ok(());
            };
            let answer = answer.trim();
            let (word, reason) = answer.split_once(char::is_whitespace).unwrap_or((answer, ""));
            let approve = |scope| {
                let mut answer = ApprovalAnswer::new(&asked.approval_id, Resolution::Approve);
                answer.scope = scope;
                answer
            };
            let mut decision = match word {
                "y" | "yes" => approve(ApprovalScope::Once),
                "a" | "always" => approve(ApprovalScope::Session),
                "A" => approve(ApprovalScope::Always),
                "n" | "no" => ApprovalAnswer::new(&asked.approval_id, Resolution::Reject),
                "t" | "terminate" => ApprovalAnswer::new(&asked.approval_id, Resolution::Terminate),
                "e" | "edit" => {
                    let Some(arguments) = self.edit(asked, editor).await? else {
                        continue;
                    };
                    ApprovalAnswer::new(&asked.approval_id, Resolution::Modify(arguments))
                }
                _ if self.is_over(asked).await? => return Ok(()),
                _ => {
                    self.terminal.write_message(&dim(ANSWERS));
                    continue;
                }
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
            let given = editor.ask(prompt, &printable(&text), self.end_of(asked)).await?;
            let Some(given) = given else {
                run.cancel();
                return Ok(());
            };
            if self.is_over(asked).await? {
                return Ok(());
            }
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

    /// Whether the question has an answer, also one that was not given here.
    async fn is_over(&self, asked: &ApprovalRequested) -> Result<bool, Failure> {
        let store = self.chat.service().store();
        let known = store.approval(&asked.approval_id).await;
        let known = known.map_err(|error| Problem::execution(error.to_string()))?;
        Ok(known.is_none_or(|known| known.resolved.is_some()))
    }

    /// Waits until the question has an answer that was not given here; describes it.
    fn end_of(&self, asked: &ApprovalRequested) -> impl Future<Output = String> + use<> {
        let store = Arc::clone(self.chat.service().store());
        let id = asked.approval_id.clone();
        async move {
            loop {
                tokio::time::sleep(LOOK_AGAIN).await;
                let resolved = store.approval(&id).await.ok().flatten();
                let decision = resolved.and_then(|known| known.resolved?.decision);
                if let Some(decision) = decision {
                    return format!("    no longer asked: {decision}; Enter continues\n");
                }
            }
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
            let prompt = "    arguments › ";
            let Some(edited) = editor.ask(prompt, &printable(&text), self.end_of(asked)).await? else {
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
