//! `holodeck view` as a process: what its pages show, and who may read them.

use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    os::unix::fs::symlink,
    process::{Child, Stdio},
};

use holodeck_testkit::{ModelServer, Reply};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::project::{Project, TWO_CASES, agent, correct_server, half_correct_server};

mod causes;
mod combinations;
mod conversations;
mod labels;
mod questions;
mod run_files;
mod run_tags;
mod save_case;
mod scale;
mod trash;

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
        Self::start_with(project, &["view", "--json"])
    }

    fn start_with(project: &Project, arguments: &[&str]) -> Self {
        let mut child = project
            .command(arguments)
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
        // On a busy machine the list may be incomplete, and says so.
        if answer.contains("more being read") {
            return self.ask(method, path, head);
        }
        answer
    }

    /// The list, for which the link is taken.
    fn list(&self) -> String {
        self.ask("GET", "/", &self.log_in())
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
    let addresses = parts.filter_map(|part| part.split('"').next());
    // The link that loads the page again has none.
    addresses.filter(|address| !address.is_empty()).collect()
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
    let own = format!("{own}origin: http://{}\r\n", view.host);
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
    let [newer, older] = [ids[0], ids[1]];
    let leads_to = [
        "/".to_owned(),
        format!("/run/{older}"),
        format!("/run/{newer}"),
        format!("/compare?run={newer}&amp;run={older}&amp;table=1"),
    ];
    assert_eq!(pages(&both), leads_to);
    assert!(list.contains("class=\"trend\""), "{list}");
    let one = view.ask("GET", &format!("/compare?run={}", ids[0]), &head);
    assert_eq!(status(&one), "400");
    assert!(one.contains("choose two to 6 runs; 1 were chosen"), "{one}");
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
    let list = view.ask("GET", "/", &head);
    assert!(
        list.contains(">running</span>") && list.contains("A run is running"),
        "{list}"
    );
    let page = view.ask("GET", pages(&list)[0], &head);
    assert!(
        page.contains("<span class=\"badge error\">running</span>"),
        "{page}"
    );
    assert!(
        !page.contains("incomplete") && !page.contains("was not ended"),
        "{page}"
    );
    drop(lock);
    let page = view.ask("GET", pages(&list)[0], &head);
    assert!(
        page.contains("incomplete") && page.contains("was not ended"),
        "{page}"
    );
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

#[test]
fn a_row_names_what_changed_since_the_run_before() {
    let server = half_correct_server();
    let project = with_run(&server);
    project.run(&["test"]);
    let changed = project
        .read("agent.yaml")
        .replacen("Answer briefly.", "Be brief.", 1);
    project.write("agent.yaml", changed.replacen("Paris", "Par", 1));
    project.run(&["test"]);
    let view = View::start(&project);
    let list = view.ask("GET", "/", &view.log_in());
    let rows: Vec<&str> = list.split("<tr>").skip(2).collect();
    assert_eq!(rows.len(), 3, "{list}");
    let changes = "the agent changed: instructions</p><p>the expectation `contains` changed in 1 case</p>";
    assert!(rows[0].contains(changes), "{}", rows[0]);
    assert!(rows[1].contains(">nothing changed<"), "{}", rows[1]);
    assert!(!rows[2].contains("changed"), "{}", rows[2]);
    // The charts mark the third run.
    let marks = list.matches("the agent changed: instructions; the exp").count();
    assert_eq!(marks, list.matches("<polyline").count(), "{list}");
}

/// The path of the summary beside the only journal.
fn summary_of(project: &Project) -> std::path::PathBuf {
    project.journals().remove(0).with_extension("summary")
}

#[test]
fn a_summary_never_makes_a_run_pass() {
    let passed = with_run(&correct_server());
    let failed = with_run(&half_correct_server());
    for project in [&passed, &failed] {
        fs::remove_dir_all(project.path("results")).unwrap();
        let view = View::start(project);
        view.ask("GET", "/", &view.log_in());
    }
    let own = fs::read_to_string(summary_of(&failed)).unwrap();
    let foreign = fs::read_to_string(summary_of(&passed)).unwrap();
    assert!(own.contains("\"passed\":1,\"failed\":1"), "{own}");
    let is_failed = |project: &Project| {
        let view = View::start(project);
        let head = view.log_in();
        view.ask("GET", "/?state=failed", &head).contains("1 run</p>")
            && view
                .ask("GET", "/?state=passed", &head)
                .contains("No run to show.")
    };
    let forged = own.replace("\"passed\":1,\"failed\":1", "\"passed\":2,\"failed\":0");
    for forged in [forged.as_str(), &foreign, "", "\n", "{}", &own[..own.len() / 2]] {
        fs::write(summary_of(&failed), forged).unwrap();
        assert!(is_failed(&failed), "{forged}");
        assert_eq!(
            fs::read_to_string(summary_of(&failed)).unwrap(),
            own,
            "built again"
        );
    }
    // A link is not followed, and not written through.
    let outside = passed.path("outside");
    fs::write(&outside, &foreign).unwrap();
    fs::remove_file(summary_of(&failed)).unwrap();
    symlink(&outside, summary_of(&failed)).unwrap();
    assert!(is_failed(&failed));
    assert_eq!(fs::read_to_string(&outside).unwrap(), foreign);
}

#[test]
fn a_journal_that_changed_after_its_summary_is_read_again() {
    let project = with_run(&correct_server());
    fs::remove_dir_all(project.path("results")).unwrap();
    let is_damaged = |project: &Project| {
        let view = View::start(project);
        view.ask("GET", "/", &view.log_in())
            .contains("cannot be read</span>")
    };
    assert!(!is_damaged(&project) && summary_of(&project).is_file());
    // Of the same length, and with the time of before.
    let journal = project.journals().remove(0);
    let before = fs::metadata(&journal).unwrap().modified().unwrap();
    let text = fs::read_to_string(&journal).unwrap();
    let changed = text.replacen("\"graded\":", "\"grabed\":", 1);
    assert_eq!(text.len(), changed.len());
    fs::write(&journal, changed).unwrap();
    File::options()
        .write(true)
        .open(&journal)
        .unwrap()
        .set_modified(before)
        .unwrap();
    assert!(is_damaged(&project));
}

#[test]
fn a_view_that_only_reads_writes_nothing() {
    let project = with_run(&correct_server());
    project
        .run(&["view", "--export", "pages", "--read-only"])
        .exits(0);
    assert!(!summary_of(&project).exists());
    project.run(&["view", "--export", "more"]).exits(0);
    assert!(summary_of(&project).is_file());
}

#[test]
fn a_case_has_its_own_page_with_expectation_trials_and_other_runs() {
    let server = half_correct_server();
    let project = with_run(&server);
    project.run(&["test", "--trials", "2"]);
    let view = View::start(&project);
    let head = view.log_in();
    let list = view.ask("GET", "/", &head);
    let run = pages(&list)[0];
    let page = view.ask("GET", run, &head);
    let address = format!("{run}/case/2");
    assert!(page.contains(&format!("<a href=\"{address}\">")), "{page}");
    let case = view.ask("GET", &address, &head);
    assert_eq!(status(&case), "200");
    for part in [
        "<h1>sum <span class=\"badge failed\">",
        "<pre>Answer briefly.</pre>",
        "<del>12</del>",
        "<ins>It is 13.</ins>",
        "holodeck test agent.yaml --filter=sum</pre>",
        "Trial 2 <span class=\"badge failed\">",
        "(this run)",
    ] {
        assert!(case.contains(part), "{part} in {case}");
    }
    // The run before, which leads to the same case there.
    let older = format!("{}/case/2", pages(&list)[1]);
    assert!(case.contains(&format!("<a href=\"{older}\">")), "{case}");
    assert!(!view.ask("GET", &older, &head).contains("Trial 2"));
    for no_case in ["0", "3", "-1", "x", "..%2f1", "1%00", "18446744073709551616"] {
        let answer = view.ask("GET", &format!("{run}/case/{no_case}"), &head);
        assert_eq!(status(&answer), "404", "{no_case}");
    }
    assert_eq!(
        status(&view.ask("GET", &address, &format!("host: {}\r\n", view.host))),
        "403"
    );
}

#[test]
fn the_name_of_a_case_is_text_on_its_page_and_one_word_in_its_command() {
    let server = half_correct_server();
    let cases = "  - name: \"<script>alert(1)</script> '; touch owned; '*\"\n    input: 7 + 5?\n    \
                 ground_truth: \"<img src=x onerror=alert(2)> \\u202E12\"\n  - input: 7 + 5?\n    ground_truth: \"12\"\n";
    let project = Project::with(&agent(&server.url(), cases));
    project.run(&["test"]);
    let view = View::start(&project);
    let head = view.log_in();
    let list = view.ask("GET", "/", &head);
    let page = view.ask("GET", &format!("{}/case/1", pages(&list)[0]), &head);
    for raw in ["<script>alert", "<img src", "\u{202e}"] {
        assert!(!page.contains(raw), "{raw:?} in {page}");
    }
    let command = "--filter=&#39;&lt;script&gt;alert(1)&lt;/script&gt; &#39;\\&#39;&#39;; touch owned; &#39;\\&#39;&#39;[*]&#39;";
    assert!(page.contains(command), "{page}");
    let page = view.ask("GET", &format!("{}/case/2", pages(&list)[0]), &head);
    assert!(page.contains("The case has no name"), "{page}");
}

#[test]
fn the_cases_of_a_run_are_chosen_by_the_server() {
    let server = half_correct_server();
    let project = with_run(&server);
    let changed = project.read("agent.yaml").replacen("7 + 5?", "7 + 5? Hint", 1);
    project.write(
        "agent.yaml",
        changed.replacen("  - name: sum\n", "  - name: sum\n    tags: [slow]\n", 1),
    );
    project.run(&["test"]);
    let view = View::start(&project);
    let head = view.log_in();
    let list = view.ask("GET", "/", &head);
    let run = pages(&list)[0];
    let shown = |query: &str| {
        let page = view.ask("GET", &format!("{run}?{query}"), &head);
        assert_eq!(status(&page), "200", "{query}");
        ["capital", "sum"].map(|name| page.contains(&format!("<b>{name}</b> <span class=\"numbers\">")))
    };
    for (query, expected) in [
        ("", [true, true]),
        ("state=failed", [false, true]),
        ("state=passed", [true, false]),
        ("state=error", [false, false]),
        ("metric=contains", [false, true]),
        ("metric=other", [false, false]),
        ("tag=slow", [false, true]),
        ("tool=any", [false, false]),
        ("q=FRANCE", [true, false]),
        ("re=%5E7+%5C%2B", [false, false]),
        ("re=(%3Fm)%5E7%20%5C%2B", [false, true]),
        ("changed=1", [false, true]),
        ("changed=1&state=passed", [false, false]),
    ] {
        assert_eq!(shown(query), expected, "{query}");
    }
    let page = view.ask("GET", &format!("{run}?re=("), &head);
    assert_eq!(status(&page), "400");
    assert!(page.contains("not a regular expression"), "{page}");
    // The first run has none before it.
    let first = view.ask("GET", pages(&list)[1], &head);
    assert!(!first.contains("name=\"changed\""), "{first}");
}

#[test]
fn several_runs_stand_side_by_side_with_a_test_for_every_two() {
    let server = half_correct_server();
    let project = with_run(&server);
    let agent = project.read("agent.yaml");
    project.write("agent.yaml", agent.replacen("\"12\"", "\"13\"", 1));
    project.run(&["test"]);
    project.write("agent.yaml", agent.replacen("Answer briefly.", "Be brief.", 1));
    project.run(&["test", "--filter", "capital"]);
    let view = View::start(&project);
    let head = view.log_in();
    let list = view.ask("GET", "/", &head);
    let ids: Vec<String> = pages(&list)
        .into_iter()
        .map(|page| format!("run={}", page.rsplit('/').next().unwrap()))
        .collect();
    let address = format!("/compare?{}&table=1", ids.join("&"));
    let table = view.ask("GET", &address, &head);
    assert_eq!(status(&table), "200", "{table}");
    let rows: Vec<&str> = table.split("<tr class=").skip(1).collect();
    assert!(
        rows[0].starts_with("\"same\"") && rows[0].contains("capital"),
        "{}",
        rows[0]
    );
    assert!(
        rows[1].starts_with("\"differs\"") && rows[1].contains("sum"),
        "{}",
        rows[1]
    );
    // The oldest run is the first column.
    let states: Vec<&str> = rows[1]
        .split("<span class=\"badge ")
        .skip(1)
        .filter_map(|badge| badge.split(['>', '<']).nth(1))
        .collect();
    assert_eq!(states, ["failed", "passed", "not in this run"]);
    assert!(rows[1].contains("another expectation"), "{}", rows[1]);
    for pair in ["A → B", "A → C", "B → C"] {
        assert!(table.contains(pair), "{table}");
    }
    let different = view.ask("GET", &format!("{address}&different=1"), &head);
    assert!(!different.contains("capital"), "{different}");
    let many = [ids[0].as_str(); 7].join("&");
    assert_eq!(
        status(&view.ask("GET", &format!("/compare?{many}"), &head)),
        "400"
    );
}

/// The head and the body of a form.
fn form(head: &str, body: &str) -> String {
    let kind = "content-type: application/x-www-form-urlencoded";
    format!("{head}{kind}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

/// The token in the form of a page.
fn token_of(page: &str) -> &str {
    let token = page.split("name=\"token\" value=\"").nth(1).unwrap();
    token.split('"').next().unwrap()
}
