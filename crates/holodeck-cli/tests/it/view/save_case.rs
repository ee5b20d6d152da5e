//! A stored answer that a person saves as a test case of its agent.

use pretty_assertions::assert_eq;

use super::*;

/// A view of a project with one run, and the parts of a request that saves its second case.
struct Form {
    view: View,
    own: String,
    address: String,
    token: String,
    seen: String,
}

/// The value of a hidden field of a page.
pub(super) fn field<'a>(page: &'a str, name: &str) -> &'a str {
    let value = page.split(&format!("name=\"{name}\" value=\"")).nth(1).unwrap();
    value.split('"').next().unwrap()
}

/// The texts of the fields of this name.
pub(super) fn areas(page: &str, name: &str) -> Vec<String> {
    let begin = format!("<textarea name=\"{name}\"");
    let areas = page.split(&begin).skip(1);
    let texts = areas.map(|area| {
        let text = area.split_once('>').unwrap().1;
        // A browser drops the first end of line.
        text.split_once("</textarea>")
            .unwrap()
            .0
            .strip_prefix('\n')
            .unwrap()
            .to_owned()
    });
    texts.collect()
}

pub(super) fn encode(text: &str) -> String {
    let bytes: Vec<String> = text.bytes().map(|byte| format!("%{byte:02X}")).collect();
    bytes.concat()
}

impl Form {
    fn open(project: &Project, place: usize) -> (Self, String) {
        let view = View::start(project);
        let head = view.log_in();
        let list = view.ask("GET", "/", &head);
        let case = format!("{}/case/{place}", pages(&list)[0]);
        let shown = view.ask("GET", &case, &head);
        let address = format!("{case}/save");
        assert!(
            shown.contains(&format!("<a href=\"{address}\">Save as test case</a>")),
            "{shown}"
        );
        let page = view.ask("GET", &address, &head);
        let own = format!("{head}origin: http://{}\r\n", view.host);
        let (mut token, mut seen) = (String::new(), String::new());
        if status(&page) == "200" {
            field(&page, "token").clone_into(&mut token);
            field(&page, "seen").clone_into(&mut seen);
        }
        (
            Self {
                view,
                own,
                address,
                token,
                seen,
            },
            page,
        )
    }

    fn send(&self, name: &str, turns: &[(&str, &str)]) -> String {
        let turns = turns.iter().map(|(question, expected)| {
            format!("&question={}&expected={}", encode(question), encode(expected))
        });
        let turns: String = turns.collect();
        let (token, seen) = (&self.token, &self.seen);
        self.post(&format!("token={token}&seen={seen}&name={}{turns}", encode(name)))
    }

    fn post(&self, body: &str) -> String {
        self.view.ask("POST", &self.address, &form(&self.own, body))
    }
}

#[test]
fn an_answer_becomes_a_case_and_the_page_says_where() {
    let project = with_run(&half_correct_server());
    let before = project
        .read("agent.yaml")
        .replacen("\ntest_cases:", "\ntest_cases: # mine", 1);
    project.write("agent.yaml", &before);
    let (form, page) = Form::open(&project, 2);
    assert_eq!(status(&page), "200", "{page}");
    assert!(
        page.contains("<code>agent.yaml</code>") && page.contains("name=\"name\" value=\"sum 2\""),
        "{page}"
    );
    assert_eq!(areas(&page, "question"), ["7 + 5?"]);
    let saved = form.send("as the agent said", &[("7 + 5?", "It is 13.")]);
    assert_eq!(status(&saved), "200", "{saved}");
    let after = project.read("agent.yaml");
    let line = after
        .lines()
        .position(|line| line.contains("as the agent said"))
        .unwrap()
        + 1;
    assert!(
        saved.contains(&format!("<code>agent.yaml:{line}</code>")),
        "{saved}"
    );
    let added = "  - name: as the agent said\n    input: \"7 + 5?\"\n    ground_truth: It is 13.\n";
    assert_eq!(after.replacen(added, "", 1), before);
    // The page was made before that change, so that the same form is not saved again.
    let again = form.send("a second time", &[("7 + 5?", "It is 13.")]);
    assert!(
        status(&again) == "409" && again.contains("changed after this page was made"),
        "{again}"
    );
    assert_eq!(project.read("agent.yaml"), after);
    // The refusal keeps the words of the person and knows the file as it is now.
    assert_eq!(areas(&again, "expected"), ["It is 13."]);
    assert_eq!(field(&again, "name"), "a second time");
    assert_ne!(field(&again, "seen"), form.seen);
    project.run(&["validate"]).exits(0);
}

