//! Standard input and outputs that somebody has closed.

/// Opens on `/dev/null` what is closed of them. Otherwise what is opened next has their numbers, and gets what the program prints: a
/// server would execute it, and of a runtime's own descriptors some can be written to, and then cannot any more.
///
/// If there is no `/dev/null`, or no number is left, all stays as it is.
pub fn occupy() {
    for number in [libc::STDIN_FILENO, libc::STDOUT_FILENO, libc::STDERR_FILENO] {
        // SAFETY: they only read and make descriptors; the path ends with a zero. What is closed is the one that was opened here.
        unsafe {
            if libc::fcntl(number, libc::F_GETFD) != -1 {
                continue;
            }
            // As Rust's own programs do at their start: what they start has it, too.
            let opened = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
            // Another thread was first.
            if opened > libc::STDERR_FILENO {
                libc::close(opened);
            }
        }
    }
}
