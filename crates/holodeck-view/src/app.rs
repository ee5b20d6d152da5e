//! The state of a view that its requests share.

use std::sync::Arc;

use crate::{CaseFiles, Catalogue, Conversations, access::Access};

/// The state that all requests share.
#[derive(Clone, Debug)]
pub(crate) struct App {
    shared: Arc<(Catalogue, Access)>,
    case_files: Arc<dyn CaseFiles>,
    /// Absent if conversations are not shown.
    conversations: Option<Arc<dyn Conversations>>,
}

impl App {
    pub(crate) fn new(catalogue: Catalogue, access: Access, case_files: Arc<dyn CaseFiles>) -> Self {
        Self {
            shared: Arc::new((catalogue, access)),
            case_files,
            conversations: None,
        }
    }

    pub(crate) fn show_conversations(&mut self, conversations: Arc<dyn Conversations>) {
        self.conversations = Some(conversations);
    }

    pub(crate) fn conversations(&self) -> Option<Arc<dyn Conversations>> {
        self.conversations.clone()
    }

    pub(crate) fn catalogue(&self) -> &Catalogue {
        &self.shared.0
    }

    pub(crate) fn access(&self) -> &Access {
        &self.shared.1
    }

    pub(crate) fn case_files(&self) -> Arc<dyn CaseFiles> {
        Arc::clone(&self.case_files)
    }
}
