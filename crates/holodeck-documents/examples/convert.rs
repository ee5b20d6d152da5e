//! The other end of `Isolation::Child`: a program that answers one conversion and ends.

use std::io;

fn main() -> io::Result<()> {
    // What a panic says is told in the answer.
    std::panic::set_hook(Box::new(|_| {}));
    holodeck_documents::answer_conversion(io::stdin().lock(), io::stdout().lock())
}
