//! The build context of an image: every file that an agent needs, and nothing else.
//!
//! Files keep their places below the folder of the agent file. One that lies outside of it, also behind a link, is
//! refused; every file is read once, searched for secrets, and written as it was searched.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Component, Path, PathBuf},
};

use holodeck_model::{Env, EventStoreKind, Location, ToolConfig, io_reason};
use holodeck_yaml::LoadedAgent;

use super::{
    DeployError, HOME, SecretPlace, USER,
    containerfile::{Packages, Recipe},
    guard::{Guard, is_env_file, is_key_file},
    image::image_name,
    needs::{Needs, Runtime},
    program::Program,
    service::Service,
};
use crate::{
    JUDGE_STEPS,
    agent::{fingerprint::named_files, inventory::is_in_own_folder},
    commands::routed::delegates,
    import::plain,
    index::embedded_file,
};

/// Files beside an agent file that no field names.
const BESIDE: [&str; 2] = [JUDGE_STEPS, "prices.json"];

/// Where systems keep the certificates of authorities.
const AUTHORITIES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// How an image is made.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_structs, reason = "callers construct it as a literal")]
pub struct ContextOptions {
    /// The `holodeck` of the image.
    pub program: PathBuf,
    /// The image to begin with, in the place of the one that the tools ask for.
    pub base: Option<String>,
    /// The tag of the image.
    pub tag: Option<String>,
    /// Files that may be in the image although they look as if they held a key.
    pub allowed: Vec<PathBuf>,
}

/// A file of a build context.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ContextFile {
    /// Its path in the context.
    pub name: String,
    /// Whether it can be run.
    pub executable: bool,
    /// Its content.
    pub bytes: Vec<u8>,
}

/// A build context.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BuildContext {
    /// Its files by their names, `Containerfile` among them.
    pub files: Vec<ContextFile>,
    /// The text of `Containerfile`.
    pub containerfile: String,
    /// Texts that a person should know about the image.
    pub notes: Vec<String>,
    /// The name of the image.
    pub image: String,
    /// The platform, such as `linux/amd64`.
    pub platform: String,
}

/// Collects the files of an agent for its image.
pub fn build_context(
    agent: &LoadedAgent,
    env: &Env,
    options: &ContextOptions,
) -> Result<BuildContext, DeployError> {
    let image = image_name(agent, options.tag.as_deref())?;
    let service = Service::of_server(agent, env)?;
    let program = program(agent, options)?;
    let delegates = delegates(agent, env);
    let agents = || std::iter::once(agent).chain(&delegates);
    let mut collector = Collector {
        root: Root::of(&agent.dir)?,
        guard: Guard::new(agents(), env),
        allowed: &options.allowed,
        files: BTreeMap::new(),
        places: Vec::new(),
        notes: notes(agent),
    };
    let mut needs = Needs::default();
    for agent in agents() {
        collector.add_agent(agent, env)?;
        needs.merge(Needs::of(agent));
    }
    let (has_requirements, packages) = collector.add_packages(&needs, agent)?;
    if !collector.places.is_empty() {
        return Err(DeployError::Secrets(collector.places));
    }
    let recipe = Recipe {
        needs: &needs,
        base: options.base.as_deref(),
        has_requirements,
        packages,
        service: &service,
    };
    let (mut files, mut notes) = (collector.files, collector.notes);
    if options.base.is_none() {
        notes.extend(needs.unknown.iter().map(|(program, field)| {
            format!(
                "the image has no `{program}` (`{field}`): begin with an image that has it, with `--base`"
            )
        }));
    }
    add_root(&mut files, &mut notes, &recipe, env)?;
    let containerfile = recipe.text();
    let mut add = |name: &str, executable: bool, bytes: Vec<u8>| {
        files.insert(name.to_owned(), (executable, bytes));
    };
    add("rootfs/usr/local/bin/holodeck", true, program.bytes);
    add("Containerfile", false, containerfile.clone().into_bytes());
    for folder in [".holodeck", "results"] {
        add(&format!("state/{folder}/.keep"), false, Vec::new());
    }
    let files = files.into_iter().map(|(name, (executable, bytes))| ContextFile {
        name,
        executable,
        bytes,
    });
    Ok(BuildContext {
        files: files.collect(),
        containerfile,
        notes,
        image,
        platform: program.platform.to_owned(),
    })
}

