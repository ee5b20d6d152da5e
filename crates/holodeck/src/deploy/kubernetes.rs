//! The objects of Kubernetes that serve an agent, and those that run its test in shards.
//!
//! The shards are one Indexed Job; a second Job waits for their journals and merges them. Its exit code is the verdict: a
//! shard that failed to start, was killed or did not end leaves no whole journal, and then nothing is merged.

use holodeck_model::{Env, env::HOLODECK_SHARDS};
use holodeck_yaml::LoadedAgent;
use serde_json::{Value, json};

use super::{
    DRAIN, DeployError, GRACE, HOME, PROGRAM, USER,
    manifest::{merge, yaml},
    service::{Service, Variable},
};
use crate::index::embedded_file;

/// Seconds in which the proxies of the cluster stop sending to a pod that ends.
const DEREGISTER: u32 = 5;

/// The claim's folder in the pods.
const SHARDS: &str = "/shards";
const REPORTS: &str = "/reports";

/// The objects' image and the names of what they use.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_structs, reason = "callers construct it as a literal")]
pub struct KubernetesOptions {
    /// The image.
    pub image: String,
    /// The secret with the variables of the agent; without it, the one with the agent's name.
    pub secret: Option<String>,
}

impl KubernetesOptions {
    fn secret(&self, service: &Service) -> String {
        self.secret
            .clone()
            .unwrap_or_else(|| format!("{}-secrets", service.name))
    }
}

/// A test in shards.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_structs, reason = "callers construct it as a literal")]
pub struct ShardedTest {
    /// Names this run: its objects and its volume are its own.
    pub run: String,
    /// The number of shards.
    pub shards: u32,
    /// Minutes after which the test is stopped.
    pub minutes: u32,
}

/// A name that no earlier run has.
pub fn new_run_name() -> String {
    let random = uuid::Uuid::new_v4().simple().to_string();
    random.chars().take(10).collect()
}

/// The objects that serve an agent.
pub fn kubernetes_server(
    agent: &LoadedAgent,
    env: &Env,
    options: &KubernetesOptions,
) -> Result<String, DeployError> {
    let service = Service::of_server(agent, env)?;
    let Some(database) = &service.database else {
        let message = "conversations are not kept in a database, and pods share no file";
        let hint = "add `events: {store: postgres}` to the agent file; the secret has the database's address in \
                    `HOLODECK_EVENTS_URL`";
        return Err(DeployError::refused(message, hint).at(agent.locate("events.store")));
    };
    let name = &service.name;
    let labels = json!({"app.kubernetes.io/name": name, "app.kubernetes.io/component": "server"});
    let probe = |path: &str, period: u32, failures: u32| {
        json!({
            "httpGet": {"path": path, "port": "http"},
            "periodSeconds": period, "timeoutSeconds": 5, "failureThreshold": failures,
        })
    };
    let mut container = container(&service, options, &service.variables);
    merge(
        &mut container,
        json!({
            "args": service.command(),
            "ports": [{"name": "http", "containerPort": service.port}],
            "startupProbe": probe("/ready", 2, 90),
            "readinessProbe": probe("/ready", 5, 2),
            "livenessProbe": probe("/health", 10, 6),
            "lifecycle": {"preStop": {"sleep": {"seconds": DEREGISTER}}},
            "resources": {
                "requests": {"cpu": "250m", "memory": "256Mi"},
                "limits": {"memory": "1Gi"},
            },
        }),
    );
    let mut pod = pod(agent, &container, options);
    merge(
        &mut pod,
        json!({"terminationGracePeriodSeconds": DEREGISTER + GRACE}),
    );
    merge(
        &mut pod,
        json!({"topologySpreadConstraints": [{
            "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": labels},
        }]}),
    );
    let metadata = json!({"name": name, "labels": labels});
    let documents = [
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata,
            "spec": {
                "replicas": 2,
                "selector": {"matchLabels": labels},
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
                "template": {"metadata": {"labels": labels}, "spec": pod},
            },
        }),
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": metadata,
            "spec": {
                "selector": labels,
                "ports": [{"name": "http", "port": 80, "targetPort": "http"}],
                // A run can be cancelled only where it began.
                "sessionAffinity": "ClientIP",
            },
        }),
        json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata,
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": labels}},
        }),
    ];
    let comments = [
        "Written by `holodeck deploy kubernetes`, for Kubernetes 1.30 and later.".to_owned(),
        secret_comment(&options.secret(&service), &names(&service.variables)),
        format!(
            "`{database}` is the address of a PostgreSQL database, `postgresql://user:password@host:5432/name`."
        ),
        format!("Answers in progress have {DRAIN} s when a pod ends."),
    ];
    Ok(yaml(&comments, &documents))
}

