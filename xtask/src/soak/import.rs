//! The importer beside the tool that it imports from: the same configurations on the same scripted model.

#[cfg(test)]
mod features;
