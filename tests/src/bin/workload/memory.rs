//! A known number of page faults.

use std::{io, ptr};

use anyhow::Result;

use crate::{control::Session, team::Team};

/// A thread, `toucher`, that touches fresh pages once each.
#[derive(clap::Args)]
pub struct Faults {
    /// How many.
    #[arg(long, default_value_t = 10_000)]
    pages: usize,
}

/// Runs it.
pub fn faults(mut session: Session, args: &Faults) -> Result<()> {
    let pages = args.pages;
    let mut team = Team::default();
    team.add("toucher", move |_| {
        // A failure shows in the thread's own count of faults, which the truth holds.
        let _ = touch(pages);
    })?;
    let more = |truth: &mut sampler_tests::protocol::Truth| truth.pages = pages as u64;
    session.begin(team.tids(), |session| team.truth(session, more))?;
    team.start()?;
    team.wait_done()?;
    team.finish(session, more)
}

/// Maps so many pages, writes a byte to each, and unmaps them. No huge pages: one fault a page.
fn touch(pages: usize) -> io::Result<()> {
    let page_bytes = rustix::param::page_size();
    let bytes = pages * page_bytes;
    let (access, kind) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping at a place of the kernel's choice touches no memory of ours.
    let start = unsafe { libc::mmap(ptr::null_mut(), bytes, access, kind, -1, 0) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the range is the mapping made above. EINVAL of a kernel without huge pages is fine.
    unsafe { libc::madvise(start, bytes, libc::MADV_NOHUGEPAGE) };
    for page in 0..pages {
        // SAFETY: the byte lies within the mapping, which is writable and known to nobody else.
        unsafe { start.cast::<u8>().add(page * page_bytes).write_volatile(1) };
    }
    // SAFETY: the range is the mapping made above, and no pointer into it is kept.
    unsafe { libc::munmap(start, bytes) };
    Ok(())
}