/// The objects that run the test of an agent in shards and merge them.
pub fn kubernetes_test(
    agent: &LoadedAgent,
    env: &Env,
    options: &KubernetesOptions,
    test: &ShardedTest,
) -> Result<String, DeployError> {
    let service = Service::of(agent, env);
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_name = test.run.len() <= 20
        && test.run.starts_with(fits)
        && test.run.ends_with(fits)
        && test.run.chars().all(|c| fits(c) || c == '-');
    if !is_name {
        return Err(DeployError::refused(
            format!(
                "`{}` cannot be the name of a run",
                holodeck_model::printable(&test.run)
            ),
            "a name has at most 20 lowercase letters, digits and `-`",
        ));
    }
    let variables = service.for_tests();
    let base = format!("{}-test-{}", service.name, test.run);
    let labels = |component: &str| {
        json!({"app.kubernetes.io/name": service.name, "app.kubernetes.io/component": component,
            "app.kubernetes.io/instance": test.run})
    };
    let seconds = test.minutes.saturating_mul(60);
    let resources = json!({"requests": {"cpu": "250m", "memory": "256Mi"}, "limits": {"memory": "1Gi"}});
    let mut shard = container(&service, options, &variables);
    merge(
        &mut shard,
        json!({"args": ["test", service.file, "--shard", "auto", "--allow-empty"], "resources": resources}),
    );
    push(
        &mut shard,
        "env",
        json!({"name": HOLODECK_SHARDS, "value": test.shards.to_string()}),
    );
    let index = "metadata.annotations['batch.kubernetes.io/job-completion-index']";
    push(
        &mut shard,
        "env",
        json!({"name": "SHARD", "valueFrom": {"fieldRef": {"fieldPath": index}}}),
    );
    // Only what the shard itself writes is in its folder of the claim.
    push(
        &mut shard,
        "volumeMounts",
        json!({"name": "shards", "mountPath": format!("{HOME}/.holodeck/runs"), "subPathExpr": "shards/$(SHARD)"}),
    );
    let mut merging = container(&service, options, &variables);
    merge(
        &mut merging,
        json!({
            "args": [
                "test", "merge", SHARDS, service.file, "--wait", seconds.to_string(),
                "--output", format!("{REPORTS}/report.html"), "--report", format!("junit={REPORTS}/junit.xml"),
            ],
            "resources": resources,
        }),
    );
    push(
        &mut merging,
        "volumeMounts",
        json!({"name": "shards", "mountPath": SHARDS, "subPath": "shards", "readOnly": true}),
    );
    push(
        &mut merging,
        "volumeMounts",
        json!({"name": "shards", "mountPath": REPORTS, "subPath": "reports"}),
    );
    let pod_of = |container: Value| {
        let mut pod = pod(agent, &container, options);
        merge(&mut pod, json!({"restartPolicy": "Never"}));
        push(
            &mut pod,
            "volumes",
            json!({"name": "shards", "persistentVolumeClaim": {"claimName": base}}),
        );
        pod
    };
    let documents = [
        json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": base, "labels": labels("volume")},
            "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}},
        }),
        json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": format!("{base}-shards"), "labels": labels("shard")},
            "spec": {
                "completionMode": "Indexed",
                "completions": test.shards,
                "parallelism": test.shards,
                // A shard that fails neither ends the others nor runs a second time.
                "backoffLimitPerIndex": 0,
                "activeDeadlineSeconds": seconds,
                "template": {"metadata": {"labels": labels("shard")}, "spec": pod_of(shard)},
            },
        }),
        json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": format!("{base}-merge"), "labels": labels("merge")},
            "spec": {
                "backoffLimit": 0,
                // Later than the wait, so that the merge itself says which shard is missing.
                "activeDeadlineSeconds": seconds.saturating_add(300),
                "template": {"metadata": {"labels": labels("merge")}, "spec": pod_of(merging)},
            },
        }),
    ];
    let comments = [
        "Written by `holodeck deploy kubernetes --test`, for Kubernetes 1.33 and later.".to_owned(),
        secret_comment(&options.secret(&service), &names(&variables)),
        format!(
            "The verdict is that of the job `{base}-merge`. Write a new file for each run: a volume belongs to one."
        ),
    ];
    Ok(yaml(&comments, &documents))
}

