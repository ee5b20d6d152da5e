//! Labels that a person gives to answers, and who may give them.

use pretty_assertions::assert_eq;

use super::*;

#[test]
fn a_person_labels_an_answer_and_the_table_is_that_of_calibrate() {
    let project = with_run(&half_correct_server());
    let view = View::start(&project);
    let head = view.log_in();
    let list = view.ask("GET", "/", &head);
    let run = pages(&list)[0].to_owned();
    let address = format!("{run}/case/2");
    let page = view.ask("GET", &address, &head);
    let token = token_of(&page).to_owned();
    let own = format!("{head}origin: http://{}\r\n", view.host);
    let say = |head: &str, body: &str| view.ask("POST", &address, &form(head, body));
    let body = format!(
        "token={token}&passed=no&score=0.25&label=wrong&comment=%3Cscript%3Ealert(1)%3C/script%3E%0A%E2%80%AEx"
    );
    // Without the cookie, from another page, from no page, without the form's token, and with another one.
    let cookie_less = format!("host: {0}\r\norigin: http://{0}\r\n", view.host);
    let foreign = format!("{head}origin: http://evil.example\r\n");
    for (head, body) in [
        (&cookie_less, &body),
        (&foreign, &body),
        (&head, &body),
        (&own, &body.replace(&token, "")),
        (&own, &body.replace(&token, &"0".repeat(64))),
        (&own, &"passed=no".to_owned()),
    ] {
        assert_eq!(status(&say(head, body)), "403", "{head} {body}");
    }
    let file = project.path(".holodeck/annotations.jsonl");
    assert!(!file.exists());
    // A form is no way to another file, and is not read by GET.
    assert_eq!(
        status(&view.ask("GET", &format!("{address}?{body}"), &own)),
        "200"
    );
    assert_eq!(
        status(&view.ask("POST", "/run/..%2f..%2fx/case/1", &form(&own, &body))),
        "404"
    );
    assert_eq!(status(&say(&own, &format!("token={token}&score=2"))), "422");
    assert_eq!(status(&say(&own, &format!("token={token}&score=x"))), "422");
    let long = format!("token={token}&comment={}", "x".repeat(4_001));
    assert_eq!(status(&say(&own, &long)), "422");
    assert_eq!(
        status(&say(
            &own,
            &format!("token={token}&comment={}", "x".repeat(70_000))
        )),
        "413"
    );
    assert!(!file.exists());

    let saved = say(&own, &body);
    assert!(
        status(&saved) == "303" && saved.contains(&format!("location: {address}\r\n")),
        "{saved}"
    );
    let page = view.ask("GET", &address, &head);
    assert!(
        page.contains("value=\"no\" checked") && page.contains("value=\"0.25\""),
        "{page}"
    );
    assert!(page.contains("&lt;script&gt;alert(1)"), "{page}");
    assert!(
        !page.contains("<script>alert") && !page.contains('\u{202e}'),
        "{page}"
    );
    // A line that was cut, and one of another program, count for nothing and are kept.
    let mut text = fs::read_to_string(&file).unwrap();
    text.push_str("{\"annotation\":2}\n{\"annot");
    fs::write(&file, &text).unwrap();
    let yes = say(&own, &format!("token={token}&passed=yes"));
    assert_eq!(status(&yes), "303");
    assert!(fs::read_to_string(&file).unwrap().starts_with(&text));
    let table = view.ask("GET", &format!("{run}/labels.csv"), &head);
    assert!(
        table.ends_with("case,input,response,passed\r\n\"sum\",\"\",\"It is 13.\",\"yes\"\r\n"),
        "{table}"
    );
    assert_eq!(
        status(&view.ask("GET", &format!("{run}/labels.csv"), &cookie_less)),
        "403"
    );
}

#[test]
fn a_label_is_of_the_answer_that_was_seen() {
    let project = with_run(&half_correct_server());
    let journal = project.journals().remove(0);
    let run = journal.file_stem().unwrap().to_str().unwrap().to_owned();
    let text = fs::read_to_string(&journal).unwrap();
    let graded = text.lines().find(|line| line.contains("\"graded\"")).unwrap();
    let graded: Value = serde_json::from_str(graded).unwrap();
    let case = graded["graded"]["key"]["case"].as_str().unwrap();
    let line =
        json!({"annotation": 1, "at": "", "run": run, "case": case, "answer": "of-another", "passed": true});
    project.write(".holodeck/annotations.jsonl", format!("{line}\n"));
    let view = View::start(&project);
    let head = view.log_in();
    let list = view.ask("GET", "/", &head);
    let table = view.ask("GET", &format!("{}/labels.csv", pages(&list)[0]), &head);
    assert!(table.ends_with("case,input,response,passed\r\n"), "{table}");
}

#[test]
fn nothing_is_written_through_a_link_or_when_it_only_reads() {
    let project = with_run(&half_correct_server());
    project.write("outside", "kept");
    symlink(
        project.path("outside"),
        project.path(".holodeck/annotations.jsonl"),
    )
    .unwrap();
    let view = View::start(&project);
    let head = view.log_in();
    let list = view.ask("GET", "/", &head);
    let address = format!("{}/case/1", pages(&list)[0]);
    let token = token_of(&view.ask("GET", &address, &head)).to_owned();
    let own = format!("{head}origin: http://{}\r\n", view.host);
    let answer = view.ask(
        "POST",
        &address,
        &form(&own, &format!("token={token}&passed=yes")),
    );
    assert_eq!(status(&answer), "422", "{answer}");
    assert_eq!(project.read("outside"), "kept");

    let view = View::start_with(&project, &["view", "--json", "--read-only"]);
    let head = view.log_in();
    let page = view.ask("GET", &address, &head);
    assert!(
        status(&page) == "200" && !page.contains("name=\"token\""),
        "{page}"
    );
    let own = format!("{head}origin: http://{}\r\n", view.host);
    let answer = view.ask("POST", &address, &form(&own, "token=x&passed=yes"));
    assert_eq!(status(&answer), "405", "{answer}");
}
