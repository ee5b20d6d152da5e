//! The templates of `ci/`: their commands are run, as a runner does, against a repository with a main branch.
//!
//! The program is the built one in the archive that is downloaded. `uses:` steps of GitHub are not run.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use holodeck_testkit::{ModelServer, Reply};
use pretty_assertions::assert_eq;
use regex::Regex;
use serde_json::{Value, json};

use crate::{
    deploy_manifests::{fault, schema},
    documentation::pages,
    pages::{blocks, root},
    project::SECRET,
};

const AGENT: &str = "name: desk\nmodel: {provider: openai, name: gpt-4o-mini}\ninstructions: {inline: Be exact.}\n\
    test_cases:\n- {name: first, input: one, evaluations: [{metric: contains, value: thirty}]}\n\
    - name: \"second, with: marks\"\n  input: two\n  evaluations: [{metric: contains, value: thirty}]\n";

/// Commands to a runner in an answer.
const COMMANDS: &str = "no idea\n::error::forged\n  ::add-mask::x\n::set-output name=code::0\n";

/// A folder with a repository `origin`, its clone `work`, and the archive of the program.
struct Place {
    dir: tempfile::TempDir,
    server: ModelServer,
}

impl Place {
    /// With a baseline on the main branch or not.
    fn new(has_baseline: bool) -> Self {
        let server = ModelServer::answering(|request| {
            let is_brief = request.texts("system").concat().contains("brief");
            let is_second = request.texts("user").concat().contains("two");
            Reply::text(if is_brief && is_second {
                COMMANDS
            } else {
                "thirty days"
            })
        });
        let place = Self {
            dir: tempfile::tempdir().unwrap(),
            server,
        };
        place.pack();
        fs::create_dir_all(place.path("work/agents")).unwrap();
        fs::create_dir_all(place.path("home")).unwrap();
        place.write_agent(AGENT);
        fs::write(place.path("work/.gitignore"), ".holodeck/\nresults/\n").unwrap();
        place.git(&["init", "--quiet", "--initial-branch", "main"]);
        if has_baseline {
            let mut test = place.in_work("bash");
            let saved = test
                .args(["-c", "holodeck test agents/desk.yaml --save-baseline"])
                .output()
                .unwrap();
            assert!(saved.status.success(), "{saved:?}");
        }
        place.git(&["add", "."]);
        place.git(&["commit", "--quiet", "--message", "main"]);
        place.git(&["clone", "--quiet", "--bare", ".", "../origin"]);
        place.git(&["remote", "add", "origin", "../origin"]);
        place.git(&["checkout", "--quiet", "-b", "change"]);
        fs::remove_dir_all(place.path("work/agents/.holodeck")).ok();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write_agent(&self, text: &str) {
        fs::write(self.path("work/agents/desk.yaml"), text).unwrap();
    }

    /// The change of a pull request: the second case is answered with commands.
    fn break_agent(&self) {
        self.write_agent(&AGENT.replace("Be exact", "Be brief"));
    }

    /// An archive as `cargo xtask dist` makes it, with a program that starts the built one.
    fn pack(&self) {
        let name = "holodeck-0.1.0-x86_64-unknown-linux-musl";
        let folder = self.path(name);
        fs::create_dir_all(&folder).unwrap();
        let script = format!("#!/bin/sh\nexec {} \"$@\"\n", env!("CARGO_BIN_EXE_holodeck"));
        fs::write(folder.join("holodeck"), script).unwrap();
        let pack = format!("chmod 755 {name}/holodeck && tar -czf {name}.tar.gz {name}");
        let packed = Command::new("sh")
            .args(["-c", &pack])
            .current_dir(self.dir.path())
            .status()
            .unwrap();
        assert!(packed.success());
    }

    fn archive(&self) -> (String, String) {
        let path = self.path("holodeck-0.1.0-x86_64-unknown-linux-musl.tar.gz");
        let sum = Command::new("sha256sum").arg(&path).output().unwrap();
        let sum = String::from_utf8(sum.stdout).unwrap();
        (
            format!("file://{}", path.display()),
            sum.split(' ').next().unwrap().to_owned(),
        )
    }

    fn in_work(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.path("work"))
            .env_clear()
            .env(
                "PATH",
                format!(
                    "{}:/usr/bin:/bin",
                    self.path("holodeck-0.1.0-x86_64-unknown-linux-musl").display()
                ),
            )
            .env("HOME", self.path("home"))
            .env("OPENAI_BASE_URL", self.server.url())
            .env("OPENAI_API_KEY", SECRET);
        for who in ["AUTHOR", "COMMITTER"] {
            command
                .env(format!("GIT_{who}_NAME"), "a")
                .env(format!("GIT_{who}_EMAIL"), "a@example.com");
        }
        command
    }

