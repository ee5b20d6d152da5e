//! A loop ends within its bounds whatever a scorer and an improver do.

use proptest::prelude::*;

use super::*;

/// The behaviour of a call.
#[derive(Clone, Debug)]
enum Act {
    Score(Option<f64>, Option<f64>, bool),
    Fail,
    Panic,
    Hang,
}

fn act() -> impl Strategy<Value = Act> {
    let score = prop_oneof![
        6 => (0.0..100.0).prop_map(Some),
        1 => prop_oneof![Just(f64::NAN), Just(f64::INFINITY), Just(f64::NEG_INFINITY), Just(-5.0), Just(1e300)]
            .prop_map(Some),
        1 => Just(None),
    ];
    let noise = prop_oneof![Just(None), (0.0..10.0).prop_map(Some), Just(Some(f64::NAN))];
    prop_oneof![
        20 => (score, noise, prop::bool::weighted(0.05)).prop_map(|(score, noise, hopeless)| {
            Act::Score(score, noise, hopeless)
        }),
        1 => Just(Act::Fail),
        1 => Just(Act::Panic),
        1 => Just(Act::Hang),
    ]
}

fn rules() -> impl Strategy<Value = LoopRules> {
    let improvement = prop_oneof![
        (0.0..20.0).prop_map(MinImprovement::Points),
        (0.0..5.0).prop_map(|noise| MinImprovement::Noise(NoiseMultiple { noise })),
    ];
    let stops = prop::sample::subsequence(
        vec![
            holodeck_model::StopOn::Stagnation,
            holodeck_model::StopOn::Oscillation,
        ],
        0..=2,
    );
    let limits = (
        prop::option::of(0.1..20.0),
        0.1..40.0,
        prop::option::of(1_u64..5_000),
    );
    (
        0.0..100.0,
        1_u32..=50,
        improvement,
        1_u32..4,
        stops,
        limits,
        any::<(bool, bool, bool)>(),
        0_u32..4,
    )
        .prop_map(
            |(threshold, max_iterations, min_improvement, patience, stop_on, limits, flags, failures)| {
                LoopRules {
                    strategy: if flags.0 {
                        LoopStrategy::BestOfN
                    } else {
                        LoopStrategy::Refine
                    },
                    threshold,
                    max_iterations,
                    min_improvement,
                    patience,
                    stop_on,
                    returns: if flags.1 {
                        LoopReturn::Last
                    } else {
                        LoopReturn::Best
                    },
                    on_scorer_error: if flags.2 {
                        OnScorerError::Return
                    } else {
                        OnScorerError::Fallback
                    },
                    timeout_seconds: limits.0,
                    hard_timeout_seconds: Some(limits.1),
                    budget: LoopBudget {
                        max_total_tokens: limits.2,
                        max_cost_usd: None,
                    },
                    max_failures: failures,
                    ..LoopRules::default()
                }
            },
        )
}

/// Does what the acts say; after the last one it repeats the first score of 1.
struct Actor {
    acts: Mutex<VecDeque<(Act, f64)>>,
    calls: AtomicU32,
    clock: Arc<ManualClock>,
}

impl Actor {
    fn new(acts: Vec<(Act, f64)>, clock: &Arc<ManualClock>) -> Self {
        Self {
            acts: Mutex::new(acts.into()),
            calls: AtomicU32::new(0),
            clock: Arc::clone(clock),
        }
    }

    async fn act(&self) -> Result<Assessment, String> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let next = self.acts.lock().unwrap().pop_front();
        let (act, delay) = next.unwrap_or((Act::Score(Some(1.0), None, false), 0.0));
        self.clock.advance(delay);
        match act {
            Act::Score(score, noise, unachievable) => Ok(Assessment {
                score,
                noise,
                unachievable,
                ..Assessment::default()
            }),
            Act::Fail => Err("failed".to_owned()),
            // Without the message of the panic hook.
            Act::Panic => std::panic::resume_unwind(Box::new("panicked")),
            Act::Hang => std::future::pending().await,
        }
    }
}

#[async_trait]
impl Scorer for Actor {
    async fn score(&self, _: &LoopOutput) -> Result<Assessment, ScorerError> {
        self.act().await.map_err(ScorerError::new)
    }
}

