//! The packages that people install: a static program for each platform as a tarball, a wheel, a package for npm and one for
//! Debian, with completions, man pages, licences, a bill of materials and checksums.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::host;
use crate::workspace::{self, Metadata};

mod build;
pub(crate) mod link;
mod notices;
mod order;
mod platform;
pub(crate) mod profile;

use platform::Platform;

/// Bytes that the program is to have at most. It has more today (docs/performance.md), so that this is said, and only the limit
/// fails.
const SIZE_GOAL: u64 = 36_000_000;
const SIZE_LIMIT: u64 = 40_000_000;

/// The name of the packages; that of the program is `holodeck`.
pub(crate) const NAME: &str = "holodeck-cli";

const SUMMARY: &str = "Define an AI agent in YAML, test it, evaluate it, chat with it and serve it";

/// Shells with the file name of their completions, as each looks for it, and where Debian keeps them.
const SHELLS: [(&str, &str, &str); 5] = [
    (
        "bash",
        "holodeck.bash",
        "usr/share/bash-completion/completions/holodeck",
    ),
    ("elvish", "holodeck.elv", "usr/share/elvish/lib/holodeck.elv"),
    (
        "fish",
        "holodeck.fish",
        "usr/share/fish/vendor_completions.d/holodeck.fish",
    ),
    (
        "powershell",
        "holodeck.ps1",
        "usr/share/powershell/Completions/holodeck.ps1",
    ),
    ("zsh", "_holodeck", "usr/share/zsh/vendor-completions/_holodeck"),
];

/// Files of every package.
const TEXTS: [&str; 3] = ["README.md", "LICENSE", notices::FILE];

/// Options of `cargo xtask dist`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Build for these processors; without it, for all.
    #[arg(long = "platform", value_enum)]
    platforms: Vec<Platform>,
    /// Pack this program, built before for the one platform, instead of building it.
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Where the packages are written.
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let metadata = Metadata::load()?;
    let to = match &args.to {
        Some(to) => std::path::absolute(to)?,
        None => metadata.target_directory().join("packages"),
    };
    fs::create_dir_all(&to)?;
    let platforms = if args.platforms.is_empty() {
        Platform::ALL.to_vec()
    } else {
        args.platforms.clone()
    };
    ensure!(
        args.program.is_none() || platforms.len() == 1,
        "`--program` is for one `--platform`"
    );
    let stage = tempfile::Builder::new().prefix("holodeck-packages-").tempdir()?;
    let release = Release {
        version: version(&metadata)?,
        time: time()?,
        to: &to,
        stage: stage.path(),
    };
    release.prepare(&metadata)?;
    let mut made = Vec::new();
    for platform in platforms {
        let program = match &args.program {
            Some(program) => program.clone(),
            None => build::program(platform, &metadata.target_directory())?,
        };
        check(&program)?;
        made.extend(release.pack(platform, &program)?);
    }
    made.push(release.npm_launcher()?);
    let bill = to.join(format!("holodeck-{}.cdx.json", release.version));
    fs::write(&bill, notices::bill_of_materials(&metadata, &release.version)?)?;
    made.push(bill);
    release.write_sums(&made)
}

/// Makes the packages whose program this machine can start.
pub(crate) fn build_for_this_machine(to: &Path) -> Result<()> {
    run(&Args {
        platforms: vec![Platform::of_this_machine()?],
        program: None,
        to: Some(to.to_owned()),
    })
}

/// Refuses a program that is too large or needs a library.
fn check(program: &Path) -> Result<()> {
    let size = fs::metadata(program)
        .context("failed to find the built program")?
        .len();
    println!("{}: {size} bytes", program.display());
    if size > SIZE_GOAL {
        println!("{} bytes above the goal of {SIZE_GOAL}", size - SIZE_GOAL);
    }
    ensure!(
        size <= SIZE_LIMIT,
        "the program has {size} bytes, the limit is {SIZE_LIMIT}"
    );
    let headers = host::output(
        host::command("readelf")
            .args(["--program-headers", "--dynamic", "--wide"])
            .arg(program),
    )?;
    ensure!(
        !is_dynamic(&headers),
        "the program needs a loader or a library, which not every machine has:\n{headers}"
    );
    Ok(())
}

