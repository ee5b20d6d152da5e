//! Whether the agent of a selection executes the command: the last gates, for a run and for everything that only asks.

use holodeck_model::RoutingDecision;

use super::{
    AgentSelector, AskedModel, PLAIN_COMMAND, SelectedBy, Selection, SelectionTask, terms::telling_words,
};

/// How many words a refusal offers as a trigger.
const OFFERED: usize = 2;

/// The settings that decide about a selection.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::exhaustive_structs, reason = "callers construct it as a literal")]
pub struct RouteRules {
    /// Whether commands are routed.
    pub enabled: bool,
    /// The commands that may be routed; `None`: all of them.
    pub commands: Option<Vec<String>>,
    /// How confident a selection must be.
    pub min_confidence: f64,
    /// Whether the default agent executes commands although its confidence is 0.
    pub default_agent_routes: bool,
}

/// The selection for a task and whether its agent would execute the command.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Route {
    /// The selection.
    pub selection: Selection,
    /// `sdk_executed` if the agent would execute the command, else the refusal.
    pub decision: RoutingDecision,
    /// Why not.
    pub refusal: Option<String>,
}

impl Route {
    /// The agent that would execute the command.
    pub fn agent(&self) -> Option<&str> {
        let agent = self.selection.agent.as_deref();
        agent.filter(|_| self.decision == RoutingDecision::SdkExecuted)
    }
}

impl RouteRules {
    /// The route of a task by its words. The gates of the machine count as open: the backend, and variables of the
    /// environment.
    pub fn route(
        &self,
        selector: &AgentSelector,
        task: &SelectionTask,
        has_definition: impl FnOnce(&str) -> bool,
    ) -> Route {
        self.route_selection(selector.select(task), task, has_definition)
    }

    /// The route of a task with this selection, through the same gates.
    pub fn route_selection(
        &self,
        selection: Selection,
        task: &SelectionTask,
        has_definition: impl FnOnce(&str) -> bool,
    ) -> Route {
        let agent = selection.agent.as_deref();
        let gates = [
            (RoutingDecision::SdkNotEnabled, self.refuse_all()),
            (
                RoutingDecision::CommandNotAllowed,
                self.refuse_command(&task.command),
            ),
            (RoutingDecision::SelectionDeclined, refuse_declined(&selection)),
            (
                RoutingDecision::LowConfidence,
                self.refuse_unsure(task, &selection),
            ),
            (
                RoutingDecision::NoSdkDefinition,
                refuse_undefined(agent, agent.is_some_and(has_definition)),
            ),
        ];
        let refused = gates
            .into_iter()
            .find_map(|(decision, refusal)| Some((decision, refusal?)));
        let (decision, refusal) = match refused {
            Some((decision, refusal)) => (decision, Some(refusal)),
            None => (RoutingDecision::SdkExecuted, None),
        };
        Route {
            selection,
            decision,
            refusal,
        }
    }

    /// Why nothing is routed.
    pub(crate) fn refuse_all(&self) -> Option<String> {
        (!self.enabled).then(|| "routing is not enabled".to_owned())
    }

    /// Why a command is not routed; a task without a command is `run`.
    pub(crate) fn refuse_command(&self, command: &str) -> Option<String> {
        let command = match command.trim() {
            "" => PLAIN_COMMAND.to_owned(),
            named => named.to_lowercase(),
        };
        let allowed = self.commands.as_ref()?;
        let is_allowed = allowed
            .iter()
            .any(|allowed| allowed.trim().to_lowercase() == command);
        (!is_allowed).then(|| {
            let what = if command == PLAIN_COMMAND {
                ", a message without a command,"
            } else {
                ""
            };
            format!("`{command}`{what} is not one of the routed commands; add it to `routing.commands`")
        })
    }

    /// Why the selection is not confident enough, and the line that would change it.
    pub(crate) fn refuse_unsure(&self, task: &SelectionTask, selection: &Selection) -> Option<String> {
        let is_default = selection.selected_by == SelectedBy::Default;
        let (confidence, least) = (confidence(selection), self.min_confidence);
        if (is_default && self.default_agent_routes) || confidence >= least {
            return None;
        }
        let agent = selection.agent.as_deref().unwrap_or_default();
        let needed = format!("{least:.2} is needed");
        if is_default {
            return Some(format!(
                "no agent fits, and the confidence of the default `{agent}` is {confidence:.2}, {needed}; add \
                 `default_agent_routes: true` to `routing.agents` if it should answer"
            ));
        }
        let command = task.command.trim().to_lowercase();
        let line = if command.is_empty() || command == PLAIN_COMMAND {
            let words = telling_words(&task.text, OFFERED).join(" ");
            format!(
                "`triggers: [{}]`",
                if words.is_empty() {
                    "words of such tasks"
                } else {
                    &words
                }
            )
        } else {
            format!("`commands: [{command}]`")
        };
        let asked = selection.asked.as_ref().and_then(AskedModel::fallback);
        let asked = asked.map_or_else(String::new, |note| format!(" ({note})"));
        Some(format!(
            "the confidence of `{agent}` is {confidence:.2}, {needed}{asked}; add {line} to its file, or lower \
             `min_confidence`"
        ))
    }
}

/// The confidence of a selection, 0–1.
pub(crate) fn confidence(selection: &Selection) -> f64 {
    if selection.confidence.is_finite() {
        selection.confidence.clamp(0.0, 1.0)
    } else {
        0.0
    }
}

/// Why a selection found no agent.
pub(crate) fn refuse_declined(selection: &Selection) -> Option<String> {
    (!selection.use_sdk || selection.agent.is_none()).then(|| selection.reason.clone())
}

/// Why the selected agent cannot be executed.
pub(crate) fn refuse_undefined(agent: Option<&str>, is_defined: bool) -> Option<String> {
    (!is_defined).then(|| match agent {
        Some(agent) => format!("the agent `{agent}` has no definition"),
        None => "no agent was selected".to_owned(),
    })
}