#[test]
fn a_file_that_changed_after_the_page_is_not_written() {
    let project = with_run(&half_correct_server());
    let (form, _) = Form::open(&project, 1);
    let changed = format!("{}# another line\n", project.read("agent.yaml"));
    project.write("agent.yaml", &changed);
    let answer = form.send("new", &[("q", "a")]);
    assert!(
        status(&answer) == "409" && answer.contains("`agent.yaml` changed after"),
        "{answer}"
    );
    assert_eq!(project.read("agent.yaml"), changed);
    // Nor is another file, to which the agent leads now, written.
    let (form, _) = Form::open(&project, 1);
    let (head, _) = changed.split_once("\ntest_cases:").unwrap();
    project.write("agent.yaml", format!("{head}\ntest_cases_file: cases.jsonl\n"));
    project.write("cases.jsonl", "{\"input\": \"hi\"}\n");
    let answer = form.send("new", &[("q", "a")]);
    assert!(
        status(&answer) == "409" && answer.contains("`cases.jsonl` changed after"),
        "{answer}"
    );
    assert_eq!(project.read("cases.jsonl"), "{\"input\": \"hi\"}\n");
    let (form, _) = Form::open(&project, 1);
    let answer = form.send("new", &[("q", "a")]);
    assert!(
        status(&answer) == "200" && answer.contains("<code>cases.jsonl:2</code>"),
        "{answer}"
    );
    assert_eq!(
        project.read("cases.jsonl"),
        "{\"input\": \"hi\"}\n{\"name\":\"new\",\"input\":\"q\",\"ground_truth\":\"a\"}\n"
    );
}

#[test]
fn a_case_is_saved_only_by_a_form_of_this_view() {
    let project = with_run(&half_correct_server());
    let before = project.read("agent.yaml");
    let (form, _) = Form::open(&project, 2);
    let body = format!(
        "token={}&seen={}&name=new&question=q&expected=a",
        form.token, form.seen
    );
    let host = format!("host: {}\r\n", form.view.host);
    let cookie = form.own.lines().find(|line| line.starts_with("cookie")).unwrap();
    let post = |head: &str, body: &str| form.view.ask("POST", &form.address, &super::form(head, body));
    for (head, body) in [
        (
            format!("{host}origin: http://{}\r\n", form.view.host),
            body.clone(),
        ),
        (format!("{host}{cookie}\r\n"), body.clone()),
        (
            format!("{host}{cookie}\r\norigin: http://evil.example\r\n"),
            body.clone(),
        ),
        (form.own.clone(), body.replace(&form.token, "x")),
        (form.own.clone(), body.replacen("token", "no-token", 1)),
    ] {
        assert_eq!(status(&post(&head, &body)), "403", "{head} {body}");
    }
    let get = form
        .view
        .ask("GET", &format!("{}?{body}", form.address), &form.own);
    assert_eq!(status(&get), "200");
    for (body, expected) in [
        (body.replace("&expected=a", ""), "400"),
        (body.replace(&form.seen, ""), "409"),
        (body.replace("name=new", "name=sum"), "409"),
        (body.replace("name=new", "name=+"), "409"),
        (body.replace("question=q", "question=%0A"), "409"),
        (
            body.replace("question=q", &format!("question={}", "q".repeat(5 << 20))),
            "413",
        ),
    ] {
        assert_eq!(
            status(&post(&form.own, &body)),
            expected,
            "{}",
            &body[..body.len().min(300)]
        );
    }
    assert_eq!(project.read("agent.yaml"), before);
    assert_eq!(status(&post(&form.own, &body)), "200");

    let view = View::start_with(&project, &["view", "--json", "--read-only"]);
    let head = view.log_in();
    let case = form.address.strip_suffix("/save").unwrap();
    assert!(!view.ask("GET", case, &head).contains("Save as test case"));
    assert_eq!(status(&view.ask("GET", &form.address, &head)), "403");
    let own = format!("{head}origin: http://{}\r\n", view.host);
    assert_eq!(
        status(&view.ask("POST", &form.address, &super::form(&own, &body))),
        "405"
    );
}

