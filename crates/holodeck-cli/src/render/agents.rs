//! Renders specialist agents, and how they are selected.

use holodeck::{
    RoutingReport,
    model::{AgentDoc, AgentMode, Tier},
    orchestrator::{AgentDefinition, Route, ScoredAgent, SelectedBy, Selection},
    reports::format::{self, count, printable},
};

use super::{
    shown_path,
    style::{dim, strong},
    text::{fit, width},
};

/// At most this number of wrong tasks is listed.
const MAX_TASKS: usize = 50;

fn tier(tier: Tier) -> &'static str {
    match tier {
        Tier::Strategist => "strategist",
        Tier::HeuristicWrapper => "heuristic-wrapper",
    }
}

/// The agents, two lines each.
pub(crate) fn agent_list(agents: &[AgentDoc]) -> String {
    let names = agents
        .iter()
        .map(|agent| width(&agent.name))
        .max()
        .unwrap_or_default();
    let categories = agents.iter().filter_map(|agent| agent.category.as_deref());
    let categories = categories.map(width).max().unwrap_or_default();
    let mut text = String::new();
    for agent in agents {
        let name = fit(&one_line(&agent.name), names);
        let category = fit(
            &one_line(agent.category.as_deref().unwrap_or_default()),
            categories,
        );
        let core = if agent.core { " (core)" } else { "" };
        text.push_str(&format!(
            "{}  {category}  {}{core}  {}\n",
            strong(&name),
            tier(agent.tier),
            dim(&one_line(&shown_path(&agent.path).display().to_string()))
        ));
        text.push_str(&format!("    {}\n", one_line(&agent.description)));
    }
    text
}

/// One agent with its definition.
pub(crate) fn agent(doc: &AgentDoc, definition: &AgentDefinition) -> String {
    let mut text = format!(
        "{}\n{}\n",
        strong(&one_line(&doc.name)),
        one_line(&doc.description)
    );
    let mut row = |name: &str, value: String| {
        if !value.is_empty() {
            text.push_str(&format!("{name:<12}{value}\n"));
        }
    };
    let core = if doc.core { ", core" } else { "" };
    row("file", one_line(&shown_path(&doc.path).display().to_string()));
    row("tier", format!("{}{core}", tier(doc.tier)));
    row("category", one_line(doc.category.as_deref().unwrap_or_default()));
    row("triggers", joined(&doc.triggers));
    row("commands", joined(&doc.commands));
    row("globs", joined(&doc.globs));
    let areas: Vec<String> = doc.focus_areas.iter().map(|area| area.name.clone()).collect();
    row("focus areas", joined(&areas));
    let tools = match definition.tools.as_deref() {
        None => "all of the agent".to_owned(),
        Some([]) => "none".to_owned(),
        Some(tools) => joined(tools),
    };
    row("tools", tools);
    row("not", joined(&definition.denied));
    row("mode", mode(definition.mode).to_owned());
    let model = definition.model.as_deref().unwrap_or("that of the agent");
    row("model", one_line(model));
    text.push_str(&format!("\n{}\n", printable(&definition.prompt)));
    text
}

/// Names what the mode of a file takes away.
fn mode(mode: Option<AgentMode>) -> &'static str {
    match mode {
        Some(AgentMode::Plan) => "plan (no tool that may change something)",
        Some(AgentMode::DontAsk) => "dontAsk (what would need a person is rejected)",
        _ => "",
    }
}

/// Renders a selection, and the refusal if its agent would not execute the task.
pub(crate) fn route(route: &Route) -> String {
    let mut text = selection(&route.selection);
    if let Some(refusal) = &route.refusal {
        text.push_str(&format!(
            "not routed  {}: {}\n",
            route.decision.as_str(),
            one_line(refusal)
        ));
    }
    text
}

fn selection(selection: &Selection) -> String {
    let reason = one_line(&selection.reason);
    match (&selection.agent, selection.selected_by) {
        (Some(name), SelectedBy::Score | SelectedBy::Command | SelectedBy::Model) => {
            format!(
                "{}  {:.2}  {}\n",
                strong(&one_line(name)),
                selection.confidence,
                dim(&reason)
            )
        }
        (Some(name), _) => format!("{}  {}\n", strong(&one_line(name)), dim(&reason)),
        (None, _) => format!("no agent  {}\n", dim(&reason)),
    }
}

/// The best agents, each with the parts of its score.
pub(crate) fn ranking(ranking: &[ScoredAgent], floor: Option<f64>) -> String {
    let names = ranking
        .iter()
        .map(|agent| width(&agent.agent))
        .max()
        .unwrap_or_default();
    let mut text = String::from("\n");
    for agent in ranking {
        let parts = agent
            .breakdown
            .parts()
            .into_iter()
            .filter(|(_, part)| *part != 0.0);
        let parts: Vec<String> = parts.map(|(name, part)| format!("{name} {part:.2}")).collect();
        let below = if floor.is_some_and(|floor| agent.score < floor) {
            "  below the floor"
        } else {
            ""
        };
        let row = format!(
            "{}  {:.2}  {}{below}",
            fit(&one_line(&agent.agent), names),
            agent.score,
            parts.join(" · ")
        );
        text.push_str(row.trim_end());
        text.push('\n');
    }
    text
}

