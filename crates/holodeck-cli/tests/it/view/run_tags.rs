//! Runs that a person tags.

use pretty_assertions::assert_eq;

use super::*;

/// A view that may write, with the head of its requests, the token of its forms, and the ids of its runs, newest first.
fn tagging(project: &Project) -> (View, String, String, Vec<String>) {
    let view = View::start(project);
    let head = view.log_in();
    let list = view.ask("GET", "/", &head);
    let token = token_of(&list).to_owned();
    let ids = pages(&list)
        .into_iter()
        .map(|page| page.strip_prefix("/run/").unwrap().to_owned());
    let ids = ids.collect();
    let own = format!("{head}origin: http://{}\r\n", view.host);
    (view, own, token, ids)
}

fn file(project: &Project) -> String {
    fs::read_to_string(project.path(".holodeck/annotations.jsonl")).unwrap_or_default()
}

/// The rows of a list that have this tag.
fn tagged(list: &str, tag: &str) -> usize {
    list.matches(&format!("<span class=\"tag\">#{tag}</span>"))
        .count()
}

#[test]
fn a_tag_is_given_to_chosen_runs_filtered_by_and_taken_away() {
    let server = half_correct_server();
    let project = with_run(&server);
    project.run(&["test"]);
    project.run(&["test"]);
    let (view, own, token, ids) = tagging(&project);
    let post = |path: &str, body: &str| view.ask("POST", path, &form(&own, &format!("token={token}&{body}")));
    let list = |query: &str| view.ask("GET", &format!("/{query}"), &own);
    assert!(!list("").contains("name=\"run_tag\""));
    let answer = post("/tag", &format!("tag=+release-1+&run={}&run={}", ids[0], ids[2]));
    assert!(
        status(&answer) == "303" && answer.contains("location: /\r\n"),
        "{answer}"
    );
    assert_eq!(
        status(&post("/tag", &format!("tag=%C3%BCber/2&run={}", ids[1]))),
        "303"
    );
    let all = list("");
    assert_eq!((tagged(&all, "release-1"), tagged(&all, "über/2")), (2, 1));
    let chosen = list("?run_tag=release-1");
    assert!(
        chosen.contains("2 of 3 runs") && tagged(&chosen, "über/2") == 0,
        "{chosen}"
    );
    assert!(chosen.contains("<option selected>release-1</option>"), "{chosen}");
    assert!(list("?run_tag=release").contains("No run to show."));
    assert!(list("?q=RELEASE").contains("2 of 3 runs"));
    // A second time it changes nothing.
    let before = file(&project);
    assert_eq!(before.lines().count(), 3);
    assert_eq!(
        status(&post("/tag", &format!("tag=release-1&run={}", ids[0]))),
        "303"
    );
    assert_eq!(file(&project), before);
    // From the page of the run, to which the answer leads back.
    let page = view.ask("GET", &format!("/run/{}", ids[0]), &own);
    assert_eq!(tagged(&page, "release-1"), 1);
    let answer = post("/untag", &format!("tag=release-1&run={}&back=run", ids[0]));
    assert!(
        answer.contains(&format!("location: /run/{}\r\n", ids[0])),
        "{answer}"
    );
    assert_eq!(
        tagged(&view.ask("GET", &format!("/run/{}", ids[0]), &own), "release-1"),
        0
    );
    assert_eq!(tagged(&list(""), "release-1"), 1);
    // It was only appended.
    assert!(file(&project).starts_with(&before));
    assert_eq!(file(&project).lines().count(), 4);

    project.run(&["view", "--export", "pages"]).exits(0);
    let index = project.read("pages/index.html");
    assert_eq!((tagged(&index, "release-1"), tagged(&index, "über/2")), (1, 1));
    let page = project.read(&format!("pages/run-{}.html", ids[1]));
    assert!(
        page.contains("<p class=\"dim\">#über/2 </p>") && !page.contains("action=\"/tag\""),
        "{page}"
    );
}

#[test]
fn a_browser_may_say_from_which_page_a_form_comes() {
    let project = with_run(&correct_server());
    let (view, own, _, ids) = tagging(&project);
    let run = format!("/run/{}", ids[0]);
    for path in ["/", &run, &format!("{run}/case/1"), &format!("{run}/case/1/save")] {
        let page = view.ask("GET", path, &own);
        assert_eq!(status(&page), "200", "{path}");
        // With `no-referrer`, in the head or in the page, it would send `Origin: null`, which the view refuses.
        assert!(
            page.contains("referrer-policy: same-origin\r\n"),
            "{path}: {page}"
        );
        assert!(
            page.contains("<meta name=\"referrer\" content=\"same-origin\">"),
            "{path}: {page}"
        );
    }
}

