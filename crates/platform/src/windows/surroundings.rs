//! The limits and settings that a process runs with, from whoever started it or from the system,
//! for people.

use windows_sys::Win32::System::Threading::{
    ABOVE_NORMAL_PRIORITY_CLASS, BELOW_NORMAL_PRIORITY_CLASS, HIGH_PRIORITY_CLASS,
    IDLE_PRIORITY_CLASS, REALTIME_PRIORITY_CLASS,
};

/// What can change while the process runs, as names and values.
pub fn now() -> Vec<(String, String)> {
    let priority = match super::process::priority_class() {
        IDLE_PRIORITY_CLASS => "idle",
        BELOW_NORMAL_PRIORITY_CLASS => "below normal",
        ABOVE_NORMAL_PRIORITY_CLASS => "above normal",
        HIGH_PRIORITY_CLASS => "high",
        REALTIME_PRIORITY_CLASS => "real time",
        _ => "normal",
    };
    vec![
        ("user".to_owned(), crate::user::ours().to_string()),
        ("priority".to_owned(), priority.to_owned()),
    ]
}

/// What makes this process see other users, files or programs than the processes around it. Nothing of that
/// kind is known here.
pub fn peculiarities() -> Vec<(&'static str, String)> {
    Vec::new()
}
