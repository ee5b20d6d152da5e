//! The acceptance cases of the selector, by number, and its properties.

use holodeck_model::{AgentDoc, AgentsConfig, Boost, FocusArea, SelectionAlgorithm, SelectionWeights, Tier};
use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::{keyword::KeywordSelector, *};
use crate::AgentRegistry;

mod measured;
mod search;

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn agent(name: &str, triggers: &[&str]) -> AgentDoc {
    AgentDoc {
        name: name.to_owned(),
        path: format!("{name}.md").into(),
        triggers: texts(triggers),
        ..AgentDoc::default()
    }
}

fn task(text: &str) -> SelectionTask {
    SelectionTask {
        text: text.to_owned(),
        ..SelectionTask::default()
    }
}

fn selector(docs: Vec<AgentDoc>, config: &AgentsConfig) -> KeywordSelector {
    KeywordSelector::new(&AgentRegistry::new(docs).0, config)
}

fn select(docs: Vec<AgentDoc>, text: &str) -> Selection {
    selector(docs, &AgentsConfig::default()).select(&task(text))
}

#[test]
fn one_eligible_agent_is_selected_with_its_score() {
    let selection = select(
        vec![agent("a", &["review"]), agent("b", &["deploy"])],
        "please review this",
    );
    assert_eq!(selection.agent.as_deref(), Some("a"));
    assert_eq!(selection.selected_by, SelectedBy::Score);
    // A whole trigger, and the rank of a wrapper.
    assert_eq!(selection.confidence.to_bits(), 0.45_f64.to_bits());
    assert_eq!(selection.ranked_alternatives, []);
    assert!(selection.use_sdk);
}

#[test]
fn of_equal_scores_the_first_name_is_selected_in_any_order() {
    for names in [["alpha", "beta"], ["beta", "alpha"]] {
        let selection = select(names.map(|name| agent(name, &["review"])).into(), "review");
        assert_eq!(selection.agent.as_deref(), Some("alpha"));
        let alternatives: Vec<_> = selection
            .ranked_alternatives
            .iter()
            .map(|one| &*one.agent)
            .collect();
        assert_eq!(alternatives, ["beta"]);
    }
}

#[test]
fn without_a_match_the_default_agent_has_no_confidence() {
    let selection = select(
        vec![agent("general-purpose", &[]), agent("a", &["review"])],
        "good morning",
    );
    assert_eq!(selection.agent.as_deref(), Some("general-purpose"));
    assert_eq!(selection.selected_by, SelectedBy::Default);
    assert_eq!(selection.confidence.to_bits(), 0.0_f64.to_bits());
    // The gate of the confidence decides, and not the selection.
    assert!(selection.use_sdk);
    assert!(selection.confidence < holodeck_model::RoutingConfig::default().min_confidence);
}

#[test]
fn without_a_default_agent_the_selection_declines() {
    let none = AgentsConfig {
        default_agent: None,
        ..AgentsConfig::default()
    };
    let excluded = AgentsConfig {
        exclude: texts(&["general-purpose"]),
        ..AgentsConfig::default()
    };
    for config in [none, excluded] {
        let selection = selector(vec![agent("general-purpose", &[])], &config).select(&task("good morning"));
        assert!(!selection.use_sdk);
        assert_eq!((selection.agent, selection.selected_by), (None, SelectedBy::None));
    }
}

#[test]
fn a_trigger_does_not_match_a_part_of_a_word() {
    let ranking = selector(vec![agent("a", &["go"])], &AgentsConfig::default()).rank(&task("good morning"));
    assert_eq!(ranking[0].breakdown.triggers.to_bits(), 0.0_f64.to_bits());
}

