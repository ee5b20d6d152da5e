//! Every command with the verdicts of a finished run, after one thing that decides has changed: the rules of the
//! table in `docs/comparing.md`, for each thing, by name.

mod changes;

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use holodeck_backend_api::{BackendError, BackendEvent};
use holodeck_eval::{JUDGE_PROMPTS, Programs, VerdictFormat};
use holodeck_judging::{JudgeSettings, Judges, OpenJudge};
use holodeck_model::{
    CheckIdentities, CodeMetric, Digest, Executor, ExecutorRecord, GraderFailure, GraderFiles, MetricConfig,
    ModelConfig, Redactor, RoutingDecision, Shard,
};
use holodeck_reports::{Comparison, GateOptions, GateReasonKind, RunReader, compare};
use holodeck_runner::{
    Again, CurrentDeciders, FailedIn, MergeError, MergeRequest, Plan, Renew, RunControl, RunError,
    RunOutcome, Selection, TestRequest, merge_shards, regrade, run_tests,
};
use holodeck_runs::{AgentRuns, Grade, Journal, RunFlags, RunOwner, RunStore};
use holodeck_testkit::{ScriptedBackend, ScriptedTurn};
use holodeck_turn::{
    FileReader, Prices, TurnRunner,
    documents::{Converter, Isolation},
};
use serde_json::{Value, json};

use self::changes::{Asked, BASE, CHANGES, Change, KIND, MODULE, PROGRAM, TALKS};
use crate::support::{Events, Project};

/// The scripted judge and the scripted program give every answer a full score.
struct Kindly;

#[async_trait]
impl Judges for Kindly {
    async fn open(&self, _: Option<&ModelConfig>, _: VerdictFormat) -> Result<OpenJudge, BackendError> {
        let verdict = json!({"score": 10, "reason": "good"});
        let backend = ScriptedBackend::answering(move |_| {
            ScriptedTurn::text("good").and_event(BackendEvent::StructuredOutput(verdict.clone()))
        });
        Ok(OpenJudge {
            backend: Arc::new(backend),
            turns: Arc::new(TurnRunner {
                files: FileReader::new(Converter::new(Isolation::None), Duration::from_mins(1)),
                prices: Prices::embedded(),
                model: "judge".to_owned(),
                timeout: Some(Duration::from_mins(1)),
                timeout_source: "`llm_timeout`".to_owned(),
            }),
        })
    }

    fn name(&self, _: Option<&ModelConfig>) -> String {
        "judge".to_owned()
    }

    async fn close(&self) -> Result<(), BackendError> {
        Ok(())
    }
}

#[async_trait]
impl Programs for Kindly {
    async fn run(&self, _: &CodeMetric, _: Value) -> Result<Value, GraderFailure> {
        Ok(json!({"score": 1.0, "passed": true}))
    }
}

/// The specialist that answers every message.
fn helper() -> BackendEvent {
    BackendEvent::Executed(Box::new(ExecutorRecord {
        executor: Some(Executor::Sdk),
        agent: Some("helper".to_owned()),
        decision: Some(RoutingDecision::SdkExecuted),
        ..ExecutorRecord::default()
    }))
}

/// An agent and the module of its grader.
struct Bench {
    project: Project,
    module: &'static str,
}

impl Bench {
    fn new(base: &str) -> Self {
        Self {
            project: Project::new(base),
            module: MODULE,
        }
    }

    fn change(&mut self, change: &Change) {
        let text = if change.from.is_empty() {
            change.base.to_owned()
        } else {
            assert!(change.base.contains(change.from), "{}", change.from);
            change.base.replacen(change.from, change.to, 1)
        };
        self.project.write(&text);
        self.module = change.module;
    }

    fn checks(&self) -> Arc<CheckIdentities> {
        let agent = self.project.agent();
        let metrics = agent.config.metrics(None);
        let programs = metrics.filter_map(|(_, metric)| match metric {
            MetricConfig::Code(code) => Some(CheckIdentities::program(code)),
            _ => None,
        });
        let digest = Digest::of(&json!(self.module));
        let files: GraderFiles = programs
            .map(|program| (program, [("graders.py".to_owned(), digest)].into()))
            .collect();
        Arc::new(CheckIdentities::new(&agent, JUDGE_PROMPTS, Arc::default(), files))
    }

    fn now(&self) -> CurrentDeciders {
        CurrentDeciders {
            agent: self.project.agent(),
            checks: self.checks(),
        }
    }

