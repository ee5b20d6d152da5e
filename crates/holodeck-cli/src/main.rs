//! The entry point of the binary; everything else is in the library of this crate, which compiles beside the crates
//! below it.

fn main() -> std::process::ExitCode {
    holodeck_cli::run()
}
