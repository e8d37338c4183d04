//! Types that the library returns, or has in fields of its types, can be named.

/// Compiles if the type has a name.
fn named<T>() {}

#[test]
fn returned_types_can_be_named() {
    named::<anabranch::ClockOffset>();
    named::<anabranch::EdgeCounters>();
    named::<anabranch::HostName>();
    named::<anabranch::Reading>();
    named::<anabranch::SessionKind>();
    named::<anabranch::config::LossDetection>();
    named::<anabranch::controller::AckedPacket>();
    named::<anabranch::controller::AlgorithmOptions>();
    named::<anabranch::controller::DeliverySnapshot>();
    named::<anabranch::controller::HoleReports>();
    named::<anabranch::controller::PacketContent>();
    named::<anabranch::controller::RateSample>();
    named::<anabranch::controller::RttEstimator>();
    named::<anabranch::sans_io::ReasonCounts>();
}
