//! The properties of `search-v2`, of declared commands, and of routes.

use holodeck_model::{RoutingConfig, RoutingDecision};
use pretty_assertions::assert_eq;

use super::*;

const LEAST: f64 = 0.5;

fn search(docs: Vec<AgentDoc>) -> AgentSelector {
    AgentSelector::new(&AgentRegistry::new(docs).0, &AgentsConfig::default(), LEAST)
}

fn described(name: &str, description: &str) -> AgentDoc {
    AgentDoc {
        description: description.to_owned(),
        ..agent(name, &[])
    }
}

fn team() -> Vec<AgentDoc> {
    vec![
        described(
            "code-reviewer",
            "Reviews code for bugs before a commit or pull request is merged",
        ),
        described(
            "data-analyst",
            "Explores CSV files, computes statistics and builds charts",
        ),
        described("translator", "Translates texts between English and German"),
    ]
}

fn rules() -> RouteRules {
    let defaults = RoutingConfig::default();
    RouteRules {
        enabled: true,
        commands: None,
        min_confidence: defaults.min_confidence,
        default_agent_routes: false,
    }
}

fn routed(selector: &AgentSelector, rules: &RouteRules, text: &str, command: &str) -> Route {
    let task = SelectionTask {
        command: command.to_owned(),
        ..task(text)
    };
    rules.route(selector, &task, |name| name != "general-purpose")
}

#[test]
fn files_with_a_name_and_a_description_are_routed_at_the_defaults() {
    for (text, expected) in [
        ("is this pull request ok to merge?", Some("code-reviewer")),
        ("a bar chart of the CSV", Some("data-analyst")),
        ("Übersetze das ins Englische", Some("translator")),
        ("translating the menu", Some("translator")),
        ("good morning", None),
        ("", None),
    ] {
        let route = routed(&search(team()), &rules(), text, "");
        assert_eq!(route.agent(), expected, "{text}: {route:?}");
    }
}

#[test]
fn the_only_agent_is_found_too() {
    let one = vec![team().remove(0)];
    let route = routed(&search(one.clone()), &rules(), "look at src/", "review");
    assert_eq!(route.agent(), Some("code-reviewer"), "{route:?}");
    assert_eq!(
        routed(&search(one), &rules(), "what is for lunch?", "").agent(),
        None
    );
}

#[test]
fn what_only_the_name_decides_is_not_routed() {
    let docs = || {
        vec![
            described("b", "Blimps and balloons"),
            described("a", "Blimps and balloons"),
        ]
    };
    let route = routed(&search(docs()), &rules(), "blimps, balloons", "");
    assert_eq!(route.selection.agent.as_deref(), Some("a"));
    assert_eq!(route.decision, RoutingDecision::LowConfidence, "{route:?}");
}

#[test]
fn words_that_only_look_alike_are_found() {
    let docs = vec![described("a", "Kubernetes"), described("b", "Gardening")];
    let ranking = search(docs).rank(&task("kubernetis"));
    assert_eq!(ranking[0].agent, "a");
    assert!(ranking[0].breakdown.similar > 0.0);
}

