//! Notes on the tests of a valid agent, and the end of a load.

use std::{borrow::Cow, cmp::Reverse, collections::HashMap, path::Path, sync::Arc};

use holodeck_model::{
    Agent, Code, Diagnostic, MetricConfig, Redactor, ResolvedAgent, Severity, Sources, TestCase, Turn,
    printable,
};
use secrecy::SecretString;

use indexmap::IndexMap;

use super::{Load, Loader, Parts};
use crate::{
    LoadedAgent, Places,
    secrets::{Secrets, mask_file},
    yaml::NodeId,
};

/// Maximum number of reported diagnostics.
const MAX_DIAGNOSTICS: usize = 300;

impl Loader<'_> {
    /// Reports metrics without a threshold, and cases that check nothing.
    pub(super) fn note_tests(&mut self, root: NodeId, agent: &Agent) {
        self.warn_idle_gates(root, agent);
        self.check_numbers(root, agent);
        self.check_embedders(root, agent);
        self.note_ungated(root, agent);
        self.note_unchecked(root, agent);
        self.warn_unused_metrics(root, agent);
        self.warn_missing_references(root, agent);
    }

    /// Reports one warning for each metric that lacks a reference for some question. It is not an error: in files for
    /// 0.7.1 the metric itself reports it.
    fn warn_missing_references(&mut self, root: NodeId, agent: &Agent) {
        let mut found: IndexMap<String, Vec<String>> = IndexMap::new();
        let mut questions = 0;
        for (index, case) in agent.test_cases.iter().enumerate() {
            if case.ground_truth.is_none() {
                let metrics = case.conversation_metrics();
                for metric in metrics.filter(|metric| metric.needs_ground_truth()) {
                    let pointers = found.entry(metric.name().to_owned()).or_default();
                    pointers.push(format!("test_cases.{index}"));
                }
            }
            let turns = case.turns.iter().enumerate().map(|(turn, config)| {
                let pointer = format!("test_cases.{index}.turns.{turn}");
                (pointer, Some(config), config.ground_truth.is_some())
            });
            let alone = (format!("test_cases.{index}"), None, case.ground_truth.is_some());
            let alone = case.turns.is_empty().then_some(alone);
            for (pointer, turn, has_reference) in alone.into_iter().chain(turns) {
                questions += 1;
                if has_reference {
                    continue;
                }
                for metric in agent.metrics_for(&case, turn) {
                    if metric.enabled() && metric.needs_ground_truth() {
                        found
                            .entry(metric.name().to_owned())
                            .or_default()
                            .push(pointer.clone());
                    }
                }
            }
        }
        for (metric, mut pointers) in found {
            pointers.dedup();
            let Some(first) = pointers.first() else { continue };
            let Some(place) = self.named_place(root, first) else {
                continue;
            };
            let message = match pointers.len() {
                1 => format!("metric `{metric}` needs a `ground_truth` here"),
                count => format!(
                    "metric `{metric}` needs a `ground_truth`, which {count} of {questions} questions do not have; \
                     this is the first"
                ),
            };
            let diagnostic = Diagnostic::warning(Code::MissingReference, message)
                .about(first)
                .with_help(
                    "add it, or give the case `evaluations` of its own; without it the metric reports an error and the \
                     run ends with exit code 4",
                );
            self.findings.add(&self.tree, place, diagnostic);
        }
    }

    fn note_ungated(&mut self, root: NodeId, agent: &Agent) {
        for (place, metric) in agent.metrics(None) {
            if metric.gates() || !metric.enabled() {
                continue;
            }
            let pointer = place.pointer();
            let Some(place) = self.named_place(root, &pointer) else {
                continue;
            };
            let message = format!(
                "metric `{}` has no `threshold`: its score is reported, but can't fail a test",
                metric.name()
            );
            let diagnostic = Diagnostic::note(Code::NotGated, message)
                .about(pointer)
                .with_help("add `threshold:` with the lowest score that passes");
            self.findings.add(&self.tree, place, diagnostic);
        }
    }

    /// Reports one note for all cases that check nothing.
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
                "{count} of {} test cases check nothing; this is the first",
                agent.test_cases.len()
            ),
        };
        let diagnostic = Diagnostic::note(Code::Unchecked, message)
            .about(pointer)
            .with_help("add `ground_truth` and a metric that can fail, or `expected_tools`");
        self.findings.add(&self.tree, place, diagnostic);
    }

    /// Warns if every case has metrics of its own, so that those of the agent are never computed.
    fn warn_unused_metrics(&mut self, root: NodeId, agent: &Agent) {
        let Some(evaluations) = &agent.evaluations else {
            return;
        };
        let own = evaluations.metrics.as_slice();
        let uses = |case: &TestCase, turn: Option<&Turn>| {
            case.checks_only_selection() || std::ptr::eq(agent.metrics_for(case, turn), own)
        };
        let is_used = agent.test_cases.iter().any(|case| match case.turns.as_slice() {
            [] => uses(&case, None),
            turns => turns.iter().any(|turn| uses(&case, Some(turn))),
        });
        // The loop scores answers with the metrics of the agent.
        let scores = agent.enabled_loop().is_some();
        if is_used || scores || agent.test_cases.is_empty() || !own.iter().any(MetricConfig::enabled) {
            return;
        }
        let pointer = "evaluations.metrics";
        let Some(place) = self.named_place(root, pointer) else {
            return;
        };
        let message =
            "these metrics check no test case: each case has `evaluations` of its own, which replace them";
        let diagnostic = Diagnostic::warning(Code::UnusedMetrics, message)
            .about(pointer)
            .with_help("list them in the cases, too, or delete the `evaluations` of the cases");
        self.findings.add(&self.tree, place, diagnostic);
    }

    pub(crate) fn finish(mut self, parts: Option<Parts>) -> Load {
        for (place, diagnostic) in self.tree.take_warnings() {
            self.findings.add(&self.tree, place, diagnostic);
        }
        let mut secrets = Secrets::of(&self.tree);
        secrets.values.sort_unstable();
        secrets.values.dedup();
        let mut sources = Sources::default();
        let redactor = Redactor::new(secrets.values.iter().cloned());
        // The sources are shown only with diagnostics.
        let is_shown = !self.findings.diagnostics.is_empty();
        for (file, source) in self.tree.sources() {
            let text = if is_shown {
                mask_file(&self.tree, file, &secrets, &redactor)
            } else {
                source.text.clone()
            };
            sources.add(source.path.to_path_buf(), text);
        }
        let dropped = self.findings.dropped_count();
        let mut diagnostics = sort_and_limit(self.findings.diagnostics, dropped, &sources);
        for text in diagnostics.iter_mut().flat_map(Diagnostic::texts) {
            redactor.mask_text(text);
        }
        let has_errors = diagnostics.iter().any(Diagnostic::is_error);
        let mut tree = self.tree;
        tree.shrink();
        let agent = parts
            .filter(|_| !has_errors)
            .map(|Parts { root, agent }| LoadedAgent {
                agent: Arc::new(ResolvedAgent {
                    secrets: secrets.values.into_iter().map(SecretString::from).collect(),
                    ..agent
                }),
                places: Places::new(tree, root),
            });
        Load {
            agent,
            diagnostics,
            sources,
        }
    }
}

