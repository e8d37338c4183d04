//! libFuzzer around the targets of `anabranch-fuzzing`: an allocator that counts bytes for their
//! bounds, and seeds.

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::{env, fs};

use anabranch_fuzzing::{TARGETS, Target, on_allocated, on_freed};

/// Counts the bytes that Rust code holds.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: all requests go to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        on_allocated(layout.size());
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        on_freed(layout.size());
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        on_allocated(layout.size());
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // A realloc that moves temporarily holds both.
        on_allocated(size);
        on_freed(layout.size());
        unsafe { System.realloc(pointer, layout, size) }
    }
}

/// The target of this program.
static TARGET: OnceLock<Target> = OnceLock::new();

/// Makes this program the one of a target, and writes the target's seeds.
///
/// # Panics
///
/// If there is no such target, or the corpus cannot be written.
pub fn begin(name: &str) {
    let target = TARGETS.into_iter().find(|target| target.name == name);
    let target = TARGET.get_or_init(|| target.expect("a target of this name"));
    (target.prepare)();
    plant((target.seeds)());
}

/// Runs an input.
///
/// # Panics
///
/// If a check fails.
pub fn run(input: &[u8]) {
    let target = TARGET.get().expect("libFuzzer begins before it runs");
    (target.run)(input);
}

/// Writes seeds into the first folder of the command line, the corpus of this run. A run of single
/// inputs has none.
fn plant(seeds: Vec<Vec<u8>>) {
    let folders = env::args_os().skip(1).map(PathBuf::from);
    let Some(corpus) = folders.into_iter().find(|path| path.is_dir()) else {
        return;
    };
    for (number, seed) in seeds.into_iter().enumerate() {
        let written = fs::write(corpus.join(format!("seed-{number}")), seed);
        written.expect("a corpus that can be written");
    }
}