#[test]
fn each_part_of_a_file_speaks_for_the_agent() {
    let base = || described("x", "Nothing");
    let docs: Vec<(&str, AgentDoc)> = vec![
        ("name", described("zeppelin", "Nothing")),
        ("description", described("x", "A zeppelin")),
        ("triggers", agent("x", &["zeppelin"])),
        (
            "category",
            AgentDoc {
                category: Some("zeppelin".to_owned()),
                ..base()
            },
        ),
        (
            "focus",
            AgentDoc {
                focus_areas: vec![FocusArea {
                    name: "Zeppelin".to_owned(),
                    keywords: Vec::new(),
                }],
                ..base()
            },
        ),
        (
            "focus",
            AgentDoc {
                focus_areas: vec![FocusArea {
                    name: "Air".to_owned(),
                    keywords: texts(&["zeppelins"]),
                }],
                ..base()
            },
        ),
        (
            "sections",
            AgentDoc {
                key_actions: texts(&["Fly a zeppelin"]),
                ..base()
            },
        ),
        (
            "sections",
            AgentDoc {
                body: "You fly a zeppelin.".to_owned(),
                ..base()
            },
        ),
    ];
    for (part, doc) in docs {
        let ranking = search(vec![doc, agent("other", &[])]).rank(&task("zeppelin"));
        let found: Vec<_> = ranking[0]
            .breakdown
            .parts()
            .into_iter()
            .filter(|(_, part)| *part > 0.0)
            .collect();
        assert_eq!(found.first().map(|(name, _)| *name), Some(part));
        assert_eq!(found.len(), 1, "{found:?}");
    }
    let never = AgentDoc {
        will_not: texts(&["Fly a zeppelin"]),
        ..base()
    };
    assert_eq!(
        search(vec![never]).rank(&task("zeppelin"))[0].score.to_bits(),
        0.0_f64.to_bits()
    );
}

#[test]
fn a_declared_command_is_certain_under_every_algorithm() {
    for algorithm in SelectionAlgorithm::ALL {
        let config = AgentsConfig {
            algorithm: *algorithm,
            ..AgentsConfig::default()
        };
        let declaring = |name: &str| AgentDoc {
            commands: texts(&["Check", "run"]),
            ..agent(name, &["tests"])
        };
        let docs = || vec![declaring("b"), declaring("a"), agent("c", &["check", "chart"])];
        let select = |docs: Vec<AgentDoc>, config: &AgentsConfig, command: &str| {
            let selector = AgentSelector::new(&AgentRegistry::new(docs).0, config, LEAST);
            let task = SelectionTask {
                command: command.to_owned(),
                ..task("chart, check")
            };
            selector.select(&task)
        };
        for command in ["check", " CHECK "] {
            let selection = select(docs(), &config, command);
            assert_eq!(selection.agent.as_deref(), Some("a"), "{algorithm:?}");
            assert_eq!(selection.confidence.to_bits(), 1.0_f64.to_bits());
            assert_eq!(selection.selected_by, SelectedBy::Command);
            assert!(selection.reason.contains("so does `b`"), "{}", selection.reason);
        }
        let excluding = AgentsConfig {
            exclude: texts(&["a"]),
            ..config.clone()
        };
        assert_eq!(select(docs(), &excluding, "check").agent.as_deref(), Some("b"));
        // No agent can declare every message, and no command is none.
        for command in ["run", "", "checks"] {
            assert_ne!(
                select(docs(), &config, command).selected_by,
                SelectedBy::Command,
                "{command}"
            );
        }
    }
}

#[test]
fn the_gates_apply_to_a_declared_command() {
    let docs = vec![AgentDoc {
        commands: texts(&["check"]),
        ..agent("a", &[])
    }];
    let selector = search(docs);
    let decision = |rules: RouteRules, defined: bool| {
        let task = SelectionTask {
            command: "check".to_owned(),
            ..task("x")
        };
        rules.route(&selector, &task, |_| defined).decision
    };
    assert_eq!(decision(rules(), true), RoutingDecision::SdkExecuted);
    assert_eq!(decision(rules(), false), RoutingDecision::NoSdkDefinition);
    let off = RouteRules {
        enabled: false,
        ..rules()
    };
    assert_eq!(decision(off, true), RoutingDecision::SdkNotEnabled);
    let other = RouteRules {
        commands: Some(texts(&["run"])),
        ..rules()
    };
    assert_eq!(decision(other, true), RoutingDecision::CommandNotAllowed);
}

#[test]
fn a_task_without_a_command_is_the_command_run() {
    for (commands, is_refused) in [(texts(&["review"]), true), (texts(&[" Run "]), false)] {
        let rules = RouteRules {
            commands: Some(commands),
            ..rules()
        };
        for command in ["", "run", " RUN "] {
            let route = routed(&search(team()), &rules, "translate this", command);
            assert_eq!(route.decision == RoutingDecision::CommandNotAllowed, is_refused);
        }
    }
}