/// The program, if it can run in the image.
fn program(agent: &LoadedAgent, options: &ContextOptions) -> Result<Program, DeployError> {
    let program = Program::read(&options.program)?;
    if !program.is_static && options.base.is_none() {
        return Err(DeployError::refused(
            format!(
                "`{}` is linked dynamically, and an image without the libraries of this machine cannot run it",
                options.program.display()
            ),
            "name the static `holodeck` of a release with `--program`, or an image with its libraries with `--base`",
        ));
    }
    if let Some(deployment) = &agent.config.deployment
        && deployment.platform != program.platform
    {
        let message = format!(
            "`deployment.platform` is `{}`, and `{}` runs on {}",
            deployment.platform,
            options.program.display(),
            program.platform
        );
        let hint = "name the `holodeck` of that platform with `--program`";
        return Err(DeployError::refused(message, hint).at(agent.locate("deployment.platform")));
    }
    Ok(program)
}

/// The parts of the agent that an image cannot have.
fn notes(agent: &LoadedAgent) -> Vec<String> {
    let config = &agent.config;
    let mut notes = Vec::new();
    if let Some(deployment) = &config.deployment {
        notes.push(
            "`deployment.target` has no effect: `holodeck deploy kubernetes` and `compose` write manifests"
                .to_owned(),
        );
        if deployment.health_check_path != "/health" {
            notes.push(
                "`deployment.health_check_path` has no effect: `holodeck serve` answers `/health` and `/ready`".to_owned(),
            );
        }
        if !deployment.environment.is_empty() {
            notes.push("`deployment.environment` is in the manifests, not in the image".to_owned());
        }
    }
    if agent.user_config.is_some() {
        notes.push(
            "`~/.holodeck/config.yaml` is not in the image: move what the agent needs to `config.yaml` beside it".to_owned(),
        );
    }
    let is_in_database = config
        .events
        .as_ref()
        .is_some_and(|events| events.store != EventStoreKind::Sqlite);
    if !is_in_database {
        notes.push(format!(
            "conversations are kept in {HOME}/.holodeck: mount a volume there"
        ));
    }
    for (index, tool) in config.real_tools() {
        if let ToolConfig::Mcp(server) = tool
            && server.env_file.is_some()
        {
            notes.push(format!(
                "`tools.{index}.env_file` is not in the image: mount it, or give its variables with `env`"
            ));
        }
    }
    if config
        .claude
        .as_ref()
        .is_some_and(|claude| claude.working_directory.is_some())
    {
        notes.push("`claude.working_directory` is not in the image: mount it".to_owned());
    }
    notes
}

/// Adds the files of the system.
fn add_root(
    files: &mut BTreeMap<String, (bool, Vec<u8>)>,
    notes: &mut Vec<String>,
    recipe: &Recipe<'_>,
    env: &Env,
) -> Result<(), DeployError> {
    let named = env
        .non_blank("SSL_CERT_FILE")
        .filter(|_| env.file_of("SSL_CERT_FILE").is_none());
    let mut places = named.into_iter().chain(AUTHORITIES).map(Path::new);
    let found = places.find(|path| path.is_file()).map(read).transpose()?;
    // A bundle may hold a key, too.
    match found.map(|bytes| certificates(&String::from_utf8_lossy(&bytes))) {
        Some(text) if !text.is_empty() => {
            let name = "rootfs/etc/ssl/certs/ca-certificates.crt".to_owned();
            files.insert(name, (false, text.into_bytes()));
        }
        _ => notes.push(
            "no certificates of authorities were found here: the image has those that `holodeck` was built with"
                .to_owned(),
        ),
    }
    if recipe.is_from_scratch() {
        let user = format!("holodeck:x:{USER}:{USER}::/tmp:/nonexistent\n");
        let group = format!("holodeck:x:{USER}:\n");
        files.insert("rootfs/etc/passwd".to_owned(), (false, user.into_bytes()));
        files.insert("rootfs/etc/group".to_owned(), (false, group.into_bytes()));
        files.insert("tmp/.keep".to_owned(), (false, Vec::new()));
    }
    Ok(())
}

