//! The settings of brokers, and whether the running broker uses them.

use navlock_broker::{Control, settings_files};

use super::{super::Context, Check, DoctorArgs};
use crate::settings::Settings;

pub(super) fn checks(context: &Context, args: &DoctorArgs) -> Vec<Check> {
    let settings = match Settings::load(&args.settings) {
        Ok(settings) => settings,
        Err(wrong) => return vec![Check::fail("settings", wrong)],
    };
    let detail = settings.file.as_ref().map(|file| format!("those in {}", file.display()));
    let detail = detail.unwrap_or_else(|| {
        let places = settings_files::places();
        let places: Vec<_> = places.iter().map(|place| place.display().to_string()).collect();
        nowhere(&places)
    });
    let mut checks = vec![Check::ok("settings", detail)];
    if let Some(etcd) = &settings.etcd {
        #[cfg(feature = "etcd")]
        checks.extend(super::etcd::checks(etcd));
        #[cfg(not(feature = "etcd"))]
        checks.push(Check::fail("etcd", crate::reach::without_etcd(etcd)));
    }
    checks.extend(running(context, settings.etcd.is_some()));
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

/// The check whether the running broker keeps its locks where the settings say. `None` if it does.
fn running(context: &Context, is_on_etcd: bool) -> Option<Check> {
    let reach = Control::connect(&context.place).ok()?.status().ok()?.reach;
    let detail = match &reach {
        None if is_on_etcd => "the settings name an etcd, and the broker that runs is on none",
        Some(_) if !is_on_etcd => "the broker that runs is on etcd, and the settings name none",
        _ => return None,
    };
    let remedy = "when nothing is held, 'navlock daemon stop': the next one has the settings";
    Some(Check::warn("settings", detail).remedy(remedy))
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
