//! A scene, and a run of a scene, which shows its steps if it fails.

use super::{
    script::{Act, Faults, Step},
    world::World,
};

/// The scripts of the machines, and what goes wrong.
#[derive(Clone, Copy)]
pub(super) struct Scene<'a> {
    /// The test that explores the scene, if there is one.
    pub(super) test: Option<&'a str>,
    pub(super) scripts: &'a [&'a [Act]],
    pub(super) faults: Faults,
    pub(super) is_warm: bool,
    pub(super) owns: bool,
}

impl<'a> Scene<'a> {
    /// The scene after these steps, which were taken before.
    pub(super) fn after(self, steps: &[Step]) -> Run<'a> {
        let world = World::new(self.scripts, self.faults, self.is_warm, self.owns);
        let mut run = Run { scene: self, world, steps: steps.to_vec() };
        for &step in steps {
            run.world.take_again(step);
        }
        run
    }
}

/// A run of a scene. If it fails, its steps are shown.
pub(super) struct Run<'a> {
    scene: Scene<'a>,
    pub(super) world: World,
    pub(super) steps: Vec<Step>,
}

impl Run<'_> {
    pub(super) fn take(&mut self, step: Step) {
        self.steps.push(step);
        self.world.take(step);
    }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        let Scene { test, scripts, faults, is_warm, .. } = self.scene;
        let how = if is_warm { "warm" } else { "cold" };
        let steps: Vec<_> = self.steps.iter().map(|step| format!("{step:?}")).collect();
        let (count, steps) = (steps.len(), steps.join("; "));
        eprintln!("{scripts:?}, {faults:?}, {how}, after {count} steps: {steps}");
        if let Some(test) = test {
            eprintln!(
                "again: NAVLOCK_MODEL_STEPS='{steps}' cargo test -p navlock-machines --lib -- \
                 --include-ignored --nocapture --exact {test}"
            );
        }
    }
}
