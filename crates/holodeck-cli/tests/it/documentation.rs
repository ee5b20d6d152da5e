//! The pages of `docs/` print what they show: the tutorial in one folder, every other page that says what it needs in a folder
//! of its own, and no block with a command is left out.

use std::{
    collections::HashMap,
    fs,
    panic::catch_unwind,
    path::PathBuf,
    sync::{Mutex, PoisonError},
};

use holodeck_testkit::{ModelServer, ReceivedRequest, Reply};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::{
    judges::kind_answer,
    pages::{blocks, check, docs, root, setup},
    project::Project,
};

const TUTORIAL: &str = "tutorial";

const TUTORIAL_PAGES: [&str; 5] = [
    "1-first-agent.md",
    "2-own-tool.md",
    "3-knowledge-base.md",
    "4-judge.md",
    "5-ci.md",
];

/// Blocks that are not run, with those that another program reads.
const EXEMPT: usize = 8;

/// The README and all pages, except for the synopses that are made from the command line.
pub(crate) fn pages() -> Vec<PathBuf> {
    let mut folders = vec![docs()];
    let mut pages = vec![root().join("README.md")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let is_page = path.extension().is_some_and(|end| end == "md");
            if path.is_dir() {
                folders.push(path);
            } else if is_page && !path.ends_with("cli.md") {
                pages.push(path);
            }
        }
    }
    pages.sort();
    pages
}

#[test]
fn the_tutorial_prints_what_its_pages_show() {
    let server = ModelServer::answering(answer);
    let project = Project::empty();
    for page in TUTORIAL_PAGES {
        check(&docs().join(TUTORIAL).join(page), &project, &server.url());
    }
}

#[test]
fn pages_with_a_setup_print_what_they_show() {
    let with_setup = pages().into_iter().filter_map(|page| {
        let folder = setup(&fs::read_to_string(&page).unwrap())?;
        Some((page, folder))
    });
    let with_setup: Vec<_> = with_setup.collect();
    assert!(with_setup.len() > 5, "{with_setup:?}");
    let left = Mutex::new(with_setup);
    let next = || left.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let wrong = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some((page, folder)) = next() {
                    let followed = catch_unwind(|| {
                        let rules = fs::read_to_string(folder.join("model.json")).unwrap();
                        let model = Model::new(&rules);
                        let server = ModelServer::answering(move |request| model.answer(request));
                        check(&page, &Project::empty(), &server.url());
                    });
                    if followed.is_err() {
                        wrong.lock().unwrap_or_else(PoisonError::into_inner).push(page);
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap_or_else(PoisonError::into_inner);
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn every_block_with_a_command_is_run_or_says_why_not() {
    let (mut exempt, mut left_out) = (Vec::new(), Vec::new());
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        let is_followed =
            setup(&text).is_some() || page.parent().is_some_and(|folder| folder.ends_with(TUTORIAL));
        for block in blocks(&text) {
            let place = format!("{}:{}", page.display(), block.line);
            match block.marker.as_deref() {
                Some(marker) if marker.starts_with("not ours: ") || marker.starts_with("not run: ") => {
                    exempt.push(format!("{place}: {marker}"));
                }
                _ if block.is_command() && !is_followed => left_out.push(place),
                _ => {}
            }
        }
    }
    assert!(
        left_out.is_empty(),
        "no test runs these:\n{}",
        left_out.join("\n")
    );
    println!("{}", exempt.join("\n"));
    assert_eq!(
        exempt.len(),
        EXEMPT,
        "lower the number when one leaves:\n{}",
        exempt.join("\n")
    );
}

/// The answers of a page's model: the first rule whose texts are all found decides.
struct Model {
    rules: Vec<Value>,
    /// How often each rule decided.
    counts: Mutex<HashMap<usize, usize>>,
}

impl Model {
    fn new(rules: &str) -> Self {
        Self {
            rules: serde_json::from_str(rules).unwrap(),
            counts: Mutex::default(),
        }
    }

    /// `user`, `tool` and `system` are texts, or lists of them, that the request must have, `""` that it has none; `model` is
    /// its model.
    /// `say` is the text, or a list of texts that take turns; `json` an object; `call` a tool with its arguments.
    fn answer(&self, request: &ReceivedRequest) -> Reply {
        let has = |rule: &Value, role: &str| {
            let texts = request.texts(role).concat();
            match &rule[role] {
                Value::Null => true,
                Value::Array(all) => all.iter().all(|text| texts.contains(text.as_str().unwrap())),
                text if text == "" => texts.is_empty(),
                text => texts.contains(text.as_str().unwrap()),
            }
        };
        let found = self.rules.iter().enumerate().find(|(_, rule)| {
            ["user", "tool", "system"].iter().all(|role| has(rule, role))
                && rule["model"]
                    .as_str()
                    .is_none_or(|model| request.body["model"] == model)
        });
        let Some((number, rule)) = found else {
            return Reply::openai_error(
                400,
                &format!("no rule of the page fits: {}", request.body),
                None,
                None,
            );
        };
        if let Some(call) = rule.get("call") {
            return Reply::tool_call("call_1", call["name"].as_str().unwrap(), &call["arguments"]);
        }
        if let Some(object) = rule.get("json") {
            return Reply::text(object.to_string());
        }
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(number).or_default();
        *count += 1;
        let text = match &rule["say"] {
            Value::Array(texts) => &texts[(*count - 1) % texts.len()],
            text => text,
        };
        Reply::text(text.as_str().unwrap())
    }
}

/// A model that calls the tools it has, and a judge that dislikes short answers.
fn answer(request: &ReceivedRequest) -> Reply {
    if request.body["response_format"].is_object() {
        let prompt = request.texts("user").concat();
        if prompt.contains("In transit.") || prompt.contains("30 days.\n") {
            return Reply::text(json!({"reason": "The answer is curt.", "score": 3}).to_string());
        }
        return Reply::text(kind_answer(request));
    }
    let brief = request.texts("system").concat().contains("few words");
    let results = request.texts("tool").concat();
    let question = request.texts("user").concat();
    let has = |tool: &str| request.body["tools"].to_string().contains(tool);
    if results.contains("in transit") {
        return Reply::text(if brief {
            "In transit."
        } else {
            "Your order 1001 is in transit; you can ask me again tomorrow."
        });
    }
    if results.contains("30 days") {
        return Reply::text("You can ask for a refund within 30 days of delivery.");
    }
    if question.contains("1001") && has("get_order") {
        return Reply::tool_call("call_1", "get_order", &json!({"order_id": "1001"}));
    }
    if question.contains("refund") && has("handbook_search") {
        return Reply::tool_call("call_1", "handbook_search", &json!({"query": "refund"}));
    }
    if question.contains("1001") {
        return Reply::text("I cannot see where your order is.");
    }
    Reply::text("Hello! I can help you with an order.")
}