#[test]
fn a_tag_is_refused_unless_it_is_one_and_the_form_is_of_this_view() {
    let project = with_run(&correct_server());
    let (view, own, token, ids) = tagging(&project);
    let id = &ids[0];
    let post = |head: &str, body: &str| view.ask("POST", "/tag", &form(head, body));
    let long = "x".repeat(41);
    for (tag, why) in [
        ("", "at least one character"),
        ("+%0A", "at least one character"),
        (long.as_str(), "at most 40 characters"),
        ("two+words", "letters, digits"),
        ("%3Cscript%3E", "letters, digits"),
        ("a%E2%80%AEb", "letters, digits"),
        ("a%00", "letters, digits"),
        ("%22", "letters, digits"),
    ] {
        let answer = post(&own, &format!("token={token}&run={id}&tag={tag}"));
        assert!(
            status(&answer) == "422" && answer.contains(why),
            "{tag}: {answer}"
        );
    }
    let body = format!("token={token}&run={id}&tag=x");
    let foreign = own.replace("origin: http://", "origin: http://evil.");
    let without_origin = own
        .lines()
        .filter(|line| !line.starts_with("origin"))
        .map(|line| format!("{line}\r\n"));
    let cookie_less = format!("host: {0}\r\norigin: http://{0}\r\n", view.host);
    for (head, body) in [
        (foreign, body.clone()),
        (without_origin.collect(), body.clone()),
        (cookie_less, body.clone()),
        (own.clone(), body.replace(&token, "x")),
    ] {
        assert_eq!(status(&post(&head, &body)), "403", "{head} {body}");
    }
    assert_eq!(status(&post(&own, &format!("token={token}&tag=x"))), "400");
    assert_eq!(
        status(&post(&own, &format!("token={token}&tag=x&run={id}&run=..%2fx"))),
        "404"
    );
    assert_eq!(file(&project), "");
    for number in 0..20 {
        assert_eq!(
            status(&post(&own, &format!("token={token}&run={id}&tag=t{number}"))),
            "303"
        );
    }
    let answer = post(&own, &body);
    assert!(
        status(&answer) == "422" && answer.contains("at most 20 tags"),
        "{answer}"
    );

    let view = View::start_with(&project, &["view", "--json", "--read-only"]);
    let head = view.log_in();
    let list = view.ask("GET", "/", &head);
    assert!(tagged(&list, "t7") == 1 && !list.contains("/untag"), "{list}");
    let own = format!("{head}origin: http://{}\r\n", view.host);
    assert_eq!(status(&view.ask("POST", "/tag", &form(&own, &body))), "405");
    assert!(
        !view
            .ask("GET", &format!("/run/{id}"), &head)
            .contains("action=\"/tag\"")
    );
}

#[test]
fn a_tag_is_of_one_run_and_a_damaged_line_is_named() {
    let project = with_run(&correct_server());
    let (view, own, token, ids) = tagging(&project);
    let body = format!("token={token}&run={}&tag=mine", ids[0]);
    assert_eq!(status(&view.ask("POST", "/tag", &form(&own, &body))), "303");
    let line = file(&project);
    let mut other: Value = serde_json::from_str(&line).unwrap();
    other["identity"] = json!("0".repeat(32));
    other["tag"] = json!("of-another");
    let mut hostile: Value = serde_json::from_str(&line).unwrap();
    hostile["tag"] = json!("<script>alert(1)</script>\u{202e}");
    let mut newer: Value = serde_json::from_str(&line).unwrap();
    newer["annotation"] = json!(2);
    newer["tag"] = json!("newer");
    let long = format!("{{\"annotation\":1,\"x\":\"{}\"}}", "x".repeat(200_000));
    let text = format!("{line}{other}\n{hostile}\n\n{long}\n{newer}\n{{\"annot");
    project.write(".holodeck/annotations.jsonl", &text);
    let list = view.ask("GET", "/", &own);
    let named = "lines 3, 5, 6, 7 of `.holodeck/annotations.jsonl` are damaged and count for nothing";
    assert!(list.contains(named), "{list}");
    assert_eq!(tagged(&list, "mine"), 1);
    for absent in ["of-another", "<script>alert", "newer<"] {
        assert!(!list.contains(absent), "{absent} in {list}");
    }
    // A line after one that was cut is whole.
    let body = format!("token={token}&run={}&tag=later", ids[0]);
    assert_eq!(status(&view.ask("POST", "/tag", &form(&own, &body))), "303");
    let list = view.ask("GET", "/", &own);
    assert!(tagged(&list, "later") == 1 && list.contains(named), "{list}");
    assert!(file(&project).starts_with(&text));
    // A file that cannot be read is not an empty one.
    fs::remove_file(project.path(".holodeck/annotations.jsonl")).unwrap();
    fs::create_dir(project.path(".holodeck/annotations.jsonl")).unwrap();
    let list = view.ask("GET", "/", &own);
    assert!(list.contains("so that tags and labels are missing"), "{list}");
    assert_eq!(status(&view.ask("POST", "/tag", &form(&own, &body))), "422");
}
