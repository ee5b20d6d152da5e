//! The name of an agent's image: registry, repository and tag of `deployment.registry`.

use holodeck_model::{RegistryConfig, TagStrategy};
use holodeck_yaml::LoadedAgent;

use super::DeployError;
use crate::agent::{git, inventory::slug};

/// Digits of a commit in a tag.
const DIGITS: usize = 7;

/// The name of the image; `tag` takes the place of the tag that the YAML describes.
pub fn image_name(agent: &LoadedAgent, tag: Option<&str>) -> Result<String, DeployError> {
    let deployment = agent.config.deployment.as_ref();
    let Some(registry) = deployment.map(|deployment| &deployment.registry) else {
        let tag = tag.unwrap_or("latest");
        return Ok(format!("{}:{}", slug(&agent.config.name), checked(tag)?));
    };
    let tag = match tag {
        Some(tag) => tag.to_owned(),
        None => tag_of(registry, agent)?,
    };
    let host = registry.url.trim_end_matches('/');
    let host = host.split_once("://").map_or(host, |(_, host)| host);
    Ok(format!("{host}/{}:{}", registry.repository, checked(&tag)?))
}

fn tag_of(registry: &RegistryConfig, agent: &LoadedAgent) -> Result<String, DeployError> {
    let place = || agent.locate("deployment.registry.tag_strategy");
    match registry.tag_strategy {
        TagStrategy::Latest => Ok("latest".to_owned()),
        // The loader has refused `custom` without a tag.
        TagStrategy::Custom => Ok(registry.custom_tag.clone().unwrap_or_default()),
        TagStrategy::GitSha => {
            let commit = git::commit(&agent.dir);
            let commit = commit.and_then(|commit| commit.get(..DIGITS).map(str::to_owned));
            commit.ok_or_else(|| {
                DeployError::refused(
                    "the image is tagged with the commit, and the agent is in no git repository with one",
                    "give the tag with `--tag`, or set `tag_strategy`",
                )
                .at(place())
            })
        }
        TagStrategy::GitTag => Err(DeployError::refused(
            "`tag_strategy: git_tag` is not done: holodeck does not run git",
            "give the tag with `--tag \"$(git describe --tags)\"`",
        )
        .at(place())),
    }
}

/// A tag as registries accept it.
fn checked(tag: &str) -> Result<&str, DeployError> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let fits = tag.len() <= 128
        && tag.starts_with(is_word)
        && tag.chars().all(|c| is_word(c) || c == '.' || c == '-');
    if fits {
        Ok(tag)
    } else {
        Err(DeployError::refused(
            format!(
                "`{}` cannot be the tag of an image",
                holodeck_model::printable(tag)
            ),
            "a tag has at most 128 letters, digits, `_`, `.` and `-`, and does not begin with `.` or `-`",
        ))
    }
}
