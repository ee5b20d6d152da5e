//! The state of a view that its requests share.

use std::sync::Arc;

use crate::{Catalogue, access::Access};

/// The state that all requests share.
#[derive(Clone, Debug)]
pub(crate) struct App {
    shared: Arc<(Catalogue, Access)>,
}

impl App {
    pub(crate) fn new(catalogue: Catalogue, access: Access) -> Self {
        Self {
            shared: Arc::new((catalogue, access)),
        }
    }

    pub(crate) fn catalogue(&self) -> &Catalogue {
        &self.shared.0
    }

    pub(crate) fn access(&self) -> &Access {
        &self.shared.1
    }
}
