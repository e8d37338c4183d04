use super::*;
use crate::seed::Seed;

fn place(id: u32, address: &str, used_at: u64) -> Occupant<u32, u64> {
    Occupant {
        id,
        address: address.parse().unwrap(),
        right: Right::Stranger,
        used_at,
    }
}

fn choice(places: &[Occupant<u32, u64>], newcomer: &Occupant<u32, u64>) -> Option<u32> {
    evicted(places, newcomer, |_| true)
}

#[test]
fn the_idlest_of_the_most_crowded_network_gives_way() {
    let mut places = vec![place(0, "198.51.100.1", 1)];
    for host in 1..4 {
        let used_at = 20 + u64::from(host);
        places.push(place(host, &format!("192.0.2.{host}"), used_at));
    }
    places.push(place(4, "192.0.2.3", 30));
    // Two of one host, in a network of four.
    assert_eq!(choice(&places, &place(9, "203.0.113.1", 40)), Some(3));
    // The newcomer makes its own host the most crowded one.
    let newcomers = [place(9, "192.0.2.1", 40), place(9, "192.0.2.1", 40)];
    let more: Vec<_> = places.iter().copied().chain(newcomers).collect();
    assert_eq!(choice(&more, &place(10, "192.0.2.1", 40)), Some(1));
    for (address, other) in [
        ("2001:db8:0:1::1", "2001:db8:0:2::1"),
        ("::ffff:10.0.0.1", "10.0.0.2"),
    ] {
        let places = [
            place(0, "2001:db8:9::1", 1),
            place(1, address, 5),
            place(2, other, 4),
        ];
        let chosen = choice(&places, &place(9, "203.0.113.1", 40));
        assert_eq!(chosen, Some(2), "{address}");
    }
}

#[test]
fn the_least_right_gives_way_and_none_to_less() {
    let mut places = vec![place(0, "192.0.2.1", 1), place(1, "192.0.2.1", 2)];
    places[0].right = Right::Kept;
    places[1].right = Right::Proven;
    assert_eq!(choice(&places, &place(9, "192.0.2.1", 3)), None);
    let mut camera = place(9, "192.0.2.1", 3);
    camera.right = Right::Kept;
    assert_eq!(choice(&places, &camera), Some(1));
    places.push(place(2, "203.0.113.1", 9));
    assert_eq!(choice(&places, &camera), Some(2), "a stranger first");
    assert_eq!(
        evicted(&places, &camera, |place| place.id != 2),
        Some(1),
        "that may not go"
    );
    places[1].right = Right::Kept;
    places[2].right = Right::Kept;
    assert_eq!(choice(&places, &camera), None);
}

#[test]
fn a_network_with_the_fewest_holders_loses_none_to_any_crowd() {
    for seed in 0..100 {
        let mut rng = Seed(seed).rng();
        let alone = place(0, "198.51.100.1", 0);
        // 60 networks of IPv4 that share 63 places have one with two of them.
        let others = (1..64).map(|id| {
            let (network, host) = (rng.below(60), rng.below(250));
            place(id, &format!("10.0.{network}.{host}"), rng.below(100))
        });
        let mut places: Vec<_> = [alone].into_iter().chain(others).collect();
        for id in 64..300 {
            let newcomer = place(id, &format!("10.0.{}.9", rng.below(60)), 100);
            let given_up = choice(&places, &newcomer).expect("strangers give way");
            assert_ne!(given_up, 0, "seed {seed}");
            places.retain(|place| place.id != given_up);
            places.push(newcomer);
        }
    }
}
