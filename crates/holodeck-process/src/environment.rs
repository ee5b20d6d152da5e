//! The environment of a child, which contains only the variables that were set explicitly. Must not be printed.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;

/// Variables that nearly every program needs and that hold no secrets: where programs, home and temporary files are,
/// and the language.
pub const BASE_VARIABLES: &[&str] = &["PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "TZ"];

/// The complete environment of a child. Values are never shown.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ChildEnv(BTreeMap<OsString, OsString>);

impl ChildEnv {
    /// No variables.
    pub fn new() -> Self {
        Self::default()
    }

    /// The variables of `names` that `lookup` returns, for example [`BASE_VARIABLES`].
    pub fn inherit<V: Into<OsString>>(names: &[&str], lookup: impl Fn(&str) -> Option<V>) -> Self {
        names
            .iter()
            .filter_map(|name| Some((OsString::from(name), lookup(name)?.into())))
            .collect()
    }

    /// Sets a variable.
    pub fn set(&mut self, name: impl Into<OsString>, value: impl Into<OsString>) {
        self.0.insert(name.into(), value.into());
    }

    /// A variable's value.
    pub fn get(&self, name: impl AsRef<OsStr>) -> Option<&OsStr> {
        self.0.get(name.as_ref()).map(OsString::as_os_str)
    }

    /// All variables in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.0
            .iter()
            .map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }
}

impl FromIterator<(OsString, OsString)> for ChildEnv {
    fn from_iter<I: IntoIterator<Item = (OsString, OsString)>>(variables: I) -> Self {
        Self(variables.into_iter().collect())
    }
}

impl fmt::Debug for ChildEnv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_named_variables_are_inherited_and_no_value_is_shown() {
        let all = |name: &str| match name {
            "PATH" => Some("/bin"),
            "OPENAI_API_KEY" => Some("hush"),
            _ => None,
        };
        let mut env = ChildEnv::inherit(BASE_VARIABLES, all);
        env.set("EXTRA", "hush");
        assert_eq!(format!("{env:?}"), r#"{"EXTRA", "PATH"}"#);
        assert_eq!(env.get("PATH"), Some(OsStr::new("/bin")));
    }
}
