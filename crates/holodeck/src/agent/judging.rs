//! Opens what judges need while the agent itself is not opened: for regrades, calibrations and the steps of judges.

use std::time::Duration;

use holodeck_model::Env;
use holodeck_turn::TurnRunner;
use holodeck_yaml::LoadedAgent;

use crate::{
    Answers, OpenError, OpenOptions,
    agent::{
        backends::BackendSelector,
        inventory::{Inventory, ModelRole},
        prices::prices,
        turns::turn_runner,
    },
};

/// The backends and turns of judges. Nothing is asked yet.
pub(crate) struct JudgeSetup {
    pub(crate) backends: BackendSelector,
    pub(crate) turns: TurnRunner,
}

impl JudgeSetup {
    /// Returns an error if a judge of the agent has no key, unless a recording answers.
    pub(crate) fn new(
        agent: &LoadedAgent,
        inventory: &Inventory,
        env: &Env,
        options: &OpenOptions,
        timeout: Option<Duration>,
    ) -> Result<Self, OpenError> {
        let answers = Answers::open(&options.answers, options.record.as_deref(), agent, env)?;
        let prices = prices(agent, env, options.prices.as_deref())?;
        let turns = turn_runner(agent, env, timeout, prices.clone())?;
        if answers.replayed().is_none() {
            inventory.check_keys(agent, env, &ModelRole::JUDGES)?;
        }
        let backends = BackendSelector::new(env.clone(), answers)
            .prices(prices)
            .endpoints_of(agent);
        Ok(Self { backends, turns })
    }

    pub(crate) fn answers(&self) -> &Answers {
        self.backends.answers()
    }
}
