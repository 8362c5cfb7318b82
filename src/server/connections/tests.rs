use std::thread::sleep;

use super::*;

const API_SERVER: &str = "10.0.0.1";
const POD: &str = "10.1.0.7";

fn connections(most: usize) -> Arc<Connections> {
    Arc::new(Connections::new(most))
}

fn add(connections: &Arc<Connections>, address: &str) -> Option<Slot> {
    // So that each of them has waited for longer than the next one.
    sleep(Duration::from_millis(2));
    connections.add(address.parse().unwrap())
}

fn is_open(slot: &Slot) -> bool {
    slot.of.open().by_number.contains_key(&slot.number)
}

/// A connection that had a response and is idle.
fn served(connections: &Arc<Connections>, address: &str) -> Slot {
    let slot = add(connections, address).unwrap();
    drop(slot.connection.request());
    slot
}

/// A connection with a request whose body does not arrive.
fn stalled(connections: &Arc<Connections>, address: &str) -> (Slot, InFlight) {
    let slot = add(connections, address).unwrap();
    let request = slot.connection.request();
    (slot, request)
}

/// The same with a part of the body in memory.
fn holding(connections: &Arc<Connections>, address: &str, bytes: usize) -> (Slot, InFlight, Held) {
    let (slot, request) = stalled(connections, address);
    let held = slot.connection.hold(bytes);
    (slot, request, held)
}

#[test]
fn one_address_may_take_all_connections_and_makes_room_for_others() {
    let connections = connections(4);
    let stalled: Vec<_> = (0..4).map(|_| stalled(&connections, POD)).collect();
    let first = served(&connections, API_SERVER);
    let second = served(&connections, API_SERVER);
    let open = |stalled: &[(Slot, InFlight)]| -> Vec<bool> {
        stalled.iter().map(|(slot, _)| is_open(slot)).collect()
    };
    assert_eq!(open(&stalled), [false, false, true, true], "those that stall for longest are evicted");
    let _third = add(&connections, POD).unwrap();
    assert_eq!(open(&stalled), [false, false, false, true], "they make room for their own address, too");
    assert!(is_open(&first) && is_open(&second));
}

#[test]
fn of_one_address_a_connection_that_was_served_goes_last() {
    let connections = connections(3);
    let idle = served(&connections, POD);
    let silent = add(&connections, POD).unwrap();
    let (stalled, _request) = stalled(&connections, POD);
    let _fourth = add(&connections, POD).unwrap();
    assert!(!is_open(&silent) && is_open(&idle) && is_open(&stalled));
    let fifth = served(&connections, POD);
    assert!(!is_open(&stalled) && is_open(&idle));
    let (_sixth, _seventh) = (served(&connections, POD), served(&connections, POD));
    assert!(!is_open(&idle) && is_open(&fifth), "now all were served");
}

#[test]
fn a_connection_whose_request_waits_for_the_server_stays() {
    let connections = connections(2);
    let (first, _request) = stalled(&connections, POD);
    let (second, _other) = stalled(&connections, POD);
    let (working, also) = (first.connection.work(), second.connection.work());
    assert!(add(&connections, API_SERVER).is_none());
    drop(working);
    sleep(Duration::from_millis(2));
    drop(also);
    assert!(add(&connections, API_SERVER).is_some());
    assert!(!is_open(&first) && is_open(&second));
}

#[test]
fn the_address_that_holds_the_most_memory_makes_room() {
    let connections = connections(8);
    let (small, ..) = &holding(&connections, API_SERVER, 10);
    let (first, ..) = &holding(&connections, POD, 6);
    let (second, ..) = &holding(&connections, POD, 6);
    let newcomer = add(&connections, API_SERVER).unwrap();
    assert!(!newcomer.evict_for_memory(), "none of them has stalled for long");
    sleep(STALLED);
    assert!(newcomer.evict_for_memory());
    assert!(!is_open(first) && is_open(second) && is_open(small) && is_open(&newcomer));
}

#[test]
fn a_connection_that_goes_on_or_holds_nothing_is_not_evicted_for_memory() {
    let connections = connections(8);
    let (_sending, _request, held) = &holding(&connections, POD, 100);
    let (_empty, _other) = &stalled(&connections, POD);
    let newcomer = add(&connections, API_SERVER).unwrap();
    sleep(STALLED);
    held.progress();
    assert!(!newcomer.evict_for_memory());
}

#[test]
fn memory_counts_until_it_is_no_longer_held() {
    let connections = connections(8);
    let (slot, _request, mut held) = holding(&connections, POD, 100);
    held.add(50);
    assert_eq!(slot.connection.held.load(Ordering::Relaxed), 150);
    drop(held);
    assert_eq!(slot.connection.held.load(Ordering::Relaxed), 0);
}

#[test]
fn a_source_is_an_address_of_ipv4_or_a_network_of_ipv6() {
    let of = |address: &str| source(address.parse().unwrap()).to_string();
    assert_eq!(of("10.1.2.3"), "10.1.2.3");
    assert_eq!(of("::ffff:10.1.2.3"), "10.1.2.3");
    assert_eq!(of("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
    assert_eq!(of("2001:db8:1:2::9"), "2001:db8:1:2::");
}
