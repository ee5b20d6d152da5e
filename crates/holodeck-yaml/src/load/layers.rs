//! Merges `config.yaml` of the project and of the user into the agent, with lower precedence.

use std::path::{Path, PathBuf};

use holodeck_model::{Code, DatabaseConfig, Diagnostic, FileKind, Layer, closest};
use indexmap::IndexMap;

use super::Loader;
use crate::{
    check::{check_config_rules, check_shape},
    schema,
    yaml::{Entry, NodeId, Place, build, deep_merge, from_tree},
};

/// The configuration files that were found.
pub(super) struct Configs {
    /// The project's file merged over the user's; absent if there is neither.
    pub(super) merged: Option<NodeId>,
    pub(super) project: Option<PathBuf>,
    pub(super) user: Option<PathBuf>,
}

impl Loader<'_> {
    pub(super) fn config_layers(&mut self, dir: &Path) -> Configs {
        let user_dir = self.env.user_dir();
        let (project, project_root) = self.config_file(dir, Layer::Project);
        let (user, user_root) = match &user_dir {
            // For an agent in the user's directory both layers are the same file.
            Some(user_dir) if user_dir != dir => self.config_file(user_dir, Layer::User),
            _ => (None, None),
        };
        let merged = match (project_root, user_root) {
            (Some(project), Some(user)) => Some(self.merge_configs(project, user)),
            (project, user) => project.or(user),
        };
        Configs {
            merged,
            project,
            user,
        }
    }

    /// Reads `config.yml`, or else `config.yaml`.
    fn config_file(&mut self, dir: &Path, layer: Layer) -> (Option<PathBuf>, Option<NodeId>) {
        let [short, long] = [dir.join("config.yml"), dir.join("config.yaml")];
        let is_file = |path: &Path| self.files.kind(path) == FileKind::File;
        let (path, ignored) = match (is_file(&short), is_file(&long)) {
            (true, true) => (short, Some(long)),
            (true, false) => (short, None),
            (false, true) => (long, None),
            (false, false) => return (None, None),
        };
        let Some(file) = self.read_text(&path, layer, None) else {
            return (Some(path), None);
        };
        if let Some(ignored) = ignored {
            let message = format!(
                "`{}` is ignored, because `{}` is beside it",
                ignored.display(),
                path.display()
            );
            let diagnostic = Diagnostic::warning(Code::NoEffect, message).with_help("keep one of them");
            self.findings.add(
                &self.tree,
                Place {
                    file,
                    start: 0,
                    end: 0,
                },
                diagnostic,
            );
        }
        let len = self.tree.file_text(file).len();
        let built = build(&mut self.tree, file, 0..len, Some(self.env));
        let clean = built.diagnostics.is_empty();
        self.findings.diagnostics.extend(built.diagnostics);
        let Some(root) = built.root else {
            return (Some(path), None);
        };
        check_shape(&self.tree, &schema::GLOBAL, root, &mut self.findings);
        let is_mapping = self.tree.entries(root).is_some();
        if is_mapping && clean {
            check_config_rules(&self.tree, root, self.files, &mut self.findings);
        }
        (Some(path), is_mapping.then_some(root))
    }

    /// Merges the project's file over the user's, key by key; servers of both are kept.
    fn merge_configs(&mut self, project: NodeId, user: NodeId) -> NodeId {
        let servers = self.merge_servers(project, user);
        let merged = deep_merge(&mut self.tree, project, user);
        match servers {
            Some(entry) => self.with_entry(merged, entry),
            None => merged,
        }
    }

    fn merge_servers(&mut self, project: NodeId, user: NodeId) -> Option<Entry> {
        let strong = *self.tree.get(project, "mcp_servers")?;
        let weak = *self.tree.get(user, "mcp_servers")?;
        let mut items = self.tree.items(strong.value)?.to_vec();
        let names: Vec<Option<String>> = items.iter().map(|item| self.name_of(*item)).collect();
        let more: Vec<NodeId> = self.tree.items(weak.value)?.to_vec();
        items.extend(
            more.into_iter()
                .filter(|item| !names.contains(&self.name_of(*item))),
        );
        let value = self.tree.seq_node(self.tree.place(strong.value), &items);
        Some(strong.with_value(value))
    }

    fn name_of(&self, node: NodeId) -> Option<String> {
        Some(
            self.tree
                .scalar(self.tree.get(node, "name")?.value)?
                .text
                .to_owned(),
        )
    }

    /// Completes an agent from the configuration.
    pub(super) fn apply_config(&mut self, agent: NodeId, config: NodeId) -> NodeId {
        if self.tree.entries(agent).is_none() {
            return agent;
        }
        let mut agent = self.fill_models(agent, config);
        for block in ["execution", "deployment"] {
            agent = self.merge_block(agent, config, block);
        }
        agent = self.add_servers(agent, config);
        self.resolve_vectorstores(agent, config)
    }

    /// Completes `model` and `evaluations.model` from the entry of their provider.
    fn fill_models(&mut self, agent: NodeId, config: NodeId) -> NodeId {
        let mut agent = agent;
        if let Some(model) = self.tree.get(agent, "model").copied()
            && let Some(filled) = self.fill_model(model.value, config)
        {
            agent = self.with_entry(agent, model.with_value(filled));
        }
        if let Some(evaluations) = self.tree.get(agent, "evaluations").copied()
            && let Some(model) = self.tree.get(evaluations.value, "model").copied()
            && let Some(filled) = self.fill_model(model.value, config)
        {
            let value = self.with_entry(evaluations.value, model.with_value(filled));
            agent = self.with_entry(agent, evaluations.with_value(value));
        }
        agent
    }

    fn fill_model(&mut self, model: NodeId, config: NodeId) -> Option<NodeId> {
        let wanted = self
            .tree
            .scalar(self.tree.get(model, "provider")?.value)?
            .text
            .to_owned();
        let providers = self.tree.get(config, "providers")?.value;
        let by_key = self.tree.get(providers, &wanted).map(|entry| entry.value);
        let by_provider = || {
            self.tree
                .entries(providers)?
                .iter()
                .map(|entry| entry.value)
                .find(|entry| {
                    let provider = self
                        .tree
                        .get(*entry, "provider")
                        .and_then(|entry| self.tree.scalar(entry.value));
                    provider.is_some_and(|provider| provider.text == wanted)
                })
        };
        let entry = by_key.or_else(by_provider)?;
        // Problems of the configuration were reported there.
        let sound: Vec<Entry> = self
            .tree
            .entries(entry)?
            .iter()
            .filter(|entry| !self.findings.is_invalid(entry.value))
            .copied()
            .collect();
        let place = self.tree.place(entry);
        let sound = self.tree.map_node(place, &sound);
        Some(deep_merge(&mut self.tree, model, sound))
    }

    fn merge_block(&mut self, agent: NodeId, config: NodeId, block: &str) -> NodeId {
        let Some(beneath) = self.tree.get(config, block).copied() else {
            return agent;
        };
        if self.findings.is_invalid(beneath.value) {
            return agent;
        }
        match self.tree.get(agent, block).copied() {
            Some(above) => {
                let value = deep_merge(&mut self.tree, above.value, beneath.value);
                self.with_entry(agent, above.with_value(value))
            }
            None => self.with_entry(agent, beneath),
        }
    }

    /// Adds the servers of the configuration, except those with the name of a tool of the agent.
    fn add_servers(&mut self, agent: NodeId, config: NodeId) -> NodeId {
        let Some(servers) = self.tree.get(config, "mcp_servers").copied() else {
            return agent;
        };
        let own = self.tree.get(agent, "tools").copied();
        let mut tools: Vec<NodeId> = match own {
            Some(own) if !self.tree.is_null(own.value) => match self.tree.items(own.value) {
                Some(items) => items.to_vec(),
                None => return agent,
            },
            _ => Vec::new(),
        };
        let names: Vec<Option<String>> = tools.iter().map(|tool| self.name_of(*tool)).collect();
        for server in self
            .tree
            .items(servers.value)
            .map(<[NodeId]>::to_vec)
            .unwrap_or_default()
        {
            if !self.findings.is_invalid(server) && !names.contains(&self.name_of(server)) {
                tools.push(self.as_tool(server));
            }
        }
        let entry = own.unwrap_or_else(|| {
            let place = servers.key_place;
            self.tree.entry("tools", place, servers.value)
        });
        let value = self.tree.seq_node(self.tree.place(entry.value), &tools);
        self.with_entry(agent, entry.with_value(value))
    }

    /// A server of the configuration may leave out `type`.
    fn as_tool(&mut self, server: NodeId) -> NodeId {
        if self.tree.get(server, "type").is_some() || self.tree.entries(server).is_none() {
            return server;
        }
        let place = self.tree.place(server);
        let text = self.tree.own_text("mcp");
        let value = self.tree.scalar_node(place, text, true, false);
        let entry = self.tree.entry("type", place, value);
        self.with_entry(server, entry)
    }

    /// Replaces the name of a store in a tool's `database` by its settings in the configuration.
    fn resolve_vectorstores(&mut self, agent: NodeId, config: NodeId) -> NodeId {
        let Some(tools) = self.tree.get(agent, "tools").copied() else {
            return agent;
        };
        let Some(items) = self.tree.items(tools.value).map(<[NodeId]>::to_vec) else {
            return agent;
        };
        let resolved: Vec<NodeId> = items
            .iter()
            .map(|tool| self.with_database(*tool, config))
            .collect();
        if resolved == items {
            return agent;
        }
        let value = self.tree.seq_node(self.tree.place(tools.value), &resolved);
        self.with_entry(agent, tools.with_value(value))
    }

    fn with_database(&mut self, tool: NodeId, config: NodeId) -> NodeId {
        let Some(database) = self.tree.get(tool, "database").copied() else {
            return tool;
        };
        let Some(name) = self.tree.scalar(database.value).map(|scalar| scalar.text) else {
            return tool;
        };
        let stores = self.tree.get(config, "vectorstores").map(|entry| entry.value);
        let Some(store) = stores.and_then(|stores| self.tree.get(stores, name)).copied() else {
            return tool;
        };
        if self.tree.entries(store.value).is_none() {
            return tool;
        }
        let value = self.database_settings(store.value);
        self.with_entry(tool, database.with_value(value))
    }

    /// The settings of a store, with the entries of `options` on the same level.
    fn database_settings(&mut self, store: NodeId) -> NodeId {
        let mut settings = Vec::new();
        for entry in self
            .tree
            .entries(store)
            .map(<[Entry]>::to_vec)
            .unwrap_or_default()
        {
            match self.tree.key(&entry) {
                "options" => {
                    settings.extend(self.tree.entries(entry.value).unwrap_or_default().iter().copied());
                }
                "provider"
                    if self
                        .tree
                        .scalar(entry.value)
                        .is_some_and(|scalar| scalar.text == "postgresql") =>
                {
                    let text = self.tree.own_text("postgres");
                    let value = self
                        .tree
                        .scalar_node(self.tree.place(entry.value), text, true, false);
                    settings.push(entry.with_value(value));
                }
                _ => settings.push(entry),
            }
        }
        let place = self.tree.place(store);
        self.tree.map_node(place, &settings)
    }

    /// The stores of the configuration. Problems of unusable ones were reported where they are written.
    pub(super) fn vectorstores(&mut self, config: NodeId) -> IndexMap<String, DatabaseConfig> {
        let stores = self.tree.get(config, "vectorstores").map(|entry| entry.value);
        let entries = stores
            .and_then(|stores| self.tree.entries(stores))
            .map(<[Entry]>::to_vec)
            .unwrap_or_default();
        let mut found = IndexMap::new();
        for entry in entries {
            if self.tree.entries(entry.value).is_none() || self.findings.is_invalid(entry.value) {
                continue;
            }
            let settings = self.database_settings(entry.value);
            if let Ok(database) = from_tree::<DatabaseConfig>(&self.tree, settings) {
                found.insert(self.tree.key(&entry).to_owned(), database);
            }
        }
        found
    }

    /// Warns of names of stores that are not defined: the embedded index is used instead, as in 0.7.
    pub(super) fn warn_unknown_stores(&mut self, root: NodeId, config: Option<NodeId>) {
        let stores: Vec<String> = config
            .and_then(|config| self.tree.get(config, "vectorstores"))
            .and_then(|stores| self.tree.entries(stores.value))
            .map(|entries| {
                entries
                    .iter()
                    .map(|entry| self.tree.key(entry).to_owned())
                    .collect()
            })
            .unwrap_or_default();
        let Some(tools) = self.tree.find(root, "tools") else {
            return;
        };
        for (index, tool) in self
            .tree
            .items(tools)
            .map(<[NodeId]>::to_vec)
            .unwrap_or_default()
            .into_iter()
            .enumerate()
        {
            let Some(database) = self.tree.get(tool, "database").copied() else {
                continue;
            };
            if self.tree.is_null(database.value) || self.findings.is_invalid(database.value) {
                continue;
            }
            let Some(name) = self
                .tree
                .scalar(database.value)
                .map(|scalar| scalar.text.to_owned())
            else {
                continue;
            };
            if name == "in-memory" {
                continue;
            }
            let message = format!("no vector store is named `{name}`, so the embedded index is used");
            let mut diagnostic = Diagnostic::warning(Code::UnknownReference, message)
                .about(format!("tools.{index}.database"))
                .with_help("define it under `vectorstores` in `config.yaml`, or give its settings here");
            if let Some(meant) = closest(&name, stores.iter().map(String::as_str)) {
                diagnostic = diagnostic.with_inline(format!("did you mean `{meant}`?"));
            }
            self.findings
                .add(&self.tree, self.tree.place(database.value), diagnostic);
        }
    }

    /// Returns the mapping with one entry set.
    pub(super) fn with_entry(&mut self, map: NodeId, entry: Entry) -> NodeId {
        let mut entries = self.tree.entries(map).map(<[Entry]>::to_vec).unwrap_or_default();
        match entries.iter_mut().find(|other| other.key_id() == entry.key_id()) {
            Some(other) => *other = entry,
            None => entries.push(entry),
        }
        let place = self.tree.place(map);
        self.tree.map_node(place, &entries)
    }
}
