use super::*;
use std::io::Read;
use std::os::fd::OwnedFd;

#[test]
fn a_reader_that_sleeps_holds_nobody_up_that_was_stopped() {
    let (mut reader, writer) = io::pipe().unwrap();
    let (clock, stop) = (Clock::start(), Stop::new().unwrap());
    let mut file = BlockingFile::of(File::from(OwnedFd::from(writer)));
    file.write(&[7; 10_000], &clock, &stop).unwrap();
    let mut taken = vec![0; 10_000];
    reader.read_exact(&mut taken).unwrap();
    assert_eq!(taken, [7; 10_000]);
    let other = stop.clone();
    let stopper = std::thread::spawn(move || {
        other.wait_until(&clock, clock.now() + Duration::from_millis(50));
        other.stop();
    });
    // More than a pipe holds.
    file.write(&[7; 2_000_000], &clock, &stop).unwrap();
    stopper.join().unwrap();
    let since = clock.now();
    file.write(&[7; 2_000_000], &clock, &stop).unwrap();
    assert!(clock.now() - since < GRACE, "it waits once");
}
