//! The conservation laws, on a simulated machine that runs the arithmetic of the BPF programs.
//!
//! Everything that the machine does is drawn at random, and what interrupts its programs comes
//! between any two of their steps. The laws hold exactly, in integers, whenever no switch is going
//! on; an oracle that knows no descriptor says what each thread really spent.
#![expect(clippy::expect_used, clippy::panic, reason = "a machine that is wrong fails the test")]

mod laws {
    pub mod cell;
    pub mod check;
    pub mod counter;
    pub mod machine;
    pub mod oracle;
    pub mod programs;
    pub mod story;

    mod exhaustive;
    mod properties;
    mod proportion;
    mod scale;
    mod timelines;

    use sampler_common::abi::source;

    /// Most CPUs.
    pub const CPUS: usize = 3;

    /// Events: two hardware counters of 48 and 64 bits, a clock, and what the programs count
    /// themselves.
    pub const EVENTS: usize = 5;
    pub const SOURCES: [u32; EVENTS] =
        [source::COUNTER, source::COUNTER, source::CLOCK, source::SWITCHES, source::MIGRATIONS];
    /// The index of the clock.
    pub const CLOCK: usize = 2;
    pub const WIDTHS: [u32; EVENTS] = [48, 64, 64, 64, 64];

    /// The event has a counter to read, which overflows.
    pub fn is_read(event: usize) -> bool {
        matches!(SOURCES[event], source::COUNTER | source::CLOCK)
    }
}
