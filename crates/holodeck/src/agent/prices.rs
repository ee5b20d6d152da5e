//! The prices that apply to an agent.

use std::path::Path;

use holodeck_model::{Env, ResolvedAgent};
use holodeck_turn::{PriceError, Prices};

/// The embedded list, overridden by the user's, then the project's, then the flag's list.
pub(crate) fn prices(agent: &ResolvedAgent, env: &Env, flag: Option<&Path>) -> Result<Prices, PriceError> {
    let mut prices = Prices::embedded();
    if let Some(user) = env.user_dir() {
        prices = prices.overlay(&user.join("prices.json"))?;
    }
    prices = prices.overlay(&agent.dir.join("prices.json"))?;
    match flag {
        Some(path) if !path.exists() => Err(PriceError::Io {
            path: path.display().to_string(),
            source: std::io::ErrorKind::NotFound.into(),
        }),
        Some(path) => prices.overlay(path),
        None => Ok(prices),
    }
}