/// The certificates of a PEM file, and nothing else of it.
fn certificates(text: &str) -> String {
    const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
    const END: &str = "-----END CERTIFICATE-----";
    let parts = text.split(BEGIN).skip(1);
    let whole = parts.filter_map(|part| Some(format!("{BEGIN}{}{END}\n", part.split_once(END)?.0)));
    whole.collect()
}

fn read(path: &Path) -> Result<Vec<u8>, DeployError> {
    let unreadable = |reason: String| DeployError::Unreadable {
        path: path.to_owned(),
        reason,
    };
    let about = fs::metadata(path).map_err(|error| unreadable(io_reason(&error)))?;
    if !about.is_file() {
        // Reading a pipe could block.
        return Err(unreadable("it is not a regular file".to_owned()));
    }
    fs::read(path).map_err(|error| unreadable(io_reason(&error)))
}

/// The folder of the agent file, as it is named and without links.
struct Root {
    named: PathBuf,
    real: PathBuf,
}

impl Root {
    fn of(folder: &Path) -> Result<Self, DeployError> {
        let named = plain(&holodeck_model::absolute_path(folder));
        let real = named.canonicalize().map_err(|error| DeployError::Unreadable {
            path: named.clone(),
            reason: io_reason(&error),
        })?;
        Ok(Self { named, real })
    }

    /// The path of a file below the folder, and the same of the file that links lead to; `None` if either is outside.
    fn names(&self, path: &Path) -> Option<(PathBuf, PathBuf)> {
        let path = plain(&holodeck_model::absolute_path(path));
        let named = path
            .strip_prefix(&self.named)
            .or_else(|_| path.strip_prefix(&self.real))
            .ok()?;
        let real = path.canonicalize().ok()?;
        let real = real.strip_prefix(&self.real).ok()?;
        Some((named.to_owned(), real.to_owned()))
    }
}

/// Collects files by their names in the context.
struct Collector<'a> {
    root: Root,
    guard: Guard,
    allowed: &'a [PathBuf],
    files: BTreeMap<String, (bool, Vec<u8>)>,
    places: Vec<SecretPlace>,
    notes: Vec<String>,
}

