//! Reads servers from the answers of an MCP registry and converts them to tools of the YAML.

use holodeck_model::{JsonMap, McpTransport};
use serde_json::{Value, json};

/// A server in the registry.
#[derive(Clone, Debug, PartialEq)]
pub struct RegistryServer {
    /// Its name in the registry, as in `io.github.someone/weather`.
    pub name: String,
    /// Its description.
    pub description: String,
    /// Its version.
    pub version: String,
    /// The ways to install or reach it, in the registry's order.
    pub forms: Vec<ServerForm>,
    /// Whether its authors have deprecated it.
    pub deprecated: bool,
}

/// One way to install or reach a server.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerForm {
    /// Its transport; `None` if it is unknown.
    pub transport: Option<McpTransport>,
    /// For display, as in `npm @x/weather`.
    pub shown: String,
    /// The fields of the YAML, without `type`, `name` and `description`.
    fields: Result<JsonMap, Unusable>,
}

/// Why a form can't be written into the YAML.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unusable {
    /// Packages of this type are not supported.
    #[error("packages of type `{0}` can't be run")]
    PackageType(String),
    /// It needs a value that only the user has.
    #[error("it needs a value for {0}; add the tool to the YAML by hand")]
    NeedsValue(String),
    /// Its transport is not supported.
    #[error("its transport `{0}` is not supported")]
    Transport(String),
}

impl RegistryServer {
    /// Reads an entry of a list, or the answer for one server.
    pub(super) fn read(entry: &Value) -> Option<Self> {
        let server = entry.get("server").unwrap_or(entry);
        let text = |key: &str| server.get(key).and_then(Value::as_str).map(str::to_owned);
        let list = |key: &str| server.get(key).and_then(Value::as_array).into_iter().flatten();
        let packages = list("packages").map(ServerForm::of_package);
        let remotes = list("remotes").map(ServerForm::of_remote);
        let status = entry
            .pointer("/_meta/io.modelcontextprotocol.registry~1official/status")
            .or_else(|| server.get("status"));
        Some(Self {
            name: text("name")?,
            description: text("description").unwrap_or_default(),
            version: text("version").unwrap_or_default(),
            forms: packages.chain(remotes).collect(),
            deprecated: status.and_then(Value::as_str) == Some("deprecated"),
        })
    }

    /// A tool of the YAML that uses the server: the first supported form, limited to `transport` if given. `name` is
    /// the tool's name.
    pub fn tool(
        &self,
        name: &str,
        transport: Option<McpTransport>,
    ) -> Result<JsonMap, Vec<(String, Unusable)>> {
        let mut reasons = Vec::new();
        let wanted = |form: &&ServerForm| transport.is_none() || form.transport == transport;
        for form in self.forms.iter().filter(wanted) {
            match &form.fields {
                Ok(fields) => {
                    let mut tool = JsonMap::new();
                    tool.insert("type".to_owned(), "mcp".into());
                    tool.insert("name".to_owned(), name.into());
                    let description = if self.description.trim().is_empty() {
                        &self.name
                    } else {
                        &self.description
                    };
                    tool.insert("description".to_owned(), literal(&one_line(description)).into());
                    tool.extend(fields.clone());
                    tool.insert("registry_name".to_owned(), literal(&self.name).into());
                    return Ok(tool);
                }
                Err(reason) => reasons.push((form.shown.clone(), reason.clone())),
            }
        }
        Err(reasons)
    }

    /// A name for the tool: the last segment of the registry's name, with only letters, digits and `_`.
    pub fn short_name(&self) -> String {
        let last = self.name.rsplit('/').next().unwrap_or(&self.name);
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        let name: String = last.chars().map(plain).collect();
        let name = name.trim_matches('_').to_owned();
        if name.is_empty() {
            "server".to_owned()
        } else {
            name
        }
    }
}

impl ServerForm {
    fn of_package(package: &Value) -> Self {
        let text = |key: &str| package.get(key).and_then(Value::as_str).unwrap_or_default();
        let kind = text("registryType");
        let identifier = text("identifier");
        let reached = package
            .pointer("/transport/type")
            .and_then(Value::as_str)
            .unwrap_or("stdio");
        Self {
            transport: (reached == "stdio").then_some(McpTransport::Stdio),
            shown: format!("{kind} {identifier}"),
            fields: if reached == "stdio" {
                package_fields(package, kind, identifier, text("version"))
            } else {
                Err(Unusable::Transport(reached.to_owned()))
            },
        }
    }