/// Several algorithms side by side, and the tasks on which they differ.
pub(crate) fn routing_reports(reports: &[RoutingReport], shows_tasks: bool) -> String {
    let Some(first) = reports.first() else {
        return String::new();
    };
    let names = reports
        .iter()
        .map(|report| width(report.algorithm.as_str()))
        .max()
        .unwrap_or_default();
    let mut text = format!(
        "{}, of which {} expect an agent\n\n{}  top-1    reached    wrong  abstained\n",
        count(first.tasks, "task"),
        first.expected,
        fit("algorithm", names),
    );
    for report in reports {
        text.push_str(&format!(
            "{}  {:>5.1} %  {:>7}  {:>7}  {} of {}\n",
            fit(report.algorithm.as_str(), names),
            report.top1 * 100.0,
            format!("{} of {}", report.reached, report.expected),
            report.wrong,
            report.abstention.correct,
            report.abstention.expected
        ));
    }
    for report in reports {
        text.push_str(&asked(report));
    }
    if !shows_tasks {
        return text;
    }
    let mut differing = 0;
    for (at, result) in first.results.iter().enumerate() {
        let routed: Vec<_> = reports
            .iter()
            .filter_map(|report| report.results.get(at))
            .collect();
        if routed.iter().all(|other| other.selected == result.selected) {
            continue;
        }
        differing += 1;
        if differing > MAX_TASKS {
            continue;
        }
        text.push_str(&format!(
            "\n{}\n    expected {}\n",
            one_line(&result.case.task),
            agent_or_none(result.case.expected_agent.as_deref())
        ));
        for (report, result) in reports.iter().zip(routed) {
            let mark = if result.correct { "✓" } else { "✗" };
            let got = agent_or_none(result.selected.as_deref());
            text.push_str(&format!(
                "  {mark} {}  {got}\n",
                fit(report.algorithm.as_str(), names)
            ));
        }
    }
    let more = differing.saturating_sub(MAX_TASKS);
    if more > 0 {
        text.push_str(&format!("… and {more} more\n"));
    }
    text
}

/// The calls that routed the tasks, and for how many of them in vain.
fn asked(report: &RoutingReport) -> String {
    let Some(asked) = &report.asked else {
        return String::new();
    };
    let tokens = asked.spent.tokens.map_or_else(
        || "tokens not reported".to_owned(),
        |usage| format::count_tokens(usage.total_tokens),
    );
    let cost = asked
        .spent
        .cost_usd
        .map_or_else(|| "no price known".to_owned(), format::cost);
    let calls = usize::try_from(asked.spent.calls).unwrap_or(usize::MAX);
    let mut text = format!(
        "asked: {}, {} · {tokens} · {cost}\n",
        one_line(&asked.model),
        count(calls, "call")
    );
    if asked.unusable > 0 {
        let first = report
            .results
            .iter()
            .find_map(|result| result.asked.as_ref()?.problem.as_deref());
        text.push_str(&format!(
            "routed by search-v2 instead: {}, because the answer was not usable ({})\n",
            count(asked.unusable, "task"),
            one_line(first.unwrap_or_default())
        ));
    }
    text
}

fn agent_or_none(name: Option<&str>) -> String {
    name.map_or_else(|| "no agent".to_owned(), one_line)
}

/// The figures of an evaluation, the pairs of agents that were confused, and the tasks that went wrong.
pub(crate) fn routing_report(report: &RoutingReport, shows_tasks: bool) -> String {
    let agent = |name: &Option<String>| agent_or_none(name.as_deref());
    let abstention = report.abstention;
    let mut text = format!(
        "{}, routed by {}: top-1 {:.1} % ({} correct)\n",
        count(report.tasks, "task"),
        report.algorithm.as_str(),
        report.top1 * 100.0,
        report.correct,
    );
    text.push_str(&format!(
        "reached: {} of {} that expect an agent\nwrong: {}\nabstention: {} of {} expected ones, {} in total\n",
        report.reached,
        report.expected,
        report.wrong,
        abstention.correct,
        abstention.expected,
        abstention.selected
    ));
    if !report.refusals.is_empty() {
        let refusals = report
            .refusals
            .iter()
            .map(|(code, count)| format!("{code} {count}"));
        text.push_str(&format!(
            "refusals: {}\n",
            refusals.collect::<Vec<_>>().join(", ")
        ));
    }
    text.push_str(&asked(report));
    text.push_str("not checked: whether the backend is there, and variables of the environment\n");
    if report.confusion.is_empty() {
        return text;
    }
    let expected = report.confusion.iter().map(|row| width(&agent(&row.expected)));
    let expected = expected.max().unwrap_or_default().max(8);
    let selected = report.confusion.iter().map(|row| width(&agent(&row.selected)));
    let selected = selected.max().unwrap_or_default().max(8);
    text.push_str(&format!(
        "\n{}  {}  tasks\n",
        fit("expected", expected),
        fit("selected", selected)
    ));
    for row in &report.confusion {
        text.push_str(&format!(
            "{}  {}  {}\n",
            fit(&agent(&row.expected), expected),
            fit(&agent(&row.selected), selected),
            row.count
        ));
    }
    if !shows_tasks {
        return text;
    }
    text.push('\n');
    let wrong = report.results.iter().filter(|result| !result.correct);
    for result in wrong.clone().take(MAX_TASKS) {
        let refused = match &result.refused {
            Some(name) => format!(": {} of {}", result.decision.as_str(), one_line(name)),
            None => String::new(),
        };
        text.push_str(&format!(
            "✗ {}\n    expected {}, got {}{refused} ({:.2})\n",
            one_line(&result.case.task),
            agent(&result.case.expected_agent),
            agent(&result.selected),
            result.confidence
        ));
    }
    let more = wrong.count().saturating_sub(MAX_TASKS);
    if more > 0 {
        text.push_str(&format!("… and {more} more\n"));
    }
    text
}

fn joined(texts: &[String]) -> String {
    one_line(&texts.join(", "))
}

/// A text of a file on one line, without control characters.
fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    printable(&words.join(" ")).into_owned()
}