#[test]
fn many_triggers_are_no_handicap() {
    let many: Vec<String> = (0..11).map(|number| format!("word{number}")).collect();
    let mut many: Vec<&str> = many.iter().map(String::as_str).collect();
    many.push("review");
    let docs = vec![agent("many", &many), agent("one", &["review"])];
    let ranking = selector(docs, &AgentsConfig::default()).rank(&task("review"));
    let triggers: Vec<_> = ranking
        .iter()
        .map(|one| (&*one.agent, one.breakdown.triggers))
        .collect();
    // 1 of 1 and 1 of 3, times the weight of 0.4.
    assert_eq!(triggers, [("one", 0.4), ("many", 0.133_333)]);
}

#[test]
fn a_task_can_mention_tools_by_name() {
    let doc = AgentDoc {
        tools: Some(texts(&["Read", "git"])),
        ..agent("a", &[])
    };
    let ranking = selector(vec![doc], &AgentsConfig::default()).rank(&task("look at it with git"));
    assert_eq!(ranking[0].breakdown.tools.to_bits(), 0.075_f64.to_bits());
}

#[test]
fn excluded_agents_are_never_selected() {
    let config = AgentsConfig {
        exclude: texts(&["best"]),
        ..AgentsConfig::default()
    };
    let docs = || {
        vec![
            agent("best", &["review"]),
            agent("second", &["review", "test", "x"]),
        ]
    };
    let text = task("review and test");
    assert_eq!(
        selector(docs(), &AgentsConfig::default())
            .select(&text)
            .agent
            .as_deref(),
        Some("best")
    );
    let selection = selector(docs(), &config).select(&text);
    assert_eq!(selection.agent.as_deref(), Some("second"));
    assert_eq!(selection.ranked_alternatives, []);
}

#[test]
fn files_of_the_working_directory_raise_an_agent_with_globs() {
    let docs = || {
        let terraform = AgentDoc {
            globs: texts(&["*.tf", "/infra/*.json"]),
            ..agent("terraform", &["plan"])
        };
        vec![terraform, agent("planner", &["plan"])]
    };
    let with = |files: &[&str], docs: Vec<AgentDoc>| {
        let task = SelectionTask {
            files: texts(files),
            ..task("plan it")
        };
        selector(docs, &AgentsConfig::default()).select(&task)
    };
    let without = vec![agent("terraform", &["plan"]), agent("planner", &["plan"])];
    for (files, expected) in [
        (&[][..], "planner"),
        (&["a/b/main.tf"], "terraform"),
        (&["infra/x.json"], "terraform"),
        (&["a/infra/x.json", "main.tfvars", "infra/a/x.json"], "planner"),
    ] {
        assert_eq!(with(files, docs()).agent.as_deref(), Some(expected), "{files:?}");
        // Without globs, files have no effect.
        assert_eq!(with(files, without.clone()), with(&[], without.clone()));
    }
}

#[test]
fn files_count_in_any_order_and_only_the_first_2000() {
    let doc = AgentDoc {
        globs: texts(&["z.tf"]),
        ..agent("a", &["plan"])
    };
    let mut files: Vec<String> = (0..2_000).map(|number| format!("{number:05}.txt")).collect();
    files.push("z.tf".to_owned());
    let score = |files: Vec<String>| {
        let task = SelectionTask {
            files,
            ..task("plan")
        };
        selector(vec![doc.clone()], &AgentsConfig::default())
            .select(&task)
            .breakdown
            .files
    };
    assert_eq!(score(files.clone()).to_bits(), 0.0_f64.to_bits());
    files.reverse();
    assert_eq!(score(files.clone()).to_bits(), 0.0_f64.to_bits());
    files.truncate(2);
    assert!(score(files) > 0.0);
}

#[test]
fn a_command_of_the_agent_is_as_good_as_all_triggers() {
    let doc = AgentDoc {
        commands: texts(&["Review"]),
        ..agent("a", &["one", "two", "three"])
    };
    let with = |command: &str| {
        let task = SelectionTask {
            command: command.to_owned(),
            ..task("src/")
        };
        selector(vec![doc.clone()], &AgentsConfig::default()).rank(&task)[0]
            .breakdown
            .triggers
    };
    assert_eq!(with("REVIEW").to_bits(), 0.4_f64.to_bits());
    for other in ["rev", "", "preview"] {
        assert_eq!(with(other).to_bits(), 0.0_f64.to_bits(), "{other}");
    }
}