fn secret_comment(secret: &str, names: &[&str]) -> String {
    match names {
        [] => "It needs no secret.".to_owned(),
        names => format!("The secret `{secret}` has {}.", names.join(", ")),
    }
}

/// The variables that the secret must have.
fn names(variables: &std::collections::BTreeMap<String, Variable>) -> Vec<&str> {
    let required = variables
        .iter()
        .filter(|(_, variable)| **variable == Variable::Required);
    required.map(|(name, _)| name.as_str()).collect()
}

/// A container of the agent: without rights, with a root that it cannot write.
fn container(
    service: &Service,
    options: &KubernetesOptions,
    variables: &std::collections::BTreeMap<String, Variable>,
) -> Value {
    let secret = options.secret(service);
    let variables = variables.iter().map(|(name, variable)| {
        let from_secret = |optional: bool| {
            json!({"name": name, "valueFrom": {"secretKeyRef": {
                "name": secret, "key": name, "optional": optional,
            }}})
        };
        match variable {
            Variable::Required => from_secret(false),
            Variable::Optional => from_secret(true),
            // `$(NAME)` would be replaced.
            Variable::Value(value) => json!({"name": name, "value": value.replace('$', "$$")}),
        }
    });
    json!({
        "name": service.name,
        "image": options.image,
        "command": [PROGRAM],
        "env": variables.collect::<Vec<_>>(),
        "securityContext": restricted(),
        "volumeMounts": [
            {"name": "state", "mountPath": format!("{HOME}/.holodeck")},
            {"name": "results", "mountPath": format!("{HOME}/results")},
            {"name": "tmp", "mountPath": "/tmp"},
        ],
    })
}

fn restricted() -> Value {
    json!({
        "allowPrivilegeEscalation": false,
        "readOnlyRootFilesystem": true,
        "capabilities": {"drop": ["ALL"]},
    })
}

/// A pod with this container. An index of the image is copied to a volume, since it must be writable.
fn pod(agent: &LoadedAgent, container: &Value, options: &KubernetesOptions) -> Value {
    let mut pod = json!({
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        "securityContext": {
            "runAsNonRoot": true, "runAsUser": USER, "runAsGroup": USER, "fsGroup": USER,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": [
            {"name": "state", "emptyDir": {}},
            {"name": "results", "emptyDir": {}},
            {"name": "tmp", "emptyDir": {}},
        ],
    });
    let mut indexes = agent.config.real_tools().filter(|(_, tool)| tool.is_indexed());
    if indexes.any(|(_, tool)| embedded_file(agent, tool).is_some_and(|file| file.exists())) {
        merge(
            &mut pod,
            json!({"initContainers": [{
                "name": "state",
                "image": options.image,
                "command": [PROGRAM, "internal", "copy", format!("{HOME}/.holodeck"), "/state"],
                "securityContext": restricted(),
                "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
                "volumeMounts": [{"name": "state", "mountPath": "/state"}],
            }]}),
        );
    }
    pod
}

/// Adds an item to a list of an object.
fn push(object: &mut Value, list: &str, item: Value) {
    if let Some(list) = object.get_mut(list).and_then(Value::as_array_mut) {
        list.push(item);
    }
}
