//! A fork beside threads that use a client: the child's copy of it works, whatever the threads were doing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::Server;
use duly::NewJob;
use duly::blocking::{Client, Uninterrupted};

#[test]
fn children_that_are_forked_beside_pushing_threads_can_push() {
    let children: usize = std::env::var("DULY_FORKS").map_or(30, |forks| forks.parse().unwrap());
    let server = Server::start();
    let client = Client::new(server.builder()).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let (client, stop) = (client.clone(), Arc::clone(&stop));
            std::thread::spawn(move || {
                while !stop.load(Ordering::Acquire) {
                    let job = NewJob::new(&1).unwrap();
                    client.queue("parent").unwrap().push(job, &mut Uninterrupted).unwrap();
                }
            })
        })
        .collect();
    let mut statuses = Vec::new();
    for _ in 0..children {
        // SAFETY: the C library's allocator is usable in the child; the child pushes, and ends without running what the
        // parent's threads left behind.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: touches no memory. A child that hangs is ended by it.
            unsafe { libc::alarm(20) };
            let push = |client: &Client| {
                let job = NewJob::new(&1).unwrap();
                client.queue("child").unwrap().push(job, &mut Uninterrupted).is_ok()
            };
            let inherited = push(&client);
            let new = Client::new(server.builder()).is_ok_and(|new| push(&new));
            // SAFETY: ends the process at once.
            unsafe { libc::_exit(i32::from(!inherited) + 2 * i32::from(!new)) };
        }
        let mut status = 0;
        // SAFETY: the status lives until the call returns.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        statuses.push(status);
    }
    stop.store(true, Ordering::Release);
    for thread in threads {
        thread.join().unwrap();
    }
    let failed: Vec<_> = statuses.iter().filter(|status| **status != 0).collect();
    assert!(failed.is_empty(), "{} of {children} children failed: {failed:?}", failed.len());
    let pushed = client.queue("child").unwrap().counts(&mut Uninterrupted).unwrap().ready;
    assert_eq!(usize::try_from(pushed).unwrap(), 2 * children);
}
