//! Whether something other than an agent's own backend answers a message. It must not open or ask anything.

use std::borrow::Borrow;

use futures::future::BoxFuture;
use holodeck_backend_api::Occasion;
use holodeck_model::{Env, ExecutorKind, PLAIN_COMMAND, SkillDoc, TestCase};
use holodeck_orchestrator::ExecuteOptions;
use holodeck_yaml::LoadedAgent;

use super::{Choice, MAX_DELEGATION, RoutingOverrides, choose, legacy::delegate, settings::RoutingSettings};
use crate::{
    AnswerSource, OpenOptions,
    agent::{
        inventory::{Inventory, ModelRole},
        open::CheckedAgent,
    },
    commands::skills::load_own_skills,
    load,
};

/// The messages of a command, each with the name of its command if it has one.
#[derive(Clone, Debug)]
pub(crate) enum Messages {
    /// Each of these is asked.
    Each(Vec<Option<String>>),
    /// Some of these may be asked.
    Any(Vec<Option<String>>),
}

impl Messages {
    /// Those of test cases that ask the agent.
    pub(crate) fn of_cases(cases: impl IntoIterator<Item = impl Borrow<TestCase>>) -> Self {
        let mut commands = Vec::new();
        for case in cases {
            let case: &TestCase = case.borrow();
            let turns = case.turns.iter().map(|turn| turn.command.clone());
            commands.extend(turns);
            if case.turns.is_empty() || case.user.is_some() {
                commands.push(case.command.clone());
            }
            if case.user.is_some() {
                commands.push(None);
            }
        }
        commands.sort();
        commands.dedup();
        Self::Each(commands)
    }

    /// Those of conversations in which these commands can be named.
    pub(crate) fn of_conversations(commands: impl IntoIterator<Item = String>) -> Self {
        Self::Any(
            std::iter::once(None)
                .chain(commands.into_iter().map(Some))
                .collect(),
        )
    }
}

/// The executors in place of an agent's own backend, as its `routing:` says.
pub(crate) struct OtherExecutors<'a> {
    agent: &'a LoadedAgent,
    env: &'a Env,
    settings: RoutingSettings,
    skills: Vec<SkillDoc>,
    /// How many agents delegate to this one.
    depth: usize,
}

impl<'a> OtherExecutors<'a> {
    pub(crate) fn of(agent: &'a LoadedAgent, env: &'a Env) -> Self {
        Self {
            agent,
            env,
            settings: RoutingSettings::new(&agent.config, env, &RoutingOverrides::default()),
            skills: load_own_skills(agent)
                .map(|loaded| loaded.skills)
                .unwrap_or_default(),
            depth: 0,
        }
    }

    /// Whether enough of these messages are answered: each that is asked, or any that may be.
    pub(crate) async fn answer_enough(&self, messages: &Messages) -> bool {
        let (commands, needs_each) = match messages {
            Messages::Each(commands) => (commands, true),
            Messages::Any(commands) => (commands, false),
        };
        for command in commands {
            if self.answer(command.as_deref()).await != needs_each {
                return !needs_each;
            }
        }
        needs_each
    }

    /// Whether one of them answers a message that names this command.
    fn answer<'b>(&'b self, command: Option<&'b str>) -> BoxFuture<'b, bool> {
        Box::pin(async move {
            let config = &self.agent.config;
            let Some(routing) = &config.routing else {
                return false;
            };
            let is_nested = self.depth > 0;
            let options = ExecuteOptions::default();
            let choice = choose(config, &self.settings, is_nested, command.is_some(), &options);
            if choice != Choice::Facade {
                return false;
            }
            let has = |kind| routing.chain.contains(&kind);
            let name = command.unwrap_or(PLAIN_COMMAND);
            let mut skills = self.skills.iter().filter(|_| has(ExecutorKind::Skills));
            if let Some(skill) = skills.find(|skill| skill.name.eq_ignore_ascii_case(name)) {
                // Without a script, the agent itself follows the instructions.
                if skill.script.is_some() {
                    return true;
                }
                if !routing
                    .skills
                    .as_ref()
                    .is_some_and(|skills| skills.fallback_on_error)
                {
                    return false;
                }
            }
            has(ExecutorKind::Legacy) && routing.legacy.is_some() && self.legacy_answers(command).await
        })
    }

    /// Whether the executor of `routing.legacy` can be asked, as far as that is known without asking.
    async fn legacy_answers(&self, command: Option<&str>) -> bool {
        let Some(path) = delegate(self.agent) else {
            let inventory = Inventory::new(self.agent, None);
            let keys = inventory.check_keys(self.agent, self.env, &[ModelRole::Legacy]);
            return keys.is_ok();
        };
        let loaded = load(&path, self.env);
        let has_errors = loaded
            .diagnostics
            .iter()
            .any(holodeck_model::Diagnostic::is_error);
        let Some(agent) = loaded
            .agent
            .filter(|_| !has_errors && self.depth < MAX_DELEGATION)
        else {
            return false;
        };
        let options = OpenOptions {
            answers: AnswerSource::Live,
            ..OpenOptions::default()
        };
        let checked = CheckedAgent::check_others(agent.clone(), self.env, Occasion::Run, options, None);
        let Ok(checked) = checked else { return false };
        if checked.unavailable().await.is_none() {
            return true;
        }
        let others = OtherExecutors {
            depth: self.depth + 1,
            ..OtherExecutors::of(&agent, self.env)
        };
        others.answer(command).await
    }
}
