//! Finds agents that can never be routed, commands that two agents declare, and agents between which little decides.

mod keyword;
mod search;

use std::collections::BTreeMap;

use holodeck_model::{Code, Diagnostic, Location};

use super::{AgentSelector, globs::bad_globs, selector::Algorithm};
use crate::AgentRegistry;

/// Helps an agent that is not routed.
const ADD: &str = "add `triggers` or `commands` to its front matter";

impl AgentSelector {
    /// Reports problems of the agents as a whole: agents that can never be routed under these settings, commands that two
    /// agents declare, agents between which little decides, and patterns that are not valid. `registry` is that of the
    /// selector.
    pub fn review(&self, registry: &AgentRegistry) -> Vec<Diagnostic> {
        let mut found = Findings {
            registry,
            diagnostics: Vec::new(),
        };
        found.bad_globs();
        self.find_shared_commands(&mut found);
        if self.is_fallback {
            // A model reads names and descriptions: words decide neither who can be routed nor who is alike.
            return found.diagnostics;
        }
        match &self.algorithm {
            Algorithm::Keyword(selector) => selector.review(self.least, &mut found),
            Algorithm::Search(selector) => selector.review(self.least, &mut found),
        }
        found.diagnostics
    }

    fn find_shared_commands(&self, found: &mut Findings<'_>) {
        let mut first: BTreeMap<&str, &str> = BTreeMap::new();
        for agent in &self.declared {
            for command in &agent.commands {
                let first = *first.entry(command).or_insert(&agent.name);
                if first == agent.name {
                    continue;
                }
                let message = format!(
                    "the command `{command}` of agent `{}` is that of `{first}` too, which comes first by name and gets it",
                    agent.name
                );
                found.add(
                    Diagnostic::warning(Code::SharedCommand, message)
                        .at(found.place(&agent.name))
                        .about("commands"),
                    "remove the command from one of them, or name one in `routing.agents.exclude`",
                    Some(first),
                );
            }
        }
    }
}

/// The findings about the agents of a registry.
pub(super) struct Findings<'a> {
    registry: &'a AgentRegistry,
    diagnostics: Vec<Diagnostic>,
}

impl Findings<'_> {
    fn place(&self, agent: &str) -> Option<Location> {
        self.registry.get(agent).and_then(|doc| doc.places.name.clone())
    }

    fn bad_globs(&mut self) {
        for doc in self.registry.agents() {
            for pattern in bad_globs(doc) {
                let message = format!(
                    "agent `{}`: `{pattern}` in `globs` is not a valid pattern",
                    doc.name
                );
                let diagnostic = Diagnostic::error(Code::BadPattern, message).about("globs");
                self.diagnostics.push(diagnostic.at(doc.places.name.clone()));
            }
        }
    }

    /// Adds a finding, with the place of another agent that it is about.
    fn add(&mut self, diagnostic: Diagnostic, help: impl Into<String>, other: Option<&str>) {
        let mut diagnostic = diagnostic.with_help(help);
        if let Some(label) = other.and_then(|other| self.place(other)) {
            diagnostic = diagnostic.with_label(label, "the other one");
        }
        self.diagnostics.push(diagnostic);
    }

    /// An agent that is never or hardly ever routed.
    fn never_routed(&mut self, agent: &str, message: String, help: impl Into<String>) {
        let diagnostic = Diagnostic::warning(Code::NeverSelected, message).at(self.place(agent));
        self.add(diagnostic, help, None);
    }

    /// Two agents with almost the same score for a task.
    fn near_tie(&mut self, first: &str, second: &str, message: String) {
        let diagnostic = Diagnostic::warning(Code::NearTie, message).at(self.place(first));
        self.add(
            diagnostic,
            "give each of them triggers that the other does not have",
            Some(second),
        );
    }
}
