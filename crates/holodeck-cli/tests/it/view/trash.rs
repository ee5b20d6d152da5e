//! Runs that a person moves to the trash, and back.

use pretty_assertions::assert_eq;

use super::*;

/// A view that may write, with the head of its requests and the token of its forms.
fn writable(project: &Project) -> (View, String, String) {
    let view = View::start(project);
    let head = view.log_in();
    let list = view.ask("GET", "/", &head);
    let token = list
        .split("formaction=\"/delete\" name=\"token\" value=\"")
        .nth(1)
        .unwrap();
    let token = token.split('"').next().unwrap().to_owned();
    let own = format!("{head}origin: http://{}\r\n", view.host);
    (view, own, token)
}

/// The ids of the runs of a list, newest first.
fn ids(list: &str) -> Vec<String> {
    let boxes = list.split("name=\"run\" value=\"").skip(1);
    boxes
        .map(|rest| rest.split('"').next().unwrap().to_owned())
        .collect()
}

fn files(project: &Project) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![project.dir()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_none_or(|extension| extension != "summary") {
                found.push(path.strip_prefix(project.dir()).unwrap().display().to_string());
            }
        }
    }
    found.sort();
    found
}

#[test]
fn a_run_goes_to_the_trash_with_its_run_file_and_comes_back() {
    let server = half_correct_server();
    let project = with_run(&server);
    project.run(&["test"]);
    let (view, own, token) = writable(&project);
    let before = (files(&project), view.ask("GET", "/", &own));
    let newest = ids(&before.1).remove(0);
    let post = |path: &str, body: &str| view.ask("POST", path, &form(&own, body));
    let answer = post("/delete", &format!("token={token}&run={newest}"));
    assert!(
        status(&answer) == "303" && answer.contains("location: /\r\n"),
        "{answer}"
    );
    let list = view.ask("GET", "/", &own);
    assert!(list.contains("1 run</p>") && !list.contains(&newest), "{list}");
    assert_eq!(project.journals().len(), 1);
    // The journal and the run file, each with its own button.
    let buttons: Vec<&str> = list
        .split("name=\"file\" value=\"")
        .skip(1)
        .map(|rest| &rest[..32])
        .collect();
    assert_eq!(buttons.len(), 2, "{list}");
    let body: Vec<String> = buttons.iter().map(|id| format!("&file={id}")).collect();
    let body = body.concat();
    assert_eq!(status(&post("/restore", &format!("token={token}{body}"))), "303");
    assert_eq!(files(&project), before.0);
    assert_eq!(ids(&view.ask("GET", "/", &own)), ids(&before.1));
    // A second time it is not there.
    assert_eq!(status(&post("/restore", &format!("token={token}{body}"))), "404");
}

#[test]
fn a_run_that_something_is_made_of_stays() {
    let server = half_correct_server();
    let project = with_run(&server);
    project.run(&["test", "--save-baseline"]);
    project.run(&["test", "regrade"]);
    let saved = project.read("baselines/baseline.json");
    let id = project.journals()[1]
        .file_stem()
        .unwrap()
        .to_str()
        .unwrap()
        .to_owned();
    project.write(
        "baselines/other.json",
        saved.replace(&id, "20260101T000000000-cccccc"),
    );
    let (view, own, token) = writable(&project);
    let all = files(&project);
    let list = view.ask("GET", "/", &own);
    let row = |text: &str| {
        let row = list.split("<tr>").find(|row| row.contains(text)).unwrap();
        ids(row).remove(0)
    };
    let journals = project.journals();
    let name = |place: usize| journals[place].file_name().unwrap().to_str().unwrap().to_owned();
    for (id, why) in [
        (row(&name(1)), "is made of it"),
        (row("baselines/other.json"), "it is a baseline"),
    ] {
        let answer = view.ask("POST", "/delete", &form(&own, &format!("token={token}&run={id}")));
        assert_eq!(status(&answer), "422");
        assert!(answer.contains(why), "{answer}");
    }
    assert_eq!(files(&project), all);
    // While a command writes, nothing goes.
    let lock = File::options()
        .write(true)
        .open(project.path(".holodeck/lock"))
        .unwrap();
    lock.lock().unwrap();
    let body = format!("token={token}&run={}", row(&name(2)));
    let answer = view.ask("POST", "/delete", &form(&own, &body));
    assert!(answer.contains("another run is writing here"), "{answer}");
    drop(lock);
    assert_eq!(status(&view.ask("POST", "/delete", &form(&own, &body))), "303");
}

#[test]
fn nobody_else_deletes_a_run_and_no_path_is_one() {
    let project = with_run(&half_correct_server());
    project.write("outside.jsonl", "kept");
    let (view, own, token) = writable(&project);
    let all = files(&project);
    let id = ids(&view.ask("GET", "/", &own)).remove(0);
    let host = format!("host: {0}\r\norigin: http://{0}\r\n", view.host);
    let foreign = own.replace(
        &format!("origin: http://{}", view.host),
        "origin: http://evil.example",
    );
    let rebound = own.replace(&format!("host: {}", view.host), "host: evil.example");
    let body = format!("token={token}&run={id}&file={id}");
    for path in ["/delete", "/restore"] {
        for head in [&host, &foreign, &rebound] {
            assert_eq!(
                status(&view.ask("POST", path, &form(head, &body))),
                "403",
                "{head}"
            );
        }
        let tokenless = body.replace(&token, "0");
        assert_eq!(status(&view.ask("POST", path, &form(&own, &tokenless))), "403");
        assert_eq!(status(&view.ask("GET", &format!("{path}?{body}"), &own)), "405");
        for trick in ["..%2F..%2Foutside.jsonl", "%2Fetc%2Fpasswd", "outside.jsonl", ""] {
            let body = format!("token={token}&run={trick}&file={trick}");
            assert_eq!(
                status(&view.ask("POST", path, &form(&own, &body))),
                "404",
                "{trick}"
            );
        }
    }
    // A link in the place of the trash is not followed.
    fs::create_dir(project.path("elsewhere")).unwrap();
    symlink(project.path("elsewhere"), project.path(".holodeck/trash")).unwrap();
    let answer = view.ask("POST", "/delete", &form(&own, &format!("token={token}&run={id}")));
    assert!(
        status(&answer) == "422" && answer.contains("is a link"),
        "{answer}"
    );
    assert_eq!(files(&project), all);
    let view = View::start_with(&project, &["view", "--json", "--read-only"]);
    let head = view.log_in();
    let list = view.ask("GET", "/", &head);
    assert!(
        !list.contains("/delete") && !list.contains("name=\"token\""),
        "{list}"
    );
    let own = format!("{head}origin: http://{}\r\n", view.host);
    assert_eq!(status(&view.ask("POST", "/delete", &form(&own, &body))), "405");
}
