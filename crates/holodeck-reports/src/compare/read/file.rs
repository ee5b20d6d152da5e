//! Run files of this version and of HoloDeck 0.7, JSON reports and baselines, as runs to compare.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    path::Path,
};

use holodeck_model::{
    CaseContent, CaseDeciders, CaseState, Cases, MemoryFiles, Redactor, TestCase, Turn, identify_cases,
};

use super::{
    CaseTexts, ReadRunError,
    file_case::{FileCase, FileNotRun},
    scan::{CaseSink, JudgeOfAgent, scan},
    shorten,
};
use crate::{
    compare::{
        baseline::{BaselineCase, OLD_BASELINE_VERSION},
        run::{
            ComparedCase, ComparedRun, Metrics, RunInfo, RunKind, Source, TrialTally, answer_digest, label,
        },
    },
    explain::{collapse_whitespace, metric_reason},
};

impl FileCase {
    /// The verdict. HoloDeck 0.7 has only passes and failures: a pass that nothing checked is unchecked, and a failure
    /// that no check found is an error.
    fn state(&self) -> CaseState {
        if let Some(state) = self.state {
            return state;
        }
        let turns = self.turns.iter().flatten().filter_map(|turn| turn.tools_matched);
        let tools: Vec<bool> = self.tools_matched.into_iter().chain(turns).collect();
        let metrics = &self.metric_results;
        let mut verdicts = metrics
            .iter()
            .filter_map(|metric| metric.passed.filter(|_| metric.error.is_none()));
        let has_error = !self.errors.is_empty() || metrics.iter().any(|metric| metric.error.is_some());
        if self.passed {
            let is_checked = !tools.is_empty() || verdicts.next().is_some();
            return if is_checked {
                CaseState::Passed
            } else {
                CaseState::Unchecked
            };
        }
        let is_unanswered = self.agent_response.is_none() && !self.errors.is_empty();
        let has_failed = tools.contains(&false) || verdicts.any(|passed| !passed);
        if has_error && (is_unanswered || !has_failed) {
            CaseState::Error
        } else {
            CaseState::Failed
        }
    }

    /// The content of the case. An older file does not record the content of attached files.
    fn content(&self) -> Option<CaseContent> {
        if self.content_id.is_some() || !self.processed_files.is_empty() {
            return self.content_id;
        }
        let turns = self.turns.as_ref();
        let turns = turns.map(|turns| turns.iter().map(|turn| turn.input.as_str()).collect());
        content_of_inputs(&self.test_input, turns)
    }

    fn into_compared(self, place: usize, metrics: &mut Metrics, redactor: &Redactor) -> ComparedCase {
        let name = self.test_name.as_deref();
        let name = name.map(|name| redactor.text(name).into_owned());
        let trials = self.trials.zip(self.trials_passed);
        ComparedCase {
            label: label(name.as_deref(), &redactor.text(&self.test_input), place),
            name,
            content: self.content(),
            state: Some(self.state()),
            trials: trials.map(|(judged, passed)| TrialTally {
                judged,
                passed,
                errors: self.trial_errors.unwrap_or(0),
            }),
            scores: match &self.trial_results {
                Some(trials) => metrics.scores(trials.iter().map(|trial| trial.metric_results.as_slice())),
                None => metrics.scores(std::iter::once(self.metric_results.as_slice())),
            },
            answer: self.answers(),
            deciders: metrics.share_deciders(self.deciders),
        }
    }

    /// The digest of what the agent did.
    fn answers(&self) -> Option<String> {
        let calls = self
            .tool_invocations
            .iter()
            .map(|call| (call.name.as_str(), &call.args));
        match &self.turns {
            Some(turns) => answer_digest(turns.iter().map(|turn| turn.response.as_deref()), calls),
            None => answer_digest([self.agent_response.as_deref()], calls),
        }
    }

    fn texts(&self, redactor: &Redactor) -> CaseTexts {
        let mut reasons: Vec<String> = Vec::new();
        if self.state() != CaseState::Passed {
            let metrics = self.metric_results.iter().filter_map(metric_reason);
            reasons.extend(self.errors.iter().map(|error| collapse_whitespace(error)));
            reasons.extend(metrics.map(|reason| collapse_whitespace(&reason.line())));
        }
        let mask = |text: &str| shorten(&redactor.text(text));
        CaseTexts {
            question: mask(&self.test_input),
            answer: self.agent_response.as_deref().and_then(mask),
            reason: mask(&reasons.join("; ")),
        }
    }
}

/// The question of a case without files.
fn content_of_inputs(input: &str, turns: Option<Vec<&str>>) -> Option<CaseContent> {
    let is_single = turns.is_none();
    let turns = turns.into_iter().flatten().map(|input| Turn {
        input: input.to_owned(),
        ..Turn::default()
    });
    let case = TestCase {
        input: is_single.then(|| input.to_owned()),
        turns: turns.collect(),
        ..TestCase::default()
    };
    let identities = identify_cases(&Cases::from_iter([case]), &MemoryFiles::new());
    identities.first().map(|identity| identity.content)
}

