//! The skills of an agent as tools that run their scripts.

use std::{path::PathBuf, sync::Arc};

use holodeck_backend_api::{Approver, BackendError};
use holodeck_model::{Env, Occasion, ResolvedAgent, SideEffectGate, SkillDoc};
use holodeck_orchestrator::{SkillPrograms, SkillTool};
use holodeck_process::{BASE_VARIABLES, ChildEnv};
use holodeck_tools::Toolbox;

use crate::{PolicyApprover, approval_policy};

/// How the scripts of an agent's skills are run.
pub(super) fn programs(
    agent: &ResolvedAgent,
    env: &Env,
    (occasion, gate): (Occasion, SideEffectGate),
) -> SkillPrograms {
    let policy = approval_policy(agent, &[], env);
    let approver: Arc<dyn Approver> = Arc::new(PolicyApprover::new(policy, occasion, gate));
    SkillPrograms {
        env: ChildEnv::inherit(BASE_VARIABLES, |name| env.get(name)),
        limit: agent.execution.llm_timeout.value,
        approver,
    }
}

/// The skills as tools.
pub(super) fn toolbox(
    skills: &[SkillDoc],
    programs: &SkillPrograms,
    folder: Option<&PathBuf>,
) -> Result<Toolbox, BackendError> {
    let mut tools = Toolbox::new();
    for skill in skills {
        let tool = SkillTool::new(skill.clone(), programs.clone(), folder.cloned());
        tools
            .add(Arc::new(tool), programs.limit)
            .map_err(|error| BackendError::init(error.to_string()))?;
    }
    Ok(tools)
}
