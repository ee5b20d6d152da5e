//! The program that goes into an image: whether it runs there, and on which platform.

use std::{fs, path::Path};

use holodeck_model::io_reason;

use super::DeployError;

/// The type of a header of an ELF file that names a loader: only a program that is linked dynamically has one.
const INTERPRETER: u32 = 3;

/// A program that Linux can run.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) bytes: Vec<u8>,
    /// As containers name it, such as `linux/amd64`.
    pub(super) platform: &'static str,
    pub(super) is_static: bool,
}

impl Program {
    pub(super) fn read(path: &Path) -> Result<Self, DeployError> {
        let bytes = fs::read(path).map_err(|error| DeployError::Unreadable {
            path: path.to_owned(),
            reason: io_reason(&error),
        })?;
        let Some((platform, is_static)) = examine(&bytes) else {
            return Err(DeployError::refused(
                format!(
                    "`{}` is not a program for Linux on amd64 or arm64",
                    path.display()
                ),
                "name the `holodeck` of a release for Linux with `--program`",
            ));
        };
        Ok(Self {
            bytes,
            platform,
            is_static,
        })
    }
}

/// The platform of an ELF file, and whether it needs no loader.
fn examine(bytes: &[u8]) -> Option<(&'static str, bool)> {
    let is_64_bit_little_endian = bytes.get(..6)? == b"\x7fELF\x02\x01";
    if !is_64_bit_little_endian {
        return None;
    }
    let platform = match short(bytes, 18)? {
        62 => "linux/amd64",
        183 => "linux/arm64",
        _ => return None,
    };
    let first = usize::try_from(u64::from_le_bytes(*bytes.get(32..)?.first_chunk()?)).ok()?;
    let size = usize::from(short(bytes, 54)?);
    for index in 0..usize::from(short(bytes, 56)?) {
        let at = first.checked_add(index.checked_mul(size)?)?;
        if u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?) == INTERPRETER {
            return Some((platform, false));
        }
    }
    Some((platform, true))
}

fn short(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elf(machine: u8, header: u32) -> Vec<u8> {
        let mut bytes = vec![0; 64];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        bytes[18] = machine;
        bytes[32] = 64;
        bytes[54] = 56;
        bytes[56] = 1;
        bytes.extend(header.to_le_bytes());
        bytes.extend([0; 52]);
        bytes
    }

    #[test]
    fn a_program_with_a_loader_is_not_static() {
        assert_eq!(examine(&elf(62, 1)), Some(("linux/amd64", true)));
        assert_eq!(examine(&elf(62, 3)), Some(("linux/amd64", false)));
        assert_eq!(examine(&elf(183, 2)), Some(("linux/arm64", true)));
        assert_eq!(examine(&elf(40, 1)), None);
        assert_eq!(examine(b"#!/bin/sh\n"), None);
        let cut = elf(62, 1);
        assert_eq!(examine(&cut[..60]), None);
        assert_eq!(examine(&cut[..65]), None);
    }

    #[test]
    fn this_test_itself_is_linked_dynamically() {
        let program = Program::read(&std::env::current_exe().unwrap()).unwrap();
        assert!(!program.is_static);
    }
}
