//! A program or a function as a target: started for each message, or kept running with one line of JSON for each.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_stream::stream;
use futures::StreamExt as _;
use holodeck_backend_api::{BackendError, Explanation, TurnRequest};
use holodeck_model::{CommandTarget, Env, FunctionTarget, Location, ResponsePaths, SecretMap, TargetOutput};
use holodeck_process::{
    AtLimit, BASE_VARIABLES, ChildEnv, ProcessError, ProcessOutput, ProcessSpec, run, which,
};
use secrecy::ExposeSecret as _;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::{
    asker::{Asker, Piece, Pieces},
    conversation::State,
    kept::{Kept, MAX_ANSWER, SHOWN, described},
    parts::Parts,
    paths::{Paths, usual_paths},
    template::Question,
};

/// A program as the YAML describes it.
pub(crate) struct ProgramAsker {
    spec: ProcessSpec,
    /// Its name in errors, as in `the program bot`.
    name: String,
    paths: Paths,
    /// Whether the YAML names paths.
    has_own_paths: bool,
    way: Way,
    at: Option<Location>,
}

/// How a program is asked.
enum Way {
    /// It is started for each message.
    Started(TargetOutput),
    /// It is kept, and answers by lines that begin with the mark.
    Kept {
        mark: String,
        /// Those that are free; `None` if each conversation starts its own.
        idle: Option<Arc<Mutex<Vec<Kept>>>>,
    },
}

fn compile(paths: Option<&ResponsePaths>) -> Result<Paths, BackendError> {
    let compiled = match paths {
        Some(paths) => Paths::new(paths),
        None => Paths::new(&usual_paths()),
    };
    compiled.map_err(|(field, problem)| {
        BackendError::config(format!("`target.response.{field}` is no JSONPath: {problem}"))
    })
}

/// The environment of a target's process: harmless variables and those of the YAML.
fn child_env(env: &Env, own: &SecretMap) -> ChildEnv {
    let mut child = ChildEnv::inherit(BASE_VARIABLES, |name| env.get(name));
    for (name, value) in own {
        child.set(name, value.expose_secret());
    }
    child
}

fn limited(spec: ProcessSpec) -> ProcessSpec {
    spec.stdout_limit(MAX_ANSWER, AtLimit::Stop)
        .stderr_kept(8 * 1024)
        .grace(Duration::from_millis(500))
}

impl ProgramAsker {
    /// A program of the YAML.
    pub(crate) fn command(
        config: &CommandTarget,
        folder: PathBuf,
        env: &Env,
        at: Option<Location>,
    ) -> Result<Self, BackendError> {
        let written = config.command.as_str();
        // A name is found on the path; a path is that of the YAML.
        let program = if written.contains('/') {
            config.command.path()
        } else {
            PathBuf::from(written)
        };
        let folder = config
            .working_directory
            .as_ref()
            .map_or(folder, holodeck_model::PathRef::path);
        let args = config.args.iter().map(|arg| {
            let is_path = arg.starts_with("./") || arg.starts_with("../");
            if is_path {
                config.command.base().join(arg).into_os_string()
            } else {
                arg.into()
            }
        });
        let spec = ProcessSpec::new(program, child_env(env, &config.env))
            .args(args)
            .current_dir(folder);
        let way = if config.keep_alive {
            Way::Kept {
                mark: String::new(),
                idle: config.fresh.is_none().then(Arc::default),
            }
        } else {
            Way::Started(config.output.unwrap_or_default())
        };
        Ok(Self {
            spec: limited(spec),
            name: format!("the program `{written}`"),
            paths: compile(config.response.as_ref())?,
            has_own_paths: config.response.is_some(),
            way,
            at,
        })
    }