#[test]
fn an_empty_command_is_no_command_of_an_agent() {
    let doc = AgentDoc {
        commands: texts(&["", " "]),
        ..agent("a", &[])
    };
    let ranking = selector(vec![doc], &AgentsConfig::default()).rank(&task("x"));
    assert_eq!(ranking[0].breakdown.triggers.to_bits(), 0.0_f64.to_bits());
}

#[test]
fn the_category_counts_by_hint_mention_or_related_word() {
    let doc = AgentDoc {
        category: Some("Testing".to_owned()),
        ..agent("a", &[])
    };
    let with = |text: &str, category: Option<&str>| {
        let task = SelectionTask {
            category: category.map(str::to_owned),
            ..task(text)
        };
        selector(vec![doc.clone()], &AgentsConfig::default()).rank(&task)[0]
            .breakdown
            .category
    };
    for (text, hint, expected) in [
        ("x", Some("testing"), 0.2_f64),
        ("all testing", None, 0.14),
        ("raise the coverage", None, 0.08),
        ("x", Some("test"), 0.0),
        ("contesting", None, 0.0),
    ] {
        assert_eq!(with(text, hint).to_bits(), expected.to_bits(), "{text}");
    }
}

#[test]
fn focus_areas_count_by_name_and_the_first_five_keywords() {
    let doc = AgentDoc {
        focus_areas: vec![FocusArea {
            name: "Error handling".to_owned(),
            keywords: texts(&["a", "b", "c", "d", "e", "f"]),
        }],
        ..agent("a", &[])
    };
    let focus = |text: &str| {
        selector(vec![doc.clone()], &AgentsConfig::default()).rank(&task(text))[0]
            .breakdown
            .focus
    };
    assert_eq!(focus("error handling").to_bits(), 0.05_f64.to_bits());
    assert_eq!(focus("a b").to_bits(), 0.02_f64.to_bits());
    assert_eq!(focus("f").to_bits(), 0.0_f64.to_bits());
    assert_eq!(focus("error handling a b c d e f").to_bits(), 0.1_f64.to_bits());
}

#[test]
fn complex_tasks_are_for_strategists() {
    let strategist = AgentDoc {
        tier: Tier::Strategist,
        ..agent("s", &[])
    };
    let docs = vec![strategist, agent("w", &[])];
    let long = "x ".repeat(81);
    for (text, expected) in [
        ("x", [("s", 0.12), ("w", 0.05)]),
        ("an architecture", [("s", 0.12), ("w", 0.05)]),
        ("architecture and rollout", [("s", 0.22), ("w", -0.05)]),
        ("end-to-end, multi-step", [("s", 0.22), ("w", -0.05)]),
        (&long, [("s", 0.22), ("w", -0.05)]),
    ] {
        let ranking = selector(docs.clone(), &AgentsConfig::default()).rank(&task(text));
        let tiers: Vec<_> = ranking
            .iter()
            .map(|one| (&*one.agent, one.breakdown.tier))
            .collect();
        assert_eq!(tiers, expected, "{text}");
        assert!(ranking.iter().all(|one| one.score >= 0.0));
    }
}