    fn git(&self, args: &[&str]) {
        let output = self.in_work("git").args(args).output().unwrap();
        assert!(output.status.success(), "{args:?} {output:?}");
    }
}

fn yaml(path: &Path) -> Value {
    serde_yaml::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

fn action() -> Value {
    yaml(&root().join("ci/github/action.yml"))
}

/// The result of an action.
struct Ran {
    code: i32,
    output: String,
    /// The commands that the runner carries out.
    commands: Vec<String>,
    summary: String,
}

/// Runs the steps of the composite action as GitHub's runner does.
fn run_action(place: &Place, inputs: &[(&str, &str)]) -> Ran {
    let action = action();
    let (url, sha256) = place.archive();
    let mut values: BTreeMap<String, String> = BTreeMap::new();
    for (name, input) in action["inputs"].as_object().unwrap() {
        let default = input["default"].as_str().unwrap_or_default();
        values.insert(format!("inputs.{name}"), default.to_owned());
    }
    let given = [
        ("url", url.as_str()),
        ("sha256", &sha256),
        ("agent", "desk.yaml"),
        ("working-directory", "agents"),
    ];
    for (name, value) in given.iter().chain(inputs) {
        values.insert(format!("inputs.{name}"), (*value).to_owned());
    }
    let action_path = root().join("ci/github");
    values.insert("github.action_path".to_owned(), action_path.display().to_string());
    let temporary = place.path("temporary");
    fs::create_dir_all(&temporary).unwrap();
    let file = |name: &str| temporary.join(name);
    fs::write(file("path"), "").unwrap();
    fs::write(file("summary"), "").unwrap();
    let (mut code, mut output) = (0, String::new());
    for step in action["runs"]["steps"].as_array().unwrap() {
        let Some(script) = step["run"].as_str() else {
            assert!(
                step["uses"].as_str().unwrap().starts_with("actions/cache@"),
                "{step}"
            );
            continue;
        };
        assert!(
            !script.contains("${{"),
            "a value in a script could be a command: {script}"
        );
        assert_eq!(step["shell"], "bash");
        if !is_met(step["if"].as_str(), &values, code) {
            continue;
        }
        fs::write(file("output"), "").unwrap();
        let folder = step["working-directory"].as_str().unwrap_or(".");
        let paths = fs::read_to_string(file("path")).unwrap();
        let paths = paths.lines().collect::<Vec<_>>().join(":");
        let mut command = place.in_work("bash");
        command
            .args(["--noprofile", "--norc", "-e", "-o", "pipefail", "-c", script])
            .current_dir(place.path("work").join(expand(folder, &values)))
            .env("PATH", format!("{paths}:/usr/bin:/bin"))
            .env("RUNNER_TEMP", &temporary)
            .env("GITHUB_PATH", file("path"))
            .env("GITHUB_OUTPUT", file("output"))
            .env("GITHUB_STEP_SUMMARY", file("summary"));
        for (name, value) in step["env"].as_object().into_iter().flatten() {
            command.env(name, expand(value.as_str().unwrap(), &values));
        }
        let ran = command.output().unwrap();
        output.push_str(&text(&ran));
        let ended = ran.status.code().unwrap();
        if let Some(id) = step["id"].as_str() {
            let outcome = if ended == 0 { "success" } else { "failure" };
            values.insert(format!("steps.{id}.outcome"), outcome.to_owned());
            for line in fs::read_to_string(file("output")).unwrap().lines() {
                let (name, value) = line.split_once('=').unwrap();
                values.insert(format!("steps.{id}.outputs.{name}"), value.to_owned());
            }
        }
        // The first step that failed decides; the last one of the action decides if all others passed.
        if code == 0 {
            code = ended;
        }
    }
    let summary = fs::read_to_string(file("summary")).unwrap();
    assert!(!output.contains(SECRET) && !summary.contains(SECRET));
    Ran {
        code,
        commands: commands(&output),
        output,
        summary,
    }
}

fn text(output: &Output) -> String {
    let both = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    both.concat()
}

/// The conditions of the action's steps.
fn is_met(condition: Option<&str>, values: &BTreeMap<String, String>, code: i32) -> bool {
    let value = |name: &str| values.get(name).map_or("", String::as_str);
    match condition {
        None => code == 0,
        Some("always()") => true,
        Some("always() && steps.install.outputs.reports != ''") => {
            !value("steps.install.outputs.reports").is_empty()
        }
        Some(
            "inputs.gate == 'baseline' && contains(fromJSON('[\"0\", \"1\", \"4\"]'), steps.run.outputs.code)",
        ) => {
            code == 0
                && value("inputs.gate") == "baseline"
                && ["0", "1", "4"].contains(&value("steps.run.outputs.code"))
        }
        Some(other) => panic!("an unknown condition: {other}"),
    }
}

fn expand(text: &str, values: &BTreeMap<String, String>) -> String {
    let expression = Regex::new(r"\$\{\{ *([^}]*?) *\}\}").unwrap();
    let value = |found: &regex::Captures<'_>| values.get(&found[1]).cloned().unwrap_or_default();
    expression.replace_all(text, value).into_owned()
}

/// The lines that a runner of GitHub takes for commands: those that begin with two colons, unless commands are stopped.
fn commands(output: &str) -> Vec<String> {
    let mut stopped: Option<String> = None;
    let mut found = Vec::new();
    for line in output
        .lines()
        .map(str::trim_start)
        .filter(|line| line.starts_with("::"))
    {
        if let Some(word) = &stopped {
            if line.trim_end() == format!("::{word}::") {
                stopped = None;
            }
        } else if let Some(word) = line.strip_prefix("::stop-commands::") {
            stopped = Some(word.trim_end().to_owned());
        } else {
            found.push(line.to_owned());
        }
    }
    assert_eq!(stopped, None, "{output}");
    found
}

#[test]
fn an_action_passes_a_change_that_is_no_worse() {
    let place = Place::new(true);
    let ran = run_action(&place, &[]);
    assert_eq!(ran.code, 0, "{}", ran.output);
    assert_eq!(ran.commands, [""; 0], "{}", ran.output);
    assert!(
        ran.summary.contains("gate: passed") || ran.summary.contains("passed"),
        "{}",
        ran.summary
    );
}

#[test]
fn an_action_fails_a_change_that_is_worse_and_names_the_case_at_its_line() {
    let place = Place::new(true);
    place.break_agent();
    // The pull request itself says that nothing better is expected.
    let baseline = place.path("work/agents/baselines/baseline.json");
    let theirs = fs::read_to_string(&baseline)
        .unwrap()
        .replace("\"passed\"", "\"failed\"");
    fs::write(&baseline, theirs).unwrap();
    let ran = run_action(&place, &[]);
    assert_eq!(ran.code, 1, "{}", ran.output);
    let [annotation] = ran.commands.as_slice() else {
        panic!("{:?}\n{}", ran.commands, ran.output);
    };
    assert!(
        annotation
            .starts_with("::error file=agents/desk.yaml,line=6,title=second%2C with%3A marks%3A failed::"),
        "{annotation}"
    );
    assert!(annotation.contains("does not contain"), "{annotation}");
    assert!(ran.output.contains("newly failing (1)"), "{}", ran.output);
    // More may be allowed.
    assert_eq!(run_action(&place, &[("max-new-failures", "1")]).code, 0);
    assert_eq!(
        run_action(&place, &[("max-new-failures", "1"), ("gate", "cases")]).code,
        1
    );
}

#[test]
fn without_a_baseline_every_case_must_pass() {
    let place = Place::new(false);
    let ran = run_action(&place, &[]);
    assert_eq!(ran.code, 0, "{}", ran.output);
    assert!(
        ran.commands[0].starts_with("::notice::main has no baseline"),
        "{:?}",
        ran.commands
    );
    place.break_agent();
    assert_eq!(run_action(&place, &[]).code, 1);
    // A baseline that only the pull request has is none.
    let saved = place
        .in_work("bash")
        .args(["-c", "holodeck test agents/desk.yaml --save-baseline"])
        .output()
        .unwrap();
    assert_eq!(saved.status.code(), Some(1), "{saved:?}");
    assert_eq!(run_action(&place, &[]).code, 1);
}

#[test]
fn an_action_is_never_green_after_a_step_that_failed() {
    let place = Place::new(true);
    let ran = run_action(&place, &[("sha256", &"0".repeat(64))]);
    assert_ne!(ran.code, 0);
    assert!(!ran.output.contains("passed"), "{}", ran.output);
    assert_ne!(run_action(&place, &[("url", "file:///nowhere.tar.gz")]).code, 0);
    assert_ne!(run_action(&place, &[("main", "no-such-branch")]).code, 0);
    assert_eq!(run_action(&place, &[("arguments", "--filter nothing")]).code, 5);
    place.write_agent("name: desk\n");
    assert_eq!(run_action(&place, &[]).code, 2);
}

/// Runs the job of the GitLab template as its runner does: all lines in one shell.
fn run_job(place: &Place, variables: &[(&str, &str)]) -> (i32, String) {
    let job = &yaml(&root().join("ci/gitlab/holodeck.yml"))[".holodeck"];
    let lines = ["before_script", "script"].map(|part| job[part].as_array().unwrap());
    let lines = lines
        .into_iter()
        .flatten()
        .map(|line| format!("{}\n", line.as_str().unwrap()));
    let script: String = std::iter::once("set -eo pipefail\n".to_owned())
        .chain(lines)
        .collect();
    let (url, sha256) = place.archive();
    let mut command = place.in_work("bash");
    command
        .args(["--noprofile", "--norc", "-c", &script])
        .env("PATH", "/usr/bin:/bin")
        .env("CI_DEFAULT_BRANCH", "main");
    for (name, value) in job["variables"].as_object().unwrap() {
        command.env(name, value.as_str().unwrap());
    }
    command
        .env("HOLODECK_URL", url)
        .env("HOLODECK_SHA256", sha256)
        .env("HOLODECK_AGENT", "agents/desk.yaml");
    command.envs(variables.iter().copied());
    let output = command.output().unwrap();
    let text = text(&output);
    assert!(!text.contains(SECRET), "{text}");
    (output.status.code().unwrap(), text)
}

#[test]
fn a_job_of_gitlab_judges_as_the_action_does() {
    let place = Place::new(true);
    let (code, output) = run_job(&place, &[]);
    assert_eq!(code, 0, "{output}");
    assert!(place.path("work/holodeck-reports/junit.xml").exists());
    assert_ne!(run_job(&place, &[("HOLODECK_SHA256", &"0".repeat(64))]).0, 0);
    assert_eq!(
        run_job(&place, &[("HOLODECK_ARGUMENTS", "--filter nothing")]).0,
        5
    );
    place.break_agent();
    let (code, output) = run_job(&place, &[]);
    assert_eq!(code, 1, "{output}");
    assert!(output.contains("newly failing (1)"), "{output}");
    assert_eq!(run_job(&place, &[("HOLODECK_MAX_NEW_FAILURES", "1")]).0, 0);
    assert_eq!(
        run_job(
            &place,
            &[("HOLODECK_MAX_NEW_FAILURES", "1"), ("HOLODECK_GATE", "cases")]
        )
        .0,
        1
    );
    let place = Place::new(false);
    place.break_agent();
    let (code, output) = run_job(&place, &[]);
    assert_eq!(code, 1, "{output}");
    assert!(output.contains("main has no baseline"), "{output}");
}

#[test]
fn templates_fit_the_schemas_of_their_services() {
    let (actions, gitlab) = (schema("github-actions.json"), schema("gitlab-ci.json"));
    let mut action = action();
    assert_eq!(fault(&actions, &action), None);
    action["runs"]["steps"][0]["shel"] = json!("bash");
    assert!(fault(&actions, &action).is_some());
    let template = yaml(&root().join("ci/gitlab/holodeck.yml"));
    assert_eq!(fault(&gitlab, &template), None);
    // The schema does not look into hidden jobs.
    let mut job = json!({"holodeck": template[".holodeck"]});
    assert_eq!(fault(&gitlab, &job), None);
    job["holodeck"]["scrpt"] = json!([]);
    assert!(fault(&gitlab, &job).is_some());
}

#[test]
fn files_of_other_programs_in_pages_fit_their_schemas() {
    let mut found = Vec::new();
    for page in pages() {
        for block in blocks(&fs::read_to_string(&page).unwrap()) {
            let marker = block
                .marker
                .as_deref()
                .and_then(|marker| marker.strip_prefix("checked: "));
            let Some(name) = marker else { continue };
            let document: Value = serde_yaml::from_str(&block.lines.join("\n")).unwrap();
            let fault = fault(&schema(&format!("{name}.json")), &document);
            assert_eq!(fault, None, "{}:{}", page.display(), block.line);
            found.push(name.to_owned());
        }
    }
    for name in ["github-workflows", "gitlab-ci"] {
        assert!(found.iter().any(|found| found == name), "{found:?}");
    }
}

/// The archive that `Containerfile` unpacks is the one that `cargo xtask dist` and the action know.
#[test]
fn the_image_of_the_product_is_not_root_and_has_nothing_but_the_program() {
    let text = fs::read_to_string(root().join("Containerfile")).unwrap();
    let last = |name: &str| {
        let mut lines = text.lines().rev();
        lines
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
            .unwrap()
    };
    assert_eq!(last("FROM"), "scratch");
    assert_eq!(last("USER"), "10001:10001");
    assert!(!text.contains("\nRUN "));
    assert!(last("HEALTHCHECK").contains(r#""internal", "probe""#));
    let package = "holodeck-${VERSION}-x86_64-unknown-linux-musl";
    assert!(text.contains(&format!("ADD {package}.tar.gz /")));
    assert!(text.contains(&format!("/{package}/holodeck /usr/local/bin/holodeck")));
    let after = text.split("USER 10001").nth(1).unwrap();
    assert!(!after.contains("COPY") && !after.contains("ADD"), "{after}");
}
