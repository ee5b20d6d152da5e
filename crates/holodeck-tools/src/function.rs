//! Prepares and runs `type: function` tools: a Python function or a program, without the agent's credentials.

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use holodeck_backend_api::{SideEffects, Tool, ToolCx, ToolError, ToolOutput, ToolSpec};
use holodeck_model::{Env, FunctionTool as FunctionConfig, SecretMap, complete_tool_schema};
use holodeck_process::{BASE_VARIABLES, ChildEnv};
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::SetupError;
use crate::arguments::Arguments;
use crate::program::{Failure, Program};
use crate::python::PythonFunction;

/// In addition to [`BASE_VARIABLES`]: where Python finds packages.
const PYTHON_VARIABLES: &[&str] = &["PYTHONPATH", "VIRTUAL_ENV"];

/// A `type: function` tool.
#[derive(Debug)]
pub struct FunctionTool {
    spec: ToolSpec,
    target: Target,
}

#[derive(Debug)]
/// The program or function that a call runs.
enum Target {
    Python(PythonFunction),
    Program(Program),
}

impl FunctionTool {
    /// Creates a tool from its YAML. Only a Python function without `parameters` is inspected, in a child process;
    /// otherwise nothing runs and no file is opened. The tool receives only the variables of `env` that are known to be
    /// harmless.
    pub async fn prepare(
        config: &FunctionConfig,
        env: &Env,
        cancel: &CancellationToken,
    ) -> Result<Self, SetupError> {
        let target = Target::of(config, env).ok_or_else(|| SetupError::Incomplete {
            name: config.name.clone(),
        })?;
        let parameters =
            match (config.parameters_schema(), &target) {
                (Some(schema), _) => {
                    // A mistake of a person is reported, not completed.
                    Arguments::new(&schema).map_err(|reason| SetupError::Schema {
                        name: config.name.clone(),
                        reason,
                    })?;
                    schema
                }
                (None, Target::Program(_)) => json!({ "type": "object", "properties": {} }),
                (None, Target::Python(function)) => function
                    .describe(config.timeout(), cancel)
                    .await
                    .map_err(|error| {
                        error.map_or(SetupError::Cancelled, |reason| SetupError::Introspection {
                            name: config.name.clone(),
                            reason,
                        })
                    })?,
            };
        Ok(Self {
            spec: ToolSpec {
                name: config.name.clone(),
                description: config.description.clone(),
                parameters: complete_tool_schema(parameters),
                side_effects: config.side_effects.unwrap_or(SideEffects::Possible),
            },
            target,
        })
    }
}

impl Target {
    fn of(config: &FunctionConfig, env: &Env) -> Option<Self> {
        let child_env = child_env(env, &config.env);
        match (&config.file, &config.function, &config.command) {
            (Some(file), Some(function), None) => Some(Self::Python(PythonFunction {
                file: absolute(&file.path()),
                function: function.trim().to_owned(),
                folder: absolute(file.base()),
                env: child_env,
            })),
            (None, None, Some(command)) => Some(Self::Program(Program {
                command: PathBuf::from(command.as_str()),
                args: config.args.clone(),
                folder: absolute(command.base()),
                env: child_env,
            })),
            _ => None,
        }
    }
}

#[async_trait]
impl Tool for FunctionTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, arguments: Value, cx: ToolCx) -> Result<ToolOutput, ToolError> {
        let result = match &self.target {
            Target::Python(function) => function.call(&arguments, &cx.cancel).await,
            Target::Program(program) => program.call(&arguments, &cx.cancel).await,
        };
        result.map_err(|failure| match failure {
            Failure::Unavailable(reason) => ToolError::Unavailable {
                name: self.spec.name.clone(),
                reason,
            },
            Failure::Cancelled => ToolError::Cancelled,
        })
    }
}

/// The environment of a child: the harmless variables of `env`, and its `own`.
pub(crate) fn child_env(env: &Env, own: &SecretMap) -> ChildEnv {
    let inherited = BASE_VARIABLES
        .iter()
        .chain(PYTHON_VARIABLES)
        .copied()
        .collect::<Vec<_>>();
    let mut child_env = ChildEnv::inherit(&inherited, |name| env.get(name));
    for (name, value) in own {
        child_env.set(name, value.expose_secret());
    }
    child_env
}

/// Makes a path independent of the child's working directory; an empty path is the current directory.
pub(crate) fn absolute(path: &Path) -> PathBuf {
    let path = if path.as_os_str().is_empty() {
        Path::new(".")
    } else {
        path
    };
    std::path::absolute(path).unwrap_or_else(|_no_working_directory| path.to_owned())
}