    fn backend() -> ScriptedBackend {
        ScriptedBackend::answering(|_| {
            ScriptedTurn::nothing()
                .and_event(helper())
                .and_called("look", json!({"id": 1}), "found")
                .and_text("an answer")
        })
    }

    fn request(&self) -> TestRequest {
        let mut request = self.project.request(&Self::backend());
        request.checks = self.checks();
        request.judge = Some(Self::judge());
        request.users = Some(Arc::new(Kindly));
        request.programs = Arc::new(Kindly);
        request.settings.concurrency = 1;
        // The agent itself is the same.
        request.fingerprint = [("model".to_owned(), "m".to_owned())].into();
        request
    }

    fn judge() -> JudgeSettings {
        JudgeSettings::new(Arc::new(Kindly), 1)
    }

    async fn run(&self) -> RunOutcome {
        run(self.request()).await
    }

    fn compare(&self, before: &str, after: &str, options: &GateOptions) -> Comparison {
        let owner = RunOwner::new(Path::new("agent.yaml"), Some("a"));
        let runs = AgentRuns::new(RunStore::new(self.project.dir.path()), owner);
        let redactor = Redactor::default();
        let reader = RunReader::new(&runs, &redactor, HashMap::new());
        let read = |name: &str| reader.read(name, &[]).unwrap();
        let (before, after) = (read(before), read(after));
        compare(&reader, &before, &after, options).unwrap()
    }
}

async fn run(request: TestRequest) -> RunOutcome {
    let outcome = run_tests(request, &RunControl::new(), &mut Events::default()).await;
    outcome.unwrap()
}

fn path(outcome: &RunOutcome) -> String {
    outcome.journal_path().to_str().unwrap().to_owned()
}

fn grades(journal: &str) -> Vec<Grade> {
    let journal = Journal::open(journal.as_ref()).unwrap();
    (0..journal.unit_count())
        .filter_map(|unit| journal.verdict(unit))
        .map(Result::unwrap)
        .collect()
}

fn assert_named(text: &str, change: &Change) {
    for name in change.names {
        assert!(text.contains(name), "`{name}` is not in: {text}");
    }
    // Nothing else is named.
    assert_eq!(
        text.matches("the expectation `").count() + text.matches(" of `").count(),
        change.names.len(),
        "{text}"
    );
}

const GATE: GateOptions = GateOptions {
    gate: true,
    alpha: 0.05,
    allow_missing: false,
    allow_changed_expectations: false,
    allow_changed_judges: false,
    max_new_failures: None,
};

#[tokio::test]
async fn nothing_changed_keeps_every_verdict() {
    for base in [BASE, TALKS] {
        keeps_every_verdict(&Bench::new(base)).await;
    }
}

async fn keeps_every_verdict(bench: &Bench) {
    let first = bench.run().await;
    assert_eq!(first.head.summary.passed, 2, "{:?}", first.head.summary);
    let second = bench.run().await;
    let comparison = bench.compare(&path(&first), &path(&second), &GATE);
    assert_eq!(comparison.exit().code(), 0, "{:?}", comparison.gate);
    assert_eq!(comparison.counts.with_verdict, 2);
    let before = grades(&path(&first));
    let mut request = bench.request();
    request.resume = Some(first.journal_path().to_owned());
    let resumed = run(request).await;
    assert_eq!(resumed.head.warnings, Vec::<String>::new());
    assert_eq!(grades(&path(&resumed)), before);
}

#[tokio::test]
async fn a_resumed_run_grades_again_what_something_else_decides_and_says_so() {
    for change in CHANGES {
        let mut bench = Bench::new(change.base);
        let first = bench.run().await;
        let lines = fs::read_to_string(first.journal_path()).unwrap().lines().count();
        bench.change(change);
        let mut request = bench.request();
        request.resume = Some(first.journal_path().to_owned());
        let resumed = run(request).await;
        let warnings = resumed.head.warnings.join("\n");
        assert!(
            warnings.contains("graded again when the run was resumed"),
            "{warnings}"
        );
        assert_named(&warnings, change);
        // Every verdict is one of what decides now, and no answer was asked for.
        let journal = Journal::open(resumed.journal_path()).unwrap();
        let ran = fs::read_to_string(resumed.journal_path()).unwrap();
        assert!(ran.lines().count() > lines);
        assert_eq!(
            ran.matches("\"ran\"").count(),
            journal.unit_count(),
            "{}",
            change.to
        );
        drop(journal);
        let again = bench.run().await;
        let comparison = bench.compare(&path(&resumed), &path(&again), &GATE);
        assert_eq!(comparison.changed, [], "{}", change.to);
        assert_eq!(comparison.counts.with_verdict, 2, "{}", change.to);
    }
}

