//! The settings of brokers, and whether all programs go by them.

use std::path::PathBuf;

use navlock_broker::settings_files;

use super::{super::Context, Check, DoctorArgs, bucket};
use crate::settings::{Settings, Store};

pub(super) fn checks(context: &Context, args: &DoctorArgs) -> Vec<Check> {
    let settings = match Settings::load(&args.settings, context.place.store()) {
        Ok(settings) => settings,
        Err(wrong) => return vec![Check::fail("settings", wrong)],
    };
    let names = |files: &[PathBuf]| -> Vec<String> {
        files.iter().map(|file| file.display().to_string()).collect()
    };
    let detail = match &settings.files[..] {
        [] => nowhere(&names(&settings_files::places())),
        files => format!("those in {}", names(files).join(", and for the rest in ")),
    };
    let mut checks = vec![Check::ok("settings", detail)];
    checks.extend(match &settings.store {
        #[cfg(feature = "etcd")]
        Some(Store::Etcd(etcd)) => super::etcd::checks(etcd),
        #[cfg(not(feature = "etcd"))]
        Some(Store::Etcd(etcd)) => vec![Check::fail("etcd", etcd.unusable())],
        #[cfg(feature = "postgres")]
        Some(Store::Postgres(postgres)) => super::postgres::checks(postgres),
        #[cfg(not(feature = "postgres"))]
        Some(Store::Postgres(postgres)) => vec![Check::fail("PostgreSQL", postgres.unusable())],
        None => Vec::new(),
    });
    checks.extend(bucket::elsewhere(context));
    checks
}

/// Says that there is no file in any of these places.
fn nowhere(places: &[String]) -> String {
    match places {
        // A user that the system does not know has no directory.
        [place] => format!("no file, not {place}"),
        places => format!("no file, neither {}", places.join(" nor ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_place_is_not_neither() {
        let place = |path: &str| path.to_owned();
        assert_eq!(nowhere(&[place("/a")]), "no file, not /a");
        assert_eq!(nowhere(&[place("/a"), place("/b")]), "no file, neither /a nor /b");
    }
}
