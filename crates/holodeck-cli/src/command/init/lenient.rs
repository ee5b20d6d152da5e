//! Values of flags that may be unknown: version 0.7.1 warns of them and leaves them out.

use std::{ffi::OsStr, marker::PhantomData};

use clap::{
    ValueEnum,
    builder::{PossibleValue, TypedValueParser},
};

/// A value that may be unknown.
#[derive(Clone, Debug)]
pub(super) enum Choice<E> {
    Known(E),
    /// As it was written.
    Unknown(String),
}

impl<E: Copy> Choice<E> {
    /// The value, if it is known.
    pub(super) fn known(&self) -> Option<E> {
        match self {
            Self::Known(value) => Some(*value),
            Self::Unknown(_) => None,
        }
    }

    /// The text, if it is not known.
    pub(super) fn unknown(&self) -> Option<&str> {
        match self {
            Self::Known(_) => None,
            Self::Unknown(text) => Some(text),
        }
    }
}

/// The names of all values, for a warning.
pub(super) fn names<E: ValueEnum>() -> String {
    let values = E::value_variants().iter().filter_map(E::to_possible_value);
    let names: Vec<String> = values.map(|value| format!("`{}`", value.get_name())).collect();
    names.join(", ")
}

/// Reads any text; help and completions show the known values.
#[derive(Clone, Debug)]
pub(super) struct Lenient<E>(PhantomData<E>);

impl<E> Default for Lenient<E> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<E: ValueEnum + Clone + Send + Sync + 'static> TypedValueParser for Lenient<E> {
    type Value = Choice<E>;

    fn parse_ref(
        &self,
        _command: &clap::Command,
        _argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<Self::Value, clap::Error> {
        let text = value.to_string_lossy();
        let known = E::from_str(&text, false);
        Ok(known.map_or_else(|_unknown| Choice::Unknown(text.into_owned()), Choice::Known))
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let values = E::value_variants().iter();
        Some(Box::new(values.filter_map(E::to_possible_value)))
    }
}