#[async_trait]
impl Improver for Actor {
    async fn improve(
        &self,
        _: &LoopOutput,
        _: &Assessment,
        iteration: u32,
    ) -> Result<LoopOutput, ImproveError> {
        let made = self.act().await.map_err(ImproveError::new)?;
        // Some outputs repeat.
        let name = made.score.map_or(0, |score| (score as i64) % 3);
        Ok(LoopOutput {
            usage: made.noise.map(|_| UsageMetadata {
                usage: Some(TokenUsage::new(u64::from(iteration) * 100, 1)),
                cost_usd: None,
            }),
            ..LoopOutput::new(format!("{name}"))
        })
    }
}

fn run(
    rules: &LoopRules,
    scoring: Vec<(Act, f64)>,
    improving: Vec<(Act, f64)>,
) -> (u32, u32, LoopOutput, QualityAssessment, LoopReport) {
    let clock = Arc::new(ManualClock::default());
    let scorer = Actor::new(scoring, &clock);
    let improver = Actor::new(improving, &clock);
    let control = LoopControl::default().timed_by(clock);
    let quality = QualityLoop::new(rules.clone()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let initial = LoopOutput::new("initial");
    let (output, assessment, report) = runtime.block_on(quality.run(initial, &scorer, &improver, &control));
    let count = |actor: &Actor| actor.calls.load(Ordering::Relaxed);
    (count(&scorer), count(&improver), output, assessment, report)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_loop_ends_within_its_bounds(
        rules in rules(),
        scoring in prop::collection::vec((act(), 0.0..3.0), 0..60),
        improving in prop::collection::vec((act(), 0.0..3.0), 0..60),
    ) {
        let (scorings, improvements, output, assessment, report) = run(&rules, scoring, improving);
        prop_assert!(scorings <= rules.max_iterations);
        prop_assert!(improvements < rules.max_iterations);
        let ends = report.iterations.iter().filter(|record| record.termination_reason.is_some());
        prop_assert!(ends.count() <= 1);
        prop_assert!(report.iterations.iter().all(|record| (0.0..=100.0).contains(&record.output_quality)));
        match report.returned {
            None => {
                prop_assert!(report.iterations.is_empty());
                prop_assert_eq!(output.text.as_str(), "initial");
                prop_assert_eq!(assessment.score, None);
            }
            Some(index) => {
                let record = &report.iterations[index as usize];
                prop_assert_eq!(assessment.score, Some(record.output_quality));
                prop_assert_eq!(assessment.passed, record.success);
                let last = report.iterations.len() - 1;
                let best = report.iterations.iter().map(|record| record.output_quality).fold(0.0, f64::max);
                if report.termination_reason == TerminationReason::Timeout || rules.returns == LoopReturn::Last {
                    prop_assert_eq!(index as usize, last);
                } else {
                    prop_assert_eq!(record.output_quality, best);
                }
            }
        }
        prop_assert_eq!(report.should_fallback && report.returned.is_some(), false);
        if report.termination_reason == TerminationReason::ThresholdMet {
            prop_assert!(assessment.passed || rules.returns == LoopReturn::Last);
        }
    }

    #[test]
    fn a_stored_loop_is_decided_the_same_way_again(
        rules in rules(),
        scoring in prop::collection::vec((act(), 0.0..3.0), 0..60),
        improving in prop::collection::vec((act(), 0.0..3.0), 0..60),
    ) {
        let report = run(&rules, scoring, improving).4;
        let stored = serde_json::to_string(&report).unwrap();
        let stored: LoopReport = serde_json::from_str(&stored).expect(&stored);
        prop_assert_eq!(&stored, &report);
        let again = replay(stored.rules, &stored.steps).unwrap();
        prop_assert_eq!(again.termination_reason, Some(report.termination_reason));
        prop_assert_eq!(again.returned, report.returned);
        let scores: Vec<f64> = again.iterations.iter().map(|iteration| iteration.score).collect();
        let recorded: Vec<f64> = report.iterations.iter().map(|record| record.output_quality).collect();
        prop_assert_eq!(scores, recorded);
        // Every step but the last one continued.
        let mut state = LoopState::new(report.rules.clone());
        let stops = report.steps.iter().filter(|step| matches!(state.step(step), LoopVerdict::Stop(_)));
        prop_assert_eq!(stops.count(), 1);
    }
}
