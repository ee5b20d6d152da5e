//! `holodeck view` as a process: what its pages show, and who may read them.

use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    os::unix::fs::symlink,
    process::{Child, Stdio},
};

use holodeck_testkit::ModelServer;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::project::{Project, TWO_CASES, agent, correct_server, half_correct_server};

/// A view that listens. It ends with its test at the latest, also where that fails.
struct View {
    child: Child,
    host: String,
    token: String,
}

impl Drop for View {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl View {
    fn start(project: &Project) -> Self {
        let mut child = project
            .command(&["view", "--json"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap())
            .read_line(&mut line)
            .unwrap();
        let line: Value = serde_json::from_str(&line).unwrap();
        let link = line["url"].as_str().unwrap().strip_prefix("http://").unwrap();
        let (host, token) = link.split_once("/?once=").unwrap();
        let (host, token) = (host.to_owned(), token.to_owned());
        Self { child, host, token }
    }

    /// The whole answer to a request with these lines of its head.
    fn ask(&self, method: &str, path: &str, head: &str) -> String {
        let mut stream = TcpStream::connect(&self.host).unwrap();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nconnection: close\r\n{head}\r\n"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// The head of a request with the cookie, which takes the link.
    fn log_in(&self) -> String {
        let answer = self.ask(
            "GET",
            &format!("/?once={}", self.token),
            &format!("host: {}\r\n", self.host),
        );
        let cookie = answer
            .lines()
            .find_map(|line| line.strip_prefix("set-cookie: "))
            .unwrap();
        let (cookie, attributes) = cookie.split_once("; ").unwrap();
        assert_eq!(attributes, "HttpOnly; SameSite=Strict; Path=/");
        assert!(
            answer.starts_with("HTTP/1.1 303") && answer.contains("location: /\r\n"),
            "{answer}"
        );
        format!("host: {}\r\ncookie: {cookie}\r\n", self.host)
    }
}

/// The addresses of the pages of runs that a list leads to.
fn pages(list: &str) -> Vec<&str> {
    let parts = list.split("<a href=\"").skip(1);
    parts.filter_map(|part| part.split('"').next()).collect()
}

fn status(answer: &str) -> &str {
    answer.get(9..12).unwrap_or_default()
}

/// A project with a run of two cases.
fn with_run(model: &ModelServer) -> Project {
    let project = Project::with(&agent(&model.url(), TWO_CASES));
    project.run(&["test"]);
    project
}

#[test]
fn the_link_works_once_and_gives_a_cookie() {
    let project = Project::empty();
    let view = View::start(&project);
    let host = format!("host: {}\r\n", view.host);
    assert_eq!(status(&view.ask("GET", "/", &host)), "403");
    assert_eq!(status(&view.ask("GET", "/?once=0", &host)), "403");
    let head = view.log_in();
    assert_eq!(status(&view.ask("GET", "/", &head)), "200");
    // A second use of the link, by another program that has no cookie.
    let stolen = view.ask("GET", &format!("/?once={}", view.token), &host);
    assert_eq!(status(&stolen), "403");
    assert!(!stolen.contains("set-cookie"), "{stolen}");
    let forged = format!(
        "{host}cookie: holodeck-view-{}=x\r\n",
        view.host.rsplit(':').next().unwrap()
    );
    assert_eq!(status(&view.ask("GET", "/", &forged)), "403");
}

#[test]
fn other_hosts_origins_and_methods_are_refused() {
    let project = Project::empty();
    let view = View::start(&project);
    let own = view.log_in();
    let cookie = own.lines().last().unwrap();
    let port = view.host.rsplit(':').next().unwrap();
    for host in [
        "evil.example".to_owned(),
        format!("evil.example:{port}"),
        format!("127.0.0.1.evil.example:{port}"),
        "127.0.0.1".to_owned(),
        "localhost:1".to_owned(),
    ] {
        let answer = view.ask("GET", "/", &format!("host: {host}\r\n{cookie}\r\n"));
        assert_eq!(status(&answer), "403", "{host}");
    }
    assert_eq!(
        status(&view.ask("GET", "/", &format!("host: localhost:{port}\r\n{cookie}\r\n"))),
        "200"
    );
    for origin in ["http://evil.example", "null", &format!("https://{}", view.host)] {
        let answer = view.ask("GET", "/", &format!("{own}origin: {origin}\r\n"));
        assert_eq!(status(&answer), "403", "{origin}");
    }
    assert_eq!(
        status(&view.ask("GET", "/", &format!("{own}origin: http://{}\r\n", view.host))),
        "200"
    );
    for method in ["POST", "DELETE", "PUT", "OPTIONS"] {
        assert_eq!(status(&view.ask(method, "/", &own)), "405", "{method}");
    }
}

#[test]
fn a_path_names_no_file() {
    let project = with_run(&correct_server());
    let view = View::start(&project);
    let head = view.log_in();
    let run = project.journals().remove(0);
    let name = run.file_name().unwrap().to_str().unwrap().to_owned();
    for path in [
        "/agent.yaml".to_owned(),
        "/../agent.yaml".to_owned(),
        "/run/..%2f..%2fagent.yaml".to_owned(),
        "/run/%2e%2e%2fagent.yaml".to_owned(),
        format!("/run/.holodeck%2fruns%2f{name}"),
        format!("/run/{}", run.display().to_string().replace('/', "%2f")),
        "/compare?run=..%2fagent.yaml&run=/etc/passwd".to_owned(),
    ] {
        let answer = view.ask("GET", &path, &head);
        assert_eq!(status(&answer), "404", "{path}");
        assert!(
            !answer.contains("test_cases") && !answer.contains("root:"),
            "{answer}"
        );
    }
}

#[test]
fn runs_are_listed_and_lead_to_their_pages() {
    let project = with_run(&half_correct_server());
    let view = View::start(&project);
    let head = view.log_in();
    let list = view.ask("GET", "/", &head);
    assert!(list.contains("1 run</p>"), "{list}");
    assert!(
        list.contains("1 of 2 passed") || list.contains("1 passed"),
        "{list}"
    );
    let page = view.ask("GET", pages(&list)[0], &head);
    assert_eq!(status(&page), "200");
    assert!(page.contains("<h2>Did not pass</h2>"), "{page}");
    assert!(
        page.contains("content-security-policy: default-src 'none'"),
        "{page}"
    );
    assert!(
        view.ask("GET", "/?q=no-such-word", &head)
            .contains("No run to show.")
    );
    assert!(
        view.ask("GET", "/?state=passed", &head)
            .contains("No run to show.")
    );
    assert!(view.ask("GET", "/?state=failed", &head).contains("1 run</p>"));
}

#[test]
fn two_runs_are_compared_and_one_is_not() {
    let project = with_run(&half_correct_server());
    project.run(&["test"]);
    let view = View::start(&project);
    let head = view.log_in();
    let list = view.ask("GET", "/", &head);
    let ids: Vec<&str> = pages(&list)
        .into_iter()
        .map(|page| page.rsplit('/').next().unwrap())
        .collect();
    assert_eq!(ids.len(), 2, "{list}");
    let both = view.ask("GET", &format!("/compare?run={}&run={}", ids[0], ids[1]), &head);
    assert_eq!(status(&both), "200");
    assert!(both.contains("Comparison of two test runs"), "{both}");
    assert!(list.contains("class=\"trend\""), "{list}");
    let one = view.ask("GET", &format!("/compare?run={}", ids[0]), &head);
    assert_eq!(status(&one), "400");
    assert!(one.contains("choose two runs; 1 were chosen"), "{one}");
}

#[test]
fn a_damaged_run_is_a_row_with_its_error() {
    let project = with_run(&correct_server());
    let journal = project.journals().remove(0);
    let text = fs::read_to_string(&journal).unwrap();
    fs::write(&journal, text.replacen("\"graded\"", "\"graded\" ", 1)).unwrap();
    // Else the run file would be a second row of the same run, which passed.
    fs::remove_dir_all(project.path("results")).unwrap();
    let view = View::start(&project);
    let head = view.log_in();
    let list = view.ask("GET", "/", &head);
    assert!(
        list.contains("cannot be read</span>") && list.contains("does not fit to the lines before it"),
        "{list}"
    );
    assert_eq!(pages(&list), Vec::<&str>::new());
    assert!(
        view.ask("GET", "/?state=passed", &head)
            .contains("No run to show.")
    );
}

#[test]
fn a_run_without_an_end_is_running_only_while_the_lock_is_held() {
    let project = with_run(&correct_server());
    let journal = project.journals().remove(0);
    let text = fs::read_to_string(&journal).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let cut = lines[..lines.len() - 1].join("\n") + "\n";
    fs::write(&journal, cut).unwrap();
    let view = View::start(&project);
    let head = view.log_in();
    let list = view.ask("GET", "/", &head);
    assert!(list.contains("it was not ended"), "{list}");
    assert!(!list.contains(">running</span>"), "{list}");
    let lock = File::options()
        .write(true)
        .open(project.path(".holodeck/lock"))
        .unwrap();
    lock.lock().unwrap();
    assert!(view.ask("GET", "/", &head).contains(">running</span>"));
}

#[test]
fn links_out_of_the_folder_are_not_followed() {
    let other = with_run(&correct_server());
    let project = Project::empty();
    fs::create_dir_all(project.path(".holodeck/runs")).unwrap();
    symlink(other.path(".holodeck"), project.path("linked")).unwrap();
    symlink(
        &other.journals()[0],
        project.path(".holodeck/runs/20260101T000000000-aaaaaa.jsonl"),
    )
    .unwrap();
    let view = View::start(&project);
    let head = view.log_in();
    assert!(view.ask("GET", "/", &head).contains("No run to show."));
    // The same file as a copy is shown.
    fs::copy(
        &other.journals()[0],
        project.path(".holodeck/runs/20260101T000000000-bbbbbb.jsonl"),
    )
    .unwrap();
    assert!(view.ask("GET", "/", &head).contains("1 run</p>"));
}

#[test]
fn hostile_text_is_shown_as_text() {
    let project = Project::empty();
    let hostile = "<script>alert(1)</script>\"><img src=x>\u{1b}[2J\u{202e}gnp";
    let run = json!({"report": {
        "agent_name": hostile, "agent_config_path": "agent.yaml", "results": [],
        "summary": {"total_tests": 0}, "timestamp": "2026-01-01T00:00:00.000000+00:00", "holodeck_version": "0.7.1",
        "environment": {},
    }, "metadata": {}});
    fs::create_dir_all(project.path("results/x")).unwrap();
    project.write("results/x/run.json", run.to_string());
    project.write("results/x/<b onclick=x>.json", "{");
    let view = View::start(&project);
    let head = view.log_in();
    for page in [
        view.ask("GET", "/", &head),
        view.ask("GET", "/?q=%3Cscript%3Ealert(3)%3C/script%3E", &head),
        view.ask("GET", "/run/%3Cscript%3Ealert(4)%3C%2fscript%3E", &head),
    ] {
        assert!(page.contains("&lt;"), "{page}");
        for raw in ["<script>alert", "<img", "<b onclick", "\u{1b}", "\u{202e}"] {
            assert!(!page.contains(raw), "{raw:?} in {page}");
        }
    }
}

#[test]
fn exported_pages_are_files_without_forms() {
    let project = with_run(&half_correct_server());
    let exported = project
        .run(&["view", "--export", "pages", "--json"])
        .exits(0)
        .json();
    assert_eq!(exported["runs"], 1);
    let list = project.read("pages/index.html");
    assert!(!list.contains("<form"), "{list}");
    let page = project.read(&format!("pages/{}", pages(&list)[0]));
    assert!(
        page.contains("<a href=\"index.html\">All runs</a>") && page.contains("Did not pass"),
        "{page}"
    );
    // Never over files that are there.
    project
        .run(&["view", "--export", "pages"])
        .exits(3)
        .says("`pages` is not empty");
}

#[test]
fn a_folder_that_does_not_exist_is_named() {
    Project::empty()
        .run(&["view", "missing"])
        .exits(2)
        .says("missing");
}
