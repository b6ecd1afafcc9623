//! Whose turn it is for a CPU.

/// By so much whoever looks is nicer than others (see nice(2)): who locks has a CPU some ten times as long where both
/// want one and are of the same session or container, among which the kernel shares it first.
#[cfg(any(target_os = "linux", target_os = "android"))]
const NICER: i32 = 10;

/// Has this thread stand back behind others who want a CPU, from now on: for threads that look, whom nobody who locks
/// should have to wait for. Those that it starts do so as well.
///
/// Only on Linux, where threads have priorities of their own; elsewhere it does nothing.
pub fn stand_back() {
    // Everybody may be nicer; and if not, it is as before.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let _ = rustix::process::nice(NICER);
}

#[cfg(all(test, any(target_os = "linux", target_os = "android")))]
mod tests {
    use std::thread;

    use rustix::process::getpriority_process;

    use super::*;

    #[test]
    fn the_thread_stands_back_and_no_other() {
        let before = getpriority_process(None).unwrap();
        let inside = thread::spawn(|| {
            stand_back();
            getpriority_process(None).unwrap()
        });
        // As far as there is any further.
        assert_eq!(inside.join().unwrap(), (before + NICER).min(19));
        assert_eq!(getpriority_process(None).unwrap(), before);
    }
}
