//! Places in files that findings of a run name.

/// A place in a file, as the tool names the file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "callers construct it as a literal")]
pub struct FindingPlace {
    /// The file, relative to the repository if it is inside of it.
    pub path: String,
    /// Line and column, from 1; absent for a file as a whole.
    pub position: Option<(usize, usize)>,
}

/// How the places of cases are named in findings.
#[allow(clippy::exhaustive_structs, reason = "callers construct it as a literal")]
pub struct CasePlaces {
    /// The agent file.
    pub agent: String,
    /// The place of the case at an index, if it is known.
    pub of_case: Box<dyn Fn(usize) -> Option<FindingPlace>>,
}
