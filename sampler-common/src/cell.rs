//! 64-bit memory cells, as BPF programs have them.
//!
//! A cell is either *local*, written by one CPU at a time ([`Cell::get`], [`Cell::set`]), or
//! *shared* between CPUs ([`Cell::add`], [`Cell::take`]). All accesses are volatile or atomic, so
//! that the compiler keeps their order: an overflow on the same CPU can come between any two.

/// Access to one 64-bit word.
pub trait Cell {
    /// The value.
    fn get(&self) -> u64;
    /// Replaces the value. For local cells only: not atomic against another writer.
    fn set(&self, value: u64);
    /// Adds to the value, wrapping, atomically; returns what it was.
    fn add(&self, value: u64) -> u64;
    /// Replaces the value by 0 atomically; returns what it was.
    fn take(&self) -> u64;
}

#[cfg(target_arch = "bpf")]
mod word {
    use core::cell::UnsafeCell;
    use core::intrinsics::{AtomicOrdering, atomic_xadd, atomic_xchg};

    /// A word of a BPF map.
    #[derive(Debug)]
    #[repr(transparent)]
    pub struct Word(UnsafeCell<u64>);

    // SAFETY: a word is only accessed by volatile and atomic instructions, which BPF programs on
    // several CPUs may use on the same map value.
    unsafe impl Sync for Word {}

    impl Word {
        /// A word with this value.
        pub const fn new(value: u64) -> Self {
            Self(UnsafeCell::new(value))
        }
    }

    impl super::Cell for Word {
        #[inline(always)]
        fn get(&self) -> u64 {
            // SAFETY: `&self` is valid and aligned; the verifier checks it again.
            unsafe { self.0.get().read_volatile() }
        }

        #[inline(always)]
        fn set(&self, value: u64) {
            // SAFETY: as in `get`; interior mutability is what `UnsafeCell` allows.
            unsafe { self.0.get().write_volatile(value) }
        }

        #[inline(always)]
        fn add(&self, value: u64) -> u64 {
            // SAFETY: as in `set`.
            unsafe { atomic_xadd::<u64, u64, { AtomicOrdering::SeqCst }>(self.0.get(), value) }
        }

        #[inline(always)]
        fn take(&self) -> u64 {
            // SAFETY: as in `set`.
            unsafe { atomic_xchg::<u64, { AtomicOrdering::SeqCst }>(self.0.get(), 0) }
        }
    }
}

#[cfg(not(target_arch = "bpf"))]
mod word {
    use core::sync::atomic::{AtomicU64, Ordering};

    /// A word of a BPF map, as user space sees it.
    #[derive(Debug, Default)]
    #[repr(transparent)]
    pub struct Word(AtomicU64);

    impl Word {
        /// A word with this value.
        pub const fn new(value: u64) -> Self {
            Self(AtomicU64::new(value))
        }
    }

    impl super::Cell for Word {
        fn get(&self) -> u64 {
            self.0.load(Ordering::Acquire)
        }

        fn set(&self, value: u64) {
            self.0.store(value, Ordering::Release);
        }

        fn add(&self, value: u64) -> u64 {
            self.0.fetch_add(value, Ordering::SeqCst)
        }

        fn take(&self) -> u64 {
            self.0.swap(0, Ordering::SeqCst)
        }
    }
}

pub use word::Word;