impl Collector<'_> {
    fn add_agent(&mut self, agent: &LoadedAgent, env: &Env) -> Result<(), DeployError> {
        let of_user = env.user_dir();
        let is_of_user = |path: &Path| of_user.as_ref().is_some_and(|folder| path.starts_with(folder));
        let mut sources = BTreeSet::new();
        for path in agent.places.source_files() {
            // It is named in a note.
            if !is_of_user(path) {
                sources.insert(path.to_owned());
            }
        }
        let by_field = |path: &Path| {
            let mut located = [
                ("instructions.file", agent.instructions.file_path.as_deref()),
                (
                    "test_cases_file",
                    agent
                        .config
                        .test_cases_file
                        .as_ref()
                        .map(|it| Path::new(it.as_str())),
                ),
            ]
            .into_iter();
            located
                .find(|(_, file)| file.is_some_and(|file| path.ends_with(file)))
                .and_then(|(field, _)| agent.locate(field))
        };
        for path in &sources {
            self.add(path, "agent", true, by_field(path))?;
        }
        for (path, pointer) in named_files(agent)? {
            if !sources.contains(&path) {
                self.add(&path, "agent", false, agent.locate(&pointer))?;
            }
        }
        if let Some(recording) = &agent.execution.replay.value {
            self.add(recording, "agent", false, agent.locate("execution.replay"))?;
        }
        for name in BESIDE {
            let path = agent.dir.join(name);
            if path.exists() {
                self.add(&path, "agent", false, None)?;
            }
        }
        for (index, tool) in agent.config.real_tools() {
            if tool.is_indexed() {
                self.add_index(agent, index, tool)?;
            }
        }
        Ok(())
    }

    /// Adds the index of a tool, if there is one that nothing writes.
    fn add_index(&mut self, agent: &LoadedAgent, index: usize, tool: &ToolConfig) -> Result<(), DeployError> {
        let Some(file) = embedded_file(agent, tool) else {
            return Ok(());
        };
        let name = tool.name();
        if !file.exists() {
            self.notes.push(format!(
                "`{name}` has no index: the container builds it when it starts; `holodeck index build` builds it before"
            ));
            return Ok(());
        }
        let mut log = file.as_os_str().to_owned();
        log.push("-wal");
        if fs::metadata(&log).is_ok_and(|log| log.len() > 0) {
            self.notes.push(format!(
                "the index of `{name}` is left out: a program is writing it"
            ));
            return Ok(());
        }
        if !is_in_own_folder(&file) {
            self.notes.push(format!(
                "the index of `{name}` is not in `.holodeck`: its folder must be a volume that the container may write"
            ));
        }
        self.add(&file, "state", false, agent.locate(&format!("tools.{index}")))
    }

    /// Adds the lists of packages that Python and Node install from.
    fn add_packages(&mut self, needs: &Needs, agent: &LoadedAgent) -> Result<(bool, Packages), DeployError> {
        let mut add = |name: &str| {
            let path = agent.dir.join(name);
            let is_there = path.is_file();
            if is_there {
                self.add(&path, "agent", false, None)?;
            }
            Ok::<_, DeployError>(is_there)
        };
        let has_requirements = needs.has(Runtime::Python) && add("requirements.txt")?;
        let packages = if !needs.has(Runtime::Node) || !add("package.json")? {
            Packages::None
        } else if add("package-lock.json")? {
            Packages::Locked
        } else {
            Packages::Unlocked
        };
        Ok((has_requirements, packages))
    }

    /// Adds a file, unless it holds keys by its name.
    fn add(
        &mut self,
        path: &Path,
        folder: &str,
        is_yaml: bool,
        place: Option<Location>,
    ) -> Result<(), DeployError> {
        let Some((name, real)) = self.root.names(path) else {
            let message = format!(
                "`{}` is outside of the agent's folder, and an image has only what is in it",
                holodeck_model::shown_path(path).display()
            );
            let hint = "move it, or the agent file, so that it lies below the folder of the agent file";
            return Err(DeployError::refused(message, hint).at(place));
        };
        let shown = name.display().to_string();
        let is_plain = name.components().all(|part| matches!(part, Component::Normal(_)));
        let Some(text) = name
            .to_str()
            .filter(|text| is_plain && !text.contains(['\n', '\\']))
        else {
            let message = format!("the name of `{shown}` cannot be in an image");
            return Err(DeployError::refused(message, "rename it").at(place));
        };
        let in_context = format!("{folder}/{text}");
        if self.files.contains_key(&in_context) {
            return Ok(());
        }
        let is_allowed = self
            .allowed
            .iter()
            .any(|allowed| plain(allowed) == name || allowed.as_path() == path);
        if is_env_file(&name) || is_env_file(&real) {
            self.notes.push(format!(
                "`{shown}` is left out: set its variables where the container runs"
            ));
            return Ok(());
        }
        if (is_key_file(&name) || is_key_file(&real)) && !is_allowed {
            self.notes.push(format!(
                "`{shown}` is left out: by its name it holds keys; `--allow {}` takes it",
                holodeck_model::shell_word(&shown)
            ));
            return Ok(());
        }
        let bytes = read(path)?;
        let found = self.guard.find(&shown, &bytes, is_yaml).into_iter();
        let (allowed, refused): (Vec<_>, Vec<_>) =
            found.partition(|place| is_allowed && place.finding.can_be_allowed());
        self.places.extend(refused);
        self.notes
            .extend(allowed.iter().map(|place| format!("allowed: {place}")));
        self.files.insert(in_context, (is_executable(path), bytes));
        Ok(())
    }
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;

    fs::metadata(path).is_ok_and(|about| about.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::certificates;

    #[test]
    fn a_bundle_gives_its_certificates_only() {
        let part = |kind: &str, text: &str| format!("-----BEGIN {kind}-----\n{text}\n-----END {kind}-----\n");
        let (first, second) = (part("CERTIFICATE", "AA"), part("CERTIFICATE", "CC"));
        let key = part(&["PRIVATE", "KEY"].join(" "), "BB");
        let cut = part("CERTIFICATE", "DD").replace("END", "");
        let text = format!("# a\n{first}{key}{second}{cut}");
        assert_eq!(certificates(&text), format!("{first}{second}"));
    }
}