#[tokio::test]
async fn shards_are_merged_only_if_all_were_graded_as_the_file_says() {
    for change in CHANGES {
        let mut bench = Bench::new(change.base);
        let shards = |bench: &Bench, number: u32| {
            let mut request = bench.request();
            request.selection.shard = Some(Shard::new(number, 2).unwrap());
            request
        };
        let first = run(shards(&bench, 1)).await;
        let second = run(shards(&bench, 2)).await;
        bench.change(change);
        let journals = [first, second].map(|outcome| outcome.journal_path().to_owned());
        let request = bench.request();
        let merge = MergeRequest {
            agent: request.agent,
            agent_path: request.agent_path,
            identities: request.identities,
            redactor: request.redactor,
            checks: request.checks,
            metadata: request.metadata,
        };
        let merged = merge_shards(merge, &journals, &RunControl::new(), &mut Events::default()).await;
        match merged.unwrap_err() {
            RunError::Merge(error @ MergeError::OtherDeciders { .. }) => {
                assert_named(&error.to_string(), change);
            }
            other => panic!("{}: {other}", change.to),
        }
    }
}

#[tokio::test]
async fn a_comparison_names_what_changed_and_its_gate_does_not_pass() {
    for change in CHANGES {
        let mut bench = Bench::new(change.base);
        let before = bench.run().await;
        let mut baseline = Vec::new();
        before.write_baseline(&mut baseline).unwrap();
        let baseline_path = bench.project.dir.path().join("baseline.json");
        fs::write(&baseline_path, baseline).unwrap();
        bench.change(change);
        let after = bench.run().await;
        let sources: [PathBuf; 3] = [
            before.journal_path().to_owned(),
            before.run_file.clone(),
            baseline_path,
        ];
        for source in sources {
            let compare = |options: &GateOptions| {
                bench.compare(
                    source.to_str().unwrap(),
                    after.run_file.to_str().unwrap(),
                    options,
                )
            };
            let comparison = compare(&GATE);
            let context = format!("{} → {} ({})", change.from, change.to, source.display());
            assert_eq!(comparison.exit().code(), 4, "{context}: {:?}", comparison.gate);
            let reasons = comparison.gate.reasons.iter();
            let decisive = reasons.filter(|reason| {
                matches!(
                    reason.kind,
                    GateReasonKind::OtherExpectation | GateReasonKind::OtherJudge
                )
            });
            let texts: Vec<&str> = decisive.map(|reason| reason.text.as_str()).collect();
            assert_named(&texts.join("\n"), change);
            assert_eq!(comparison.counts.with_verdict, 2 - change.cases, "{context}");
            let counts = &comparison.counts;
            assert_eq!(
                counts.other_expectation + counts.other_judge,
                change.cases,
                "{context}"
            );
            // Scores of the checks that are the same are tested.
            let tested = |metric: &str| {
                let mut metrics = comparison.metrics.iter();
                metrics
                    .find(|test| test.metric == metric)
                    .map_or(0, |test| test.pairs)
            };
            let metrics: &[&str] = match change.base {
                TALKS => &[],
                _ => &["contains", "rouge", "Kind", "check"],
            };
            for metric in metrics {
                let is_changed = change
                    .names
                    .iter()
                    .any(|name| name.ends_with(&format!("`{metric}`")));
                let expected = if is_changed { 2 - change.cases } else { 2 };
                assert_eq!(tested(metric), expected, "{context}: {metric}");
            }
            let allowed = compare(&GateOptions {
                allow_changed_expectations: true,
                allow_changed_judges: true,
                ..GATE
            });
            // Equal scores are comparable; what changed is not a reason any more.
            assert_eq!(allowed.gate.reasons, [], "{context}");
            assert_eq!(allowed.exit().code(), 0, "{context}");
            assert_named(&allowed.changed_names(), change);
        }
    }
}

trait ChangedNames {
    fn changed_names(&self) -> String;
}

impl ChangedNames for Comparison {
    fn changed_names(&self) -> String {
        let names: Vec<String> = self
            .changed
            .iter()
            .map(|changed| changed.difference.to_string())
            .collect();
        names.join("\n")
    }
}