/// Reads a run without its texts.
pub(super) fn read(name: &str, path: &Path, redactor: &Redactor) -> Result<ComparedRun, ReadRunError> {
    let mut lines = Lines {
        cases: Vec::new(),
        metrics: Metrics::default(),
        redactor,
    };
    let head = scan(path, &mut lines)?;
    let kind = match (head.baseline, head.schema_version) {
        (Some(_), _) => RunKind::Baseline,
        (None, Some(_)) => RunKind::RunFile,
        (None, None) => RunKind::Original,
    };
    let mut cases = lines.cases;
    let old_baseline = head.baseline == Some(OLD_BASELINE_VERSION);
    if old_baseline {
        // Its digests are of another kind.
        for case in &mut cases {
            case.answer = None;
        }
    }
    if kind == RunKind::Original {
        name_judges(&mut cases, &head.judge);
    }
    let is_complete = cases.iter().all(|case| case.state.is_some());
    let mask = |text: String| redactor.text(&text).into_owned();
    let info = RunInfo {
        name: name.to_owned(),
        kind,
        path: path.to_owned(),
        run_id: head.run_id,
        agent_name: mask(head.agent_name),
        model: head.model.map(mask),
        at: head.at,
        unfinished: head.because.or(head.ended).filter(|_| !is_complete).map(mask),
        provenance: head.provenance.into_iter().map(mask).collect(),
        states: BTreeMap::new(),
        agent_parts: head.agent_parts,
        old_baseline,
    };
    let source = if kind == RunKind::Baseline {
        Source::Baseline
    } else {
        Source::File
    };
    Ok(ComparedRun::new(info, cases, source))
}

/// Adds the judge of the agent where a file of HoloDeck 0.7 names none.
fn name_judges(cases: &mut [ComparedCase], judge: &JudgeOfAgent) {
    let model = match judge {
        JudgeOfAgent::Unknown => return,
        JudgeOfAgent::Default => "the default judge of HoloDeck 0.7",
        JudgeOfAgent::Named(model) => model,
    };
    let mut metrics = Metrics::default();
    for score in cases.iter_mut().flat_map(|case| &mut case.scores) {
        let identity = &score.metric;
        if identity.source.is_judge(&identity.key.name) && identity.source.model.is_none() {
            let mut named = (**identity).clone();
            named.source.model = Some(model.to_owned());
            score.metric = metrics.share(named);
        }
    }
}

/// The texts of the cases at these places.
pub(super) fn texts(
    path: &Path,
    places: &BTreeSet<usize>,
    redactor: &Redactor,
) -> Result<HashMap<usize, CaseTexts>, ReadRunError> {
    let mut texts = Texts {
        place: 0,
        places,
        redactor,
        found: HashMap::new(),
    };
    scan(path, &mut texts)?;
    Ok(texts.found)
}

struct Lines<'a> {
    cases: Vec<ComparedCase>,
    metrics: Metrics,
    redactor: &'a Redactor,
}

impl CaseSink for Lines<'_> {
    fn case(&mut self, case: FileCase) {
        let place = self.cases.len();
        let case = case.into_compared(place, &mut self.metrics, self.redactor);
        self.cases.push(case);
    }

    fn not_run(&mut self, case: FileNotRun) {
        let name = case.test_name.map(|name| self.redactor.text(&name).into_owned());
        self.cases.push(ComparedCase {
            label: label(name.as_deref(), "", case.index),
            name,
            content: None,
            state: None,
            trials: None,
            scores: Vec::new(),
            deciders: self.metrics.share_deciders(CaseDeciders::default()),
            answer: None,
        });
    }

    fn baseline_case(&mut self, case: BaselineCase) {
        let place = self.cases.len();
        let case = case.into_compared(place, &mut self.metrics);
        self.cases.push(case);
    }
}

struct Texts<'a> {
    /// Of the next case.
    place: usize,
    places: &'a BTreeSet<usize>,
    redactor: &'a Redactor,
    found: HashMap<usize, CaseTexts>,
}

impl Texts<'_> {
    fn add(&mut self, texts: impl FnOnce(&Redactor) -> CaseTexts) {
        if self.places.contains(&self.place) {
            self.found.insert(self.place, texts(self.redactor));
        }
        self.place += 1;
    }
}

impl CaseSink for Texts<'_> {
    fn case(&mut self, case: FileCase) {
        self.add(|redactor| case.texts(redactor));
    }

    fn not_run(&mut self, _: FileNotRun) {
        self.place += 1;
    }

    fn baseline_case(&mut self, case: BaselineCase) {
        self.add(|redactor| CaseTexts {
            reason: case.reason.map(|reason| redactor.text(&reason).into_owned()),
            ..CaseTexts::default()
        });
    }
}
