//! `holodeck deploy compose` and `kubernetes`: what their files allow a container, and that the jobs of a test decide as one run
//! does.

use std::{fs, path::Path, process::Command};

use holodeck_testkit::{ModelServer, Reply};
use pretty_assertions::assert_eq;
use serde::Deserialize as _;
use serde_json::{Value, json};

use crate::project::{CommandOutput, Project, SECRET};

const AGENT: &str = "name: Order Desk\nmodel: {provider: openai, name: gpt-4o-mini}\ninstructions: {inline: Answer.}\n\
    events: {store: postgres}\ntest_cases:\n- {name: one, input: hello}\n";

const DEPLOYMENT: &str = "deployment:\n  registry: {url: registry.example.com, repository: desk, tag_strategy: latest}\n  \
    target: {provider: gcp, gcp: {project_id: my-project}}\n  \
    environment: {LEVEL: \"a: $b\", DESK_PASSWORD: hunter2, MODE: \"${MODE}\", CALLBACK: \"https://me:pass-word@host/\"}\n";

/// The documents that a command prints.
fn documents(project: &Project, args: &[&str]) -> Vec<Value> {
    let mut command = project.command(&["deploy"]);
    let output = command
        .args(args)
        .env("MODE", "quick")
        .env("HOLODECK_TOKEN", SECRET)
        .output();
    let printed = CommandOutput::of(&output.unwrap()).exits(0).stdout;
    for secret in ["hunter2", "pass-word"] {
        assert!(!printed.contains(secret), "{printed}");
    }
    parse(&printed)
}

fn parse(text: &str) -> Vec<Value> {
    let documents = serde_yaml::Deserializer::from_str(text);
    documents
        .map(|document| Value::deserialize(document).unwrap())
        .collect()
}

fn all_manifests() -> Vec<Value> {
    let project = Project::with(&format!(
        "{AGENT}{DEPLOYMENT}embedding_provider: {{provider: hash}}\ntools:\n\
         - {{type: vectorstore, name: kb, description: D., source: docs}}\n"
    ));
    project.write("docs/a.md", "text");
    let built = project.command(&["index", "build"]).env("MODE", "quick").output();
    CommandOutput::of(&built.unwrap()).exits(0);
    let mut all = documents(&project, &["kubernetes"]);
    all.extend(documents(
        &project,
        &["kubernetes", "--test", "--shards", "3", "--run", "r7"],
    ));
    all
}

/// Every pod of the manifests.
fn pods(manifests: &[Value]) -> Vec<&Value> {
    let specs = manifests
        .iter()
        .map(|manifest| &manifest["spec"]["template"]["spec"]);
    specs.filter(|pod| pod.is_object()).collect()
}

