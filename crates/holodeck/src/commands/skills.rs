//! Loads the skills of `routing.skills`, and says what is wrong with their files. It runs none.

use std::{
    fs,
    path::{Path, PathBuf},
};

use holodeck_model::{Code, Diagnostic, DiskFiles, FileKind, Files as _, ResolvedAgent, SkillDoc, Sources};
use holodeck_yaml::{Load, load_skill};

/// The skills of an agent, with everything that is wrong with them.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LoadedSkills {
    /// The skills, sorted by name.
    pub skills: Vec<SkillDoc>,
    /// The problems of their files, without an agent.
    pub load: Load,
}

/// Reads the skills of `routing.skills`; `None` if the agent has no such block.
pub fn load_own_skills(agent: &ResolvedAgent) -> Option<LoadedSkills> {
    let config = agent.config.routing.as_ref()?.skills.as_ref()?;
    let folder = config.directory.path();
    let mut loaded = LoadedSkills {
        skills: Vec::new(),
        load: Load {
            agent: None,
            diagnostics: Vec::new(),
            sources: Sources::default(),
        },
    };
    let mut folders: Vec<PathBuf> = match fs::read_dir(&folder) {
        Ok(entries) => entries.flatten().map(|entry| entry.path()).collect(),
        Err(error) => {
            let reason = holodeck_model::io_reason(&error);
            let message = format!(
                "the folder of the skills `{}` cannot be read: {reason}",
                folder.display()
            );
            loaded
                .load
                .diagnostics
                .push(Diagnostic::error(Code::UnreadableFile, message).about("routing.skills.directory"));
            return Some(loaded);
        }
    };
    folders.sort();
    let root = fs::canonicalize(&folder).unwrap_or(folder);
    for folder in folders {
        if DiskFiles.kind(&folder.join("SKILL.md")) != FileKind::File {
            if let Some(nested) = nested_skill(&folder) {
                let message = format!(
                    "`{}` is too deep in the folder of skills and not used",
                    nested.display()
                );
                let diagnostic = Diagnostic::warning(Code::NoEffect, message)
                    .about("routing.skills.directory")
                    .with_help("only the folders directly below it are skills, as in Claude Code");
                loaded.load.diagnostics.push(diagnostic);
            }
            continue;
        }
        if let Some(link) = link_out(&folder, &root) {
            let message = format!(
                "`{}` is a link that leaves the folder of skills; the skill is not used",
                link.display()
            );
            let diagnostic = Diagnostic::warning(Code::UnreadableFile, message);
            loaded
                .load
                .diagnostics
                .push(diagnostic.about("routing.skills.directory"));
            continue;
        }
        let (skill, load) = load_skill(&folder, &DiskFiles);
        for source in load.sources.iter() {
            loaded
                .load
                .sources
                .add(source.path.to_path_buf(), source.text.clone());
        }
        loaded.load.diagnostics.extend(load.diagnostics);
        let Some(skill) = skill else { continue };
        if loaded.skills.iter().any(|known| known.name == skill.name) {
            let message = format!(
                "another skill has the name `{}`; the one in `{}` is not used",
                skill.name,
                folder.display()
            );
            loaded
                .load
                .diagnostics
                .push(Diagnostic::error(Code::DuplicateName, message).about("name"));
            continue;
        }
        loaded.skills.push(skill);
    }
    loaded.skills.sort_by(|one, other| one.name.cmp(&other.name));
    Some(loaded)
}

/// A skill in a folder that is none itself, as collections group them.
fn nested_skill(folder: &Path) -> Option<PathBuf> {
    let mut below: Vec<PathBuf> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path().join("SKILL.md"))
        .filter(|path| path.is_file())
        .collect();
    below.sort();
    below.into_iter().next()
}

/// The first file of a skill whose real place is outside of the folder of skills.
fn link_out(skill: &Path, root: &Path) -> Option<PathBuf> {
    let leaves = |path: &Path| fs::canonicalize(path).is_ok_and(|real| !real.starts_with(root));
    if leaves(skill) {
        return Some(skill.to_owned());
    }
    let mut folders = vec![skill.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if leaves(&path) {
                return Some(path);
            }
            // A link inside is found where it leads.
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(path);
            }
        }
    }
    None
}

/// The names of the tools that run the skills of an agent, by their folders.
pub(crate) fn skill_tools(agent: &ResolvedAgent) -> Vec<String> {
    let skills = agent
        .config
        .routing
        .as_ref()
        .and_then(|routing| routing.skills.as_ref());
    let Some(entries) = skills.and_then(|skills| fs::read_dir(skills.directory.path()).ok()) else {
        return Vec::new();
    };
    let skills = entries
        .flatten()
        .filter(|entry| entry.path().join("SKILL.md").is_file());
    let names = skills.filter_map(|entry| entry.file_name().into_string().ok());
    names
        .map(|name| {
            SkillDoc {
                name,
                ..SkillDoc::default()
            }
            .tool_name()
        })
        .collect()
}

/// Adds what is wrong with the skills of an agent to what is wrong with its file.
pub(crate) fn check(load: &mut Load) {
    let Some(agent) = &load.agent else { return };
    let Some(skills) = load_own_skills(agent) else {
        return;
    };
    let place = agent.locate("routing.skills.directory");
    for source in skills.load.sources.iter() {
        load.sources.add(source.path.to_path_buf(), source.text.clone());
    }
    for mut found in skills.load.diagnostics {
        // A skill that cannot be used is not offered; the agent runs without it.
        if found.is_error() && found.primary.is_some() {
            found.severity = holodeck_model::Severity::Warning;
        }
        found.primary = found.primary.or_else(|| place.clone());
        load.diagnostics.push(found);
    }
}
