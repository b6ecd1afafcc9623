//! The settings of brokers, and whether the one that runs has them.

use super::Check;
use crate::{args::SettingsArgs, settings::Settings};

pub(super) fn checks(args: &SettingsArgs) -> Vec<Check> {
    let settings = match Settings::load(args) {
        Ok(settings) => settings,
        Err(wrong) => return vec![Check::fail("settings", wrong)],
    };
    let detail = settings.file.as_ref().map(|file| format!("those in {}", file.display()));
    let detail = detail.unwrap_or_else(|| {
        let places = Settings::places();
        let places: Vec<_> = places.iter().map(|place| place.display().to_string()).collect();
        format!("no file, neither {}", places.join(" nor "))
    });
    let mut checks = vec![Check::ok("settings", detail)];
    if let Some(etcd) = &settings.etcd {
        #[cfg(feature = "etcd")]
        checks.extend(super::etcd::checks(etcd));
        #[cfg(not(feature = "etcd"))]
        checks.extend(crate::reach::connect(etcd).err().map(|why| Check::fail("etcd", why)));
    }
    checks
}
