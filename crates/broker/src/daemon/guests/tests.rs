use navlock_core::{Mode, look};

use super::*;

fn user(number: u32, name: &str) -> Arc<User> {
    let user = User::new(user::of_number(number));
    user.name.set(name.to_owned()).unwrap();
    Arc::new(user)
}

fn guest(user: &Arc<User>) -> Guest {
    Guest::of(Arc::clone(user), true)
}

#[test]
#[cfg(target_os = "linux")]
fn nobody_speaks_for_a_client_of_another_user() {
    let [ada, bea] = [(61_001, "ada"), (61_002, "bea")].map(|(id, name)| user(id, name));
    let mut key = [7; 16];
    key[..4].copy_from_slice(&61_001_u32.to_be_bytes());
    assert!(ada.has(key) && !bea.has(key));
    assert!(ada.may(&ada) && !ada.may(&bea) && !ada.may_all());
    assert!(user(0, "root").may(&ada) && user(0, "root").may_all());
}

#[test]
fn what_one_user_has_counts_over_all_connections_until_they_end() {
    let ada = user(61_001, "ada");
    let limits = Limits { requests: 10, name_bytes: 100, ..Limits::default() };
    let (mut first, mut second) = (guest(&ada), guest(&ada));
    first.has_now(6, 10);
    second.has_now(3, 10);
    assert!(ada.has_room(&limits));
    second.has_now(4, 10);
    assert!(!ada.has_room(&limits));
    second.has_now(4, 90);
    first.has_now(0, 10);
    assert!(!ada.has_room(&limits));
    drop(second);
    assert!(ada.has_room(&limits));
    drop(first);
    assert_eq!((ada.things.load(Relaxed), ada.bytes.load(Relaxed)), (0, 0));
    assert_eq!(ada.connections.load(Relaxed), 0);
}

#[test]
fn one_user_does_not_take_the_room_of_all_who_look() {
    let ada = user(61_001, "ada");
    let mut all: Vec<_> = (0..=LOOKERS).map(|_| guest(&ada)).collect();
    let may: Vec<_> = all.iter_mut().map(Guest::may_look).collect();
    assert_eq!(may.iter().filter(|may| **may).count(), LOOKERS);
    all.clear();
    assert!(guest(&ada).may_look());
}

#[test]
fn of_one_user_no_more_is_read_in_a_turn_than_that_users_share() {
    let ada = user(61_001, "ada");
    assert!(ada.may_be_read(1));
    ada.was_read(MOST_IN_A_TURN);
    assert!(!ada.may_be_read(1));
    assert!(ada.may_be_read(2));
}

#[test]
fn others_see_whose_a_lock_is_and_not_what_it_is_for() {
    let [ada, bea] = [(61_001, "ada"), (61_002, "bea")].map(|(id, name)| user(id, name));
    let info = AgentInfo::default().user("ada").pid(7).command("/bin/deploy --key x");
    let info = Arc::new(info.why("secret").meta("url", "secret"));
    let agent = ClientId::random();
    let came = || {
        let details = look::Agent::new("app".into(), Arc::clone(&info), Some(1));
        Change::AgentCame { agent, details }
    };
    let granted = || {
        let id = look::LockId { client_id: agent, serial: 1 };
        let mut entry = look::Entry::new(id, Mode::Exclusive);
        entry.why = Some("secret".into());
        let name = look::LockName::new(Arc::from("app"), "db".try_into().unwrap());
        Change::Granted { name, entry }
    };
    for (user, sees) in [(&ada, true), (&bea, false)] {
        let mut view = View::of(user).unwrap();
        for mut change in [came(), granted()] {
            view.veil(&mut change);
            assert_eq!(format!("{change:?}").contains("secret"), sees, "{change:?}");
        }
        let mut shown = Arc::clone(&info);
        user.veil(&mut shown);
        assert_eq!(*shown == *info, sees);
        assert_eq!((&*shown.user, shown.pid), ("ada", 7));
    }
    assert!(View::of(&user(0, "root")).is_none());
}