    /// A function of the YAML, in a process of its interpreter.
    pub(crate) fn function(
        config: &FunctionTarget,
        folder: PathBuf,
        env: &Env,
        at: Option<Location>,
    ) -> Result<Self, BackendError> {
        const PYTHON: &str = include_str!("program/serve.py");
        const NODE: &str = include_str!("program/serve.mjs");
        let child = child_env(env, &config.env);
        let is_python = Path::new(config.file.as_str())
            .extension()
            .is_some_and(|it| it == "py");
        let (interpreter, options, script) = if is_python {
            ("python3", &["-u", "-c"][..], PYTHON)
        } else {
            ("node", &["--input-type=module", "-e"][..], NODE)
        };
        let Some(program) = which(interpreter, child.get("PATH")) else {
            let message = format!(
                "`{interpreter}` not found on the PATH, and `{}` needs it",
                config.file
            );
            return Err(placed(BackendError::init(message), at.as_ref()));
        };
        // What the function prints cannot look like an answer.
        let mark = format!("holodeck-{} ", uuid::Uuid::new_v4().simple());
        let mut spec = ProcessSpec::new(program, child).args(options).args([script]);
        if !is_python {
            spec = spec.args(["--"]);
        }
        let file = config.file.path();
        let file = std::path::absolute(&file).unwrap_or(file);
        let spec = spec
            .args([file.as_os_str(), config.function.as_ref(), mark.as_ref()])
            .current_dir(folder);
        Ok(Self {
            spec: limited(spec),
            name: format!("the function `{}` of `{}`", config.function, config.file),
            paths: compile(config.response.as_ref())?,
            has_own_paths: config.response.is_some(),
            way: Way::Kept {
                mark,
                idle: config.fresh.is_none().then(Arc::default),
            },
            at,
        })
    }

    fn placed(&self, error: BackendError) -> BackendError {
        placed(error, self.at.as_ref())
    }

    fn protocol(&self, problem: impl std::fmt::Display) -> BackendError {
        self.placed(BackendError::protocol(format!("{}: {problem}", self.name)))
    }

    /// The parts of what it answered.
    fn parts(&self, answer: &Value) -> Result<Parts, BackendError> {
        // A function that returns a text has said everything.
        if let Value::String(text) = answer {
            return Ok(Parts {
                text: Some(text.clone()),
                ..Parts::default()
            });
        }
        let parts = self.paths.parts(answer).map_err(|problem| {
            let shown: String = answer.to_string().chars().take(SHOWN).collect();
            self.protocol(format!("{problem}; the answer begins with `{shown}`"))
        })?;
        match parts.error {
            Some(error) => Err(self.reported(&error)),
            None => Ok(parts),
        }
    }

    fn reported(&self, message: &str) -> BackendError {
        let shown: String = message.chars().take(2000).collect();
        self.placed(BackendError::Provider {
            status: Some(200),
            code: None,
            explanation: Box::new(Explanation::new(format!(
                "{} reported an error: {shown}",
                self.name
            ))),
            param: None,
            retryable: false,
            retry_after: None,
        })
    }

    /// Runs the program for one message.
    async fn run_once(&self, question: &Question, output: TargetOutput) -> Result<Parts, BackendError> {
        let spec = self.spec.clone().stdin(format!("{}\n", question.to_json()));
        // A turn that is given up drops this future, which ends the program and all that it started.
        let ended = run(&spec, &CancellationToken::new())
            .await
            .map_err(|error| self.not_run(&error))?;
        let ProcessOutput {
            exit, stdout, stderr, ..
        } = &ended;
        if !exit.success() {
            let said = if stderr.trim().is_empty() {
                String::from_utf8_lossy(stdout).into_owned()
            } else {
                stderr.clone()
            };
            return Err(self.protocol(described(&exit.to_string(), &said)));
        }
        let text =
            std::str::from_utf8(stdout).map_err(|_invalid| self.protocol("what it printed is no UTF-8"))?;
        if output == TargetOutput::Text {
            let text = text.strip_suffix('\n').unwrap_or(text);
            let text = text.strip_suffix('\r').unwrap_or(text).to_owned();
            return Ok(Parts {
                text: Some(text),
                ..Parts::default()
            });
        }
        let answer: Value = serde_json::from_str(text).map_err(|error| {
            let shown: String = text.trim().chars().take(SHOWN).collect();
            let problem = if shown.is_empty() {
                "it printed nothing".to_owned()
            } else {
                format!("it printed no JSON ({error}), but `{}`", shown.escape_debug())
            };
            self.protocol(problem).with_hint(
                "print one JSON object on stdout and everything else on stderr, or write `output: text`",
            )
        })?;
        if !answer.is_object() {
            return Err(self.protocol("it printed JSON that is no object"));
        }
        self.parts(&answer)
    }