    fn of_remote(remote: &Value) -> Self {
        let text = |key: &str| remote.get(key).and_then(Value::as_str).unwrap_or_default();
        let (kind, url) = (text("type"), text("url"));
        let transport = match kind {
            "streamable-http" => Some(McpTransport::Http),
            "sse" => Some(McpTransport::Sse),
            _ => None,
        };
        let fields = match transport {
            None => Err(Unusable::Transport(kind.to_owned())),
            Some(_) if url.contains('{') => Err(Unusable::NeedsValue(format!("a part of its URL `{url}`"))),
            Some(transport) => values(remote, "headers").map(|headers| {
                let mut fields = JsonMap::new();
                let word = if transport == McpTransport::Sse {
                    "sse"
                } else {
                    "http"
                };
                fields.insert("transport".to_owned(), word.into());
                fields.insert("url".to_owned(), literal(url).into());
                if !headers.is_empty() {
                    fields.insert("headers".to_owned(), Value::Object(headers));
                }
                fields
            }),
        };
        Self {
            transport,
            shown: url.to_owned(),
            fields,
        }
    }
}

/// How to start a package: the runner of its type, in the listed version.
fn package_fields(package: &Value, kind: &str, identifier: &str, version: &str) -> Result<JsonMap, Unusable> {
    let at = |separator: &str| match version {
        "" => identifier.to_owned(),
        version => format!("{identifier}{separator}{version}"),
    };
    let variables = values(package, "environmentVariables")?;
    let mut args: Vec<String> = Vec::new();
    let command = match kind {
        "npm" => {
            args.push("-y".to_owned());
            "npx"
        }
        "pypi" => "uvx",
        "oci" | "docker" => {
            args.extend(["run", "-i", "--rm"].map(str::to_owned));
            // Variables of `docker` itself are not visible in the container.
            args.extend(variables.keys().flat_map(|name| ["-e".to_owned(), name.clone()]));
            "docker"
        }
        other => return Err(Unusable::PackageType(other.to_owned())),
    };
    args.extend(arguments(package, "runtimeArguments")?);
    args.push(match kind {
        "npm" => at("@"),
        "pypi" => at("=="),
        // A newer registry includes the tag in the identifier.
        _ if identifier
            .rsplit('/')
            .next()
            .is_some_and(|last| last.contains([':', '@'])) =>
        {
            identifier.to_owned()
        }
        _ => at(":"),
    });
    args.extend(arguments(package, "packageArguments")?);
    let mut fields = JsonMap::new();
    fields.insert("command".to_owned(), command.into());
    let args: Vec<String> = args.iter().map(|argument| literal(argument)).collect();
    fields.insert("args".to_owned(), json!(args));
    if !variables.is_empty() {
        fields.insert("env".to_owned(), Value::Object(variables));
    }
    Ok(fields)
}

/// Escapes a foreign string so that the YAML substitutes nothing in it: it could name the user's variables.
fn literal(text: &str) -> String {
    text.replace("${", "$${")
}