/// Whether `readelf` shows a loader or a library.
fn is_dynamic(headers: &str) -> bool {
    headers.contains("INTERP") || headers.contains("(NEEDED)")
}

fn version(metadata: &Metadata) -> Result<String> {
    let cli = metadata.members().find(|package| package.name() == NAME);
    Ok(cli
        .context("there is no package of the program")?
        .version()
        .to_owned())
}

/// When the packed commit was made, in seconds: the time of every packed file.
fn time() -> Result<u64> {
    let line = host::output(host::command("git").args(["log", "-1", "--format=%ct"]))?;
    line.trim().parse().context("git names no time of the commit")
}

struct Release<'a> {
    version: String,
    time: u64,
    to: &'a Path,
    /// Where the folders to pack are made.
    stage: &'a Path,
}

impl Release<'_> {
    /// Makes the parts of all packages: completions and man pages, from a program for this machine.
    fn prepare(&self, metadata: &Metadata) -> Result<()> {
        let shared = self.shared();
        let program = build::host_program(metadata)?;
        fs::create_dir_all(shared.join("completions"))?;
        for (shell, file, _) in SHELLS {
            let script = host::output(host::command(&program).args(["completions", shell]))?;
            fs::write(shared.join("completions").join(file), script)?;
        }
        let pages = shared.join("man");
        fs::create_dir_all(&pages)?;
        host::run(
            host::command(&program)
                .args(["internal", "man-pages"])
                .arg(&pages),
        )?;
        for file in ["README.md", "LICENSE"] {
            fs::copy(workspace::root().join(file), shared.join(file))?;
        }
        fs::write(shared.join(notices::FILE), notices::licences(metadata)?)?;
        Ok(())
    }

    fn shared(&self) -> PathBuf {
        self.stage.join("shared")
    }

    /// The packages of one platform.
    fn pack(&self, platform: Platform, program: &Path) -> Result<Vec<PathBuf>> {
        let top = format!("holodeck-{}-{}", self.version, platform.triple());
        let tarball = self.folder(&format!("{top}-tarball"), &self.shared(), program, "holodeck")?;
        let tarball = self.make(
            &format!("{top}.tar.gz"),
            &tarball,
            &json!({ "kind": "tarball", "top": top }),
        )?;

        let wheel = self.folder(&format!("{top}-wheel"), &self.shared(), program, "holodeck")?;
        let tags: Vec<String> = platform.wheel_tags();
        let named = tags.iter().filter_map(|tag| tag.strip_prefix("py3-none-"));
        let file = format!(
            "{}-{}-py3-none-{}.whl",
            NAME.replace('-', "_"),
            self.version,
            named.collect::<Vec<_>>().join(".")
        );
        let wheel = self.make(
            &file,
            &wheel,
            &json!({
                "kind": "wheel", "name": NAME, "version": self.version, "summary": SUMMARY, "license": "MIT",
                "tags": tags, "licenses": ["LICENSE", notices::FILE],
            }),
        )?;

        let name = platform.npm_name(NAME);
        let npm = self.folder(&format!("{top}-npm"), Path::new(""), program, "bin/holodeck")?;
        let manifest = json!({
            "name": name, "version": self.version, "license": "MIT", "description": SUMMARY,
            "os": ["linux"], "cpu": [platform.npm_cpu()],
        });
        write_json(&npm.join("package.json"), &manifest)?;
        let npm = self.make(
            &format!("{name}-{}.tgz", self.version),
            &npm,
            &json!({ "kind": "npm" }),
        )?;

        let deb = self.debian_folder(&format!("{top}-deb"), program)?;
        let deb = self.make(
            &format!("holodeck_{}_{}.deb", self.version, platform.debian()),
            &deb,
            &json!({
                "kind": "deb",
                "control": {
                    "Package": "holodeck", "Version": self.version, "Architecture": platform.debian(),
                    "Maintainer": "HoloDeck <holodeck@users.noreply.github.com>", "Section": "devel",
                    "Priority": "optional", "Description": SUMMARY,
                },
            }),
        )?;
        Ok(vec![tarball, wheel, npm, deb])
    }

    /// The package that npm's users name: it starts the program of the package for their platform.
    fn npm_launcher(&self) -> Result<PathBuf> {
        let folder = self.stage.join("npm-launcher");
        fs::create_dir_all(folder.join("bin"))?;
        fs::copy(
            workspace::root().join("xtask/dist/holodeck.js"),
            folder.join("bin/holodeck.js"),
        )?;
        for file in TEXTS {
            fs::copy(self.shared().join(file), folder.join(file))?;
        }
        let programs: serde_json::Map<String, Value> = Platform::ALL
            .iter()
            .map(|platform| (platform.npm_name(NAME), self.version.clone().into()))
            .collect();
        let manifest = json!({
            "name": NAME, "version": self.version, "license": "MIT", "description": SUMMARY,
            "bin": { "holodeck": "bin/holodeck.js" }, "optionalDependencies": programs,
            "engines": { "node": ">=18" },
        });
        write_json(&folder.join("package.json"), &manifest)?;
        let name = format!("{NAME}-{}.tgz", self.version);
        self.make(&name, &folder, &json!({ "kind": "npm" }))
    }

    /// A folder with the files of another one, and the program in it.
    fn folder(&self, name: &str, from: &Path, program: &Path, place: &str) -> Result<PathBuf> {
        let folder = self.stage.join(name);
        fs::create_dir_all(&folder)?;
        if from.is_dir() {
            copy_all(from, &folder)?;
        }
        copy(program, &folder.join(place))?;
        Ok(folder)
    }

    /// The files where Debian has them.
    fn debian_folder(&self, name: &str, program: &Path) -> Result<PathBuf> {
        let folder = self.stage.join(name);
        copy(program, &folder.join("usr/bin/holodeck"))?;
        for (_, file, place) in SHELLS {
            copy(&self.shared().join("completions").join(file), &folder.join(place))?;
        }
        for page in fs::read_dir(self.shared().join("man"))? {
            let page = page?;
            copy(
                &page.path(),
                &folder.join("usr/share/man/man1").join(page.file_name()),
            )?;
        }
        let about = folder.join("usr/share/doc/holodeck");
        copy(&self.shared().join("LICENSE"), &about.join("copyright"))?;
        copy(&self.shared().join(notices::FILE), &about.join(notices::FILE))?;
        Ok(folder)
    }

    /// Packs a folder into a file of this name.
    fn make(&self, name: &str, folder: &Path, facts: &Value) -> Result<PathBuf> {
        let path = self.to.join(name);
        let mut order = facts.clone();
        if let Some(order) = order.as_object_mut() {
            order.insert("folder".to_owned(), folder.to_string_lossy().into());
            order.insert("to".to_owned(), path.to_string_lossy().into());
            order.insert("time".to_owned(), self.time.into());
        }
        let script = workspace::root().join("xtask/dist/pack.py");
        host::run(host::command("python3").arg(script).arg(order.to_string()))?;
        println!("{}: {} bytes", path.display(), fs::metadata(&path)?.len());
        Ok(path)
    }

    fn write_sums(&self, made: &[PathBuf]) -> Result<()> {
        let mut sum = host::command("sha256sum");
        sum.current_dir(self.to);
        for path in made {
            sum.arg(path.file_name().context("a package has no name")?);
        }
        let sums = host::output(&mut sum)?;
        fs::write(self.to.join("SHA256SUMS"), &sums)?;
        print!("{sums}");
        Ok(())
    }
}

fn write_json(path: &Path, value: &Value) -> Result<()> {
    fs::write(path, format!("{}\n", serde_json::to_string_pretty(value)?))?;
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    if let Some(above) = to.parent() {
        fs::create_dir_all(above)?;
    }
    fs::copy(from, to).with_context(|| format!("failed to copy {}", from.display()))?;
    Ok(())
}

fn copy_all(from: &Path, to: &Path) -> Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_all(&entry.path(), &target)?;
        } else {
            copy(&entry.path(), &target)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::is_dynamic;

    #[test]
    fn a_program_with_a_loader_or_a_library_is_dynamic() {
        let program = "  LOAD  0x000000 0x0000000000000000\n  DYNAMIC 0x1\n 0x0000000000000018 (BIND_NOW)\n";
        assert!(!is_dynamic(program));
        assert!(is_dynamic(&format!("{program}  INTERP  0x000318\n")));
        assert!(is_dynamic(&format!(
            "{program} 0x01 (NEEDED) Shared library: [libc.so.6]\n"
        )));
    }
}