#[test]
fn a_text_that_was_not_changed_is_saved_as_it_was() {
    let question = "- a: b # c\r\nd\u{1b}[2J\u{202e} ${HOME} <b>&amp;</b>";
    let cases = format!(
        "  - name: odd\n    input: {}\n",
        json!(question.replace("${", "$${"))
    );
    let project = Project::with(&agent(&half_correct_server().url(), &cases));
    project.run(&["test"]);
    let (form, page) = Form::open(&project, 1);
    let shown = areas(&page, "question").remove(0);
    for raw in ["\u{1b}", "\u{202e}", "<b>"] {
        assert!(!page.contains(raw), "{raw:?} in {page}");
    }
    // As a browser sends it: with other ends of lines.
    let sent = shown
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&amp;", "&")
        .replace('\n', "\r\n");
    let saved = form.send("copy", &[(&sent, "")]);
    assert!(
        status(&saved) == "200" && !saved.contains("hidden characters"),
        "{saved}"
    );
    let (form, _) = Form::open(&project, 1);
    let changed = format!("{sent}!");
    let saved = form.send("changed", &[(&changed, "")]);
    assert!(
        saved.contains("hidden characters are written as the page showed them"),
        "{saved}"
    );
    let text = project.read("agent.yaml");
    let (_, added) = text.split_once("name: copy").unwrap();
    assert!(!added.contains(['\u{1b}', '\u{202e}']), "{added}");
    project.run(&["test", "--filter", "copy"]);
    let journal = fs::read_to_string(project.journals().last().unwrap()).unwrap();
    let ran = journal.lines().find(|line| line.contains("\"ran\"")).unwrap();
    let ran: Value = serde_json::from_str(ran).unwrap();
    assert!(ran.to_string().contains(&json!(question).to_string()), "{ran}");
}

#[test]
fn no_file_outside_of_the_folder_is_written_and_a_missing_agent_is_named() {
    let project = with_run(&half_correct_server());
    let agent = project.read("agent.yaml");
    let (head, _) = agent.split_once("\ntest_cases:").unwrap();
    // Beside the folder of the view, and by a link in it.
    let outside = project.path("../outside.yaml");
    fs::write(&outside, "- input: hi\n").unwrap();
    symlink(&outside, project.path("linked.yaml")).unwrap();
    for file in ["../outside.yaml", "linked.yaml"] {
        project.write("agent.yaml", format!("{head}\ntest_cases_file: {file}\n"));
        let (form, page) = Form::open(&project, 1);
        assert!(
            status(&page) == "422" && page.contains("outside of the folder of this view"),
            "{page}"
        );
        assert_eq!(fs::read_to_string(&outside).unwrap(), "- input: hi\n");
        drop(form);
    }
    fs::rename(project.path("agent.yaml"), project.path("moved.yaml")).unwrap();
    let (_, page) = Form::open(&project, 1);
    assert!(
        status(&page) == "422"
            && page.contains("the file `agent.yaml` of the agent of this run is not in `.`"),
        "{page}"
    );
    // A link is not the file of the agent.
    project.write("moved.yaml", &agent);
    symlink(project.path("moved.yaml"), project.path("agent.yaml")).unwrap();
    let (_, page) = Form::open(&project, 1);
    assert_eq!(status(&page), "422", "{page}");
    fs::remove_file(project.path("agent.yaml")).unwrap();
    project.write("agent.yaml", agent.replacen("name: ", "name: not-", 1));
    let (_, page) = Form::open(&project, 1);
    assert!(
        status(&page) == "422" && page.contains("which is another one"),
        "{page}"
    );
}

#[test]
fn lines_to_paste_are_shown_for_a_table() {
    let project = with_run(&half_correct_server());
    let agent = project.read("agent.yaml");
    let (head, _) = agent.split_once("\ntest_cases:").unwrap();
    project.write("agent.yaml", format!("{head}\ntest_cases_file: cases.csv\n"));
    project.write("cases.csv", "input\nhi\n");
    let (form, _) = Form::open(&project, 2);
    let answer = form.send("new", &[("<b>?", "12")]);
    assert!(
        status(&answer) == "409" && answer.contains("cases.csv` is a table"),
        "{answer}"
    );
    assert!(
        answer.contains("- name: new\n  input: &quot;&lt;b&gt;?&quot;\n"),
        "{answer}"
    );
    assert_eq!(project.read("cases.csv"), "input\nhi\n");
}
