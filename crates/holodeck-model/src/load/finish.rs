//! Notes on the tests of a sound agent, and the end of a load.

use std::{borrow::Cow, cmp::Reverse, collections::HashMap, path::Path, sync::Arc};

use secrecy::SecretString;

use super::{Load, Loader, Parts};
use crate::{
    Agent, Code, Diagnostic, LoadedAgent, MetricConfig, Redactor, Severity, Sources, TestCase, Turn,
    printable,
    redact::{Secrets, masked},
    yaml::NodeId,
};

/// More problems than anyone reads at once.
const MAX_DIAGNOSTICS: usize = 300;

impl Loader<'_> {
    /// Metrics that decide nothing, and cases that check nothing.
    pub(super) fn note_tests(&mut self, root: NodeId, agent: &Agent) {
        let shared = agent
            .evaluations
            .as_ref()
            .map_or(&[][..], |evaluations| &evaluations.metrics);
        self.note_ungated(root, "evaluations.metrics", shared);
        for (index, case) in agent.test_cases.iter().enumerate() {
            self.note_ungated(
                root,
                &format!("test_cases.{index}.evaluations"),
                &case.evaluations,
            );
            for (turn_index, turn) in case.turns.iter().enumerate() {
                self.note_ungated(
                    root,
                    &format!("test_cases.{index}.turns.{turn_index}.evaluations"),
                    &turn.evaluations,
                );
            }
        }
        self.note_unchecked(root, agent);
    }

    fn note_ungated(&mut self, root: NodeId, list: &str, metrics: &[MetricConfig]) {
        for (index, metric) in metrics.iter().enumerate() {
            if metric.gates() || !metric.enabled() {
                continue;
            }
            let pointer = format!("{list}.{index}");
            let Some(place) = self.named_place(root, &pointer) else {
                continue;
            };
            let message = format!(
                "metric `{}` has no `threshold`: it is reported, but decides nothing",
                metric.name()
            );
            let diagnostic = Diagnostic::note(Code::NotGated, message)
                .about(pointer)
                .with_help("add `threshold:` with the score from which a test passes");
            self.findings.add(&self.tree, place, diagnostic);
        }
    }

    /// One note for all of them.
    fn note_unchecked(&mut self, root: NodeId, agent: &Agent) {
        let unchecked: Vec<usize> = agent
            .test_cases
            .iter()
            .enumerate()
            .filter(|(_, case)| !checks_anything(agent, case))
            .map(|(index, _)| index)
            .collect();
        let Some(first) = unchecked.first() else { return };
        let pointer = format!("test_cases.{first}");
        let Some(place) = self.named_place(root, &pointer) else {
            return;
        };
        let message = match unchecked.len() {
            1 => "this test case checks nothing".to_owned(),
            count => format!(
                "{count} of {} test cases check nothing, this is the first",
                agent.test_cases.len()
            ),
        };
        let diagnostic = Diagnostic::note(Code::Unchecked, message)
            .about(pointer)
            .with_help("give it `ground_truth` and a metric that decides, or `expected_tools`");
        self.findings.add(&self.tree, place, diagnostic);
    }

    pub(super) fn finish(self, parts: Option<Parts>) -> Load {
        let mut secrets = Secrets::of(&self.tree);
        secrets.values.sort_unstable();
        secrets.values.dedup();
        let mut sources = Sources::default();
        let redactor = Redactor::new(secrets.values.iter().cloned());
        // Only diagnostics show files.
        let shown = !self.findings.diagnostics.is_empty();
        for (file, source) in self.tree.sources() {
            let text = match shown {
                true => masked(&self.tree, file, &secrets, &redactor).into(),
                false => source.text.clone(),
            };
            sources.add(source.path.to_path_buf(), text);
        }
        let dropped = self.findings.dropped();
        let mut diagnostics = in_order(self.findings.diagnostics, dropped, &sources);
        for text in diagnostics.iter_mut().flat_map(Diagnostic::texts) {
            redactor.mask_text(text);
        }
        let has_errors = diagnostics.iter().any(Diagnostic::is_error);
        let mut tree = self.tree;
        tree.shrink();
        let tree = Arc::new(tree);
        let agent = parts
            .filter(|_| !has_errors)
            .map(|Parts { root, agent }| LoadedAgent {
                tree: Some(tree),
                root,
                secrets: secrets.values.into_iter().map(SecretString::from).collect(),
                ..agent
            });
        Load {
            agent,
            diagnostics,
            sources,
        }
    }
}

/// Whether something about a case can fail.
fn checks_anything(agent: &Agent, case: &TestCase) -> bool {
    let gates = |turn: Option<&Turn>| {
        agent
            .metrics_for(case, turn)
            .iter()
            .any(|metric| metric.enabled() && metric.gates())
    };
    if case.turns.is_empty() {
        let expects = case
            .expected_tools
            .as_ref()
            .is_some_and(|tools| !tools.is_empty());
        return expects || !case.forbidden_tools.is_empty() || gates(None);
    }
    case.turns.iter().any(|turn| {
        let expects = turn
            .expected_tools
            .as_ref()
            .is_some_and(|tools| !tools.is_empty());
        expects || !turn.forbidden_tools.is_empty() || gates(Some(turn))
    })
}

/// In the order of the files, and not without end. What has no place comes first.
fn in_order(mut diagnostics: Vec<Diagnostic>, dropped: usize, sources: &Sources) -> Vec<Diagnostic> {
    let files: HashMap<&Path, usize> = sources
        .iter()
        .enumerate()
        .map(|(index, source)| (&*source.path, index))
        .collect();
    diagnostics.sort_by_key(|diagnostic| {
        let place = diagnostic.primary.as_ref();
        place.map(|place| (files.get(&*place.path).copied(), place.span.start))
    });
    let total = diagnostics.len() + dropped;
    if total > MAX_DIAGNOSTICS {
        // Errors first to be kept, in their order.
        diagnostics.sort_by_key(|diagnostic| Reverse(diagnostic.severity == Severity::Error));
        diagnostics.truncate(MAX_DIAGNOSTICS);
        let more = total - MAX_DIAGNOSTICS;
        diagnostics.push(Diagnostic::note(
            Code::TooManyProblems,
            format!("and {more} more problems"),
        ));
    }
    // They quote names and values of the file, and a terminal obeys control characters.
    for text in diagnostics.iter_mut().flat_map(Diagnostic::texts) {
        if let Cow::Owned(clean) = printable(text) {
            *text = clean;
        }
        if text.contains(['\n', '\t']) {
            *text = text.replace(['\n', '\t'], "\u{fffd}");
        }
    }
    diagnostics
}
