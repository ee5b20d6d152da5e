//! The child of `Isolation::Child`: a program that answers one conversion and exits.

use std::io;

fn main() -> io::Result<()> {
    // The answer contains the message of a panic.
    std::panic::set_hook(Box::new(|_| {}));
    holodeck_documents::answer_conversion(io::stdin().lock(), io::stdout().lock())
}