#[tokio::test]
async fn each_flag_allows_only_its_kind_of_change() {
    for (change, allowed) in [
        (&CHANGES[0], [true, false]),
        (
            CHANGES.iter().find(|change| change.names == KIND).unwrap(),
            [false, true],
        ),
        (
            CHANGES.iter().find(|change| change.names == PROGRAM).unwrap(),
            [false, true],
        ),
    ] {
        let mut bench = Bench::new(change.base);
        let before = bench.run().await;
        bench.change(change);
        let after = bench.run().await;
        for (flag, is_allowed) in allowed.into_iter().enumerate() {
            let options = GateOptions {
                allow_changed_expectations: flag == 0,
                allow_changed_judges: flag == 1,
                ..GATE
            };
            let comparison = bench.compare(&path(&before), &path(&after), &options);
            assert_eq!(
                comparison.exit().code() == 0,
                is_allowed,
                "{}: {:?}",
                change.to,
                comparison.gate
            );
        }
    }
}

#[tokio::test]
async fn a_pass_that_something_else_decided_does_not_count_for_failed() {
    for change in CHANGES {
        let mut bench = Bench::new(change.base);
        let first = bench.run().await;
        let plan = |bench: &Bench| {
            let request = bench.request();
            let selection = Selection {
                failed_in: Some(FailedIn {
                    again: Again::NotPassed,
                    journals: vec![first.journal_path().to_owned()],
                    now: bench.now(),
                    flags: RunFlags::default(),
                }),
                ..Selection::default()
            };
            Plan::new(&request.agent.config.test_cases, &request.identities, &selection).unwrap()
        };
        assert_eq!(plan(&bench).cases, Vec::<usize>::new());
        bench.change(change);
        let plan = plan(&bench);
        assert_eq!(plan.cases.len(), change.cases, "{}", change.to);
        let agent = [("model".to_owned(), "m".to_owned())].into();
        let notes = plan.earlier.notes(&agent);
        assert_eq!(notes.len(), 1);
        assert!(notes[0].contains("does not count"), "{notes:?}");
        assert_named(&notes[0], change);
        // Under another agent, what passed counts, and is named.
        let other = [("model".to_owned(), "another".to_owned())].into();
        let named = plan.earlier.notes(&other).join("\n");
        assert_eq!(
            named.contains("counts, although the agent changed since: model"),
            change.cases < 2,
            "{named}"
        );
    }
}

#[tokio::test]
async fn a_watched_change_concerns_the_cases_that_it_decides_and_another_agent_all() {
    for change in CHANGES {
        let mut bench = Bench::new(change.base);
        let first = bench.run().await;
        let plan = |bench: &Bench, model: &str| {
            let request = bench.request();
            let selection = Selection {
                failed_in: Some(FailedIn {
                    again: Again::Changed {
                        agent: [("model".to_owned(), model.to_owned())].into(),
                    },
                    journals: vec![first.journal_path().to_owned()],
                    now: bench.now(),
                    flags: RunFlags::default(),
                }),
                ..Selection::default()
            };
            Plan::new(&request.agent.config.test_cases, &request.identities, &selection).unwrap()
        };
        let unchanged = plan(&bench, "m");
        assert_eq!((unchanged.cases, unchanged.earlier.answers_in), (vec![], None));
        let all = bench.request().agent.config.test_cases.len();
        let other_agent = plan(&bench, "another");
        assert_eq!(other_agent.cases.len(), all);
        // The answers of another agent are not graded again.
        assert_eq!(other_agent.earlier.answers_in, None);
        bench.change(change);
        let concerned = plan(&bench, "m");
        assert_eq!(concerned.cases.len(), change.cases, "{}", change.to);
        assert_eq!(
            concerned.earlier.answers_in.as_deref(),
            Some(first.journal_path()),
            "{}",
            change.to
        );
    }
}