/// Whether any check of a case can fail.
fn checks_anything(agent: &Agent, case: &TestCase) -> bool {
    let gates = |turn: Option<&Turn>| {
        agent
            .metrics_for(case, turn)
            .iter()
            .any(|metric| metric.enabled() && metric.gates())
    };
    // The end of a conversation with a simulated user is checked.
    if case.user.is_some()
        || case.expected_agent.is_some()
        || case.conversation_metrics().any(MetricConfig::gates)
    {
        return true;
    }
    if case.turns.is_empty() {
        let expects = case
            .expected_tools
            .as_ref()
            .is_some_and(|tools| !tools.is_empty());
        let forbids = !case.forbidden_tools.is_empty() || !case.expected_approvals.is_empty();
        return expects || forbids || gates(None);
    }
    case.turns.iter().any(|turn| {
        let expects = turn
            .expected_tools
            .as_ref()
            .is_some_and(|tools| !tools.is_empty());
        let forbids = !turn.forbidden_tools.is_empty() || !turn.expected_approvals.is_empty();
        expects || forbids || gates(Some(turn))
    })
}

/// Sorts diagnostics in the order of the files and limits their number. Those without a place come first.
fn sort_and_limit(mut diagnostics: Vec<Diagnostic>, dropped: usize, sources: &Sources) -> Vec<Diagnostic> {
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
        // Keep errors rather than warnings, in their order.
        diagnostics.sort_by_key(|diagnostic| Reverse(diagnostic.severity == Severity::Error));
        diagnostics.truncate(MAX_DIAGNOSTICS);
        let more = total - MAX_DIAGNOSTICS;
        diagnostics.push(Diagnostic::note(
            Code::TooManyProblems,
            format!("and {more} more problems"),
        ));
    }
    // Diagnostics quote names and values of the file, and a terminal interprets control characters.
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