#[test]
fn review_names_agents_that_never_win_and_near_ties() {
    let docs = vec![
        agent("claude-style", &[]),
        agent("general-purpose", &[]),
        agent("one", &["deploy", "release"]),
        agent("other", &["deploy", "release", "ship it"]),
        agent("twin-a", &["review"]),
        agent("twin-b", &["review"]),
        AgentDoc {
            globs: texts(&["[", "*.rs"]),
            ..agent("patterns", &["plan"])
        },
    ];
    let (registry, _) = AgentRegistry::new(docs);
    let config = AgentsConfig {
        candidate_floor: 0.18,
        algorithm: SelectionAlgorithm::KeywordV1,
        ..AgentsConfig::default()
    };
    let selector = AgentSelector::new(&registry, &config, 0.0);
    let messages: Vec<_> = selector
        .review(&registry)
        .into_iter()
        .map(|found| found.message)
        .collect();
    let has = |part: &str| messages.iter().filter(|message| message.contains(part)).count();
    assert_eq!(
        has("agent `claude-style` can never be selected: its score is at most 0.05"),
        1,
        "{messages:#?}"
    );
    assert_eq!(
        has("agent `twin-b` can never be selected: `twin-a` has the same score"),
        1,
        "{messages:#?}"
    );
    assert_eq!(has("`[` in `globs` is not a valid pattern"), 1, "{messages:#?}");
    assert_eq!(has("agent `general-purpose`"), 0, "{messages:#?}");
    // `deploy`: 0.25 of `one` and 0.18 of `other`.
    assert_eq!(has("almost the same"), 0, "{messages:#?}");
    let near = vec![
        agent("one", &["deploy", "b", "c"]),
        agent("other", &["deploy", "d", "e", "f"]),
    ];
    let (registry, _) = AgentRegistry::new(near);
    let selector = AgentSelector::new(&registry, &config, 0.0);
    let found = selector.review(&registry);
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(
        found[0]
            .message
            .contains("for the task `deploy`, `one` (0.18) and `other` (0.18)")
    );
}

fn any_weight() -> impl Strategy<Value = f64> {
    prop_oneof![
        0.0..=1.0,
        Just(f64::NAN),
        Just(f64::INFINITY),
        Just(-2.0),
        Just(f64::MAX)
    ]
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-d ]{0,12}",
        any::<String>(),
        "(review|test|code|go|architecture|rollout| ){0,8}"
    ]
}

prop_compose! {
    fn any_agent()(
        name in "[a-e]{1,2}",
        path in "[a-e]{1,3}",
        description in any_text(),
        triggers in prop::collection::vec(any_text(), 0..5),
        commands in prop::collection::vec("[a-c]{0,2}", 0..2),
        tools in prop::option::of(prop::collection::vec("(git|Read|mcp__a__b|[a-c])", 0..3)),
        category in prop::option::of(any_text()),
        core in any::<bool>(),
        strategist in any::<bool>(),
        boost in prop::option::of((prop::collection::vec(any_text(), 0..2), any_weight())),
        focus in prop::collection::vec((any_text(), prop::collection::vec(any_text(), 0..7)), 0..3),
        globs in prop::collection::vec("([*?a.{},/]|\\[|\\*\\*/){0,5}", 0..2),
    ) -> AgentDoc {
        AgentDoc {
            name,
            path: path.into(),
            description,
            triggers,
            commands,
            tools,
            category,
            core,
            tier: if strategist { Tier::Strategist } else { Tier::HeuristicWrapper },
            boosts: boost.map(|(keywords, amount)| Boost { keywords, amount }),
            focus_areas: focus.into_iter().map(|(name, keywords)| FocusArea { name, keywords }).collect(),
            globs,
            ..AgentDoc::default()
        }
    }
}

prop_compose! {
    fn any_task()(
        text in any_text(),
        command in "[a-c]{0,2}",
        category in prop::option::of(any_text()),
        files in prop::collection::vec("[a/.]{0,4}", 0..4),
    ) -> SelectionTask {
        SelectionTask { text, command, category, files, cwd: None }
    }
}