#[tokio::test]
async fn a_regrade_keeps_only_verdicts_of_the_same_judge_expectation_and_grader() {
    for change in CHANGES {
        for renew in [Renew::Errors, Renew::Metrics(vec!["contains".to_owned()])] {
            let mut bench = Bench::new(change.base);
            let first = bench.run().await;
            bench.change(change);
            let request = holodeck_runner::RegradeRequest {
                judge: Some(Bench::judge()),
                programs: Arc::new(Kindly),
                checks: bench.checks(),
                renew,
                ..bench.project.regrade_request()
            };
            let old = first.journal_path().to_owned();
            let outcome = regrade(&request, &old, &RunControl::new(), &mut Events::default()).await;
            match (change.asked, outcome) {
                (Asked::Same, outcome) => drop(outcome.unwrap()),
                (Asked::Other, Err(RunError::CannotKeep { metric, reason, .. })) => {
                    let ends = [format!("`{metric}`"), format!(": {metric}`")];
                    let mut names = change.names.iter();
                    let name = names.find(|name| ends.iter().any(|end| name.ends_with(end)));
                    let decider = match name.unwrap() {
                        name if name.contains("judge") => "another judge decides now",
                        name if name.contains("grader") => "another grader decides now",
                        _ => "another expectation decides now",
                    };
                    assert_eq!(reason, decider, "{}", change.to);
                }
                (Asked::Other, outcome) => panic!("{}: {:?}", change.to, outcome.err()),
            }
        }
    }
}

#[tokio::test]
async fn a_partial_run_says_so_and_so_does_its_baseline() {
    let bench = Bench::new(BASE);
    let whole = bench.run().await;
    assert_eq!(whole.head.partial, None);
    let mut request = bench.request();
    request.selection.limit = Some(1);
    let part = run(request).await;
    assert!(
        part.head
            .provenance()
            .contains(&"partial: 1 of 2 cases".to_owned())
    );
    let mut baseline = Vec::new();
    part.write_baseline(&mut baseline).unwrap();
    let file = bench.project.dir.path().join("part.json");
    fs::write(&file, baseline).unwrap();
    for source in [
        file.to_str().unwrap(),
        part.run_file.to_str().unwrap(),
        &path(&part),
    ] {
        let comparison = bench.compare(source, &path(&whole), &GATE);
        assert!(
            comparison
                .before
                .provenance
                .contains(&"partial: 1 of 2 cases".to_owned()),
            "{source}"
        );
    }
}

#[tokio::test]
async fn another_tool_call_is_not_the_same_answer() {
    const SAME: &str = "every answer and every tool call is the same as before";
    let bench = Bench::new(BASE);
    // Of several trials, only one answer is known.
    bench
        .project
        .write(&BASE.replace("trials: 2, min_passes: 2, ", ""));
    let before = bench.run().await;
    let same = bench.compare(&path(&before), &path(&bench.run().await), &GATE);
    assert!(same.notes.iter().any(|note| note == SAME), "{:?}", same.notes);
    let mut request = bench.request();
    let other = ScriptedBackend::answering(|_| {
        ScriptedTurn::nothing()
            .and_called("look", json!({"id": 1, "all": true}), "found")
            .and_text("an answer")
    });
    request.backend = Some(Arc::new(other));
    let after = run(request).await;
    for source in [path(&before), before.run_file.to_str().unwrap().to_owned()] {
        let comparison = bench.compare(&source, &path(&after), &GATE);
        assert!(
            comparison.notes.iter().all(|note| note != SAME),
            "{:?}",
            comparison.notes
        );
    }
}

#[tokio::test]
async fn a_baseline_of_format_1_cannot_pass_a_gate() {
    let bench = Bench::new(BASE);
    let run = bench.run().await;
    let mut baseline = Vec::new();
    run.write_baseline(&mut baseline).unwrap();
    let mut old: Value = serde_json::from_slice(&baseline).unwrap();
    old["holodeck_baseline"] = json!(1);
    for case in old["cases"].as_array_mut().unwrap() {
        case.as_object_mut().unwrap().remove("deciders");
        for metric in case["metrics"].as_array_mut().unwrap() {
            metric.as_object_mut().unwrap().remove("identity");
        }
    }
    let file = bench.project.dir.path().join("old.json");
    // The marker is the first field.
    let text = old.to_string();
    fs::write(&file, text).unwrap();
    let allow = GateOptions {
        allow_changed_expectations: true,
        allow_changed_judges: true,
        ..GATE
    };
    for options in [GATE, allow] {
        let comparison = bench.compare(file.to_str().unwrap(), &path(&run), &options);
        assert_eq!(comparison.exit().code(), 4);
        let reasons = comparison.gate.reasons.iter();
        let texts: Vec<&str> = reasons.map(|reason| reason.text.as_str()).collect();
        assert!(
            texts.join("\n").contains("save it again with `--save-baseline`"),
            "{texts:?}"
        );
    }
    let without = bench.compare(file.to_str().unwrap(), &path(&run), &GateOptions::default());
    assert_eq!(without.exit().code(), 0);
    assert!(
        without.notes.iter().any(|note| note.contains("format 1")),
        "{:?}",
        without.notes
    );
}
