//! The questions of `init` on a terminal. Enter takes the default; a flag skips its question.

use std::io::BufRead;

use super::{
    InitArgs, check_endpoint, check_name,
    choices::{Provider, Template},
    plan,
    project::Plan,
};
use crate::{command::questions::Questions, failure::Failure};

/// Asks for the values that the arguments do not set.
pub(super) fn complete(
    args: &InitArgs,
    input: &mut dyn BufRead,
    show: &mut dyn FnMut(&str),
) -> Result<Plan, Failure> {
    let mut questions = Questions { input, show };
    let given = args.folder.as_ref().or(args.name.as_ref());
    let folder = match given {
        Some(name) => name.clone(),
        None => questions.line("Name", "my-agent", |name| {
            if name == "." {
                return Ok(());
            }
            check_name(name).map_err(|problem| problem.message)
        })?,
    };
    let template = match args.template {
        Some(template) => template,
        None => questions.choice("Template", &Template::Conversational)?,
    };
    let provider = match args.provider {
        Some(provider) => provider,
        None => questions.choice("Provider", &Provider::Ollama)?,
    };
    let mut endpoint = args.endpoint.clone();
    if provider == Provider::AzureOpenai && endpoint.is_none() {
        let example = "https://RESOURCE.openai.azure.com";
        let is_known = |endpoint: &str| {
            check_endpoint(endpoint).map_err(|problem| match problem.hint {
                Some(hint) => format!("{}; {hint}", problem.message),
                None => problem.message,
            })
        };
        endpoint = Some(questions.line("Endpoint", example, is_known)?);
    }
    let model = match &args.model {
        Some(model) => model.clone(),
        None => questions.line("Model", provider.default_model(), |_| Ok(()))?,
    };
    let plan = plan(&InitArgs {
        folder: Some(folder),
        name: args.folder.as_ref().and(args.name.clone()),
        template: Some(template),
        provider: Some(provider),
        model: Some(model),
        endpoint,
        description: args.description.clone(),
        author: args.author.clone(),
        vectorstore: args.vectorstore.clone(),
        evals: args.evals.clone(),
        mcp: args.mcp.clone(),
        non_interactive: args.non_interactive,
        force: args.force,
    });
    Ok(plan?)
}
