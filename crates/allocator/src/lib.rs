//! The allocator of the program: mimalloc, with a count of the bytes that each thread holds.
//!
//! An evaluation runs on one thread, so that what it takes is the difference between two counts, whichever library
//! allocates it. The crates that evaluate know only a function that returns the count.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;

#[cfg(not(target_family = "wasm"))]
use mimalloc::MiMalloc as Inner;
#[cfg(target_family = "wasm")]
use std::alloc::System as Inner;

thread_local! {
    // With a constant and without a destructor: neither the first use nor the end of a thread allocates.
    static HELD: Cell<i64> = const { Cell::new(0) };
}

/// The bytes that this thread has allocated and not freed, by their layouts. Below zero on a thread that frees what
/// others have allocated.
#[must_use]
pub fn held() -> i64 {
    HELD.get()
}

/// mimalloc, which counts for [`held`].
#[derive(Debug)]
pub struct Allocator;

/// Counts bytes that are allocated (from 0) or freed (to 0). No layout is larger than `isize::MAX`.
#[inline]
fn count(from: usize, to: usize) {
    let change = to.cast_signed() as i64 - from.cast_signed() as i64;
    HELD.with(|held| held.set(held.get().wrapping_add(change)));
}

// SAFETY: each call is passed on to mimalloc with the arguments of the caller, who keeps the contract of `GlobalAlloc`.
// Counting neither allocates nor panics.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(0, layout.size());
        unsafe { Inner.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(0, layout.size());
        unsafe { Inner.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(layout.size(), size);
        unsafe { Inner.realloc(pointer, layout, size) }
    }

    #[inline]
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(layout.size(), 0);
        unsafe { Inner.dealloc(pointer, layout) }
    }
}
