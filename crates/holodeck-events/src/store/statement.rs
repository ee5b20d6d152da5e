//! The SQL of a store as a closed list: what is not in it cannot be executed, so that a test reads the plan of all of it.

/// Declares the statements of a store, and the list of all of them. Nothing else creates a `Statement`.
macro_rules! statements {
    ($($(#[$doc:meta])* $name:ident = $sql:expr;)*) => {
        /// A statement of the list.
        #[derive(Clone, Copy, Debug)]
        pub(in crate::store) struct Statement(&'static str);

        impl Statement {
            pub(in crate::store) fn sql(self) -> &'static str {
                self.0
            }
        }

        $($(#[$doc])* pub(super) const $name: Statement = Statement($sql);)*

        /// All of them, by name.
        #[cfg(test)]
        pub(in crate::store) const ALL: &[(&str, Statement)] = &[$((stringify!($name), $name)),*];
    };
}
pub(in crate::store) use statements;
