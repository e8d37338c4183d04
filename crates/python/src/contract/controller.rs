//! Random steps for a controller.

use std::sync::Arc;

use anabranch_controllers::conformance::{Player, Step, sends_something};
use anabranch_core::control::{ControlParameters, ControllerConfig};
use anabranch_units::Seed;

use crate::controller::{Maker, PyController};
use crate::failures::has_failed;

/// Steps of a case.
const STEPS: u64 = 300;

/// Returns the rule that the controller breaks in the steps of a seed.
pub(super) fn broken_rule(maker: &Arc<Maker>, seed: Seed) -> Option<String> {
    let config = ControllerConfig {
        seed,
        is_media: true,
        ..ControllerConfig::default()
    };
    let [first, second] = [(); 2].map(|()| answers(maker, &config, seed));
    if has_failed() {
        return None;
    }
    let (first, second) = match (first, second) {
        (Ok(first), Ok(second)) => (first, second),
        (Err(rule), _) | (_, Err(rule)) => return Some(rule),
    };
    let differing = first
        .iter()
        .zip(&second)
        .position(|(one, other)| one != other);
    differing.map(|step| format!("same calls, same answers: step {step} differs"))
}

/// Plays steps, and returns the controller's answer to each.
fn answers(
    maker: &Arc<Maker>,
    config: &ControllerConfig,
    seed: Seed,
) -> Result<Vec<ControlParameters>, String> {
    let mut player = Player::new(Box::new(PyController::start(maker, config)));
    let mut rng = seed.derive("contract").rng();
    let mut answers = Vec::new();
    for number in 0..STEPS {
        if has_failed() {
            break;
        }
        let step = Step::random(&mut rng);
        player.play(&step);
        let control = player.controller.control();
        if !sends_something(&control, config) {
            return Err(format!(
                "always sends something: after step {number} ({step}) the limits are {control:?}; \
                 a packet must fit the window, a second must carry a packet or the least rate, \
                 and the target must be above zero"
            ));
        }
        answers.push(control);
    }
    Ok(answers)
}
