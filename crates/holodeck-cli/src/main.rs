//! The `holodeck` command.

fn main() -> std::process::ExitCode {
    holodeck_cli::run()
}