#[test]
fn a_refusal_names_the_agent_what_is_needed_and_the_line_to_add() {
    let strict = RouteRules {
        min_confidence: 0.999,
        ..rules()
    };
    let refusal =
        |text: &str, command: &str| routed(&search(team()), &strict, text, command).refusal.unwrap();
    let by_command = refusal("the CSV statistics", "inspect");
    for part in [
        "`data-analyst`",
        "1.00 is needed",
        "add `commands: [inspect]` to its file",
    ] {
        assert!(by_command.contains(part), "{by_command}");
    }
    let plain = refusal("compute statistics of the ledger", "");
    assert!(
        plain.contains("add `triggers: [compute statistics]` to its file"),
        "{plain}"
    );
    let none = routed(&search(team()), &rules(), "good morning", "")
        .refusal
        .unwrap();
    assert!(none.contains("`default_agent_routes: true`"), "{none}");
}

#[test]
fn the_default_agent_takes_over_below_the_needed_confidence_if_it_may() {
    let mut docs = team();
    docs.push(described("general-purpose", "Everything else"));
    for default_agent_routes in [false, true] {
        let config = AgentsConfig {
            default_agent_routes,
            ..AgentsConfig::default()
        };
        let selector = AgentSelector::new(&AgentRegistry::new(docs.clone()).0, &config, LEAST);
        let rules = RouteRules {
            default_agent_routes,
            ..rules()
        };
        for text in ["good morning", "write a sentence"] {
            let route = rules.route(&selector, &task(text), |_| true);
            assert_eq!(
                route.agent(),
                default_agent_routes.then_some("general-purpose"),
                "{text}"
            );
        }
        let found = rules.route(&selector, &task("translate it into German"), |_| true);
        assert_eq!(found.agent(), Some("translator"));
    }
}

#[test]
fn review_finds_what_can_never_be_routed() {
    let docs = || {
        let mut docs = team();
        docs.push(described("twin", "Translates texts between English and German"));
        docs.push(described("expert", "Helps with it"));
        docs.push(AgentDoc {
            commands: texts(&["check"]),
            ..described("one", "Blimps")
        });
        docs.push(AgentDoc {
            commands: texts(&["Check"]),
            ..described("two", "Balloons")
        });
        docs
    };
    let messages = |docs: Vec<AgentDoc>, config: &AgentsConfig, least: f64| -> Vec<String> {
        let (registry, _) = AgentRegistry::new(docs);
        let found = AgentSelector::new(&registry, config, least).review(&registry);
        found
            .into_iter()
            .map(|found| format!("{} {:?}", found.message, found.help))
            .collect()
    };
    let search = AgentsConfig::default();
    let has = |messages: &[String], part: &str| messages.iter().filter(|found| found.contains(part)).count();
    let found = messages(docs(), &search, LEAST);
    assert_eq!(has(&found, "agent `expert` can never be routed"), 1, "{found:#?}");
    assert_eq!(has(&found, "`translator` "), 1, "{found:#?}");
    assert_eq!(
        has(&found, "the command `check` of agent `two` is that of `one` too"),
        1,
        "{found:#?}"
    );
    assert_eq!(has(&found, "`code-reviewer` can"), 0, "{found:#?}");
    // Equal but for the name: near ties, and duplicates if the names say nothing.
    let equal = vec![
        described("a", "Blimps and balloons"),
        described("b", "Blimps and balloons"),
    ];
    let found = messages(equal, &search, LEAST);
    assert_eq!(
        has(&found, "agent `b` can never be selected: `a` has the same score"),
        1,
        "{found:#?}"
    );
    // Under the settings, no words are enough.
    assert_eq!(
        has(
            &messages(team(), &search, 0.999),
            "no words of a task can route an agent"
        ),
        1
    );
    let keyword = AgentsConfig {
        algorithm: SelectionAlgorithm::KeywordV1,
        ..AgentsConfig::default()
    };
    let found = messages(vec![agent("a", &["blimp"])], &keyword, 0.5);
    assert_eq!(
        has(&found, "agent `a` can never be routed: its score is at most 0.45"),
        1,
        "{found:#?}"
    );
    assert_eq!(has(&found, "min_confidence: 0.45"), 1, "{found:#?}");
    let declaring = AgentDoc {
        commands: texts(&["x"]),
        ..agent("a", &["blimp"])
    };
    assert!(messages(vec![declaring], &keyword, 0.5).is_empty());
}

