//! The arguments of `navlock doctor`.

use clap::Args;

use crate::args::SettingsArgs;

/// Checks whether the set-up works.
///
/// It checks the environment, where the bucket lives, the directory of its broker, the broker, the settings and the store. A
/// failed check says what to do about it, as far as navlock knows.
///
/// Exit codes: 0 if no check fails, 1 if a check fails.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// The bucket, as with --bucket.
    #[arg(id = "checked", value_name = "BUCKET")]
    pub(in crate::commands) bucket: Option<String>,

    /// Write one JSON object a line.
    ///
    /// Each object has level (ok, warn or fail), what and detail. It has remedy if navlock knows what to do.
    #[arg(long)]
    pub(super) json: bool,

    #[command(flatten)]
    pub(super) settings: SettingsArgs,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::examples::{Examples, Flag, check_examples};

    impl Examples for DoctorArgs {
        const LINES: &'static [&'static str] = &["doctor {}"];

        const FLAGS: &'static [Flag<Self>] = &[
            (&["--json"], |doctor| doctor.json),
            (&["b"], |doctor| doctor.bucket.as_deref() == Some("b")),
        ];
    }

    #[test]
    fn each_flag_means_what_its_example_says() {
        check_examples::<DoctorArgs>();
    }
}