#[test]
fn no_container_is_root_or_can_write_its_root_or_gain_rights() {
    let manifests = all_manifests();
    let pods = pods(&manifests);
    assert_eq!(pods.len(), 3);
    for pod in pods {
        let context = &pod["securityContext"];
        assert_eq!(context["runAsNonRoot"], true);
        assert!(context["runAsUser"].as_u64().unwrap() > 0);
        assert_eq!(context["seccompProfile"]["type"], "RuntimeDefault");
        assert_eq!(pod["automountServiceAccountToken"], false);
        assert!(pod.get("hostNetwork").is_none() && pod.get("hostPID").is_none());
        let containers = [&pod["containers"], &pod["initContainers"]];
        let containers: Vec<&Value> = containers
            .iter()
            .flat_map(|list| list.as_array().unwrap())
            .collect();
        assert_eq!(containers.len(), 2);
        for container in containers {
            let context = &container["securityContext"];
            assert_eq!(context["readOnlyRootFilesystem"], true);
            assert_eq!(context["allowPrivilegeEscalation"], false);
            assert_eq!(context["capabilities"]["drop"], json!(["ALL"]));
            assert!(context.get("privileged").is_none());
            assert!(
                container["resources"]["limits"]["memory"].is_string(),
                "{container}"
            );
        }
        // What is written lies on volumes that the pod has.
        let volumes: Vec<&Value> = pod["volumes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| &it["name"])
            .collect();
        for mount in pod["containers"][0]["volumeMounts"].as_array().unwrap() {
            assert!(volumes.contains(&&mount["name"]), "{mount}");
        }
    }
}

#[test]
fn secrets_are_named_and_never_written() {
    let manifests = all_manifests();
    let server = &pods(&manifests)[0]["containers"][0];
    let of = |name: &str| {
        let variables = server["env"].as_array().unwrap();
        variables
            .iter()
            .find(|variable| variable["name"] == name)
            .unwrap_or(&Value::Null)
            .clone()
    };
    for required in [
        "OPENAI_API_KEY",
        "HOLODECK_TOKEN",
        "HOLODECK_EVENTS_URL",
        "DESK_PASSWORD",
        "CALLBACK",
    ] {
        let reference = &of(required)["valueFrom"]["secretKeyRef"];
        assert_eq!(
            reference,
            &json!({"name": "order-desk-secrets", "key": required, "optional": false})
        );
    }
    assert_eq!(of("LEVEL")["value"], "a: $$b");
    assert_eq!(of("MODE")["value"], "quick");
    assert_eq!(
        of("OPENAI_BASE_URL")["valueFrom"]["secretKeyRef"]["optional"],
        true
    );
    // A test has no clients and no conversations.
    let test = pods(&manifests)[1]["containers"][0]["env"].to_string();
    assert!(
        !test.contains("HOLODECK_TOKEN") && !test.contains("HOLODECK_EVENTS_URL"),
        "{test}"
    );
    assert!(test.contains("OPENAI_API_KEY"));
}

#[test]
fn a_server_ends_after_its_answers_and_is_asked_for_its_state() {
    let manifests = all_manifests();
    let deployment = &manifests[0];
    assert_eq!(deployment["kind"], "Deployment");
    assert_eq!(
        deployment["spec"]["template"]["spec"]["containers"][0]["image"],
        "registry.example.com/desk:latest"
    );
    let pod = &deployment["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    let args: Vec<&str> = container["args"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it.as_str().unwrap())
        .collect();
    let drain = args.iter().position(|arg| *arg == "--drain").unwrap();
    let drain: u64 = args[drain + 1].parse().unwrap();
    let sleep = container["lifecycle"]["preStop"]["sleep"]["seconds"]
        .as_u64()
        .unwrap();
    // `serve` needs up to ten seconds after the drain.
    assert!(pod["terminationGracePeriodSeconds"].as_u64().unwrap() > drain + sleep + 10);
    assert_eq!(container["readinessProbe"]["httpGet"]["path"], "/ready");
    assert_eq!(container["livenessProbe"]["httpGet"]["path"], "/health");
    // A replica that is up before another one ends.
    assert_eq!(
        deployment["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"],
        0
    );
    assert!(deployment["spec"]["replicas"].as_u64().unwrap() > 1);
    let kinds: Vec<&Value> = manifests.iter().map(|manifest| &manifest["kind"]).collect();
    assert_eq!(
        kinds,
        [
            "Deployment",
            "Service",
            "PodDisruptionBudget",
            "PersistentVolumeClaim",
            "Job",
            "Job"
        ]
    );
}

#[test]
fn what_pods_cannot_share_is_refused() {
    let project = Project::with(&AGENT.replace("postgres", "sqlite"));
    project
        .run(&["deploy", "kubernetes"])
        .exits(2)
        .says("pods share no file (agent.yaml:4:")
        .says("events: {store: postgres}");
    let project = Project::with(&format!("{AGENT}serve: {{auth: {{mode: none}}}}\n"));
    for command in ["kubernetes", "compose"] {
        project
            .run(&["deploy", command])
            .exits(2)
            .says("loopback")
            .says("agent.yaml:7:");
    }
    let project = Project::with(&AGENT.replace("test_cases:\n- {name: one, input: hello}\n", ""));
    project
        .run(&["deploy", "kubernetes", "--test"])
        .exits(5)
        .says("no test cases");
    project.run(&["deploy", "kubernetes", "--shards", "2"]).exits(2);
}

#[test]
fn compose_has_a_database_only_where_conversations_are_kept_in_one() {
    let project = Project::with(&format!("{AGENT}{DEPLOYMENT}"));
    let found = documents(&project, &["compose"]);
    let agent = &found[0]["services"]["agent"];
    assert_eq!(agent["user"], "10001:10001");
    assert_eq!(agent["read_only"], true);
    assert_eq!(agent["cap_drop"], json!(["ALL"]));
    assert_eq!(agent["ports"], json!(["127.0.0.1:8080:8080"]));
    assert_eq!(agent["depends_on"]["database"]["condition"], "service_healthy");
    let variables = &agent["environment"];
    assert_eq!(
        variables["OPENAI_API_KEY"],
        "${OPENAI_API_KEY:?set OPENAI_API_KEY}"
    );
    assert_eq!(variables["DESK_PASSWORD"], "${DESK_PASSWORD:?set DESK_PASSWORD}");
    assert_eq!(variables["LEVEL"], "a: $$b");
    assert!(
        variables["HOLODECK_EVENTS_URL"]
            .as_str()
            .unwrap()
            .starts_with("postgresql://holodeck:${POSTGRES_PASSWORD:?")
    );
    for service in found[0]["services"].as_object().unwrap().values() {
        assert_eq!(service["read_only"], true);
        assert_eq!(service["cap_drop"], json!(["ALL"]));
        assert!(service["healthcheck"]["test"].is_array());
        assert_ne!(service["user"], "0");
    }
    let project = Project::with(&AGENT.replace("postgres", "sqlite"));
    let found = documents(&project, &["compose"]);
    assert!(found[0]["services"].get("database").is_none());
    assert!(found[0]["services"]["agent"].get("depends_on").is_none());
}

#[test]
fn a_manifest_replaces_no_other_file() {
    let project = Project::with(AGENT);
    project.run(&["deploy", "compose", "-o", "compose.yaml"]).exits(0);
    project.run(&["deploy", "compose", "-o", "compose.yaml"]).exits(0);
    project.write("compose.yaml", "mine");
    project
        .run(&["deploy", "compose", "-o", "compose.yaml"])
        .exits(2)
        .says("exists");
    assert_eq!(project.read("compose.yaml"), "mine");
    project
        .run(&["deploy", "compose", "-o", "compose.yaml", "--force"])
        .exits(0);
}

#[test]
fn two_runs_never_share_their_objects() {
    let project = Project::with(AGENT);
    let one = project.run(&["deploy", "kubernetes", "--test"]).exits(0).stdout;
    let other = project.run(&["deploy", "kubernetes", "--test"]).exits(0).stdout;
    let names = |text: &str| {
        let documents = parse(text);
        documents
            .iter()
            .map(|it| it["metadata"]["name"].to_string())
            .collect::<Vec<_>>()
    };
    assert!(
        names(&one).iter().all(|name| !names(&other).contains(name)),
        "{one}"
    );
    let same = &["deploy", "kubernetes", "--test", "--run", "r7"];
    assert_eq!(project.run(same).stdout, project.run(same).stdout);
    for bad in ["R7", "a b", "-x", &"x".repeat(21)] {
        project
            .run(&["deploy", "kubernetes", "--test", &format!("--run={bad}")])
            .exits(2);
    }
}

/// The jobs of a test, run here: each pod in its own copy of the image's folder, with the volume as a folder.
struct Cluster {
    jobs: Vec<Value>,
    volume: tempfile::TempDir,
    server: ModelServer,
    agent: String,
}

/// Seven cases, of which the fifth is answered as `fifth`.
fn cluster(fifth: &'static str) -> Cluster {
    let case = |number| {
        let check = format!("{{metric: contains, value: answer {number}}}");
        format!("- {{name: case {number}, input: question {number}, evaluations: [{check}]}}\n")
    };
    let cases = (1..=7).map(case).collect::<Vec<_>>().concat();
    let server = ModelServer::answering(move |request| {
        let question = request.texts("user").pop().unwrap_or_default().to_owned();
        let answer = question.replace("question", "answer");
        Reply::text(if question.ends_with('5') {
            fifth.to_owned()
        } else {
            answer
        })
    });
    let agent = format!(
        "name: desk\nmodel: {{provider: openai, name: m, endpoint: \"{}\"}}\ninstructions: {{inline: Answer.}}\ntest_cases:\n{cases}",
        server.url()
    );
    let project = Project::with(&agent);
    let manifests = documents(
        &project,
        &[
            "kubernetes",
            "--test",
            "--shards",
            "3",
            "--run",
            "r7",
            "--minutes",
            "1",
        ],
    );
    Cluster {
        jobs: manifests
            .into_iter()
            .filter(|manifest| manifest["kind"] == "Job")
            .collect(),
        volume: tempfile::tempdir().unwrap(),
        server,
        agent,
    }
}

impl Cluster {
    /// A command of a container with its variables.
    fn command(&self, job: usize, project: &Project, index: Option<u32>) -> Command {
        let container = &self.jobs[job]["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(container["command"], json!(["/usr/local/bin/holodeck"]));
        let volume = self.volume.path().display().to_string();
        let args = container["args"].as_array().unwrap().iter().map(|arg| {
            let arg = arg.as_str().unwrap();
            // The mounts of the volume, and hardly a wait.
            let arg = arg.replace("/shards", &format!("{volume}/shards"));
            let arg = arg.replace("/reports", &format!("{volume}/reports"));
            if arg == "60" { "0.1".to_owned() } else { arg }
        });
        let mut command = project.command(&[]);
        command.args(args);
        for variable in container["env"].as_array().unwrap() {
            if let Some(value) = variable["value"].as_str() {
                command.env(variable["name"].as_str().unwrap(), value);
            }
        }
        if let Some(index) = index {
            command.env("JOB_COMPLETION_INDEX", index.to_string());
        }
        command
    }

    /// Runs a pod of the shards; its folder of the volume gets what it writes.
    fn shard(&self, index: u32) -> Option<i32> {
        let project = Project::with(&self.agent);
        let status = self.command(0, &project, Some(index)).output().unwrap().status;
        self.keep(&project, index);
        status.code()
    }

    fn keep(&self, project: &Project, index: u32) {
        let mounts = &self.jobs[0]["spec"]["template"]["spec"]["containers"][0]["volumeMounts"];
        let mount = mounts
            .as_array()
            .unwrap()
            .iter()
            .find(|mount| mount["name"] == "shards")
            .unwrap();
        assert_eq!(mount["mountPath"], "/agent/.holodeck/runs");
        let folder = mount["subPathExpr"]
            .as_str()
            .unwrap()
            .replace("$(SHARD)", &index.to_string());
        let folder = self.volume.path().join(folder);
        fs::create_dir_all(&folder).unwrap();
        for journal in project.journals() {
            fs::copy(&journal, folder.join(journal.file_name().unwrap())).unwrap();
        }
    }

    fn merge(&self) -> CommandOutput {
        let project = Project::with(&self.agent);
        fs::create_dir_all(self.volume.path().join("reports")).unwrap();
        CommandOutput::of(&self.command(1, &project, None).output().unwrap())
    }
}

#[test]
fn the_merge_of_a_job_decides_as_one_run_does() {
    let good = cluster("answer 5");
    assert_eq!(
        (0..3).map(|index| good.shard(index)).collect::<Vec<_>>(),
        [Some(0); 3]
    );
    good.merge().exits(0).says("7 of 7 passed");
    let reports = good.volume.path().join("reports");
    assert!(reports.join("junit.xml").exists() && reports.join("report.html").exists());
    assert_eq!(good.server.requests().len(), 7);

    let bad = cluster("no idea");
    assert_eq!(
        (0..3).map(|index| bad.shard(index)).collect::<Vec<_>>(),
        [Some(0), Some(1), Some(0)]
    );
    bad.merge().exits(1).says("6 of 7 passed");
}

#[test]
fn a_job_is_not_green_when_a_shard_is_missing_or_did_not_end() {
    let cluster = cluster("answer 5");
    cluster.merge().exits(3);
    cluster.shard(0);
    cluster.shard(2);
    cluster.merge().exits(3).says("shard 2 of 3 is missing");
    // A pod that was killed leaves a journal without its end.
    cluster.shard(1);
    let folder = cluster.volume.path().join("shards/1");
    let journal = fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
    let whole = fs::read_to_string(&journal).unwrap();
    let mut lines: Vec<&str> = whole.lines().collect();
    lines.pop();
    fs::write(&journal, lines.join("\n") + "\n").unwrap();
    cluster.merge().exits(3).says("is not finished");
    fs::write(&journal, "").unwrap();
    assert_ne!(cluster.merge().code, Some(0));
    fs::write(&journal, whole).unwrap();
    cluster.merge().exits(0);
}

#[test]
fn a_merge_waits_for_the_last_shard() {
    let cluster = cluster("answer 5");
    cluster.shard(0);
    cluster.shard(1);
    let project = Project::with(&cluster.agent);
    fs::create_dir_all(cluster.volume.path().join("reports")).unwrap();
    let volume = cluster.volume.path().join("shards");
    let mut waiting = project
        .command(&["test", "merge", volume.to_str().unwrap(), "--wait", "600"])
        .spawn()
        .unwrap();
    assert_eq!(cluster.shard(2), Some(0));
    assert_eq!(waiting.wait().unwrap().code(), Some(0));
}

#[test]
fn every_shard_runs_once_whatever_the_others_do() {
    let cluster = cluster("answer 5");
    let (shards, merge) = (&cluster.jobs[0]["spec"], &cluster.jobs[1]["spec"]);
    assert_eq!(shards["completionMode"], "Indexed");
    assert_eq!(shards["completions"], 3);
    assert_eq!(shards["backoffLimitPerIndex"], 0);
    assert_eq!(merge["backoffLimit"], 0);
    for job in [shards, merge] {
        assert_eq!(job["template"]["spec"]["restartPolicy"], "Never");
        assert!(
            job.get("podFailurePolicy").is_none(),
            "a failure that is ignored is no verdict"
        );
        assert!(job.get("successPolicy").is_none());
        assert!(job["activeDeadlineSeconds"].as_u64().unwrap() > 0);
    }
    let env = shards["template"]["spec"]["containers"][0]["env"].to_string();
    assert!(env.contains(r#"{"name":"HOLODECK_SHARDS","value":"3"}"#), "{env}");
    let args = merge["template"]["spec"]["containers"][0]["args"].to_string();
    assert!(!args.contains("allow"), "{args}");
}

/// The schemas of the formats, which `cargo xtask services` installs.
pub(crate) fn schema(name: &str) -> Value {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.smoke/schemas");
    let text = fs::read_to_string(folder.join(name));
    let text = text.unwrap_or_else(|error| {
        panic!("{name}: {error}; `cargo xtask services` installs the schemas of Kubernetes, Compose and CI")
    });
    serde_json::from_str(&text).unwrap()
}

/// The first fault of a document by a schema.
pub(crate) fn fault(schema: &Value, document: &Value) -> Option<String> {
    let validator = jsonschema::validator_for(schema).unwrap();
    let errors: Vec<String> = validator
        .iter_errors(document)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    errors.into_iter().next()
}

/// The schema of an object of Kubernetes.
fn kubernetes_schema(definitions: &Value, document: &Value) -> Value {
    let (version, kind) = (
        document["apiVersion"].as_str().unwrap(),
        document["kind"].as_str().unwrap(),
    );
    let group = match version.split_once('/') {
        Some((group, version)) => format!("{}.{version}", group.trim_end_matches(".k8s.io")),
        None => format!("core.{version}"),
    };
    let name = format!("io.k8s.api.{group}.{kind}");
    assert!(definitions["$defs"].get(&name).is_some(), "{name}");
    json!({"$schema": definitions["$schema"], "$defs": definitions["$defs"], "$ref": format!("#/$defs/{name}")})
}

#[test]
fn manifests_fit_the_schemas_of_kubernetes() {
    let definitions = schema("kubernetes.json");
    for manifest in all_manifests() {
        let schema = kubernetes_schema(&definitions, &manifest);
        assert_eq!(fault(&schema, &manifest), None, "{manifest:#}");
        // The check finds a field that is not there, and a value of another type.
        let mut wrong = manifest.clone();
        wrong["spec"]["notAField"] = json!(1);
        assert!(fault(&schema, &wrong).is_some());
        let mut wrong = manifest.clone();
        wrong["metadata"]["name"] = json!(7);
        assert!(fault(&schema, &wrong).is_some());
    }
}

#[test]
fn files_of_compose_fit_their_schema() {
    let schema = schema("compose-spec.json");
    for store in ["postgres", "sqlite", "memory"] {
        let project = Project::with(&format!("{}{DEPLOYMENT}", AGENT.replace("postgres", store)));
        for document in documents(&project, &["compose"]) {
            assert_eq!(fault(&schema, &document), None, "{document:#}");
            let mut wrong = document.clone();
            wrong["services"]["agent"]["read_onyl"] = json!(true);
            assert!(fault(&schema, &wrong).is_some());
        }
    }
}
