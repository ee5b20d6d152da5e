//! The entry point of the binary; everything else is in the library of this crate, which compiles beside the crates
//! below it.

/// Gives the memory of a large answer back; the allocator of the system keeps it.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> std::process::ExitCode {
    holodeck_cli::run()
}