prop_compose! {
    fn any_config()(
        weights in prop::array::uniform6(any_weight()),
        candidate_floor in any_weight(),
        default_agent in prop::option::of("[a-e]{1,2}"),
        exclude in prop::collection::vec("[a-e]{1,2}", 0..2),
        algorithm in prop::sample::select(SelectionAlgorithm::ALL),
    ) -> AgentsConfig {
        let [triggers, category, description, tools, focus, files] = weights;
        AgentsConfig {
            weights: SelectionWeights { triggers, category, description, tools, focus, files },
            candidate_floor,
            default_agent,
            exclude,
            algorithm,
            ..AgentsConfig::default()
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn the_order_of_the_files_does_not_matter(
        docs in prop::collection::vec(any_agent(), 0..6),
        seed in any::<prop::sample::Index>(),
        task in any_task(),
    ) {
        let mut shuffled = docs.clone();
        let rounds = seed.index(100);
        for at in 0..docs.len() {
            shuffled.swap(at, (at * 7 + rounds) % docs.len());
        }
        let config = AgentsConfig::default();
        let json = |docs| serde_json::to_string(&selector(docs, &config).select(&task)).unwrap();
        // Files of one folder have different paths.
        let paths: std::collections::HashSet<_> = docs.iter().map(|doc| &doc.path).collect();
        prop_assume!(paths.len() == docs.len());
        prop_assert_eq!(json(docs.clone()), json(shuffled));
    }

    #[test]
    fn any_registry_and_any_task_have_a_selection(
        docs in prop::collection::vec(any_agent(), 0..12),
        task in any_task(),
        config in any_config(),
    ) {
        let (registry, _) = AgentRegistry::new(docs);
        let selector = AgentSelector::new(&registry, &config, 0.5);
        let selection = selector.select(&task);
        prop_assert!((0.0..=1.0).contains(&selection.confidence));
        prop_assert!(selection.ranked_alternatives.len() <= 5);
        // By score, the highest first; of equal scores, by name.
        let is_sorted = selection.ranked_alternatives.is_sorted_by(|one, next| {
            one.score > next.score || (one.score >= next.score && one.agent < next.agent)
        });
        prop_assert!(is_sorted);
        let is_winner = |one: &RankedAgent| Some(&one.agent) == selection.agent.as_ref();
        prop_assert!(!selection.ranked_alternatives.iter().any(is_winner));
        prop_assert_eq!(selection.use_sdk, selection.agent.is_some());
        if let Some(agent) = &selection.agent {
            prop_assert!(!config.exclude.contains(agent));
        }
        if selection.selected_by == SelectedBy::Score {
            let best = &selector.rank(&task)[0];
            prop_assert_eq!(Some(&best.agent), selection.agent.as_ref());
        }
    }

    #[test]
    fn any_registry_can_be_reviewed(
        docs in prop::collection::vec(any_agent(), 0..4),
        config in any_config(),
    ) {
        let (registry, _) = AgentRegistry::new(docs);
        AgentSelector::new(&registry, &config, 0.5).review(&registry);
    }

    #[test]
    fn the_parts_of_a_score_sum_to_it(
        docs in prop::collection::vec(any_agent(), 0..6),
        task in any_task(),
        config in any_config(),
    ) {
        for scored in selector(docs, &config).rank(&task) {
            let sum: f64 = scored.breakdown.parts().into_iter().map(|(_, part)| part).sum();
            // Parts beyond any sensible weight lose their last digits.
            let tolerance = 1e-6_f64.max(sum.abs() * 1e-12);
            prop_assert!((sum.clamp(0.0, 1.0) - scored.score).abs() <= tolerance, "{scored:?}");
        }
    }

    #[test]
    fn no_task_scores_higher_than_what_is_called_possible(
        docs in prop::collection::vec(any_agent(), 1..4),
        task in any_task(),
    ) {
        let selector = selector(docs, &AgentsConfig::default());
        for (agent, parts) in selector.order(&task) {
            prop_assert!(parts.score() <= agent.highest(&AgentsConfig::default().weights));
        }
    }
}
