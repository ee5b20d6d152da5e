//! Which files are programs: by their ending, their first two bytes or the permission to be executed.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::Read as _,
    os::unix::fs::PermissionsExt as _,
    path::Path,
};

pub(super) const PYTHON: &[&str] = &["py"];

/// The extensions of scripts by language: a script may import those beside it.
const LANGUAGES: &[&[&str]] = &[
    PYTHON,
    &["js", "mjs", "cjs", "jsx", "ts", "mts", "cts", "tsx"],
    &["sh", "bash", "zsh"],
    &["rb"],
    &["pl", "pm"],
    &["php"],
    &["lua"],
    &["r", "R"],
];

/// The extensions of other files that are run, or compiled and run.
const OTHERS: &[&str] = &[
    "awk", "bat", "c", "class", "clj", "cmd", "cpp", "cs", "dart", "erl", "ex", "exs", "fish", "fsx", "go",
    "gradle", "groovy", "hs", "jar", "java", "jl", "jq", "kts", "mk", "nim", "nix", "nu", "ps1", "pyc",
    "pyz", "rs", "scala", "scm", "sed", "sql", "swift", "tcl", "wasm", "zig",
];

/// The names of files with the commands of build tools.
const NAMES: &[&str] = &[
    "Makefile",
    "makefile",
    "GNUmakefile",
    "Rakefile",
    "Justfile",
    "justfile",
];

/// The extensions of the language of a script; `None` if it is not a script.
pub(super) fn language(path: &Path) -> Option<&'static [&'static str]> {
    let mut languages = LANGUAGES.iter().copied();
    languages.find(|extensions| has_extension(path, extensions))
}

pub(super) fn has_extension(path: &Path, extensions: &[&str]) -> bool {
    let extension = path.extension().and_then(OsStr::to_str);
    extension.is_some_and(|extension| extensions.contains(&extension))
}

/// Whether a file is a program, and not something that one reads or writes. One that cannot be read counts as a program.
pub(super) fn is_program(path: &Path) -> bool {
    let name = path.file_name().and_then(OsStr::to_str);
    if language(path).is_some()
        || has_extension(path, OTHERS)
        || name.is_some_and(|name| NAMES.contains(&name))
    {
        return true;
    }
    let Ok(about) = fs::metadata(path) else {
        return true;
    };
    about.is_file() && (about.permissions().mode() & 0o111 != 0 || begins_as_script(path))
}

/// Whether its first line names an interpreter.
fn begins_as_script(path: &Path) -> bool {
    let mut bytes = [0; 2];
    match File::open(path).and_then(|mut file| file.read_exact(&mut bytes)) {
        Ok(()) => bytes == *b"#!",
        Err(error) => error.kind() != std::io::ErrorKind::UnexpectedEof,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_known_by_ending_first_line_or_permission() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, content: &str, mode: u32| {
            let path = folder.path().join(name);
            fs::write(&path, content).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            is_program(&path)
        };
        for (name, content, mode) in [
            ("run.py", "", 0o644),
            ("report.sql", "select 1", 0o600),
            ("Makefile", "all:", 0o644),
            ("deploy", "#!/bin/sh", 0o644),
            ("tool.bin", "ELF", 0o755),
        ] {
            assert!(write(name, content, mode), "{name}");
        }
        for (name, content, mode) in [
            ("state.json", "{}", 0o644),
            ("log", "#", 0o600),
            ("notes.txt", " #!/bin/sh", 0o644),
            ("empty", "", 0o644),
        ] {
            assert!(!write(name, content, mode), "{name}");
        }
        assert!(!is_program(folder.path()));
        assert!(is_program(&folder.path().join("missing")));
    }
}
