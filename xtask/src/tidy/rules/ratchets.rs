//! The numbers that may only fall. Lower one in the change that reduces what it counts.

/// A kind of fault that is counted. Its number is exact: it fails when it is too low or too high.
pub(in crate::tidy) struct Ratchet {
    pub(in crate::tidy) name: &'static str,
    pub(in crate::tidy) at: usize,
    pub(in crate::tidy) what: &'static str,
    pub(in crate::tidy) todo: &'static str,
}

pub(in crate::tidy) const MODULE_DOCS: &str = "module-docs";
pub(in crate::tidy) const CIRCLES: &str = "circles";
pub(in crate::tidy) const EXPORTS: &str = "exports";
pub(in crate::tidy) const NOMINAL_WHAT: &str = "nominal-what";

pub(in crate::tidy) const RATCHETS: &[Ratchet] = &[
    Ratchet {
        name: MODULE_DOCS,
        at: 0,
        what: "files without a `//!` sentence that says what the module is responsible for",
        todo: "write one, then what the module must not do; repeating its name is not enough",
    },
    Ratchet {
        name: CIRCLES,
        at: 1,
        what: "import circles among the modules of a crate",
        todo: "move what both sides need below them, or pass it as a parameter",
    },
    Ratchet {
        name: EXPORTS,
        at: 150,
        what: "names that a `lib.rs` re-exports and that are named nowhere outside of the crate",
        todo: "make the name `pub(crate)`",
    },
    Ratchet {
        name: NOMINAL_WHAT,
        at: 0,
        what: "doc lines that begin with a nominal \"What\"",
        todo: "name the thing: \"The result of a turn\", \"Returns why …\"",
    },
];