/// Words that agents of the properties have, forms of them, and words that no agent has or knows a topic of.
fn any_words() -> impl Strategy<Value = Vec<String>> {
    let word = prop::sample::select(vec![
        "review",
        "Reviews",
        "code",
        "deploy",
        "deployment",
        "kubernetes",
        "kubernets",
        "SQL",
        "query",
        "invoice",
        "translate",
        "german",
        "chart",
        "the",
        "write",
        "table",
        "pull",
        "request",
        "run",
        "segfault",
        "a",
        "flaky",
    ]);
    prop::collection::vec(word.prop_map(str::to_owned), 0..8)
}

prop_compose! {
    fn any_member()(
        name in "[a-e]{1,2}",
        description in any_words(),
        triggers in prop::collection::vec(any_words(), 0..4),
        body in any_words(),
    ) -> AgentDoc {
        AgentDoc {
            triggers: triggers.into_iter().map(|words| words.join(" ")).collect(),
            body: body.join(" "),
            ..described(&name, &description.join(" "))
        }
    }
}

fn score(docs: &[AgentDoc], name: &str, text: &str) -> f64 {
    let ranking = search(docs.to_vec()).rank(&task(text));
    ranking.iter().find(|agent| agent.agent == name).unwrap().score
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn another_trigger_never_lowers_the_score(
        docs in prop::collection::vec(any_member(), 1..5),
        trigger in any_words(),
        text in any_words(),
    ) {
        let mut with = docs.clone();
        with[0].triggers.push(trigger.join(" "));
        // Of two agents with one name, the first path is used: the same one in both.
        let (name, text) = (docs[0].name.clone(), text.join(" "));
        prop_assert!(score(&with, &name, &text) >= score(&docs, &name, &text));
    }

    #[test]
    fn words_that_match_no_agent_case_order_and_line_breaks_change_nothing(
        docs in prop::collection::vec(any_member(), 1..5),
        words in any_words(),
        at in any::<prop::sample::Index>(),
    ) {
        let text = words.join(" ");
        let expected = search(docs.clone()).select(&task(&text));
        let mut turned = words.clone();
        turned.reverse();
        let mut longer = words.clone();
        longer.insert(at.index(words.len() + 1), "please, qqqqq 12345 zwxzwx, thanks".to_owned());
        let variants = [
            text.to_uppercase(),
            text.to_lowercase(),
            turned.join("\n"),
            words.join("\r\n\t "),
            longer.join(" "),
            format!("{text} {}", "xqxqx ".repeat(300)),
        ];
        for variant in variants {
            let selection = search(docs.clone()).select(&task(&variant));
            // The reason of an empty task says that it has no words.
            prop_assert_eq!(
                Selection { reason: String::new(), ..selection },
                Selection { reason: String::new(), ..expected.clone() },
                "{:?} {:?}", text, variant
            );
        }
    }

    #[test]
    fn a_greater_lead_never_lowers_the_confidence(score in 0..9_000_000_i64, next in 0..9_000_000_i64, more in 0..1_000_000_i64) {
        use super::super::calibration::{Evidence, confidence};
        let next = next.min(score);
        let before = confidence(Evidence { score, next });
        let higher = Evidence { score: score + more, next };
        let further = Evidence { score, next: next - next.min(more) };
        prop_assert!(confidence(higher) >= before && confidence(further) >= before);
    }
}