fn one_line(text: &str) -> String {
    let text: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Names with values. A value that only the user has becomes an environment variable; an optional one is left out.
fn values(owner: &Value, key: &str) -> Result<JsonMap, Unusable> {
    let mut found = JsonMap::new();
    for input in owner.get(key).and_then(Value::as_array).into_iter().flatten() {
        let Some(name) = input.get("name").and_then(Value::as_str) else {
            continue;
        };
        match fixed(input) {
            Some(value) if !value.contains('{') => {
                found.insert(name.to_owned(), literal(&value).into());
            }
            Some(_) => return Err(Unusable::NeedsValue(format!("a part of `{name}`"))),
            None if is_required(input) => {
                found.insert(name.to_owned(), format!("${{{}}}", variable(name)).into());
            }
            None => {}
        }
    }
    Ok(found)
}

fn arguments(owner: &Value, key: &str) -> Result<Vec<String>, Unusable> {
    let mut found = Vec::new();
    for input in owner.get(key).and_then(Value::as_array).into_iter().flatten() {
        let name = input.get("name").and_then(Value::as_str);
        let hint = input.get("valueHint").and_then(Value::as_str);
        match (name, fixed(input)) {
            (_, Some(value)) if value.contains('{') => {
                return Err(Unusable::NeedsValue(format!("`{value}`")));
            }
            (Some(name), Some(value)) => found.push(format!("{name}={value}")),
            (None, Some(value)) => found.push(value),
            (_, None) if !is_required(input) => {}
            // A flag without a value.
            (Some(name), None) if input.get("format").is_none() && input.get("valueHint").is_none() => {
                found.push(name.to_owned());
            }
            (name, None) => {
                let what = name.or(hint).unwrap_or("an argument");
                return Err(Unusable::NeedsValue(format!("`{what}`")));
            }
        }
    }
    Ok(found)
}

/// A value that needs no input.
fn fixed(input: &Value) -> Option<String> {
    let text = |key: &str| input.get(key).and_then(Value::as_str).map(str::to_owned);
    text("value").or_else(|| text("default"))
}

fn is_required(input: &Value) -> bool {
    input.get("isRequired").and_then(Value::as_bool) == Some(true)
}

/// The name of a variable for a value, such as `X_API_KEY` for the header `X-Api-Key`.
fn variable(name: &str) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() {
            c.to_ascii_uppercase()
        } else {
            '_'
        }
    };
    name.chars().map(plain).collect()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn server(more: &Value) -> RegistryServer {
        let mut server = json!({"name": "io.github.someone/weather-mcp", "description": "Weather forecasts.", "version": "1.2.0"});
        server
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        RegistryServer::read(&json!({
            "server": server,
            "_meta": {"io.modelcontextprotocol.registry/official": {"status": "active", "isLatest": true}},
        }))
        .unwrap()
    }

    #[test]
    fn packages_become_tools() {
        let package = |kind: &str, identifier: &str| {
            json!({"packages": [{
                "registryType": kind, "identifier": identifier, "version": "1.2.0", "transport": {"type": "stdio"},
                "runtimeArguments": [{"type": "named", "name": "--quiet", "value": "1"}],
                "packageArguments": [
                    {"type": "positional", "value": "serve"},
                    {"type": "named", "name": "--port", "default": "80"},
                    {"type": "named", "name": "--optional"},
                ],
                "environmentVariables": [
                    {"name": "API_KEY", "isRequired": true, "isSecret": true},
                    {"name": "MODE", "default": "fast"},
                    {"name": "DEBUG"},
                ],
            }]})
        };
        let mut tools = Vec::new();
        for (kind, identifier) in [
            ("npm", "@x/weather"),
            ("pypi", "weather"),
            ("oci", "docker.io/x/weather"),
            ("oci", "ghcr.io/x/w:2"),
        ] {
            tools.push(server(&package(kind, identifier)).tool("weather", None).unwrap());
        }
        insta::assert_json_snapshot!(tools);
        let mcpb = server(&package("mcpb", "https://x/y.mcpb"))
            .tool("w", None)
            .unwrap_err();
        assert_eq!(mcpb[0].1, Unusable::PackageType("mcpb".to_owned()));
    }

    #[test]
    fn remotes_become_tools_and_a_transport_may_be_asked_for() {
        let both = server(&json!({
            "packages": [{"registryType": "npm", "identifier": "w", "transport": {"type": "stdio"}}],
            "remotes": [
                {"type": "streamable-http", "url": "https://x.test/mcp", "headers": [
                    {"name": "X-Api-Key", "isRequired": true}, {"name": "X-Mode", "value": "a"},
                ]},
                {"type": "sse", "url": "https://{region}.x.test/sse"},
            ],
        }));
        assert_eq!(both.tool("w", None).unwrap()["command"], "npx");
        let http = both.tool("w", Some(McpTransport::Http)).unwrap();
        assert_eq!(
            Value::Object(http),
            json!({
                "type": "mcp", "name": "w", "description": "Weather forecasts.", "transport": "http",
                "url": "https://x.test/mcp", "headers": {"X-Api-Key": "${X_API_KEY}", "X-Mode": "a"},
                "registry_name": "io.github.someone/weather-mcp",
            })
        );
        let sse = both.tool("w", Some(McpTransport::Sse)).unwrap_err();
        assert!(sse[0].1.to_string().contains("{region}"), "{sse:?}");
        assert_eq!(both.tool("w", Some(McpTransport::Websocket)), Err(Vec::new()));
        assert_eq!(
            (both.short_name().as_str(), both.deprecated),
            ("weather_mcp", false)
        );
    }

    #[test]
    fn values_that_only_the_user_has_are_named() {
        let asking = server(&json!({"packages": [{
            "registryType": "npm", "identifier": "files", "transport": {"type": "stdio"},
            "packageArguments": [{"type": "positional", "valueHint": "directory", "isRequired": true}],
        }]}));
        let reasons = asking.tool("files", None).unwrap_err();
        assert_eq!(reasons[0].1, Unusable::NeedsValue("`directory`".to_owned()));
        assert_eq!(
            RegistryServer::read(&json!({"server": {"description": "no name"}})),
            None
        );
    }
}
