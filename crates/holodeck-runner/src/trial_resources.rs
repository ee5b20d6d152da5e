//! The resources that each trial number has for itself, such as MCP servers with state: prepared before the first case
//! of a trial asks the agent, released after the last one.
//!
//! Must not know what the resources are; the request for a run has them.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use holodeck_backend_api::BackendError;

/// The resources that the cases of one trial number share, and no other trial sees.
#[async_trait]
pub trait TrialResources: Send + Sync {
    /// Prepares the resources of a trial, from 0; does nothing if they are ready.
    async fn begin(&self, trial: u32) -> Result<(), BackendError>;

    /// Releases the resources of a trial.
    async fn end(&self, trial: u32);
}

/// The resources of a run's trials, and how many units still need those of each.
#[derive(Default)]
pub(crate) struct TrialUses {
    resources: Option<Arc<dyn TrialResources>>,
    left: Mutex<HashMap<u32, usize>>,
}

impl TrialUses {
    pub(crate) fn new(resources: Option<Arc<dyn TrialResources>>) -> Self {
        Self {
            resources,
            left: Mutex::default(),
        }
    }

    /// Adds a unit of this trial that will be executed.
    pub(crate) fn add_unit(&self, trial: u32) {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        *left.entry(trial).or_default() += 1;
    }

    /// Prepares the resources of a trial.
    pub(crate) async fn begin(&self, trial: u32) -> Result<(), BackendError> {
        match &self.resources {
            Some(resources) => resources.begin(trial).await,
            None => Ok(()),
        }
    }

    /// Removes an executed unit. After the last one of its trial, returns the resources to end.
    pub(crate) fn finish(&self, trial: u32) -> Option<Arc<dyn TrialResources>> {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let count = left.get_mut(&trial)?;
        *count -= 1;
        if *count > 0 {
            return None;
        }
        left.remove(&trial);
        self.resources.clone()
    }
}