    fn not_run(&self, error: &ProcessError) -> BackendError {
        let cause = std::error::Error::source(error)
            .map(|cause| format!(": {cause}"))
            .unwrap_or_default();
        let message = format!("{}: {error}{cause}", self.name);
        self.placed(match error {
            ProcessError::OutputLimit { .. } => BackendError::protocol(message),
            ProcessError::Exit { .. } => BackendError::Terminated { detail: message },
            _ => BackendError::init(message),
        })
    }

    /// Asks a kept program, which is then free for other conversations again.
    async fn ask_kept(
        &self,
        state: &mut State,
        question: &Question,
        mark: &str,
    ) -> Result<Parts, BackendError> {
        // It is put back only after its answer: one that was given up may still answer.
        let mut kept = match self.take(state) {
            Some(kept) => kept,
            None => Kept::start(&self.spec).map_err(|error| self.not_run(&error))?,
        };
        let answer = kept.ask(question.to_json(), mark).await;
        let answer = answer.map_err(|problem| self.protocol(problem))?;
        state.program = Some(kept);
        if let Some(raised) = answer.get("raised").and_then(Value::as_str) {
            return Err(self.protocol(raised));
        }
        let answer = match answer.get("returned") {
            Some(returned) if !mark.is_empty() => returned,
            _ => &answer,
        };
        self.parts(answer)
    }

    /// The program of this conversation, else one that is free.
    fn take(&self, state: &mut State) -> Option<Kept> {
        let Way::Kept { idle, .. } = &self.way else {
            return None;
        };
        let mut own = state.program.take();
        loop {
            let mut kept = match own.take() {
                Some(kept) => kept,
                None => idle
                    .as_ref()?
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .pop()?,
            };
            // One that has ended meanwhile is replaced.
            if kept.is_running() {
                return Some(kept);
            }
        }
    }
}

fn placed(mut error: BackendError, at: Option<&Location>) -> BackendError {
    if let BackendError::Init(explanation)
    | BackendError::Protocol(explanation)
    | BackendError::Provider { explanation, .. } = &mut error
    {
        explanation.place = explanation.place.take().or_else(|| at.cloned());
    }
    error
}

impl Asker for ProgramAsker {
    fn ask<'a>(&'a self, state: &'a mut State, question: Question, _: &TurnRequest) -> Pieces<'a> {
        stream! {
            let answered = match &self.way {
                Way::Started(output) => self.run_once(&question, *output).await,
                Way::Kept { mark, .. } => self.ask_kept(state, &question, mark).await,
            };
            yield answered.map(|parts| Piece::Done(Box::new(parts)));
        }
        .boxed()
    }

    fn sends_history(&self) -> bool {
        true
    }

    fn unmatched(&self) -> Vec<String> {
        if self.has_own_paths {
            self.paths.unmatched()
        } else {
            Vec::new()
        }
    }

    fn names_session(&self) -> bool {
        true
    }

    fn release(&self, state: &mut State) {
        if let Way::Kept { idle: Some(idle), .. } = &self.way
            && let Some(kept) = state.program.take()
        {
            idle.lock().unwrap_or_else(PoisonError::into_inner).push(kept);
        }
        state.program = None;
    }

    fn close(&self) {
        if let Way::Kept { idle: Some(idle), .. } = &self.way {
            idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
        }
    }
}
