//! Tests that a conversation is saved as a test case without losing comments, damaging a file or writing a secret.

use std::fs;

use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;

fn event(kind: &str, fields: &Value) -> AgentEvent {
    let mut event = json!({
        "type": kind,
        "timestamp": "2026-11-21T20:00:00.000Z",
        "eventId": "0b0e0b0e-0b0e-4b0e-8b0e-0b0e0b0e0b0e",
        "persistenceState": "persisted",
    });
    let fields = fields.as_object().unwrap().clone();
    event.as_object_mut().unwrap().extend(fields);
    serde_json::from_value(event).unwrap()
}

fn message(text: &str) -> AgentEvent {
    event(
        "user_message_confirmed",
        &json!({"messageId": "m", "content": text}),
    )
}

fn call(tool: &str, id: &str, success: bool) -> [AgentEvent; 2] {
    [
        event(
            "tool_use",
            &json!({"toolUseId": id, "toolName": tool, "args": {}}),
        ),
        event(
            "tool_result",
            &json!({"toolUseId": id, "toolName": tool, "result": "r", "success": success}),
        ),
    ]
}

fn end(reason: &str) -> AgentEvent {
    event("complete", &json!({"reason": reason}))
}

/// Two messages that were answered, and two that were not.
fn conversation() -> Vec<AgentEvent> {
    let mut events = vec![message("Where is ${HOME} of order 7?")];
    events.extend(call("find", "1", true));
    events.extend(call("find", "2", true));
    events.extend(call("delete", "3", false));
    events.push(end("success"));
    events.extend([message("stop"), end("user_cancelled")]);
    events.extend([
        message("lost"),
        event("error", &json!({"error": "down", "code": "BACKEND_ERROR"})),
    ]);
    events.extend([message("yes: \"# no comment\"\nand more"), end("max_turns")]);
    events
}

const AGENT: &str = "# The agent.\nname: a   # its name\nmodel: {provider: ollama, name: m}\n\
                     instructions: {inline: Answer.}\n";

struct Place(tempfile::TempDir);

impl Place {
    fn with(files: &[(&str, &str)]) -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        for (name, text) in files {
            fs::write(place.path(name), text).unwrap();
        }
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    fn save(&self, name: Option<&str>) -> Result<SavedCase, SaveCaseError> {
        let env = Env::from_iter([("HOME".to_owned(), "/secret-home".to_owned())]);
        save_conversation(&self.path("agent.yaml"), &env, &conversation(), name)
    }
}

#[test]
fn a_conversation_becomes_a_case_and_comments_stay() {
    let place = Place::with(&[(
        "agent.yaml",
        &format!("{AGENT}test_cases:\n  # The first.\n  - input: hi\n"),
    )]);
    let saved = place.save(None).unwrap();
    assert_eq!(saved.name, "Where is ${HOME} of order 7?");
    assert_eq!(saved.expected_tools, [vec!["find".to_owned()], vec![]]);
    assert_eq!(saved.notes, ["2 messages left out that had no answer"]);
    insta::assert_snapshot!(place.read("agent.yaml"), @r##"
    # The agent.
    name: a   # its name
    model: {provider: ollama, name: m}
    instructions: {inline: Answer.}
    test_cases:
      # The first.
      - input: hi
      - name: "Where is $${HOME} of order 7?"
        turns:
          - input: "Where is $${HOME} of order 7?"
            expected_tools: [find]
          - input: "yes: \"# no comment\"\nand more"
    "##);
    // The same conversation again has another name, and a name that is taken is refused.
    assert_eq!(place.save(None).unwrap().name, "Where is ${HOME} of order 7? 2");
    let before = place.read("agent.yaml");
    let error = place.save(Some("Where is ${HOME} of order 7?")).unwrap_err();
    assert!(matches!(error, SaveCaseError::Exists { .. }), "{error}");
    assert_eq!(place.read("agent.yaml"), before);
}

#[test]
fn cases_in_a_file_of_their_own_are_added_there() {
    for (name, text, expected) in [
        (
            "cases.yaml",
            "# cases\n- input: hi  # one\n",
            "# cases\n- input: hi  # one\n- name: mine\n",
        ),
        (
            "cases.jsonl",
            "{\"input\": \"hi\"}",
            "{\"input\": \"hi\"}\n{\"name\":\"mine\",\"turns\":[{",
        ),
    ] {
        let agent = format!("{AGENT}test_cases_file: {name}\n");
        let place = Place::with(&[("agent.yaml", &agent), (name, text)]);
        let saved = place.save(Some("mine")).unwrap();
        assert_eq!(saved.path, place.path(name));
        assert_eq!(place.read("agent.yaml"), agent);
        let edited = place.read(name);
        assert!(edited.starts_with(expected) && edited.ends_with('\n'), "{edited}");
        // The message is data in JSON Lines, and escaped in YAML: both ask the same.
        let agent = crate::load::load(&place.path("agent.yaml"), &Env::default())
            .agent
            .unwrap();
        let case = agent.config.test_cases.iter().last().unwrap().into_owned();
        assert_eq!(case.turns[0].input, "Where is ${HOME} of order 7?");
    }
    let agent = format!("{AGENT}test_cases_file: cases.csv\n");
    let place = Place::with(&[("agent.yaml", &agent), ("cases.csv", "input\nhi\n")]);
    let error = place.save(None).unwrap_err();
    assert!(matches!(error, SaveCaseError::Table { .. }), "{error}");
    assert_eq!(place.read("cases.csv"), "input\nhi\n");
}

#[test]
fn a_file_that_cannot_be_edited_safely_is_not_changed() {
    for (text, reason) in [
        (format!("{AGENT}temperature: 7\n"), "correct that first"),
        (
            format!("{AGENT}x-cases: &c [{{input: hi}}]\ntest_cases: *c\n"),
            "correct that first",
        ),
    ] {
        let place = Place::with(&[("agent.yaml", &text)]);
        let error = place.save(None).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
        assert_eq!(place.read("agent.yaml"), text);
    }
    let place = Place::with(&[("agent.yaml", AGENT)]);
    let empty = save_conversation(&place.path("agent.yaml"), &Env::default(), &[message("hi")], None);
    assert!(matches!(empty, Err(SaveCaseError::Empty)));
    assert_eq!(place.read("agent.yaml"), AGENT);
    // Nothing else is left in the folder.
    assert_eq!(fs::read_dir(place.0.path()).unwrap().count(), 1);
}

#[test]
fn a_secret_is_not_written() {
    let place = Place::with(&[("agent.yaml", AGENT)]);
    let secret = "sk-very-secret-value";
    let env = Env::from_iter([("OPENAI_API_KEY".to_owned(), secret.to_owned())]);
    let events = [message(&format!("my key is {secret}")), end("success")];
    let saved = save_conversation(&place.path("agent.yaml"), &env, &events, None).unwrap();
    assert_eq!(saved.name, "my key is ***");
    assert!(!place.read("agent.yaml").contains(secret));
    assert!(saved.notes[0].contains("masked"), "{:?}", saved.notes);
}
