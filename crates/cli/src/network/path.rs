//! `link --path`: a path in one line, as in `3 Mbit/s, 50 ms, 300 ms of queue, 1 % loss`.

use core::str::FromStr;

use anabranch_lab::EmulatedRoute;
use anabranch_link::{JitterAmount, JitterModel, JitterOrder, LinkConfig, LossModel, QueueLimit};
use anabranch_units::{DataRate, Duration};

/// Queue of a path whose text names none: the time for which it can hold packets. Chosen: a middle
/// between networks that drop early and those with bloated buffers.
const DEFAULT_QUEUE: QueueLimit = QueueLimit::Time(Duration::from_millis(200));

/// A path as written.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PathText(LinkConfig);

impl PathText {
    /// Returns the path, whose both directions are alike.
    pub(super) fn path(&self, index: usize) -> EmulatedRoute {
        EmulatedRoute {
            name: format!("path{index}"),
            forward: self.0.clone(),
            reverse: self.0.clone(),
        }
    }
}

/// Properties that a text has named.
#[derive(Debug, Default)]
struct Named {
    rate: Option<DataRate>,
    delay: Option<Duration>,
    queue: Option<QueueLimit>,
    loss: Option<f64>,
    jitter: Option<Duration>,
    mtu: Option<u32>,
}

impl FromStr for PathText {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut named = Named::default();
        for part in text.split(',').map(str::trim) {
            named.add(part).map_err(|reason| {
                format!(
                    "{part:?}: {reason}; write properties with commas between them, as in \
                     `3 Mbit/s, 50 ms, 300 ms of queue, 1 % loss, 5 ms of jitter, MTU 1400`"
                )
            })?;
        }
        named.config().map(PathText)
    }
}

impl Named {
    fn add(&mut self, part: &str) -> Result<(), String> {
        if let Some(queue) = part.strip_suffix("of queue") {
            let limit: Result<QueueLimit, _> = queue.trim().parse();
            return set(&mut self.queue, limit.map_err(|error| error.to_string())?);
        }
        if let Some(loss) = part.strip_suffix("loss") {
            return set(&mut self.loss, per_cent(loss)?);
        }
        if let Some(jitter) = part.strip_suffix("of jitter") {
            let jitter: Result<Duration, _> = jitter.trim().parse();
            return set(&mut self.jitter, jitter.map_err(|error| error.to_string())?);
        }
        if let Some(mtu) = part.strip_prefix("MTU") {
            let mtu = mtu
                .trim()
                .parse()
                .map_err(|_| "an MTU is a number of bytes".to_owned())?;
            return set(&mut self.mtu, mtu);
        }
        if let Ok(rate) = part.parse::<DataRate>() {
            if rate == DataRate::ZERO {
                return Err("a path of rate 0 carries nothing".to_owned());
            }
            return set(&mut self.rate, rate);
        }
        match part.parse::<Duration>() {
            Ok(delay) => set(&mut self.delay, delay),
            Err(_) => Err("it is no rate, delay, queue, loss, jitter or MTU".to_owned()),
        }
    }

    fn config(self) -> Result<LinkConfig, String> {
        let queue = self.queue.or(self.rate.map(|_| DEFAULT_QUEUE));
        if queue.is_some() && self.rate.is_none() {
            return Err("a queue needs a rate: without one, no packet waits".to_owned());
        }
        let probability = self.loss.unwrap_or(0.0);
        let loss = if probability > 0.0 {
            LossModel::Bernoulli { probability }
        } else {
            LossModel::None
        };
        Ok(LinkConfig {
            rate: self.rate,
            delay: self.delay.unwrap_or(Duration::ZERO),
            queue: queue.unwrap_or_default(),
            loss,
            jitter: self.jitter.map(|jitter| JitterModel {
                amount: JitterAmount::Uniform(jitter),
                order: JitterOrder::default(),
            }),
            mtu: self.mtu,
            ..LinkConfig::default()
        })
    }
}

fn set<T>(property: &mut Option<T>, value: T) -> Result<(), String> {
    if property.replace(value).is_some() {
        return Err("it is named twice".to_owned());
    }
    Ok(())
}

/// Returns a share of 0 to 1 that is written in per cent.
fn per_cent(text: &str) -> Result<f64, String> {
    let number: Option<f64> = text
        .trim()
        .strip_suffix('%')
        .and_then(|number| number.trim_end().parse().ok());
    match number {
        Some(per_cent) if (0.0..=100.0).contains(&per_cent) => Ok(per_cent / 100.0),
        _ => Err("a loss is 0 to 100 per cent, as in `1 % loss`".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_a_paths_properties_in_any_order() {
        let text = "3 Mbit/s, 50 ms, 300 ms of queue, 1 % loss, 5 ms of jitter, MTU 1400";
        let PathText(config) = text.parse().unwrap();
        let expected = LinkConfig {
            rate: Some(DataRate::from_megabits_per_second(3)),
            delay: Duration::from_millis(50),
            queue: QueueLimit::Time(Duration::from_millis(300)),
            loss: LossModel::Bernoulli { probability: 0.01 },
            jitter: Some(JitterModel {
                amount: JitterAmount::Uniform(Duration::from_millis(5)),
                order: JitterOrder::default(),
            }),
            mtu: Some(1_400),
            ..LinkConfig::default()
        };
        assert_eq!(config, expected);
        let other = "MTU 1400,1%loss,5ms of jitter,300ms of queue,50ms,3Mbit/s";
        assert_eq!(other.parse(), Ok(PathText(expected)));
    }

    #[test]
    fn properties_that_are_not_named_have_no_effect() {
        let PathText(config) = "20 ms".parse().unwrap();
        let expected = LinkConfig {
            delay: Duration::from_millis(20),
            ..LinkConfig::default()
        };
        assert_eq!(config, expected);
        let PathText(config) = "1 Mbit/s, 50 packets of queue, 0 % loss".parse().unwrap();
        assert_eq!(config.queue, QueueLimit::Packets(50));
        assert_eq!(config.loss, LossModel::None);
        let PathText(config) = "1 Mbit/s".parse().unwrap();
        assert_eq!(
            config.queue, DEFAULT_QUEUE,
            "a rate without a limit holds all packets"
        );
    }

    #[test]
    fn errors_show_valid_syntax() {
        for (text, reason) in [
            ("", "no rate, delay"),
            ("3 Mbit/s,", "no rate, delay"),
            ("fast", "no rate, delay"),
            ("0 Mbit/s", "carries nothing"),
            ("3 Mbit/s, 4 Mbit/s", "named twice"),
            ("3 Mbit/s, much of queue", "queue"),
            ("200 % loss", "1 % loss"),
            ("0.1 loss", "1 % loss"),
            ("nan % loss", "1 % loss"),
            ("1 of jitter", "duration"),
            ("MTU big", "number of bytes"),
            ("50 ms of queue", "needs a rate"),
        ] {
            let error = text.parse::<PathText>().unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
