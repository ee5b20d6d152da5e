//! Problems of `quality_loop:` that can be seen when the agent is loaded, each with its place.

use holodeck_model::{
    Code, Diagnostic, LoopStrategy, MetricConfig, MinImprovement, QualityLoopConfig, closest,
};
use holodeck_orchestrator::split_command;
use holodeck_yaml::{Load, LoadedAgent};

use crate::agent::inventory::loop_metrics;

/// Reports what can't work, and warns of what may mislead.
pub(crate) fn check(load: &mut Load) {
    let Some(agent) = &load.agent else { return };
    let Some(config) = agent.config.enabled_loop() else {
        return;
    };
    let mut found = Vec::new();
    check_scorer(agent, config, &mut found);
    check_noise(agent, config, &mut found);
    warn_gating(agent, config, &mut found);
    warn_conversations(agent, &mut found);
    warn_limits(agent, config, &mut found);
    load.diagnostics.extend(found);
    if load.has_errors() {
        load.agent = None;
    }
}

fn at(agent: &LoadedAgent, pointer: &str, diagnostic: Diagnostic) -> Diagnostic {
    let location = agent.locate(pointer).or_else(|| agent.locate("quality_loop"));
    diagnostic.at(location).about(pointer)
}

fn check_scorer(agent: &LoadedAgent, config: &QualityLoopConfig, found: &mut Vec<Diagnostic>) {
    let scorer = &config.scorer;
    let signals = &scorer.signals;
    let has_signals = signals.commands().next().is_some();
    if scorer.metrics.is_empty() && scorer.judge.is_none() && !has_signals {
        let message = "`quality_loop` has nothing that scores an answer";
        let error = Diagnostic::error(Code::OneOfRequired, message)
            .with_help("name `metrics`, a `judge` or `signals` under `scorer`");
        found.push(at(agent, "quality_loop.scorer", error));
    }
    let all = agent.config.evaluations.as_ref();
    let all = all.map_or(&[][..], |evaluations| &evaluations.metrics);
    for (index, name) in scorer.metrics.iter().enumerate() {
        let pointer = format!("quality_loop.scorer.metrics.{index}");
        let named: Vec<&MetricConfig> = all.iter().filter(|metric| metric.name() == name).collect();
        let problem = |message: String, help: String| {
            let error = Diagnostic::error(Code::InconsistentValues, message).with_help(help);
            at(agent, &pointer, error)
        };
        if named.is_empty() {
            let meant = closest(name, all.iter().map(MetricConfig::name));
            let help = meant.map_or_else(
                || "name a metric of `evaluations.metrics`".to_owned(),
                |meant| format!("did you mean `{meant}`?"),
            );
            found.push(problem(
                format!("`evaluations.metrics` has no metric `{name}`"),
                help,
            ));
        } else if named.iter().all(|metric| !metric.enabled()) {
            let help = "enable it, or remove it here".to_owned();
            found.push(problem(format!("metric `{name}` is disabled"), help));
        } else if named.iter().any(|metric| metric.needs_ground_truth()) {
            let message =
                format!("metric `{name}` compares with a `ground_truth`, which a quality loop does not have");
            let help =
                "the loop sees what it sees in production: use a judge or a check with a `value`".to_owned();
            found.push(problem(message, help));
        } else if named
            .iter()
            .any(|metric| matches!(metric, MetricConfig::GoalSuccess(_)))
        {
            let help = "use a metric of answers".to_owned();
            found.push(problem(
                format!("metric `{name}` measures conversations, not answers"),
                help,
            ));
        }
    }
    for (name, command) in signals.commands() {
        if let Err(problem) = split_command(command) {
            let message = format!("`signals.{name}` can't be run: {problem}");
            let error = Diagnostic::error(Code::InconsistentValues, message);
            found.push(at(agent, &format!("quality_loop.scorer.signals.{name}"), error));
        }
    }
}

