//! The file of Compose that serves an agent, with a database where its conversations are kept in one.

use holodeck_model::Env;
use holodeck_yaml::LoadedAgent;
use serde_json::{Map, Value, json};

use super::{
    DeployError, GRACE, HOME, PROGRAM, USER,
    manifest::{merge, yaml},
    service::{Service, Variable},
};

/// The database of conversations.
const POSTGRES: &str = "docker.io/library/postgres:17";
/// The user of that image.
const POSTGRES_USER: &str = "999:999";

/// The file that serves `image` with Compose.
pub fn compose(agent: &LoadedAgent, env: &Env, image: &str) -> Result<String, DeployError> {
    let service = Service::of_server(agent, env)?;
    let mut variables = Map::new();
    for (name, variable) in &service.variables {
        let value = if service.database.as_ref() == Some(name) {
            let password = required("POSTGRES_PASSWORD");
            format!("postgresql://holodeck:{password}@database:5432/holodeck?sslmode=disable")
        } else {
            match variable {
                Variable::Required => required(name),
                Variable::Optional => format!("${{{name}:-}}"),
                Variable::Value(value) => literal(value),
            }
        };
        variables.insert(name.clone(), value.into());
    }
    let mut served = json!({
        "image": image,
        "user": format!("{USER}:{USER}"),
        "read_only": true,
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
        "tmpfs": ["/tmp:size=256m,mode=1777"],
        "volumes": [format!("state:{HOME}/.holodeck")],
        "environment": variables,
        "ports": [format!("127.0.0.1:{0}:{0}", service.port)],
        "healthcheck": {
            "test": ["CMD", PROGRAM, "internal", "probe", service.url("/ready")],
            "interval": "10s", "timeout": "5s", "retries": 3, "start_period": "60s",
        },
        "stop_grace_period": format!("{GRACE}s"),
        "restart": "unless-stopped",
        "deploy": {"resources": {"limits": {"cpus": "2", "memory": "1g"}}},
    });
    let mut services = Map::new();
    let mut volumes = json!({"state": {}});
    if service.database.is_some() {
        merge(
            &mut served,
            json!({"depends_on": {"database": {"condition": "service_healthy"}}}),
        );
        services.insert("database".to_owned(), database());
        merge(&mut volumes, json!({"database": {}}));
    }
    services.insert("agent".to_owned(), served);
    let document = json!({"name": service.name, "services": services, "volumes": volumes});
    let mut names: Vec<&str> = Vec::new();
    for (name, variable) in &service.variables {
        if *variable == Variable::Required {
            let is_database = service.database.as_ref() == Some(name);
            names.push(if is_database { "POSTGRES_PASSWORD" } else { name });
        }
    }
    let comments = [
        format!(
            "Written by `holodeck deploy compose`. Set {} in the shell or in `.env`, then `docker compose up`.",
            names.join(", ")
        ),
        format!(
            "The agent is at http://127.0.0.1:{}; a proxy in front of it has the certificates.",
            service.port
        ),
    ];
    Ok(yaml(&comments, &[document]))
}

/// PostgreSQL, reachable by the agent only.
fn database() -> Value {
    json!({
        "image": POSTGRES,
        "user": POSTGRES_USER,
        "read_only": true,
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
        "tmpfs": ["/tmp", "/var/run/postgresql:uid=999,gid=999"],
        "volumes": ["database:/var/lib/postgresql/data"],
        "environment": {
            "POSTGRES_USER": "holodeck",
            "POSTGRES_DB": "holodeck",
            "POSTGRES_PASSWORD": required("POSTGRES_PASSWORD"),
        },
        "healthcheck": {
            "test": ["CMD", "pg_isready", "--username", "holodeck"],
            "interval": "5s", "timeout": "5s", "retries": 12,
        },
        "restart": "unless-stopped",
        "deploy": {"resources": {"limits": {"cpus": "1", "memory": "512m"}}},
    })
}

/// A variable without which Compose does not start.
fn required(name: &str) -> String {
    format!("${{{name}:?set {name}}}")
}

/// A value in which Compose replaces nothing.
fn literal(value: &str) -> String {
    value.replace('$', "$$")
}