/// `min_improvement: {noise: …}` needs a scorer whose noise is measured.
fn check_noise(agent: &LoadedAgent, config: &QualityLoopConfig, found: &mut Vec<Diagnostic>) {
    if !matches!(config.min_improvement, MinImprovement::Noise(_)) {
        return;
    }
    let mut metrics = loop_metrics(agent, config).map(|(_, metric)| metric);
    let unknown = metrics.find(|metric| match metric.judging() {
        Some(judging) => judging.repeats < 2,
        None => matches!(metric, MetricConfig::Code(_)),
    });
    let judge = config.scorer.judge.as_ref();
    let judge = judge.filter(|judge| judge.judge_repeats.unwrap_or(1) < 2);
    let (what, help) = match (unknown, judge) {
        (Some(metric), _) if metric.judging().is_none() => (
            format!("metric `{}`", metric.name()),
            "give `min_improvement` in points",
        ),
        (Some(metric), _) => (
            format!("metric `{}`", metric.name()),
            "set its `judge_repeats` to 2 or more, or give `min_improvement` in points",
        ),
        (None, Some(_)) => (
            "the judge of the scorer".to_owned(),
            "set its `judge_repeats` to 2 or more, or give `min_improvement` in points",
        ),
        (None, None) => return,
    };
    let message = format!("`min_improvement.noise` can't be used: the noise of {what} is not measured");
    let error = Diagnostic::error(Code::InconsistentValues, message).with_help(help);
    found.push(at(agent, "quality_loop.min_improvement", error));
}

/// A metric that drives the loop and also decides about the test measures how well the loop works, not the agent.
fn warn_gating(agent: &LoadedAgent, config: &QualityLoopConfig, found: &mut Vec<Diagnostic>) {
    let cases = &agent.config.test_cases;
    // A case with metrics of its own is not gated by those of the agent.
    let gated = cases
        .detailed()
        .filter(|(_, case)| case.evaluations.is_empty())
        .count();
    let plain = cases.len().saturating_sub(cases.detailed().count());
    if gated + plain == 0 {
        return;
    }
    for (index, name) in config.scorer.metrics.iter().enumerate() {
        let mut metrics = loop_metrics(agent, config);
        let gates = metrics.any(|(_, metric)| metric.name() == name && metric.gates());
        if gates {
            let message = format!("metric `{name}` both drives the quality loop and gates the test cases");
            let warning = Diagnostic::warning(Code::InconsistentValues, message).with_help(
                "an answer that was optimised for a metric passes it too easily: gate with another one",
            );
            found.push(at(
                agent,
                &format!("quality_loop.scorer.metrics.{index}"),
                warning,
            ));
        }
    }
}

fn warn_conversations(agent: &LoadedAgent, found: &mut Vec<Diagnostic>) {
    let mut cases = agent.config.test_cases.detailed();
    let Some((index, _)) = cases.find(|(_, case)| case.is_conversation()) else {
        return;
    };
    let message = "`quality_loop` does not improve the answers of conversations";
    let warning = Diagnostic::warning(Code::NoEffect, message)
        .with_help("cases with `turns` or a `user` run as without it");
    found.push(at(agent, &format!("test_cases.{index}"), warning));
}

fn warn_limits(agent: &LoadedAgent, config: &QualityLoopConfig, found: &mut Vec<Diagnostic>) {
    let mut unused = |field: &str, why: &str| {
        let pointer = format!("quality_loop.{field}");
        // Only a field that is written is worth a warning.
        if let Some(location) = agent.locate(&pointer) {
            let message = format!("`{field}` in `quality_loop` has no effect");
            let warning = Diagnostic::warning(Code::NoEffect, message).with_help(format!("remove it; {why}"));
            found.push(warning.at(Some(location)).about(pointer));
        }
    };
    match config.strategy {
        LoopStrategy::Refine => {
            for field in ["n", "max_failures", "after_side_effects"] {
                unused(field, "it belongs to `strategy: best_of_n`");
            }
        }
        LoopStrategy::BestOfN => {
            for field in [
                "max_iterations",
                "min_improvement",
                "patience",
                "oscillation",
                "stop_on",
            ] {
                unused(field, "`strategy: best_of_n` makes `n` independent answers");
            }
        }
    }
    if let (Some(soft), Some(hard)) = (config.timeout_seconds, config.hard_timeout_seconds)
        && hard <= soft
    {
        unused("timeout_seconds", "`hard_timeout_seconds` ends the loop before");
    }
}
